//! A client of the file system: an aggregator's progress in the call, its locks, its cache.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use pario_locks::{ClientLocks, LockExtent, LockId, LockMode, LockRelease, LockTicket};
use pario_types::FileId;

use super::lease_cache::LeaseCache;
use super::locking::Holder;
use super::reading::ReadAhead;
use super::server::Piece;
use crate::event_queue::SimTime;
use crate::link::Link;

/// A request to the file system that is under way.
#[derive(Debug)]
pub struct Operation {
    pub file: FileId,
    pub range: Range<u64>,
    pub mode: LockMode,
    /// The extents to lock, each with its manager, in order.
    pub locks: Vec<(u32, LockExtent)>,
    /// The number of them that it has taken or requested.
    pub begun: usize,
    /// The locks that it has taken.
    pub taken: Vec<(u32, LockTicket)>,
    /// The pieces to request from the servers, as soon as it has their lock.
    pub unread: Vec<pario_layout::StripePiece>,
    /// The pieces or requests that it waits for.
    pub waits: BTreeSet<u64>,
    /// The step that follows when it waits for nothing.
    pub then: NextStep,
}

/// The step of an operation that follows when it waits for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// It copies its bytes to the cache.
    Copy,
    /// It ends.
    End,
}

/// A part of a lock that is released when these pieces have reached their servers.
#[derive(Debug)]
pub struct PendingRelease {
    pub holder: Holder,
    pub manager: u32,
    pub release: LockRelease,
    pub pieces: BTreeSet<u64>,
}

/// A revocation that waits for the end of the operation.
#[derive(Clone, Copy, Debug)]
pub struct DeferredRevocation {
    pub holder: Holder,
    pub manager: u32,
    pub file: FileId,
    pub lock: LockId,
    pub wanted: LockExtent,
}

#[derive(Debug)]
pub struct Client {
    pub rank: u32,
    /// The windows of the call that have begun, and their number.
    pub round: u64,
    pub rounds: u64,
    /// The ranges of the window, and the index of the next.
    pub ranges: Vec<Range<u64>>,
    pub next: usize,
    /// The time at which the phase began.
    pub began: SimTime,
    pub exchanging_ns: u64,
    pub io_ns: u64,
    /// Locks of each manager.
    pub held: Vec<ClientLocks>,
    /// The number of times that it has released a lock of each manager as a whole.
    pub generations: Vec<u32>,
    /// The arrival of the latest message to and from each manager. Messages do not overtake each other.
    pub to: Vec<SimTime>,
    pub from: Vec<SimTime>,
    /// The thread that handles messages of managers.
    pub daemon: Link,
    pub operation: Option<Operation>,
    /// The blocks that it caches under leases.
    pub cache: LeaseCache,
    pub deferred: Vec<DeferredRevocation>,
    pub pending_releases: Vec<PendingRelease>,
    /// Pieces to send, in order, and whether one is being sent.
    pub sending: VecDeque<Piece>,
    pub is_sending: bool,
    /// Pieces that their server does not have yet: the lock manager, the file and the extent.
    pub dirty: BTreeMap<u64, (u32, FileId, LockExtent)>,
    pub dirty_bytes: u64,
    /// The operation waits for space in the cache.
    pub wants_room: bool,
    /// The link on which it receives data.
    pub inlet: Link,
    pub ahead: ReadAhead,
}

impl Client {
    /// Creates the client of a rank, with locks of `managers` managers.
    pub fn new(rank: u32, managers: usize, unit: u64) -> Client {
        Client {
            rank,
            round: 0,
            rounds: 0,
            ranges: Vec::new(),
            next: 0,
            began: SimTime(0),
            exchanging_ns: 0,
            io_ns: 0,
            held: (0..managers).map(|_| ClientLocks::new(unit)).collect(),
            generations: vec![0; managers],
            to: vec![SimTime(0); managers],
            from: vec![SimTime(0); managers],
            daemon: Link::default(),
            operation: None,
            cache: LeaseCache::new(unit),
            deferred: Vec::new(),
            pending_releases: Vec::new(),
            sending: VecDeque::new(),
            is_sending: false,
            dirty: BTreeMap::new(),
            dirty_bytes: 0,
            wants_room: false,
            inlet: Link::default(),
            ahead: ReadAhead::default(),
        }
    }

    /// Begins a call with so many windows.
    pub fn begin_call(&mut self, windows: u64) {
        (self.round, self.rounds) = (0, windows);
    }

    /// Returns the dirty pieces with bytes in these extents of a manager's file.
    pub fn dirty_in(&self, manager: u32, file: FileId, extents: &[LockExtent]) -> BTreeSet<u64> {
        let touched = |extent: &LockExtent| extents.iter().any(|other| other.overlaps(*extent));
        let here =
            self.dirty.iter().filter(|(_, (k, f, extent))| *k == manager && *f == file && touched(extent));
        here.map(|(number, _)| *number).collect()
    }

    /// Returns the extents that a lock covers, in both modes.
    pub fn covered(&self, manager: u32, file: FileId, lock: LockId) -> Vec<LockExtent> {
        let held = &self.held[manager as usize];
        let both =
            [LockMode::Shared, LockMode::Exclusive].into_iter().flat_map(|mode| held.usable(file, mode));
        both.filter(|(_, id)| *id == lock).map(|(extent, _)| extent).collect()
    }
}
