//! The errors of a server, and how they appear in a reply.

use std::path::PathBuf;

use pario_types::{Epoch, ErrorKind, ServerId};
use pario_wire::message::{ESTALE, Failure};

/// A failed request, or a server that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pool.
    #[error(transparent)]
    Cache(#[from] pario_cache::Error),
    /// The store.
    #[error(transparent)]
    Store(#[from] pario_store::Error),
    /// The name space.
    #[error(transparent)]
    Names(#[from] pario_namespace::Error),
    /// A connection to a client or to another server.
    #[error(transparent)]
    Transport(#[from] pario_transport::Error),
    /// A request that makes no sense; which part of it.
    #[error("the request's {0} make no sense")]
    BadRequest(&'static str),
    /// A name-space request to a server without a name space.
    #[error("this server has no name space; ask the metadata server")]
    NotMetadata,
    /// A request for slots by a client that has not mapped the pool.
    #[error("slots are for clients that have mapped the pool")]
    NotLocal,
    /// The blocks of a request stayed in use by others until its deadline.
    #[error(
        "the cache has no room: every block is in use or waits for storage; try again, or give the servers a larger cache"
    )]
    Busy,
    /// The storage has no space for a write.
    #[error("{what} in {directory} ({left} KiB free): remove files, or give the server more room",
        what = if *kind == ErrorKind::Quota { "Disk quota exceeded" } else { "No space left" },
        directory = directory.display(), left = free >> 10)]
    NoSpace {
        /// The directory of the store.
        directory: PathBuf,
        /// Bytes that are free.
        free: u64,
        /// Whether the medium is full, or a quota is used up.
        kind: ErrorKind,
    },
    /// Some acknowledged writes could not be stored.
    #[error("{} KiB that were written cannot be stored and stay in the cache: {cause}", bytes.div_ceil(1024))]
    Unstored {
        /// How many bytes, at most.
        bytes: u64,
        /// Why.
        #[source]
        cause: Box<Error>,
    },
    /// Bytes that a request needs stayed in the cache of other processes until its deadline.
    #[error("other processes have these bytes in their caches and did not give them up in time; try again")]
    Leased,
    /// A lease for a team that has no mailbox for recalls.
    #[error("a team that leases has to poll this server for recalls first")]
    NoMailbox,
    /// A change by a process that was cut off because it did not yield its leases in time.
    #[error(
        "this process did not give up its leases in time, and other processes have accessed the bytes meanwhile"
    )]
    LeaseLost,
    /// More of something than a server keeps.
    #[error("the server keeps no more {0}: use fewer, or try again later")]
    TooMany(&'static str),
    /// The lock manager.
    #[error(transparent)]
    Locks(#[from] pario_locks::Error),
    /// A lock that conflicts with others, for a client that does not wait.
    #[error("others hold a lock on the range or wait for one")]
    Locked,
    /// A lock that other processes held until the deadline of the request; which processes.
    #[error(
        "a lock on the range stayed with {0} until the deadline; see whether that process is stopped or hangs"
    )]
    LockHeld(String),
    /// A lock that the client does not have, or no longer.
    #[error("the lock was lost: the client's connection had broken, or the file is gone")]
    NoLock,
    /// A shared counter that no client has set, or whose owner has disconnected.
    #[error(
        "the shared file pointer was lost: the program's connection that kept it had broken, or the server was \
         started again; set it anew or open the file again"
    )]
    NoCounter,
    /// The server does not know the addresses of the others yet.
    #[error("the server is starting")]
    Starting,
    /// The server is about to end.
    #[error("the server is shutting down")]
    Ending,
    /// The server had to end and could not store everything: why, and the pool that has the rest.
    #[error(
        "ended without storing everything: {}; what is not stored is in {}, where the next 'pario up' finds it",
        .0.text, .1.display()
    )]
    Unsaved(Failure, PathBuf),
    /// The address of this server is not known.
    #[error("this server was not told where server {0} is")]
    NoAddress(ServerId),
    /// A set of servers that is older than the one that this server knows.
    #[error("the set of servers is of epoch {told}, and this server knows one of epoch {known}")]
    OldServerSet {
        /// The epoch of the request.
        told: Epoch,
        /// The epoch that the server knows.
        known: Epoch,
    },
    /// The set of servers could not be recorded.
    #[error("cannot record the set of servers: {0}")]
    Unrecorded(String),
    /// Another server of the partition failed a forwarded request.
    #[error("{}", .0.text)]
    Elsewhere(Failure),
    /// A system call of the server itself.
    #[error("{0}: {1}")]
    System(&'static str, #[source] std::io::Error),
}

/// The result of a server's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Cache(e) => e.kind(),
            Error::Store(e) => e.kind(),
            Error::Names(e) => e.kind(),
            Error::Transport(e) => e.kind(),
            Error::BadRequest(_) => ErrorKind::Arg,
            Error::NotMetadata | Error::NotLocal | Error::OldServerSet { .. } => ErrorKind::Protocol,
            Error::Locks(e) => e.kind(),
            Error::Busy | Error::Leased | Error::Locked | Error::LockHeld(_) => ErrorKind::FileInUse,
            Error::NoSpace { kind, .. } => *kind,
            Error::Unstored { cause, .. } => cause.kind(),
            Error::TooMany(_) => ErrorKind::NoMem,
            Error::NoLock | Error::NoCounter | Error::LeaseLost | Error::NoMailbox => ErrorKind::Io,
            Error::Unrecorded(_) => ErrorKind::Io,
            Error::Starting | Error::Ending | Error::NoAddress(_) => ErrorKind::Unreachable,
            Error::Elsewhere(failure) | Error::Unsaved(failure, _) => failure.kind,
            Error::System(_, e) => e.raw_os_error().map_or(ErrorKind::Io, ErrorKind::from_errno),
        }
    }

    /// The failure in a reply.
    pub fn to_failure(&self) -> Failure {
        match self {
            Error::Elsewhere(failure) => failure.clone(),
            _ => Failure { kind: self.kind(), errno: self.errno(), text: self.to_string() },
        }
    }

    fn errno(&self) -> i32 {
        match self {
            Error::Names(e) => e.errno(),
            Error::LeaseLost | Error::NoMailbox => ESTALE,
            Error::Store(e) => e.errno(),
            Error::NoSpace { kind: ErrorKind::Quota, .. } => libc::EDQUOT,
            Error::NoSpace { .. } => libc::ENOSPC,
            Error::Unstored { cause, .. } => cause.errno(),
            Error::System(_, e) => e.raw_os_error().unwrap_or(0),
            _ => 0,
        }
    }
}
