//! What can go wrong when values are converted.

use pario_types::ErrorKind;
use pario_view::Basic;

/// Why data could not be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// A value has no place in the other representation, such as 2^40 in four bytes.
    DoesNotFit(Basic),
    /// There is no conversion for a basic type of these sizes.
    Unsupported(Basic),
    /// The data in external32 is larger than 2^63 - 1 bytes.
    TooLarge,
}

impl Error {
    /// The kind, as far as a caller can act on it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::DoesNotFit(_) | Error::Unsupported(_) => ErrorKind::Conversion,
            Error::TooLarge => ErrorKind::Count,
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (what, basic) = match self {
            Error::DoesNotFit(basic) => ("a value does not fit", basic),
            Error::Unsupported(basic) => ("no conversion is known", basic),
            Error::TooLarge => return f.write_str("external32: more than 2^63-1 bytes; split the access"),
        };
        let Basic { kind, native, external } = basic;
        write!(f, "external32: {what} ({kind:?}, {native} bytes in memory, {external} in the file)")
    }
}

impl std::error::Error for Error {}
