//! The messages between clients and servers of a partition, and their encoding. No I/O.
//!
//! A connection begins with [`greeting`]s, in which both sides prove that they know the partition's secret. After that it carries
//! frames: a [`Head`], a body (a [`Request`] or a [`Reply`], see [`message`]) and a payload of plain bytes. Frames travel in
//! records ([`RecordSealer`], [`RecordOpener`]); over TCP only a process with the secret can make or change a record. Every byte
//! is described in `docs/PROTOCOL.md`.
#![forbid(unsafe_code)]

mod codec;
mod error;
mod fields;
mod frame;
mod frame_decoder;
pub mod greeting;
#[allow(missing_docs, reason = "fields of messages say what they are; docs/PROTOCOL.md has every byte")]
pub mod message;
mod record;
mod secret;
#[allow(missing_docs, reason = "names of counters say what they count")]
mod status;
mod table;

pub use error::Error;
pub use frame::{Envelope, HEAD, Head, MAX_BODY, MAX_PAYLOAD, encode_reply, encode_request};
pub use frame_decoder::FrameDecoder;
pub use message::{Reply, Request};
pub use record::{MAX_RECORD, Protection, RECORD_HEAD, RecordOpener, RecordSealer, SessionKeys, TAG};
pub use secret::{Nonce, Proof, Secret, Side, Transcript};
pub use table::{decode_reply, decode_request};
