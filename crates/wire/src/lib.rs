//! What clients and servers of a partition say to each other, and how it is written down. No I/O.
//!
//! A connection begins with [`greeting`]s, in which both sides prove that they know the partition's secret.
//! After that it carries frames: a [`Head`], a body (a [`Request`] or a [`Reply`], see [`message`]) and a
//! payload of plain bytes. They travel in records ([`Sealer`], [`Opener`]), which nobody without the secret can make or
//! change. Every byte is described in `docs/PROTOCOL.md`.
#![forbid(unsafe_code)]

mod codec;
mod error;
mod fields;
mod frame;
pub mod greeting;
mod intake;
#[allow(missing_docs, reason = "fields of messages say what they are; docs/PROTOCOL.md has every byte")]
pub mod message;
mod record;
mod secret;
mod table;

pub use error::Error;
pub use frame::{Envelope, HEAD, Head, MAX_BODY, MAX_PAYLOAD, encode_reply, encode_request};
pub use intake::Intake;
pub use message::{Reply, Request};
pub use record::{MAX_RECORD, Opener, Protection, RECORD_HEAD, Sealer, SessionKeys, TAG};
pub use secret::{Nonce, Proof, Secret, Side, Transcript};
pub use table::{decode_reply, decode_request};
