//! The error of a file operation, whatever the kind of file.

use pario_types::{ErrorKind, Offset};

/// A failed operation on a file of any kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct BackendError {
    /// The kind of failure.
    pub kind: ErrorKind,
    /// The error number of the system, if there is one.
    pub errno: Option<i32>,
    /// The file offset of the failure, if it is known.
    pub at: Option<Offset>,
    /// The number of leading bytes of the request that are certainly done.
    pub done: u64,
    /// A description in one line.
    pub text: String,
}

impl From<BackendError> for ErrorKind {
    fn from(error: BackendError) -> ErrorKind {
        error.kind
    }
}

impl BackendError {
    /// The same error, after `more` leading bytes that were done before the failing part began.
    pub fn after(mut self, more: u64) -> BackendError {
        self.done += more;
        self
    }
}
