//! The errors of a lock manager.

use pario_types::{ErrorKind, FileId};

use crate::message::{LockId, LockTicket};

/// A refused call; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The holder has a waiting request with this ticket.
    #[error("lock request {} is waiting already; a new request needs a new ticket", ticket.0)]
    TicketInUse {
        /// The ticket.
        ticket: LockTicket,
    },
    /// The request would have to wait, and too many of this holder do.
    #[error("file {file}: {most} lock requests are waiting already; try again when one is granted")]
    TooManyWaiting {
        /// The file of the request.
        file: FileId,
        /// The number of requests that may wait.
        most: usize,
    },
    /// The holder has too many locks; it has to release some first.
    #[error("file {file}: {most} locks are held or waited for already; release some first")]
    TooManyLocks {
        /// The file of the request.
        file: FileId,
        /// The number of locks that it may have.
        most: usize,
    },
    /// The lock is another holder's.
    #[error("lock {} belongs to another holder", lock.0)]
    NotYours {
        /// The lock.
        lock: LockId,
    },
}

impl Error {
    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::TicketInUse { .. } | Error::NotYours { .. } => ErrorKind::Protocol,
            Error::TooManyWaiting { .. } => ErrorKind::FileInUse,
            Error::TooManyLocks { .. } => ErrorKind::NoMem,
        }
    }
}
