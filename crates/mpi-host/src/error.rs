//! The errors of calls to the host MPI.

use pario_types::ErrorKind;
use std::ffi::c_int;

/// A failed call to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// A host call returned an error.
    #[error("{call} of the host MPI failed with code {code} (class {class})")]
    Call {
        /// The MPI function.
        call: &'static str,
        /// The returned code.
        code: c_int,
        /// The error class of `code` in the host's ABI.
        class: c_int,
        /// The kind of failure that the class stands for.
        kind: ErrorKind,
    },
    /// A handle that cannot be one of the named kind.
    #[error("not a valid {what}; it may have been freed")]
    Handle {
        /// "datatype", "communicator", ...
        what: &'static str,
        /// The kind of failure.
        kind: ErrorKind,
    },
    /// A datatype with an unknown constructor.
    #[error("datatype made by an unknown constructor (combiner {0}); rebuild it from known ones")]
    Combiner(c_int),
    /// The host's description of a datatype contradicts itself.
    #[error("the host MPI describes the datatype inconsistently: {0}")]
    Contents(&'static str),
    /// A datatype that has no layout.
    #[error(transparent)]
    View(#[from] pario_view::Error),
    /// The host lacks a function that this call needs.
    #[error("the host MPI lacks {0}; use a complete MPI library")]
    Missing(&'static str),
    /// A text with a NUL byte, which cannot be passed to C.
    #[error("info key or value holds a NUL byte; remove it")]
    Text,
}

impl HostError {
    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            HostError::Call { kind, .. } | HostError::Handle { kind, .. } => *kind,
            HostError::Combiner(_) => ErrorKind::Type,
            HostError::View(error) => error.kind(),
            HostError::Contents(_) | HostError::Missing(_) => ErrorKind::Intern,
            HostError::Text => ErrorKind::Info,
        }
    }
}
