//! What can go wrong when an access is shipped.

use std::fmt;
use std::io;
use std::time::Duration;

use pario_types::{ErrorKind, Offset};

use crate::backing::Fault;

/// A failed access, or an agent that could not start or stop.
#[derive(Debug)]
pub enum Error {
    /// This rank's own access to the file failed.
    File(Fault),
    /// An agent's access to the file failed.
    Agent {
        /// The agent's rank.
        rank: u32,
        /// What kind of failure.
        kind: ErrorKind,
        /// The system's error number, where there is one.
        errno: Option<i32>,
        /// Where in the file, if that is known.
        at: Option<Offset>,
        /// The agent's own words.
        text: String,
    },
    /// No connection to an agent could be made, or it broke.
    Lost {
        /// The agent's rank.
        rank: u32,
        /// Why.
        cause: io::Error,
    },
    /// An agent did not move for too long.
    Silent {
        /// The agent's rank.
        rank: u32,
        /// How long.
        waited: Duration,
    },
    /// An agent does not take this rank for one of its file.
    Refused {
        /// The agent's rank.
        rank: u32,
    },
    /// An agent said what no agent says.
    Garbled {
        /// The agent's rank.
        rank: u32,
        /// What was wrong.
        what: &'static str,
    },
    /// The map names an agent that no address is known of.
    NoAddress {
        /// The agent's rank.
        rank: u32,
    },
    /// A map without agents, or with blocks of no bytes.
    Map,
    /// Atomic mode in file-partitioning mode.
    Atomic,
    /// Somebody holds a lock on a file that was to be partitioned.
    InUse,
    /// The agent's threads or sockets could not be made.
    Start(io::Error),
    /// An agent's threads did not end in time.
    Stuck {
        /// How many are left.
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

    /// Where in the file it happened, where that is known.
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::File(fault) => fault.fmt(f),
            Error::Agent { rank, text, .. } => write!(f, "agent on rank {rank}: {text}"),
            Error::Lost { rank, cause } => {
                write!(f, "agent on rank {rank}: no connection, its process may have ended: {cause}")
            }
            Error::Silent { rank, waited } => {
                write!(f, "agent on rank {rank}: silent for {} s, given up", waited.as_secs_f32())
            }
            Error::Refused { rank } => {
                write!(f, "agent on rank {rank}: refused the connection; it serves another open of the file")
            }
            Error::Garbled { rank, what } => write!(f, "agent on rank {rank}: unexpected answer: {what}"),
            Error::NoAddress { rank } => {
                write!(f, "agent on rank {rank}: no address by which this node could reach it")
            }
            Error::Map => {
                f.write_str("data shipping needs at least one agent and blocks of at least one byte")
            }
            Error::Atomic => {
                f.write_str("atomic mode and file partitioning exclude each other; stop one first")
            }
            Error::InUse => f.write_str(
                "the file cannot be partitioned: somebody holds a lock on it; try again when it is free",
            ),
            Error::Start(cause) => write!(f, "cannot start an agent for data shipping: {cause}"),
            Error::Stuck { threads } => {
                write!(f, "{threads} threads of the agent for data shipping have not ended in time")
            }
        }
    }
}

impl std::error::Error for Error {}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error::File(fault)
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
