//! Why a text is no plan.

use pario_types::ErrorKind;
use std::fmt;

/// Why a text is no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// It does not read as one.
    Text(String),
    /// It is of another version.
    Version(i64),
    /// A placement is not a word for one, or lacks its process.
    Placement(String),
    /// A word of `LABEL=SERVER,…` is none.
    Place(String),
    /// This group has no users, or is not sorted, or names a process that is not there.
    Group(usize),
    /// The chunk at this offset has the place of another in the order of first use, or one beyond the last.
    Order {
        /// The file.
        file: String,
        /// Where the chunk begins.
        offset: u64,
    },
    /// The chunk at this offset overlaps another, is not in order, or does not fit its group.
    Chunk {
        /// The file.
        file: String,
        /// Where the chunk begins.
        offset: u64,
    },
}

impl Error {
    /// What kind of error this is.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::BadFile
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Text(why) => write!(f, "not a plan: {why}"),
            Error::Version(version) => {
                write!(
                    f,
                    "the plan has version {version}; this program reads version {}",
                    super::text::VERSION
                )
            }
            Error::Placement(word) => write!(
                f,
                "a chunk is placed {word:?}; local (with home), duplicate, broadcast or central are the words"
            ),
            Error::Place(word) => {
                write!(f, "{word:?} is not LABEL=SERVER, a process or node and the number of a server")
            }
            Error::Group(number) => write!(
                f,
                "group {number} is wrong: its users and writers must be sorted numbers of processes, each writer a user"
            ),
            Error::Order { file, offset } => write!(
                f,
                "the chunk at {offset} of {file:?} is wrong: the orders of all chunks must be 0, 1, 2 … in some order"
            ),
            Error::Chunk { file, offset } => write!(
                f,
                "the chunk at {offset} of {file:?} is wrong: chunks must be in order, not overlap, and suit their group"
            ),
        }
    }
}

impl std::error::Error for Error {}
