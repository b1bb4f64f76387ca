//! Errors in received bytes, and in messages that cannot be encoded.

use pario_types::ErrorKind;

/// Why bytes are not a valid message, or a message cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The first four bytes are wrong: the other side uses another protocol.
    #[error("this is not Pario's protocol")]
    BadMagic,
    /// A record's tag is wrong: the record was changed, dropped, repeated, moved or forged.
    #[error("a record fails authentication: something on the way changes, drops, repeats or adds bytes")]
    Tampered,
    /// The message ends before its last field.
    #[error("a message ends before its last field")]
    Truncated,
    /// Bytes follow the last field.
    #[error("a message goes on behind its last field")]
    Trailing,
    /// No message has this number.
    #[error("no message has the number {0}")]
    UnknownKind(u16),
    /// A field of this type has a value that it cannot have.
    #[error("a message has an impossible {0}")]
    BadField(&'static str),
    /// A part of a message is longer than the protocol allows.
    #[error("a {what} of {length} bytes, and {limit} is the limit")]
    TooLarge {
        /// Which part.
        what: &'static str,
        /// Its length in bytes.
        length: u64,
        /// The largest length that the protocol allows.
        limit: u64,
    },
    /// The other side uses this version of the protocol.
    #[error("the other side speaks version {0} of the protocol, this one {ours}", ours = crate::greeting::VERSION)]
    Version(u16),
}

impl Error {
    /// All errors violate the protocol.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Protocol
    }
}
