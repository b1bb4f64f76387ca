//! What holders and the manager say to each other.

use pario_types::FileId;

use crate::extent::Extent;

/// What a lock allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Reading, together with others.
    Shared,
    /// Reading and writing, alone.
    Exclusive,
}

impl Mode {
    /// Whether overlapping locks of these modes exclude each other.
    pub fn excludes(self, other: Mode) -> bool {
        self == Mode::Exclusive || other == Mode::Exclusive
    }
}

/// How much is granted, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grant {
    /// The range asked for, until it is unlocked.
    Exact,
    /// As much around the range as nobody else has or waits for, until somebody does.
    Largest,
}

/// A request as its holder calls it; unique among the holder's waiting requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A granted lock; never used twice by a manager. Counted up from 1 in the order of grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockId(pub u64);

/// A holder wants to use bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<H> {
    /// Who.
    pub holder: H,
    /// What the holder calls this request.
    pub ticket: Ticket,
    /// Of which file.
    pub file: FileId,
    /// Which bytes.
    pub extent: Extent,
    /// What for.
    pub mode: Mode,
    /// How.
    pub grant: Grant,
}

/// What the manager wants told to a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<H> {
    /// A request is granted.
    Granted {
        /// Whose.
        holder: H,
        /// Which.
        ticket: Ticket,
        /// Of which file.
        file: FileId,
        /// What the lock is called from now on.
        lock: LockId,
        /// What it covers: at least what was asked for.
        extent: Extent,
        /// What it allows.
        mode: Mode,
    },
    /// Somebody waits for bytes of a cached lock: they are to be given up; see
    /// [`Held::revoke`](crate::Held::revoke).
    Revoke {
        /// Whose lock.
        holder: H,
        /// Of which file.
        file: FileId,
        /// Which lock.
        lock: LockId,
        /// The bytes somebody waits for.
        wanted: Extent,
    },
    /// A waiting request will not be granted: its file is gone.
    Refused {
        /// Whose.
        holder: H,
        /// Which.
        ticket: Ticket,
        /// Of which file.
        file: FileId,
    },
}

impl<H: Copy> Action<H> {
    /// Who is to be told.
    pub fn holder(&self) -> H {
        match *self {
            Action::Granted { holder, .. }
            | Action::Revoke { holder, .. }
            | Action::Refused { holder, .. } => holder,
        }
    }
}

/// A holder gives up bytes of a cached lock. Before it is sent, changed data in `gone` is written to the
/// server and cached data is dropped; and this is done before a later operation on these bytes begins.
#[must_use = "the manager has to be told"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Of which file.
    pub file: FileId,
    /// Of which lock.
    pub lock: LockId,
    /// What the holder no longer has.
    pub gone: Vec<Extent>,
    /// Whether this answers a revocation.
    pub answer: bool,
}
