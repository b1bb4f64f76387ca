//! The messages between holders and the manager.

use pario_types::FileId;

use crate::extent::LockExtent;

/// The access that a lock allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// Reading, together with others.
    Shared,
    /// Reading and writing, alone.
    Exclusive,
}

impl LockMode {
    /// Whether overlapping locks of these modes exclude each other.
    pub fn excludes(self, other: LockMode) -> bool {
        self == LockMode::Exclusive || other == LockMode::Exclusive
    }
}

/// The extent and the duration of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grant {
    /// The range asked for, until it is unlocked.
    Exact,
    /// The largest extent around the range that no other holder has or waits for, until it is revoked.
    Largest,
}

/// The holder's id of a request; unique among the holder's waiting requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockTicket(pub u64);

/// A granted lock; never used twice by a manager. Counted up from 1 in the order of grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockId(pub u64);

/// A request of a holder to use bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRequest<H> {
    /// The holder.
    pub holder: H,
    /// The holder's id of this request.
    pub ticket: LockTicket,
    /// The file.
    pub file: FileId,
    /// The bytes.
    pub extent: LockExtent,
    /// The access.
    pub mode: LockMode,
    /// Exact or cached.
    pub grant: Grant,
}

/// A message of the manager to a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockAction<H> {
    /// A request is granted.
    Granted {
        /// The holder.
        holder: H,
        /// The request.
        ticket: LockTicket,
        /// The file.
        file: FileId,
        /// The id of the lock.
        lock: LockId,
        /// The locked bytes: at least the requested ones.
        extent: LockExtent,
        /// The access that it allows.
        mode: LockMode,
    },
    /// Another request waits for bytes of a cached lock: the holder must release them; see
    /// [`ClientLocks::revoke`](crate::ClientLocks::revoke).
    Revoke {
        /// The holder.
        holder: H,
        /// The file.
        file: FileId,
        /// The lock.
        lock: LockId,
        /// The bytes that the request waits for.
        wanted: LockExtent,
    },
    /// A waiting request will not be granted: its file is gone.
    Refused {
        /// The holder.
        holder: H,
        /// The request.
        ticket: LockTicket,
        /// The file.
        file: FileId,
    },
}

impl<H: Copy> LockAction<H> {
    /// The recipient.
    pub fn holder(&self) -> H {
        match *self {
            LockAction::Granted { holder, .. }
            | LockAction::Revoke { holder, .. }
            | LockAction::Refused { holder, .. } => holder,
        }
    }
}

/// The release of bytes of a cached lock by its holder. Before it is sent, dirty data in `gone` is written to the server
/// and cached data is dropped; both happen before a later operation on these bytes begins.
#[must_use = "the manager has to be told"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockRelease {
    /// The file.
    pub file: FileId,
    /// The lock.
    pub lock: LockId,
    /// The bytes that the holder no longer has.
    pub gone: Vec<LockExtent>,
    /// Whether this answers a revocation.
    pub answer: bool,
}
