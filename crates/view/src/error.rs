//! Errors of datatypes and encoded patterns.

use pario_types::ErrorKind;

/// The reason why a pattern could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A size, displacement or extent does not fit a 64-bit signed number.
    #[error("datatype: a size or displacement exceeds 2^63-1 bytes; split the access")]
    TooLarge,
    /// The type is nested deeper than is supported.
    #[error("datatype: nested too deeply; build it from fewer levels")]
    TooDeep,
    /// A constructor whose arguments the MPI standard forbids; the text names the rule.
    #[error("datatype: {0}")]
    Invalid(&'static str),
    /// Bytes that are not an encoded pattern of this version; the text says what is wrong.
    #[error("encoded view: {0}")]
    Encoding(&'static str),
}

impl Error {
    /// The kind, on which a caller can act.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::TooLarge => ErrorKind::Count,
            Error::TooDeep | Error::Invalid(_) => ErrorKind::Type,
            Error::Encoding(_) => ErrorKind::Intern,
        }
    }
}
