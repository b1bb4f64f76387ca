//! The server's own table of slots and blocks: never read from the shared memory while the server lives.

use crate::ledger::LedgerState;
use crate::memory::PoolMemory;
use crate::pin::WRITER;
use crate::state::{
    ABANDONED, CLOSED, DIRTY, FILLING, FLUSHING, PENDING, RETIRED, VALID, generation, generation_of,
};
use crate::truncation::TruncationRecord;
use pario_types::FileId;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pario_runtime::time::Instant;

/// The time for which a lent slot that its borrower has not pinned stays lent, once another client requests the block.
const LOAN: Duration = Duration::from_secs(1);

/// The server's use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotPhase {
    Free,
    /// A [`SlotFill`](crate::SlotFill) has it.
    Filling,
    /// A client is to fill it. It has done so once the shared state says so.
    Lent {
        ledger: u32,
        /// `None`: whenever it is not pinned.
        since: Option<Instant>,
    },
    Valid,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotEntry {
    pub file: FileId,
    pub block: u64,
    pub generation: u32,
    pub phase: SlotPhase,
    /// A [`BlockFlush`](crate::BlockFlush) has it.
    pub flushing: bool,
    /// A [`PoolTruncation`](crate::PoolTruncation) has closed it.
    pub truncating: bool,
    /// It is free and all zeros.
    pub blank: bool,
    /// The number of times in a row that it could not be stored, and the time of the next attempt unless a request comes
    /// before.
    pub failures: u8,
    pub retry: Option<Instant>,
}

#[derive(Debug, Default)]
pub(crate) struct LookupCounts {
    pub hits: u64,
    pub misses: u64,
    pub evictions: u64,
}

#[derive(Debug)]
pub(crate) struct SlotTable {
    pub memory: Arc<PoolMemory>,
    /// Pins of the server's own threads, by slot. They go up only under the table's lock.
    pub pins: Arc<[AtomicU32]>,
    pub entries: Vec<SlotEntry>,
    pub index: HashMap<FileId, BTreeMap<u64, u32>>,
    pub free: Vec<u32>,
    /// Slots from here on were never used; they are taken last.
    pub unused: u32,
    /// The number of free slots that are not blank.
    pub soiled: u32,
    pub ledgers: Vec<LedgerState>,
    /// Files that are being truncated, and the first block concerned.
    pub truncations: HashMap<FileId, u64>,
    /// The truncation records that are in use, a bit each.
    pub recorded: u64,
    /// Truncations of a predecessor that are not resolved yet.
    pub interrupted: Vec<TruncationRecord>,
    /// Whether the pool is being given up: then every state has [`RETIRED`].
    pub retired: bool,
    pub clock: u64,
    /// Whether the store has space for every block of the pool in any case.
    pub plenty: bool,
    /// Slots for which the store has space.
    pub granted: u32,
    /// Slots to flush next, with their last modification, in this order.
    pub aged: VecDeque<(u64, u32)>,
    pub tally: LookupCounts,
}

impl SlotTable {
    /// The table of a pool without blocks.
    pub fn new(memory: Arc<PoolMemory>, pins: Arc<[AtomicU32]>) -> SlotTable {
        let entry = SlotEntry {
            file: FileId(0),
            block: 0,
            generation: 1,
            phase: SlotPhase::Free,
            flushing: false,
            truncating: false,
            blank: true,
            failures: 0,
            retry: None,
        };
        let geometry = memory.geometry;
        SlotTable {
            memory,
            pins,
            entries: vec![entry; geometry.slots as usize],
            index: HashMap::new(),
            free: (0..geometry.slots).rev().collect(),
            unused: 0,
            soiled: 0,
            ledgers: vec![LedgerState::Free; geometry.ledgers as usize],
            truncations: HashMap::new(),
            recorded: 0,
            interrupted: Vec::new(),
            retired: false,
            clock: 0,
            plenty: true,
            granted: 0,
            aged: VecDeque::new(),
            tally: LookupCounts::default(),
        }
    }

    pub fn entry(&self, slot: u32) -> &SlotEntry {
        &self.entries[slot as usize]
    }

    pub fn entry_mut(&mut self, slot: u32) -> &mut SlotEntry {
        &mut self.entries[slot as usize]
    }

    pub fn find(&self, file: FileId, block: u64) -> Option<u32> {
        self.index.get(&file)?.get(&block).copied()
    }

    /// The slots of a file's blocks from `first` on, in order.
    pub fn slots_of(&self, file: FileId, first: u64) -> Vec<u32> {
        self.slots_in(file, first..u64::MAX)
    }

    /// The slots of these blocks of a file, in order.
    pub fn slots_in(&self, file: FileId, blocks: Range<u64>) -> Vec<u32> {
        let known = self.index.get(&file).filter(|_| !blocks.is_empty());
        known.map_or_else(Vec::new, |known| known.range(blocks).map(|(_, &slot)| slot).collect())
    }

    pub fn is_truncated(&self, file: FileId, block: u64) -> bool {
        self.truncations.get(&file).is_some_and(|&first| block >= first)
    }

    pub fn tick(&mut self) {
        self.clock += 1;
        self.memory.header(crate::geometry::AT_CLOCK).note(self.clock);
    }

    pub fn pinned_here(&self, slot: u32) -> bool {
        self.pins[slot as usize].load(Ordering::Acquire) > 0
    }

    /// Whether a thread of the server writes to the slot.
    pub fn is_written_here(&self, slot: u32) -> bool {
        self.pins[slot as usize].load(Ordering::Acquire) >= WRITER
    }

    /// Updates a slot by the shared state that its borrower has set; ends a loan that has lasted too long. Returns the
    /// phase after that; `Free` means that the block is not in the pool any more.
    pub fn update_phase(&mut self, slot: u32) -> SlotPhase {
        let SlotEntry { generation: number, phase, .. } = *self.entry(slot);
        let memory = Arc::clone(&self.memory);
        let state = memory.state(slot);
        match phase {
            SlotPhase::Lent { since, .. } => {
                let seen = state.get();
                let known = generation_of(seen) == number;
                if known && seen & VALID != 0 {
                    self.entry_mut(slot).phase = SlotPhase::Valid;
                } else if known && seen & ABANDONED != 0 {
                    self.free(slot);
                } else if since.is_none_or(|since| since.elapsed() > LOAN) {
                    self.end_loan(slot);
                }
            }
            SlotPhase::Valid => {
                let seen = state.get();
                if generation_of(seen) != number || seen & VALID == 0 {
                    self.repair(slot);
                }
            }
            SlotPhase::Free | SlotPhase::Filling => {}
        }
        self.entry(slot).phase
    }

    fn end_loan(&mut self, slot: u32) {
        let memory = Arc::clone(&self.memory);
        let state = memory.state(slot);
        state.set(CLOSED);
        let held = self.held();
        let now = state.get();
        if generation_of(now) == self.entry(slot).generation && now & VALID != 0 {
            self.entry_mut(slot).phase = SlotPhase::Valid;
            state.clear(CLOSED);
        } else if held.binary_search(&slot).is_ok() {
            state.clear(CLOSED);
        } else {
            self.free(slot);
        }
    }

    /// A client damaged the state of a valid slot: the server's table is used, and the slot is dirty to be safe.
    fn repair(&mut self, slot: u32) {
        let entry = *self.entry(slot);
        let mut state = self.fresh(entry.generation) | VALID | DIRTY | self.room_if(false);
        if entry.truncating {
            state |= CLOSED;
        }
        if entry.flushing {
            state |= FLUSHING;
        }
        let before = self.memory.state(slot).swap(state);
        self.withdrawn(before);
    }

    /// A state with only the flags that all states have.
    fn fresh(&self, number: u32) -> u64 {
        generation(number) | if self.retired { RETIRED } else { 0 }
    }

    /// Sets in every slot's state whether the pool is being given up.
    pub fn set_retired(&mut self, retired: bool) {
        self.retired = retired;
        for slot in 0..self.memory.geometry.slots {
            let state = self.memory.state(slot);
            if retired {
                state.set(RETIRED)
            } else {
                state.clear(RETIRED)
            };
        }
    }

    /// Takes a slot for a block that has none; `None` if all are in use.
    pub fn allocate(&mut self, file: FileId, block: u64) -> Option<(u32, bool)> {
        if self.free.is_empty() {
            self.evict();
        }
        let slot = self.free.pop()?;
        self.unused = self.unused.max(slot + 1);
        let entry = self.entry_mut(slot);
        let blank = std::mem::take(&mut entry.blank);
        (entry.file, entry.block, entry.phase) = (file, block, SlotPhase::Filling);
        (entry.failures, entry.retry) = (0, None);
        let number = entry.generation;
        self.soiled -= u32::from(!blank);
        let before = self.index.entry(file).or_default().insert(block, slot);
        assert!(before.is_none(), "a block has one slot");
        let memory = &self.memory;
        memory.label(slot, file.0, block);
        memory.set_end(slot, 0);
        memory.used(slot).note(self.clock);
        memory.modified(slot).note(0);
        memory.borrower(slot).note(0);
        memory.state(slot).put(self.fresh(number) | FILLING);
        Some((slot, blank))
    }

    /// Takes a slot that is free and not blank, of the `most` that are used next, to clear it. Some are left for other
    /// users.
    pub fn take_soiled(&mut self, most: usize) -> Option<u32> {
        const LEFT: usize = 64;
        if self.soiled == 0 || self.free.len() <= LEFT {
            return None;
        }
        let next = self.free.len().saturating_sub(most)..self.free.len();
        let at = next.rev().find(|&at| !self.entries[self.free[at] as usize].blank)?;
        self.soiled -= 1;
        Some(self.free.swap_remove(at))
    }

    /// The slot is all zeros now.
    pub fn give_blank(&mut self, slot: u32) {
        self.entry_mut(slot).blank = true;
        self.free.push(slot);
    }

    /// Gives a valid slot another generation, and changes nothing else: remembered references to its block become invalid.
    /// A client that has pinned it continues.
    pub fn invalidate(&mut self, slot: u32) {
        let entry = self.entry_mut(slot);
        assert_eq!(entry.phase, SlotPhase::Valid);
        entry.generation = entry.generation.wrapping_add(1);
        // In one step, because others set and clear flags. A carry out of the upper half is lost, as in the entry.
        self.memory.state(slot).add(generation(1));
    }

    /// Frees a slot, whatever its content. It must not be pinned. Returns the state before.
    pub fn free(&mut self, slot: u32) -> u64 {
        let entry = &mut self.entries[slot as usize];
        assert!(entry.phase != SlotPhase::Free && !entry.flushing, "slot {slot} is {entry:?}");
        entry.generation = entry.generation.wrapping_add(1);
        (entry.phase, entry.truncating) = (SlotPhase::Free, false);
        let (file, block, number) = (entry.file, entry.block, entry.generation);
        if let Some(blocks) = self.index.get_mut(&file).filter(|blocks| blocks.get(&block) == Some(&slot)) {
            blocks.remove(&block);
            if blocks.is_empty() {
                self.index.remove(&file);
            }
        }
        let kept = if pario_runtime::is_planted("free-slot-stays-valid") { VALID } else { 0 };
        let before = self.memory.state(slot).swap(self.fresh(number) | kept);
        if before & DIRTY != 0 {
            self.memory.count_clean();
        }
        self.withdrawn(before);
        self.soiled += 1;
        self.free.push(slot);
        before
    }

    /// Frees the least recently used of the slots that are clean and not pinned: some at a time, so that the search of all
    /// slots and ledgers is worth its cost.
    fn evict(&mut self) {
        let batch = (self.entries.len() / 32).clamp(1, 1024);
        let mut victims = self.clean_slots();
        if victims.len() > batch {
            victims.select_nth_unstable(batch - 1);
            victims.truncate(batch);
        }
        if victims.is_empty() {
            return;
        }
        let memory = Arc::clone(&self.memory);
        for &(_, slot) in &victims {
            memory.state(slot).set(CLOSED);
        }
        let held = self.held();
        for (_, slot) in victims {
            let state = memory.state(slot);
            let held = held.binary_search(&slot).is_ok();
            // A client that wrote it has released its pin by now, after it made the slot dirty.
            if held || state.get() & DIRTY != 0 {
                state.clear(CLOSED);
                memory.used(slot).note(self.clock);
            } else {
                let _before = self.free(slot);
                #[cfg(pario_simulation)]
                crate::invariants::check_evicted(slot, _before);
                self.tally.evictions += 1;
            }
        }
    }

    /// Returns slots that can possibly be evicted, with their last use.
    fn clean_slots(&mut self) -> Vec<(u64, u32)> {
        let mut clean = Vec::new();
        for slot in 0..self.memory.geometry.slots {
            if matches!(self.entry(slot).phase, SlotPhase::Lent { .. }) {
                self.update_phase(slot);
            }
            let entry = self.entry(slot);
            let idle = entry.phase == SlotPhase::Valid
                && !entry.flushing
                && !entry.truncating
                && !self.pinned_here(slot);
            if idle && self.memory.state(slot).get() & DIRTY == 0 {
                clean.push((self.memory.used(slot).peek(), slot));
            }
        }
        clean
    }

    /// Lends the slot to a client.
    pub fn lend(&mut self, slot: u32, ledger: u32, reserved: bool) {
        let entry = self.entry_mut(slot);
        assert_eq!(entry.phase, SlotPhase::Filling);
        entry.phase = SlotPhase::Lent { ledger, since: Some(Instant::now()) };
        let number = entry.generation;
        self.memory.borrower(slot).put(u64::from(ledger) + 1);
        let room = self.room_if(reserved);
        self.memory.state(slot).put(self.fresh(number) | PENDING | room);
    }

    /// A filled slot becomes visible to all clients, with these flags.
    pub fn publish(&mut self, slot: u32, end: u32, flags: u64) {
        let entry = self.entry_mut(slot);
        assert_eq!(entry.phase, SlotPhase::Filling);
        entry.phase = SlotPhase::Valid;
        let number = entry.generation;
        self.memory.set_end(slot, end);
        let room = self.room_if(false);
        self.memory.state(slot).put(self.fresh(number) | VALID | room | flags);
    }

    /// The end of a file, as far as its blocks here tell.
    pub fn end(&mut self, file: FileId) -> u64 {
        // From the last block on, one at a time: there may be many, and nearly always the last one decides.
        let mut before = None;
        while let Some((&block, &slot)) = self.index.get(&file).and_then(|blocks| match before {
            Some(before) => blocks.range(..before).next_back(),
            None => blocks.iter().next_back(),
        }) {
            if self.update_phase(slot) == SlotPhase::Valid {
                let end = self.memory.end(slot);
                if end > 0 {
                    let start = block.saturating_mul(self.memory.geometry.block.into());
                    return start.saturating_add(end.into());
                }
            }
            before = Some(block);
        }
        0
    }
}
