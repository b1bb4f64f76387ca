//! What can be wrong with a datatype or with an encoded pattern.

use pario_types::ErrorKind;

/// Why a pattern could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// A size, displacement or extent does not fit a 64-bit signed number.
    TooLarge,
    /// The type is nested deeper than is supported.
    TooDeep,
    /// A constructor whose arguments the MPI standard forbids; the text names the rule.
    Invalid(&'static str),
    /// Bytes that are not an encoded pattern of this version; the text says what is wrong.
    Encoding(&'static str),
}

impl Error {
    /// The kind, as far as a caller can act on it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::TooLarge => ErrorKind::Count,
            Error::TooDeep | Error::Invalid(_) => ErrorKind::Type,
            Error::Encoding(_) => ErrorKind::Intern,
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::TooLarge => {
                f.write_str("datatype: a size or displacement exceeds 2^63-1 bytes; split the access")
            }
            Error::TooDeep => f.write_str("datatype: nested too deeply; build it from fewer levels"),
            Error::Invalid(what) => write!(f, "datatype: {what}"),
            Error::Encoding(what) => write!(f, "encoded view: {what}"),
        }
    }
}

impl std::error::Error for Error {}
