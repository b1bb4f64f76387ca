//! What a lock manager refuses.

use std::fmt;

use pario_types::{ErrorKind, FileId};

use crate::message::{LockId, Ticket};

/// A call that the manager refused; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The holder has a waiting request with this ticket.
    TicketInUse {
        /// The ticket.
        ticket: Ticket,
    },
    /// The request would have to wait, and too many of this holder do.
    TooManyWaiting {
        /// The file of the request.
        file: FileId,
        /// How many may wait.
        most: usize,
    },
    /// The holder has too many locks; it has to release some first.
    TooManyLocks {
        /// The file of the request.
        file: FileId,
        /// How many it may have.
        most: usize,
    },
    /// The lock is another holder's.
    NotYours {
        /// The lock.
        lock: LockId,
    },
}

impl Error {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::TicketInUse { .. } | Error::NotYours { .. } => ErrorKind::Protocol,
            Error::TooManyWaiting { .. } => ErrorKind::FileInUse,
            Error::TooManyLocks { .. } => ErrorKind::NoMem,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::TicketInUse { ticket } => {
                write!(f, "lock request {} is waiting already; a new request needs a new ticket", ticket.0)
            }
            Error::TooManyWaiting { file, most } => {
                write!(
                    f,
                    "file {file}: {most} lock requests are waiting already; try again when one is granted"
                )
            }
            Error::TooManyLocks { file, most } => {
                write!(f, "file {file}: {most} locks are held or waited for already; release some first")
            }
            Error::NotYours { lock } => write!(f, "lock {} belongs to somebody else", lock.0),
        }
    }
}

impl std::error::Error for Error {}
