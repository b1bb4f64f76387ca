//! Errors of the client.

use std::sync::Arc;
use std::time::Duration;

use pario_types::{ErrorKind, FileId, ServerId};
use pario_wire::message::{ESTALE, Failure};

/// Results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed operation. Shown, it is one line: what failed, where, and the remedy if there is one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A server refused a request.
    #[error("server {server}: {}", failure.text)]
    Server {
        /// The server.
        server: ServerId,
        /// Its reply.
        failure: Failure,
    },
    /// This process was forked by the one that uses the partition.
    #[error(
        "this process was forked by the one that uses the partition: execute another program, or open the partition there"
    )]
    Forked,
    /// A server was unreachable, or did not answer in time.
    #[error(
        "server {server} of partition {partition} did not answer within {:.1} s: {cause}; see `pario status {partition}`",
        waited.as_secs_f64()
    )]
    Unreachable {
        /// The partition.
        partition: String,
        /// The server.
        server: ServerId,
        /// The time of the attempts.
        waited: Duration,
        /// The last error.
        #[source]
        cause: Cause,
    },
    /// A server refuses this program, or is not the expected one.
    #[error("server {server} of partition {partition}: {cause}")]
    Refused {
        /// The partition.
        partition: String,
        /// The server.
        server: ServerId,
        /// The reason.
        #[source]
        cause: pario_transport::Error,
    },
    /// A server sent a reply that does not fit the request.
    #[error("server {server} answered {asked} with {answered}; is it of the same version?")]
    Unexpected {
        /// The server.
        server: ServerId,
        /// The request.
        asked: &'static str,
        /// The reply.
        answered: &'static str,
    },
    /// A server has restarted without the blocks that it had not yet stored.
    #[error(
        "server {server} was restarted and its cache was lost: what was written to file {file} since its last sync may be missing; \
         write it again"
    )]
    CacheLost {
        /// The server.
        server: ServerId,
        /// The file, of which this program had written to that server.
        file: FileId,
    },
    /// A server with replicas of the file has lost its cache, again and again while its replicas were compared with the others.
    #[error(
        "the replicas of file {file} differ because servers were restarted and their caches were lost; they could not be made equal"
    )]
    Unequal {
        /// The file.
        file: FileId,
    },
    /// A handle was dropped without a close while servers could not take what it had cached.
    #[error(
        "a handle of file {file} was dropped, and bytes that it had cached could not be stored: they are lost; write them again, and          close the handle to learn the reason"
    )]
    DroppedWritesLost {
        /// The file.
        file: FileId,
    },
    /// A truncation of the file failed, and it is not known whether servers will still apply it.
    #[error(
        "an earlier truncation of file {file} failed and could not be cancelled, so nothing is written to the file: {cause}; \
         try again when its servers are reachable"
    )]
    TruncationPending {
        /// The file.
        file: FileId,
        /// The reason.
        #[source]
        cause: Box<Error>,
    },
    /// The file was removed, and its bytes with it, while the metadata server had no connection to this program.
    #[error(
        "file {0} had no name any more and was removed while the connection was broken: its bytes are lost"
    )]
    Gone(FileId),
    /// The registry has no addresses of the partition.
    #[error("{0}")]
    Registry(#[from] pario_registry::Error),
    /// The registry, or another resolver, returned an impossible result.
    #[error("{0}")]
    Target(String),
    /// Options that contradict each other.
    #[error("the file cannot be opened that way: {0}")]
    Options(&'static str),
    /// A file that is not open for this access.
    #[error("the file is not open for {0}")]
    NotOpenFor(&'static str),
    /// An access beyond the largest offset, 2^63 - 1.
    #[error("{len} bytes at offset {offset} reach beyond the largest file (2^63 - 1 bytes)")]
    TooFar {
        /// The offset.
        offset: u64,
        /// The number of bytes.
        len: u64,
    },
    /// A view whose bytes lie before the file's beginning or beyond the largest offset.
    #[error("{len} bytes at position {position} of the view reach beyond what a file can hold")]
    View {
        /// The position in the view.
        position: u64,
        /// The number of bytes.
        len: u64,
    },
    /// The file ended before the memory was full.
    #[error("{wanted} bytes were wanted at offset {offset}, and the file ends after {found}")]
    Short {
        /// The offset of the read.
        offset: u64,
        /// The number of bytes requested.
        wanted: usize,
        /// The number of bytes read.
        found: usize,
    },
    /// Bytes written to a file in tier 1 could not be stored, and are still in memory.
    #[error("what was written to file {file} is not stored yet: {cause}; flush it again")]
    Unstaged {
        /// The file.
        file: FileId,
        /// The reason.
        #[source]
        cause: Arc<Error>,
    },
    /// Servers did not confirm the leases of a file in tier 1 in time.
    #[error(
        "no server said within {:.1} s that what is kept of file {file} is as it was; see `pario status`",
        waited.as_secs_f64()
    )]
    Silent {
        /// The file.
        file: FileId,
        /// The time waited.
        waited: Duration,
    },
    /// Bytes written to a file in tier 1 are lost: other clients requested them, and they were not stored in time.
    #[error(
        "this process did not store in time what others wanted of file {file}, and server {server} let them go on: what it had \
         written there since its last sync is lost; write it again"
    )]
    LeaseLost {
        /// The file.
        file: FileId,
        /// The server that let the others continue.
        server: ServerId,
    },
    /// Tier 1 had no memory for a block, because nothing could be stored in time.
    #[error(
        "what tier 1 keeps of file {file} and others was not stored within {:.1} s; give tier 1 more memory, or see why the \
         servers are slow",
        waited.as_secs_f64()
    )]
    NoRoom {
        /// The file.
        file: FileId,
        /// The time waited.
        waited: Duration,
    },
    /// Other clients requested bytes of a file all the time.
    #[error(
        "others did not leave bytes of file {file} alone within {:.1} s; try again, or have fewer processes write the same bytes",
        waited.as_secs_f64()
    )]
    Contended {
        /// The file.
        file: FileId,
        /// The time of the attempts.
        waited: Duration,
    },
    /// A thread of tier 1 could not be started.
    #[error("a thread for tier 1 could not be started: {0}")]
    Thread(#[source] std::io::Error),
    /// No random number for a client id was available.
    #[error("the system has no random numbers: {0}")]
    Random(#[source] std::io::Error),
}

/// The reason why a server was unreachable.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// No address of it is known.
    #[error("it is not running")]
    NoAddress,
    /// It has a local socket, but not on this host, and listens on no network address.
    #[error(
        "it is not running on this host, and partition {partition} listens on no network address; if it is down, 'pario up \
         {partition}' starts it; to use it from other hosts, set listen = ADDRESS in its partition file"
    )]
    LocalOnly {
        /// The partition.
        partition: String,
    },
    /// The connection failed, or broke.
    #[error("{0}")]
    Transport(#[source] pario_transport::Error),
    /// Another thread of this program used the connection all the time.
    #[error("other requests of this program were in its way")]
    Taken,
    /// The server refused all connections for the moment, for instance because it is about to end.
    #[error("{}", .0.text)]
    Server(Failure),
}

impl Error {
    /// The kind, on which a caller can act.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Server { failure, .. } => failure.kind,
            Error::Unreachable { .. } | Error::Silent { .. } => ErrorKind::Unreachable,
            Error::Refused { cause, .. } => cause.kind(),
            Error::Unexpected { .. } | Error::Target(_) => ErrorKind::Protocol,
            Error::CacheLost { .. }
            | Error::Unequal { .. }
            | Error::DroppedWritesLost { .. }
            | Error::LeaseLost { .. } => ErrorKind::Io,
            Error::Gone(_) => ErrorKind::NoSuchFile,
            Error::Registry(cause) => cause.kind(),
            Error::NotOpenFor(_) => ErrorKind::Access,
            Error::Forked => ErrorKind::File,
            Error::Options(_) => ErrorKind::Amode,
            Error::TooFar { .. } | Error::View { .. } => ErrorKind::Arg,
            Error::Short { .. } | Error::Random(_) => ErrorKind::Io,
            Error::Unstaged { cause, .. } => cause.kind(),
            Error::TruncationPending { cause, .. } => cause.kind(),
            Error::NoRoom { .. } | Error::Thread(_) => ErrorKind::NoMem,
            Error::Contended { .. } => ErrorKind::FileInUse,
        }
    }
}

impl Error {
    /// The server that refuses requests of a process that it has disconnected.
    pub(crate) fn cut_off_at(&self) -> Option<ServerId> {
        match self {
            Error::Server { server, failure } if failure.errno == ESTALE => Some(*server),
            _ => None,
        }
    }

    /// The system's error number behind it, 0 if there is none.
    pub fn errno(&self) -> i32 {
        match self {
            Error::Server { failure, .. } => failure.errno,
            Error::Random(cause) => cause.raw_os_error().unwrap_or(0),
            _ => 0,
        }
    }
}
