//! The errors of data shipping.

use std::io;
use std::time::Duration;

use pario_types::{ErrorKind, Offset};

use pario_file_backend::BackendError;

/// A failed access, or an agent that could not start or stop.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This rank's own access to the file failed.
    #[error(transparent)]
    File(#[from] BackendError),
    /// An agent's access to the file failed.
    #[error("agent on rank {rank}: {text}")]
    Agent {
        /// The agent's rank.
        rank: u32,
        /// The kind of failure.
        kind: ErrorKind,
        /// The system's error number, where there is one.
        errno: Option<i32>,
        /// The file offset, if it is known.
        at: Option<Offset>,
        /// The agent's own words.
        text: String,
    },
    /// No connection to an agent could be made, or it broke.
    #[error("agent on rank {rank}: no connection, its process may have ended: {cause}")]
    Lost {
        /// The agent's rank.
        rank: u32,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// An agent was silent for longer than the deadline.
    #[error("agent on rank {rank}: silent for {} s, given up", waited.as_secs_f32())]
    Silent {
        /// The agent's rank.
        rank: u32,
        /// The time waited.
        waited: Duration,
    },
    /// An agent refused the secret of this rank.
    #[error("agent on rank {rank}: refused the connection; it serves another open of the file")]
    Refused {
        /// The agent's rank.
        rank: u32,
    },
    /// An agent violated the protocol.
    #[error("agent on rank {rank}: unexpected answer: {what}")]
    Garbled {
        /// The agent's rank.
        rank: u32,
        /// The error.
        what: &'static str,
    },
    /// The map names an agent without a known address.
    #[error("agent on rank {rank}: no address by which this node could reach it")]
    NoAddress {
        /// The agent's rank.
        rank: u32,
    },
    /// A map without agents, or with blocks of no bytes.
    #[error("data shipping needs at least one agent and blocks of at least one byte")]
    Map,
    /// Atomic mode in file-partitioning mode.
    #[error("atomic mode and file partitioning exclude each other; stop one first")]
    Atomic,
    /// Another process holds a lock on a file that was to be partitioned.
    #[error("the file cannot be partitioned: another process holds a lock on it; try again when it is free")]
    InUse,
    /// The agent's threads or sockets could not be made.
    #[error("cannot start an agent for data shipping: {0}")]
    Start(#[source] io::Error),
    /// An agent's threads did not end in time.
    #[error("{threads} threads of the agent for data shipping have not ended in time")]
    Stuck {
        /// The number of remaining agents.
        threads: usize,
    },
}

impl Error {
    /// The kind that the caller can act on.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::File(fault) => fault.kind,
            Error::Agent { kind, .. } => *kind,
            Error::Lost { .. } | Error::Silent { .. } | Error::Start(_) | Error::Stuck { .. } => {
                ErrorKind::Io
            }
            Error::Refused { .. } | Error::Garbled { .. } | Error::NoAddress { .. } => ErrorKind::Intern,
            Error::Map => ErrorKind::Arg,
            Error::Atomic => ErrorKind::UnsupportedOperation,
            Error::InUse => ErrorKind::FileInUse,
        }
    }

    /// The system's error number, where there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::File(fault) => fault.errno,
            Error::Agent { errno, .. } => *errno,
            Error::Lost { cause, .. } | Error::Start(cause) => cause.raw_os_error(),
            _ => None,
        }
    }

    /// The file offset, where it is known.
    pub fn at(&self) -> Option<Offset> {
        match self {
            Error::File(fault) => fault.at,
            Error::Agent { at, .. } => *at,
            _ => None,
        }
    }

    /// A connection that failed: broken, or silent for `waited`.
    pub(crate) fn connection(rank: u32, cause: io::Error, waited: Duration) -> Error {
        match cause.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::Silent { rank, waited },
            _ => Error::Lost { rank, cause },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_agent() {
        let error = Error::Agent {
            rank: 7,
            kind: ErrorKind::NoSpace,
            errno: Some(28),
            at: Some(Offset(42)),
            text: "cannot write x at byte 42: full".into(),
        };
        assert_eq!(error.to_string(), "agent on rank 7: cannot write x at byte 42: full");
        assert_eq!(
            (error.kind(), error.errno(), error.at()),
            (ErrorKind::NoSpace, Some(28), Some(Offset(42)))
        );
        let late = Error::connection(3, io::ErrorKind::WouldBlock.into(), Duration::from_secs(2));
        assert_eq!(late.to_string(), "agent on rank 3: silent for 2 s, given up");
    }
}
