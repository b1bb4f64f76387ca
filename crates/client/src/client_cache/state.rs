//! The state of the client cache: files, their blocks and leases, and the memory that they take.
//!
//! One lock protects all of it. A thread holds the lock while it copies bytes, and never while it waits for a server.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use pario_layout::Striping;
use pario_runtime::time::Instant;
use pario_types::{FileId, ServerId};

use super::ranges::Ranges;
use super::server_io::ServerIo;
use super::{TierCounters, TierOptions};
use crate::error::Error;

/// The largest end of a file.
pub(crate) const FURTHEST: u64 = i64::MAX as u64;

/// The largest number of separate dirty ranges of a block of this size, so that their memory is small beside its bytes.
pub(crate) fn most_ranges(block: u64) -> usize {
    (block / 256).max(64) as usize
}

/// A file, as a team uses it.
pub(crate) type Key = (u128, FileId);

/// A block of a file.
pub(crate) type Place = (Key, u64);

pub(crate) struct State {
    pub limits: TierOptions,
    pub files: BTreeMap<Key, CachedFile>,
    pub mailboxes: BTreeMap<(u128, ServerId), MailboxState>,
    /// Ranges that are being released, also of files that are not cached.
    pub giving_up: Vec<(Key, ServerId, Range<u64>)>,
    /// Blocks that have bytes and none to stage, the least recently used first.
    clean: BTreeMap<u64, Place>,
    /// Blocks with bytes to stage, the least recently modified first.
    dirty: BTreeMap<u64, Place>,
    /// Bytes of memory that blocks have, or that are reserved for a thread.
    pub used: u64,
    /// Of those, bytes of blocks that have to be staged.
    pub dirty_bytes: u64,
    /// Counts uses and modifications, and identifies entries.
    clock: u64,
    /// The number of threads that wait for memory.
    pub memory_waiters: u32,
    /// Staging runs from the high watermark to the low one.
    pub draining: bool,
    /// Whether the staging thread runs.
    pub has_staging_thread: bool,
    /// The partition is not used any more.
    pub over: bool,
    pub counters: TierCounters,
}

/// A file in tier 1.
pub(crate) struct CachedFile {
    /// `None` while the file is not open here: then nothing has to be staged.
    pub servers: Option<Arc<dyn ServerIo>>,
    pub striping: Striping,
    /// Bytes of a block.
    pub block: u64,
    pub blocks: BTreeMap<u64, Block>,
    /// The leases of the team, as far as this process knows.
    pub leases: BTreeMap<ServerId, Ranges>,
    /// The leases at servers that are silent just now: they may still be valid, or not.
    pub suspended: BTreeMap<ServerId, Ranges>,
    /// Lease requests under way, with the ranges that were released meanwhile.
    pub pending_leases: Vec<PendingLease>,
    pub holds: Vec<HeldRange>,
    /// The first staging error since the last flush.
    pub error: Option<Arc<Error>>,
    /// A server that did not accept bytes of the file before other clients accessed them: these bytes are lost, and no
    /// error has been reported yet.
    pub lost: Option<ServerId>,
    /// After that, staging is not retried until a thread requests it.
    pub paused: bool,
    /// The number of threads that wait until nothing is dirty.
    pub flushing: u32,
    /// The furthest byte written since it was opened.
    pub end: u64,
    /// The number of bytes that were staged since then, and of recalls.
    pub staged: u64,
    pub recalled: u64,
}

pub(crate) struct PendingLease {
    pub number: u64,
    pub server: ServerId,
    pub left: Ranges,
}

/// A range of a file that must not be recalled at these servers.
pub(crate) struct HeldRange {
    pub number: u64,
    pub range: Range<u64>,
    pub servers: Vec<ServerId>,
}

/// A mailbox at a server.
pub(crate) enum MailboxState {
    /// It is being attached, or detached.
    Away,
    /// Leases are valid until then, and longer if the server answers again. The number changes whenever all leases are
    /// lost.
    Up {
        number: u64,
        good_until: Instant,
    },
    Failed(Error),
}

pub(crate) struct Block {
    /// `None` as long as the first bytes are being fetched. Shared only while they are being staged.
    pub bytes: Option<Arc<Vec<u8>>>,
    /// The ranges that are valid.
    pub valid: Ranges,
    /// The valid ranges that the servers do not have yet.
    pub dirty: Ranges,
    /// The number of its bytes that certainly lie within the file.
    pub reach: u64,
    /// Whether its dirty bytes are being staged: none may be changed.
    pub staging: bool,
    /// The number of fetches under way for which this block has to stay.
    pub pins: u32,
    /// The time of the last modification.
    pub modified: Instant,
    /// Its position among the clean or dirty blocks.
    tick: u64,
    /// Distinguishes it from an earlier entry of the same block.
    pub serial: u64,
}

impl State {
    pub fn new(limits: TierOptions) -> State {
        State {
            limits,
            files: BTreeMap::new(),
            mailboxes: BTreeMap::new(),
            giving_up: Vec::new(),
            clean: BTreeMap::new(),
            dirty: BTreeMap::new(),
            used: 0,
            dirty_bytes: 0,
            clock: 0,
            memory_waiters: 0,
            draining: false,
            has_staging_thread: false,
            over: false,
            counters: TierCounters::default(),
        }
    }

    pub fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// That percentage of the memory.
    pub fn percent(&self, percent: u8) -> u64 {
        (u128::from(self.limits.bytes) * u128::from(percent) / 100) as u64
    }

    pub fn file(&mut self, key: Key) -> &mut CachedFile {
        self.files.get_mut(&key).expect("a file that is open is there")
    }

    pub fn block(&mut self, (key, index): Place) -> Option<&mut Block> {
        self.files.get_mut(&key)?.blocks.get_mut(&index)
    }

    /// Returns the block's entry, or adds an empty one.
    pub fn entry(&mut self, (key, index): Place) -> &mut Block {
        let serial = self.tick();
        self.file(key).blocks.entry(index).or_insert_with(|| Block {
            bytes: None,
            valid: Ranges::default(),
            dirty: Ranges::default(),
            reach: 0,
            staging: false,
            pins: 0,
            modified: Instant::now(),
            tick: 0,
            serial,
        })
    }

    /// Changes a block, which has bytes afterwards, and updates its position: it becomes the last one if it was used or
    /// modified.
    pub fn change(&mut self, place: Place, is_last: bool, change: impl FnOnce(&mut Block)) {
        let fresh = self.tick();
        let size = self.file(place.0).block;
        let block = self.block(place).expect("who changes a block has seen it");
        let (before, was_dirty) = (block.tick, !block.dirty.is_empty());
        change(block);
        assert!(block.bytes.is_some(), "a block that was changed has bytes");
        let is_dirty = !block.dirty.is_empty();
        if is_last || before == 0 {
            block.tick = fresh;
        }
        let tick = block.tick;
        match was_dirty {
            true => self.dirty.remove(&before),
            false => self.clean.remove(&before),
        };
        match is_dirty {
            true => self.dirty.insert(tick, place),
            false => self.clean.insert(tick, place),
        };
        self.dirty_bytes =
            self.dirty_bytes + if is_dirty { size } else { 0 } - if was_dirty { size } else { 0 };
    }

    /// Removes a block. Returns its memory, if it had any, which still counts as used.
    pub fn take(&mut self, place: Place) -> Option<Vec<u8>> {
        let (key, index) = place;
        let file = self.files.get_mut(&key)?;
        let size = file.block;
        let block = file.blocks.remove(&index)?;
        assert!(!block.staging, "a block stays until it is staged");
        let bytes = block.bytes?;
        match block.dirty.is_empty() {
            true => self.clean.remove(&block.tick),
            false => {
                self.dirty_bytes -= size;
                self.dirty.remove(&block.tick)
            }
        };
        self.drop_if_unused(key);
        Some(Arc::into_inner(bytes).expect("who staged it has let go"))
    }

    /// Removes a file that is not open and has no blocks left.
    pub fn drop_if_unused(&mut self, key: Key) {
        let is_unused = |file: &CachedFile| file.servers.is_none() && file.blocks.is_empty();
        if self.files.get(&key).is_some_and(is_unused) {
            self.files.remove(&key);
        }
    }

    /// Removes a block and frees its memory.
    pub fn discard(&mut self, place: Place) {
        if let Some(bytes) = self.take(place) {
            self.used -= bytes.len() as u64;
        }
    }

    /// Removes a file with all its blocks.
    pub fn forget(&mut self, key: Key) {
        let Some(file) = self.files.get(&key) else { return };
        let indices: Vec<u64> = file.blocks.keys().copied().collect();
        indices.into_iter().for_each(|index| self.discard((key, index)));
        self.files.remove(&key);
    }

    /// Returns the least recently used clean block for which no thread waits.
    pub fn least_used(&mut self) -> Option<Place> {
        let places = self.clean.values();
        let free = |place: &&Place| {
            let (key, index) = **place;
            self.files.get(&key).and_then(|file| file.blocks.get(&index)).is_some_and(|block| block.pins == 0)
        };
        places.into_iter().find(free).copied()
    }

    /// Blocks to be staged, the least recently modified first.
    pub fn dirty_in_order(&self) -> impl Iterator<Item = (Place, &CachedFile, &Block)> {
        let each = |place: &Place| {
            let file = &self.files[&place.0];
            (*place, file, &file.blocks[&place.1])
        };
        self.dirty.values().map(each)
    }

    /// Whether a block is among the dirty ones, and among the clean ones.
    #[cfg(any(test, pario_simulation))]
    pub fn is_listed(&self, block: &Block, place: Place) -> (bool, bool) {
        (self.dirty.get(&block.tick) == Some(&place), self.clean.get(&block.tick) == Some(&place))
    }

    /// Turns the entry into a new one, for which no fetch waits.
    pub fn renew(&mut self, place: Place) {
        let serial = self.tick();
        if let Some(block) = self.block(place) {
            (block.serial, block.pins) = (serial, 0);
        }
    }

    /// Returns the ranges of a file that are being released at a server just now.
    pub fn giving_up(&self, key: Key, server: ServerId) -> impl Iterator<Item = &Range<u64>> {
        let here = move |one: &&(Key, ServerId, Range<u64>)| one.0 == key && one.1 == server;
        self.giving_up.iter().filter(here).map(|(_, _, gone)| gone)
    }

    /// Whether a thread is fetching or staging a file's blocks.
    pub fn is_busy(&self, key: Key) -> bool {
        let is_staging = |file: &CachedFile| file.blocks.values().any(|block| block.staging);
        self.giving_up.iter().any(|one| one.0 == key) || self.files.get(&key).is_some_and(is_staging)
    }

    pub fn holds_files_of(&self, team: u128) -> bool {
        self.files_of(team).next().is_some()
    }

    pub fn files_of(&self, team: u128) -> impl Iterator<Item = (&Key, &CachedFile)> {
        self.files.range(all_of(team))
    }

    pub fn files_of_mut(&mut self, team: u128) -> impl Iterator<Item = (&Key, &mut CachedFile)> {
        self.files.range_mut(all_of(team))
    }
}

impl CachedFile {
    pub fn new(servers: &dyn ServerIo, block: u64) -> CachedFile {
        CachedFile {
            striping: servers.striping(),
            servers: None,
            block,
            blocks: BTreeMap::new(),
            leases: BTreeMap::new(),
            suspended: BTreeMap::new(),
            pending_leases: Vec::new(),
            holds: Vec::new(),
            error: None,
            lost: None,
            paused: false,
            flushing: 0,
            end: 0,
            staged: 0,
            recalled: 0,
        }
    }

    /// The bytes of a block in the file.
    pub fn range_of(&self, index: u64) -> Range<u64> {
        index * self.block..(index + 1) * self.block
    }

    /// Returns the range extended to whole blocks.
    pub fn whole(&self, range: &Range<u64>) -> Range<u64> {
        let start = range.start / self.block * self.block;
        start..range.end.div_ceil(self.block).saturating_mul(self.block)
    }

    /// Each server's share of a range of the file, in order of servers.
    pub fn shares(&self, range: Range<u64>) -> Vec<(ServerId, Range<u64>)> {
        let each = |share: pario_layout::LocalRange| (share.server, share.at..share.at + share.len);
        let mut shares: Vec<_> = self.striping.shares(range).map(each).collect();
        shares.sort_unstable_by_key(|(server, _)| *server);
        shares
    }

    /// Whether this process may cache a range, which consists of whole blocks, at a server.
    pub fn has_share(&self, server: ServerId, local: &Range<u64>) -> bool {
        self.leases.get(&server).is_some_and(|held| held.contains(local))
    }

    /// The same for all servers.
    pub fn has_lease(&self, range: Range<u64>) -> bool {
        // A block usually lies on one server, and needs no list.
        let mut shares = self.striping.shares(range);
        shares.all(|share| self.has_share(share.server, &(share.at..share.at + share.len)))
    }

    /// Whether a block has bytes at a server.
    pub fn is_at(&self, index: u64, server: ServerId) -> bool {
        self.striping.shares(self.range_of(index)).any(|share| share.server == server)
    }

    /// The blocks that have bytes in a server's range.
    pub fn blocks_at(&self, server: ServerId, local: &Range<u64>) -> Vec<u64> {
        let all = self.striping.local_end(server, FURTHEST);
        let local = local.start.min(all)..local.end.min(all);
        let Some(last) = local.end.checked_sub(1).filter(|_| !local.is_empty()) else { return Vec::new() };
        let offset = |at| self.striping.offset_of(server, at).map_or(0, |offset| offset.0);
        let indices = offset(local.start) / self.block..=offset(last) / self.block;
        let is_there = |index: &u64| {
            let shares = self.striping.shares(self.range_of(*index));
            shares
                .into_iter()
                .any(|share| share.server == server && overlap(&(share.at..share.at + share.len), &local))
        };
        self.blocks.range(indices).map(|(index, _)| *index).filter(is_there).collect()
    }

    /// The end of the bytes that only this process has.
    pub fn dirty_end(&self) -> u64 {
        let end = |(index, block): (&u64, &Block)| Some(index * self.block + block.dirty.span()?.end);
        self.blocks.iter().rev().find_map(end).unwrap_or(0)
    }

    pub fn is_dirty(&self) -> bool {
        self.blocks.values().any(|block| !block.dirty.is_empty())
    }
}

impl Block {
    /// Adds bytes that are newer than those of the servers.
    pub fn write(&mut self, within: Range<u64>, bytes: &[u8]) {
        let mine = self.bytes.as_mut().and_then(Arc::get_mut).expect("memory that nobody else has");
        mine[within.start as usize..within.end as usize].copy_from_slice(bytes);
        self.reach = self.reach.max(within.end);
        self.dirty.insert(within.clone());
        self.valid.insert(within);
        self.modified = Instant::now();
    }

    /// Whether dirty bytes have to be staged before a write to this range. Only written bytes are ever staged, so ranges
    /// are never merged across a gap.
    pub fn is_too_scattered(&self, within: &Range<u64>, most: usize) -> bool {
        self.dirty.len() >= most && !self.dirty.meets(within)
    }

    /// Adds the servers' bytes below newer ones; `reach` bytes of it lie within the file. Returns the memory that is not
    /// needed.
    pub fn merge(&mut self, fetched: Vec<u8>, reach: u64) -> Option<Vec<u8>> {
        let all = 0..fetched.len() as u64;
        self.reach = self.reach.max(reach);
        let mut gaps = Ranges::one(all.clone());
        if !pario_runtime::is_planted("fetch-overwrites-newer") {
            self.valid.iter().for_each(|known| gaps.remove(&known));
        }
        self.valid = Ranges::one(all);
        let Some(bytes) = &mut self.bytes else {
            self.bytes = Some(Arc::new(fetched));
            return None;
        };
        let mine = Arc::get_mut(bytes).expect("memory that nobody else has");
        for gap in gaps.iter() {
            let gap = gap.start as usize..gap.end as usize;
            mine[gap.clone()].copy_from_slice(&fetched[gap]);
        }
        Some(fetched)
    }

    /// Drops the bytes from here on.
    pub fn cut(&mut self, within: u64) {
        let beyond = within..u64::MAX;
        self.valid.remove(&beyond);
        self.dirty.remove(&beyond);
        self.reach = self.reach.min(within);
    }
}

fn all_of(team: u128) -> RangeInclusive<Key> {
    (team, FileId(0))..=(team, FileId(u64::MAX))
}

pub(crate) fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}
