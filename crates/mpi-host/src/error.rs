//! What can go wrong between Pario and its host MPI.

use pario_types::ErrorKind;
use std::ffi::c_int;

/// A failed exchange with the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostError {
    /// A host call returned an error.
    Call {
        /// The MPI function.
        call: &'static str,
        /// What it returned.
        code: c_int,
        /// The error class of `code` in the host's ABI.
        class: c_int,
        /// What the class means to us.
        kind: ErrorKind,
    },
    /// A handle that cannot be one of the kind named.
    Handle {
        /// "datatype", "communicator", ...
        what: &'static str,
        /// The kind of failure.
        kind: ErrorKind,
    },
    /// A datatype made by a constructor that is not known here.
    Combiner(c_int),
    /// The host's description of a datatype contradicts itself.
    Contents(&'static str),
    /// A datatype that has no layout; the reason is the view's.
    View(pario_view::Error),
    /// The host lacks a function that this call needs.
    Missing(&'static str),
    /// A text that cannot be passed to C because it holds a NUL byte.
    Text,
}

impl HostError {
    /// The kind, as far as a caller can act on it.
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

impl std::fmt::Display for HostError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HostError::Call { call, code, class, .. } => {
                write!(f, "{call} of the host MPI failed with code {code} (class {class})")
            }
            HostError::Handle { what, .. } => write!(f, "not a valid {what}; it may have been freed"),
            HostError::Combiner(c) => {
                write!(
                    f,
                    "datatype made by an unknown constructor (combiner {c}); rebuild it from known ones"
                )
            }
            HostError::Contents(what) => {
                write!(f, "the host MPI describes the datatype inconsistently: {what}")
            }
            HostError::View(error) => error.fmt(f),
            HostError::Missing(name) => write!(f, "the host MPI lacks {name}; use a complete MPI library"),
            HostError::Text => f.write_str("info key or value holds a NUL byte; remove it"),
        }
    }
}

impl std::error::Error for HostError {}

impl From<pario_view::Error> for HostError {
    fn from(error: pario_view::Error) -> HostError {
        HostError::View(error)
    }
}
