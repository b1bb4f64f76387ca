//! Errors of pools.

use pario_types::ErrorKind;
use std::io;
use std::path::PathBuf;

/// Results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a pool could not be created, adopted, mapped or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused an operation on the pool's file.
    #[error("cannot {what} {}: {error}", .path.display())]
    System {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The descriptor that a server passed could not be mapped.
    #[error("cannot map the server's cache: {0}")]
    Map(#[source] io::Error),
    /// Impossible sizes of a pool.
    #[error("cache of impossible size: {0}")]
    Geometry(&'static str),
    /// Another process serves this pool.
    #[error("{} is in use by a running server: stop that one first", .0.display())]
    InUse(PathBuf),
    /// The file is not a pool that this program can use.
    #[error("not a cache of this version of Pario: {0}")]
    NotAPool(&'static str),
    /// A pool, but of another partition or server.
    #[error("{} is the cache of another partition or server", .0.display())]
    OtherPool(PathBuf),
    /// A pool of another boot of the machine: its content may be of any time.
    #[error("{} is a cache of before the machine was started again", .0.display())]
    OtherBoot(PathBuf),
    /// Another program truncated the pool's file so far that its header is gone.
    #[error("{} was cut to nothing by another program", .0.display())]
    Emptied(PathBuf),
    /// Clients or requests held blocks that were to be truncated, until the deadline.
    #[error("blocks of the file were in use until the time was over: try again")]
    Held,
}

/// The reason why a block could not be pinned, or a write to it was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinError {
    /// The block is no longer there, or the server has reserved it: ask the server for its slot.
    Stale,
    /// This process has as many pins as it may ([`LEDGER_WORDS`](crate::LEDGER_WORDS)): release some, or use messages.
    Crowded,
    /// The server gave up the pool during the write, and may not have stored it: ask the server and write again.
    Retired,
    /// The store may have no space for the write: ask the server for the block, to modify it, and write again.
    NoRoom,
}

impl Error {
    /// The kind, on which a caller can act.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::System { error, .. } | Error::Map(error) => {
                error.raw_os_error().map_or(ErrorKind::Io, ErrorKind::from_errno)
            }
            Error::Geometry(_) => ErrorKind::Arg,
            Error::InUse(_) | Error::Held => ErrorKind::FileInUse,
            Error::NotAPool(_) | Error::OtherPool(_) | Error::OtherBoot(_) | Error::Emptied(_) => {
                ErrorKind::Protocol
            }
        }
    }
}
