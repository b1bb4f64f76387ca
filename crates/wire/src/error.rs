//! What can be wrong with bytes that claim to be a message.

use std::fmt;

use pario_types::ErrorKind;

/// Why bytes are not a message, or a message cannot become bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The first four bytes are not ours: the other side speaks something else.
    BadMagic,
    /// A record's tag is wrong: it was changed, left out, repeated, moved or made up on the way.
    Tampered,
    /// The message ends before its last field.
    Truncated,
    /// Bytes follow the last field.
    Trailing,
    /// No message has this number.
    UnknownKind(u16),
    /// A field of this type has a value that it cannot have.
    BadField(&'static str),
    /// Longer than the protocol allows.
    TooLarge {
        /// What.
        what: &'static str,
        /// Its length in bytes.
        length: u64,
        /// The most there may be.
        limit: u64,
    },
    /// The other side speaks this version of the protocol, and not ours.
    Version(u16),
}

impl Error {
    /// All are breaches of the protocol.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Protocol
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::BadMagic => f.write_str("this is not Pario's protocol"),
            Error::Tampered => f.write_str(
                "a record fails authentication: something on the way changes, drops, repeats or adds bytes",
            ),
            Error::Truncated => f.write_str("a message ends before its last field"),
            Error::Trailing => f.write_str("a message goes on behind its last field"),
            Error::UnknownKind(kind) => write!(f, "no message has the number {kind}"),
            Error::BadField(name) => write!(f, "a message has an impossible {name}"),
            Error::TooLarge { what, length, limit } => {
                write!(f, "a {what} of {length} bytes, and {limit} is the limit")
            }
            Error::Version(theirs) => {
                let ours = crate::greeting::VERSION;
                write!(f, "the other side speaks version {theirs} of the protocol, this one {ours}")
            }
        }
    }
}

impl std::error::Error for Error {}
