//! What can go wrong with a pool.

use pario_types::ErrorKind;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a pool could not be made, adopted, mapped or changed.
#[derive(Debug)]
pub enum Error {
    /// The system refused something about the pool's file.
    System {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// Its answer.
        error: io::Error,
    },
    /// The descriptor that a server passed could not be mapped.
    Map(io::Error),
    /// Sizes that no pool can have.
    Geometry(&'static str),
    /// Another process serves this pool.
    InUse(PathBuf),
    /// What is there is not a pool that this program can use.
    NotAPool(&'static str),
    /// A pool, but of another partition or server.
    OtherPool(PathBuf),
    /// A pool of another run of the machine: what is in it may be of any time.
    OtherBoot(PathBuf),
    /// Somebody cut the pool's file so short that nothing can be told of it.
    Emptied(PathBuf),
    /// Clients or requests held blocks that were to be cut, until the time was over.
    Held,
}

/// Why a block could not be pinned, or a write to it does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The block is no longer there, or the server wants it for itself: ask the server where it is.
    Stale,
    /// This process holds as many pins as it may ([`LEDGER_WORDS`](crate::LEDGER_WORDS)): let go of some, or use messages.
    Crowded,
    /// The server gave up the pool during the write, and may not have stored it: write again by asking the server.
    Retired,
    /// The store may have no room for the write: ask the server for the block, to modify it, and write again.
    NoRoom,
}

impl Error {
    /// What it means to a caller.
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::System { what, path, error } => write!(f, "cannot {what} {}: {error}", path.display()),
            Error::Map(error) => write!(f, "cannot map the server's cache: {error}"),
            Error::Geometry(why) => write!(f, "cache of impossible size: {why}"),
            Error::InUse(path) => {
                write!(f, "{} is in use by a running server: stop that one first", path.display())
            }
            Error::NotAPool(why) => write!(f, "not a cache of this version of Pario: {why}"),
            Error::OtherPool(path) => {
                write!(f, "{} is the cache of another partition or server", path.display())
            }
            Error::OtherBoot(path) => {
                write!(f, "{} is a cache of before the machine was started again", path.display())
            }
            Error::Emptied(path) => write!(f, "{} was cut to nothing by another program", path.display()),
            Error::Held => write!(f, "blocks of the file were in use until the time was over: try again"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::System { error, .. } | Error::Map(error) => Some(error),
            _ => None,
        }
    }
}
