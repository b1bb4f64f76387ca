//! What clients and servers of a partition say to each other, and how it is written down. No I/O.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "fields of messages say what they are; docs/PROTOCOL.md has every byte")]

pub mod message;
