//! Errors of plans.

use pario_types::ErrorKind;

/// The reason why a text is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is not in the format of a plan.
    #[error("not a plan: {0}")]
    Text(String),
    /// The plan has another version.
    #[error("the plan has version {0}; this program reads version {version}", version = crate::text::VERSION)]
    Version(i64),
    /// A placement has an unknown name, or lacks its process.
    #[error("a chunk is placed {0:?}; local (with home), duplicate, broadcast or central are the words")]
    Placement(String),
    /// An item of `LABEL=SERVER,…` is invalid.
    #[error("{0:?} is not LABEL=SERVER, a process or node and the number of a server")]
    Place(String),
    /// This group has no users, or is not sorted, or names an unknown process.
    #[error(
        "group {0} is wrong: its users and writers must be sorted numbers of processes, each writer a user"
    )]
    Group(usize),
    /// The chunk at this offset has the number of another in the order of first use, or one beyond the last.
    #[error(
        "the chunk at {offset} of {file:?} is wrong: the orders of all chunks must be 0, 1, 2 … in some order"
    )]
    Order {
        /// The file.
        file: String,
        /// The offset of the chunk.
        offset: u64,
    },
    /// The chunk at this offset overlaps another, is not in order, or does not fit its group.
    #[error(
        "the chunk at {offset} of {file:?} is wrong: chunks must be in order, not overlap, and suit their group"
    )]
    Chunk {
        /// The file.
        file: String,
        /// The offset of the chunk.
        offset: u64,
    },
}

impl Error {
    /// The kind, on which a caller can act.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::BadFile
    }
}
