//! A client of the file system: an aggregator's place in the call, its locks, its cache.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use pario_locks::{ClientLocks, LockExtent, LockId, LockMode, LockRelease, LockTicket};
use pario_types::FileId;

use super::keeping::Kept;
use super::locking::Holder;
use super::reading::Ahead;
use super::server::Piece;
use crate::agenda::Time;
use crate::link::Link;

/// One request to the file system under way.
#[derive(Debug)]
pub struct Operation {
    pub file: FileId,
    pub range: Range<u64>,
    pub mode: LockMode,
    /// What is to be locked, at which manager, in order.
    pub locks: Vec<(u32, LockExtent)>,
    /// How many of them it has taken or asked for.
    pub begun: usize,
    /// What is locked.
    pub taken: Vec<(u32, LockTicket)>,
    /// What it has to ask the servers for, as soon as it has the lock.
    pub unread: Vec<pario_layout::StripePiece>,
    /// Pieces or requests that it waits for.
    pub waits: BTreeSet<u64>,
    /// What is to be done when it waits for nothing.
    pub then: Then,
}

/// What an operation does when nothing is left that it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Its bytes go to the cache.
    Copy,
    /// It ends.
    End,
}

/// A part of a lock that is given up when these pieces have reached their servers.
#[derive(Debug)]
pub struct Owing {
    pub holder: Holder,
    pub keeper: u32,
    pub release: LockRelease,
    pub pieces: BTreeSet<u64>,
}

/// A revocation that waits for the end of the operation.
#[derive(Clone, Copy, Debug)]
pub struct Deferred {
    pub holder: Holder,
    pub keeper: u32,
    pub file: FileId,
    pub lock: LockId,
    pub wanted: LockExtent,
}

#[derive(Debug)]
pub struct Client {
    pub rank: u32,
    /// Windows of the call that are begun, and all.
    pub round: u64,
    pub rounds: u64,
    /// The window's ranges, and which comes next.
    pub ranges: Vec<Range<u64>>,
    pub next: usize,
    /// When the phase began.
    pub began: Time,
    pub exchanging_ns: u64,
    pub io_ns: u64,
    /// Locks of each manager.
    pub held: Vec<ClientLocks>,
    /// How often it has given up a lock of each as a whole.
    pub turns: Vec<u32>,
    /// When the latest message to and from each manager arrives: they do not overtake each other.
    pub to: Vec<Time>,
    pub from: Vec<Time>,
    /// Handles what managers want.
    pub daemon: Link,
    pub operation: Option<Operation>,
    /// Blocks that it caches, as far as that matters.
    pub kept: Kept,
    pub deferred: Vec<Deferred>,
    pub owing: Vec<Owing>,
    /// Pieces to be sent, in order, and whether one is being sent.
    pub sending: VecDeque<Piece>,
    pub is_sending: bool,
    /// Pieces whose server does not have them yet: under which lock manager, which bytes.
    pub dirty: BTreeMap<u64, (u32, FileId, LockExtent)>,
    pub dirty_bytes: u64,
    /// The operation waits for room in the cache.
    pub wants_room: bool,
    /// Receives what is read.
    pub inlet: Link,
    pub ahead: Ahead,
}

impl Client {
    /// On this rank, with locks of `keepers` managers.
    pub fn new(rank: u32, keepers: usize, unit: u64) -> Client {
        Client {
            rank,
            round: 0,
            rounds: 0,
            ranges: Vec::new(),
            next: 0,
            began: Time(0),
            exchanging_ns: 0,
            io_ns: 0,
            held: (0..keepers).map(|_| ClientLocks::new(unit)).collect(),
            turns: vec![0; keepers],
            to: vec![Time(0); keepers],
            from: vec![Time(0); keepers],
            daemon: Link::default(),
            operation: None,
            kept: Kept::new(unit),
            deferred: Vec::new(),
            owing: Vec::new(),
            sending: VecDeque::new(),
            is_sending: false,
            dirty: BTreeMap::new(),
            dirty_bytes: 0,
            wants_room: false,
            inlet: Link::default(),
            ahead: Ahead::default(),
        }
    }

    /// A call with so many windows begins.
    pub fn begin_call(&mut self, windows: u64) {
        (self.round, self.rounds) = (0, windows);
    }

    /// Dirty pieces with bytes in these extents of a manager's file.
    pub fn dirty_in(&self, keeper: u32, file: FileId, extents: &[LockExtent]) -> BTreeSet<u64> {
        let touched = |extent: &LockExtent| extents.iter().any(|other| other.overlaps(*extent));
        let here =
            self.dirty.iter().filter(|(_, (k, f, extent))| *k == keeper && *f == file && touched(extent));
        here.map(|(number, _)| *number).collect()
    }

    /// What a lock covers, in both modes.
    pub fn covered(&self, keeper: u32, file: FileId, lock: LockId) -> Vec<LockExtent> {
        let held = &self.held[keeper as usize];
        let both =
            [LockMode::Shared, LockMode::Exclusive].into_iter().flat_map(|mode| held.usable(file, mode));
        both.filter(|(_, id)| *id == lock).map(|(extent, _)| extent).collect()
    }
}
