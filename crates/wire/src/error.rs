//! Errors in received bytes, and in messages that cannot be encoded.

use pario_types::ErrorKind;

/// Why bytes are not a message, or a message cannot become bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The first four bytes are not ours: the other side speaks something else.
    #[error("this is not Pario's protocol")]
    BadMagic,
    /// A record's tag is wrong: it was changed, left out, repeated, moved or made up on the way.
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
    /// Longer than the protocol allows.
    #[error("a {what} of {length} bytes, and {limit} is the limit")]
    TooLarge {
        /// What.
        what: &'static str,
        /// Its length in bytes.
        length: u64,
        /// The most there may be.
        limit: u64,
    },
    /// The other side speaks this version of the protocol, and not ours.
    #[error("the other side speaks version {0} of the protocol, this one {ours}", ours = crate::greeting::VERSION)]
    Version(u16),
}

impl Error {
    /// All are breaches of the protocol.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Protocol
    }
}
