//! Why a part of a partition could not be checked or repaired.

use pario_types::ErrorKind;

/// An operation on the partition failed. Its text is one line.
#[derive(Debug, thiserror::Error)]
#[error("{action} {target}: {cause}{}", advice(cause.kind()))]
pub struct Error {
    /// The attempted operation, such as "cannot verify".
    pub action: &'static str,
    /// The file or partition.
    pub target: String,
    /// Why it failed.
    #[source]
    pub cause: Box<pario_client::Error>,
}

impl Error {
    /// For `map_err`.
    pub(crate) fn new<T: ToString>(
        action: &'static str,
        target: T,
    ) -> impl FnOnce(pario_client::Error) -> Error {
        move |cause| Error { action, target: target.to_string(), cause: Box::new(cause) }
    }

    /// The kind of the error, which a caller can act on.
    pub fn kind(&self) -> ErrorKind {
        self.cause.kind()
    }

    /// Whether the next file would fail as well.
    pub(crate) fn stops_all(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Unreachable
                | ErrorKind::Protocol
                | ErrorKind::NoSpace
                | ErrorKind::Quota
                | ErrorKind::ReadOnly
        )
    }
}

/// The remedy, where the message alone does not suggest it.
fn advice(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NoSpace => "; free some room there ('pario df' shows it for partitions)",
        ErrorKind::Damaged => "; 'pario check' says which bytes",
        _ => "",
    }
}
