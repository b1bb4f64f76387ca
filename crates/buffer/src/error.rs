//! Errors of data conversion.

use pario_types::ErrorKind;
use pario_view::Basic;

/// The reason why data cannot be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The value is out of range in the other representation, such as 2^40 in four bytes.
    #[error("external32: a value does not fit ({kind:?}, {native} bytes in memory, {external} in the file)",
        kind = .0.kind, native = .0.native, external = .0.external)]
    DoesNotFit(Basic),
    /// There is no conversion for a basic type of these sizes.
    #[error("external32: no conversion is known ({kind:?}, {native} bytes in memory, {external} in the file)",
        kind = .0.kind, native = .0.native, external = .0.external)]
    Unsupported(Basic),
    /// The data in external32 is larger than 2^63 - 1 bytes.
    #[error("external32: more than 2^63-1 bytes; split the access")]
    TooLarge,
}

impl Error {
    /// The error class for callers.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::DoesNotFit(_) | Error::Unsupported(_) => ErrorKind::Conversion,
            Error::TooLarge => ErrorKind::Count,
        }
    }
}
