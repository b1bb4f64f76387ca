//! What can go wrong in a server, and how a client hears of it.

use std::path::PathBuf;

use pario_types::{ErrorKind, ServerId};
use pario_wire::message::{ESTALE, Failure};

/// A failed request, or a server that cannot start.
#[derive(Debug)]
pub enum Error {
    /// The pool.
    Cache(pario_cache::Error),
    /// The storage below it.
    Store(pario_store::Error),
    /// The name space.
    Names(pario_namespace::Error),
    /// Talking to clients or to other servers.
    Transport(pario_transport::Error),
    /// A request that makes no sense; which part of it.
    BadRequest(&'static str),
    /// A name-space request to a server without a name space.
    NotMetadata,
    /// A request for slots by a client that has not mapped the pool.
    NotLocal,
    /// The blocks of a request stayed in use by others until its deadline.
    Busy,
    /// The storage has no room for what was to be written.
    NoRoom {
        /// Where it is.
        directory: std::path::PathBuf,
        /// Bytes that are free.
        free: u64,
        /// Whether the medium is full, or a quota is used up.
        kind: ErrorKind,
    },
    /// What clients have written could not all be stored.
    Unstored {
        /// How many bytes are left, at most.
        bytes: u64,
        /// Why.
        cause: Box<Error>,
    },
    /// Bytes that a request needs stayed in the cache of other processes until its deadline.
    Leased,
    /// A lease for a team that could not be told when to give it up.
    NoMailbox,
    /// What a process changes that was cut off because it did not give up in time what it had leased.
    LeaseLost,
    /// More of something than a server keeps account of.
    TooMany(&'static str),
    /// The lock manager.
    Locks(pario_locks::Error),
    /// A lock that others are in the way of, for a client that does not wait.
    Locked,
    /// A lock that others held until the deadline of whoever waited for it; which processes.
    LockHeld(String),
    /// A lock that the client does not have, or no longer.
    NoLock,
    /// A shared number that nobody has set, or whose owner is gone.
    NoCounter,
    /// The server has not been told where the others are.
    Starting,
    /// The server is about to end.
    Ending,
    /// A server that had to end could not store everything: why, and the pool that has the rest.
    Unsaved(Failure, PathBuf),
    /// Nobody said where this server is.
    NoAddress(ServerId),
    /// Another server of the partition failed a request that was forwarded to it.
    Elsewhere(Failure),
    /// A system call of the server itself.
    System(&'static str, std::io::Error),
}

/// What a server's functions return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Cache(e) => e.kind(),
            Error::Store(e) => e.kind(),
            Error::Names(e) => e.kind(),
            Error::Transport(e) => e.kind(),
            Error::BadRequest(_) | Error::NoMailbox => ErrorKind::Arg,
            Error::NotMetadata | Error::NotLocal => ErrorKind::Protocol,
            Error::Locks(e) => e.kind(),
            Error::Busy | Error::Leased | Error::Locked | Error::LockHeld(_) => ErrorKind::FileInUse,
            Error::NoRoom { kind, .. } => *kind,
            Error::Unstored { cause, .. } => cause.kind(),
            Error::TooMany(_) => ErrorKind::NoMem,
            Error::NoLock | Error::NoCounter | Error::LeaseLost => ErrorKind::Io,
            Error::Starting | Error::Ending | Error::NoAddress(_) => ErrorKind::Unreachable,
            Error::Elsewhere(failure) | Error::Unsaved(failure, _) => failure.kind,
            Error::System(_, e) => e.raw_os_error().map_or(ErrorKind::Io, ErrorKind::from_errno),
        }
    }

    /// As a client gets it.
    pub fn to_failure(&self) -> Failure {
        match self {
            Error::Elsewhere(failure) => failure.clone(),
            _ => Failure { kind: self.kind(), errno: self.errno(), text: self.to_string() },
        }
    }

    fn errno(&self) -> i32 {
        match self {
            Error::Names(e) => e.errno(),
            Error::LeaseLost => ESTALE,
            Error::Store(e) => e.errno(),
            Error::NoRoom { kind: ErrorKind::Quota, .. } => libc::EDQUOT,
            Error::NoRoom { .. } => libc::ENOSPC,
            Error::Unstored { cause, .. } => cause.errno(),
            Error::System(_, e) => e.raw_os_error().unwrap_or(0),
            _ => 0,
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Cache(e) => e.fmt(f),
            Error::Store(e) => e.fmt(f),
            Error::Names(e) => e.fmt(f),
            Error::Transport(e) => e.fmt(f),
            Error::BadRequest(what) => write!(f, "the request's {what} make no sense"),
            Error::NotMetadata => f.write_str("this server has no name space; ask the metadata server"),
            Error::NotLocal => f.write_str("slots are for clients that have mapped the pool"),
            Error::Busy => f.write_str(
                "the cache has no room: every block is in use or waits for storage; try again, or give the \
                 servers a larger cache",
            ),
            Error::NoRoom { directory, free, kind } => {
                let what = if *kind == ErrorKind::Quota { "Disk quota exceeded" } else { "No space left" };
                let (directory, left) = (directory.display(), free >> 10);
                write!(f, "{what} in {directory} ({left} KiB free): remove files, or give the server more room")
            }
            Error::Unstored { bytes, cause } => write!(
                f,
                "{} KiB that were written cannot be stored and stay in the cache: {cause}",
                bytes.div_ceil(1024)
            ),
            Error::Leased => f.write_str(
                "other processes have these bytes in their caches and did not give them up in time; try again",
            ),
            Error::NoMailbox => f.write_str("a team that leases has to poll this server for recalls first"),
            Error::LeaseLost => f.write_str(
                "this process did not give up in time what others wanted of its cache, and they have gone on without it",
            ),
            Error::Locks(e) => e.fmt(f),
            Error::Locked => f.write_str("others hold a lock on the range or wait for one"),
            Error::LockHeld(holders) => write!(
                f,
                "a lock on the range stayed with {holders} until the deadline; see whether that process is stopped or hangs"
            ),
            Error::NoLock => {
                f.write_str("the lock was lost: the client's connection had broken, or the file is gone")
            }
            Error::NoCounter => f.write_str(
                "the shared file pointer was lost: the program's connection that kept it had broken, or the server was \
                 started again; set it anew or open the file again",
            ),
            Error::TooMany(what) => write!(f, "the server keeps no more {what}: use fewer, or try again later"),
            Error::Starting => f.write_str("the server is starting"),
            Error::Ending => f.write_str("the server is shutting down"),
            Error::Unsaved(failure, pool) => write!(
                f,
                "ended without storing everything: {}; what is not stored is in {}, where the next 'pario up' finds it",
                failure.text,
                pool.display()
            ),
            Error::NoAddress(server) => write!(f, "this server was not told where server {server} is"),
            Error::Elsewhere(failure) => f.write_str(&failure.text),
            Error::System(what, e) => write!(f, "{what}: {e}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<pario_cache::Error> for Error {
    fn from(e: pario_cache::Error) -> Error {
        Error::Cache(e)
    }
}

impl From<pario_store::Error> for Error {
    fn from(e: pario_store::Error) -> Error {
        Error::Store(e)
    }
}

impl From<pario_namespace::Error> for Error {
    fn from(e: pario_namespace::Error) -> Error {
        Error::Names(e)
    }
}

impl From<pario_transport::Error> for Error {
    fn from(e: pario_transport::Error) -> Error {
        Error::Transport(e)
    }
}
