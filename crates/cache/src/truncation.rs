//! Truncating a file's local part.

use crate::error::{Error, Result};
use crate::geometry::TRUNCATIONS;
use crate::memory::PoolMemory;
use crate::pool::PoolInner;
use crate::state::{CLOSED, DIRTY};
use crate::table::{SlotPhase, SlotTable};
use pario_types::{FileId, TruncationId};
use std::sync::Arc;
use std::time::Duration;

use pario_runtime::time::Instant;

/// A truncation in progress. Until its drop no other thread or client accesses the blocks concerned: they are busy to the
/// server's threads, stale to clients, and not flushed. So the store can be truncated in between, and neither an old fill nor an
/// old flush brings back what is gone:
///
/// 1. Call [`ready`](PoolTruncation::ready) until it returns true: earlier pins, fills and flushes have ended.
/// 2. [Record](PoolTruncation::record) the truncation in the pool.
/// 3. Truncate the store.
/// 4. If the store is truncated, [finish](PoolTruncation::finish): the blocks beyond the new end leave the pool, and the last block's tail
///    becomes zeros. If not, [roll back](PoolTruncation::roll_back).
///
/// The pool drops nothing before the store is truncated, so a store that fails never makes an older version of a block visible.
/// The record tells the successor of a killed server to ask the store whether it was truncated, and to go on with step 4
/// ([`interrupted_cuts`](crate::Pool::interrupted_truncations)).
///
/// If it is dropped before it finishes, nothing has changed. A truncation beyond the local part changes nothing either.
#[derive(Debug)]
pub struct PoolTruncation {
    inner: Arc<PoolInner>,
    file: FileId,
    end: u64,
    ready: bool,
    /// The record in the pool, and its truncation.
    record: Option<(u32, TruncationId)>,
}

/// A truncation as the pool records it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TruncationRecord {
    pub index: u32,
    pub file: FileId,
    end: u64,
    truncation: TruncationId,
}

impl TruncationRecord {
    /// All valid records.
    pub fn read_all(memory: &PoolMemory) -> Vec<TruncationRecord> {
        (0..TRUNCATIONS).filter_map(|index| TruncationRecord::read(memory, index)).collect()
    }

    fn read(memory: &PoolMemory, index: u32) -> Option<TruncationRecord> {
        let [file, end, truncation, seal] =
            [0, 1, 2, 3].map(|word| memory.truncation_word(index, word).get());
        let is_sound =
            file != 0 && truncation != 0 && seal == PoolMemory::seal(&[index.into(), file, end, truncation]);
        is_sound.then_some(TruncationRecord {
            index,
            file: FileId(file),
            end,
            truncation: TruncationId(truncation),
        })
    }

    /// The seal comes last: a kill in between leaves no record.
    fn write(&self, memory: &PoolMemory) {
        let words = [self.file.0, self.end, self.truncation.0];
        words
            .into_iter()
            .zip(0..)
            .for_each(|(value, word)| memory.truncation_word(self.index, word).put(value));
        let seal = PoolMemory::seal(&[self.index.into(), self.file.0, self.end, self.truncation.0]);
        memory.truncation_word(self.index, 3).put(seal);
    }

    fn clear(memory: &PoolMemory, index: u32) {
        memory.truncation_word(index, 3).put(0);
    }

    /// The first block concerned.
    pub fn first(&self, memory: &PoolMemory) -> u64 {
        self.end / u64::from(memory.geometry.block)
    }
}

impl PoolTruncation {
    pub(crate) fn start(inner: &Arc<PoolInner>, file: FileId, end: u64) -> Option<PoolTruncation> {
        let mut table = inner.table();
        if table.truncations.contains_key(&file) {
            return None;
        }
        let truncation = PoolTruncation { inner: Arc::clone(inner), file, end, ready: false, record: None };
        table.truncations.insert(file, truncation.first());
        Some(truncation)
    }

    /// The truncation of a predecessor. Its blocks were closed before it was recorded, so they are not pinned.
    pub(crate) fn resume(inner: &Arc<PoolInner>, found: TruncationRecord) -> PoolTruncation {
        let record = Some((found.index, found.truncation));
        PoolTruncation { inner: Arc::clone(inner), file: found.file, end: found.end, ready: true, record }
    }

    /// The file that is truncated.
    pub fn file(&self) -> FileId {
        self.file
    }

    /// The truncation that was recorded.
    pub fn truncation(&self) -> Option<TruncationId> {
        self.record.map(|(_, truncation)| truncation)
    }

    /// The first block concerned.
    fn first(&self) -> u64 {
        self.end / u64::from(self.inner.memory.geometry.block)
    }

    /// Whether the store can be truncated. If not, one of the blocks is still in use: ask again in a millisecond.
    pub fn ready(&mut self) -> bool {
        if self.ready {
            return true;
        }
        let inner = Arc::clone(&self.inner);
        let mut table = inner.table();
        let slots = table.slots_of(self.file, self.first());
        let mut ready = true;
        let mut closed = Vec::new();
        for slot in slots {
            match table.update_phase(slot) {
                SlotPhase::Valid => {
                    inner.memory.state(slot).set(CLOSED);
                    table.entry_mut(slot).truncating = true;
                    ready &= !table.entry(slot).flushing && !table.pinned_here(slot);
                    closed.push(slot);
                }
                SlotPhase::Filling | SlotPhase::Lent { .. } => ready = false,
                SlotPhase::Free => {}
            }
        }
        // All slots are closed now, so none of them is pinned after this look at the ledgers.
        let held = table.held();
        self.ready = ready && !closed.iter().any(|slot| held.binary_search(slot).is_ok());
        self.ready
    }

    /// Waits until the store can be truncated. The calling thread must hold no pins.
    pub fn wait(&mut self, limit: Duration) -> Result<()> {
        let start = Instant::now();
        while !self.ready() {
            if start.elapsed() >= limit {
                return Err(Error::Held);
            }
            pario_runtime::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    /// Records the truncation in the pool, for a successor; a truncation without an id is not recorded. Returns false if
    /// all records are in use: ask again in a millisecond.
    pub fn record(&mut self, truncation: TruncationId) -> bool {
        assert!(self.ready, "blocks may still be in use");
        if self.record.is_some() || truncation.0 == 0 {
            return true;
        }
        let mut table = self.inner.table();
        let index = table.recorded.trailing_ones();
        if index == TRUNCATIONS {
            return false;
        }
        table.recorded |= 1 << index;
        TruncationRecord { index, file: self.file, end: self.end, truncation }.write(&self.inner.memory);
        self.record = Some((index, truncation));
        true
    }

    /// The store is truncated: truncates the pool.
    pub fn finish(&mut self) {
        assert!(self.ready, "blocks may still be in use");
        let memory = &self.inner.memory;
        let mut table = self.inner.table();
        let size = u64::from(memory.geometry.block);
        for slot in self.closed(&table) {
            let start = table.entry(slot).block.saturating_mul(size);
            if start >= self.end {
                table.free(slot);
            } else {
                let within = (self.end - start) as u32;
                memory.zero_tail(slot, within);
                memory.set_end(slot, memory.end(slot).min(within));
            }
        }
        drop(table);
        self.inner.advance.look();
        pario_runtime::check_invariants();
    }

    /// The store may not be truncated, or only in part. Dirty blocks stay, since they are newer than the stored ones; clean blocks
    /// leave the pool, so that the next reader gets what is stored now.
    pub fn roll_back(&mut self) {
        let mut table = self.inner.table();
        for slot in self.closed(&table).into_iter().filter(|_| self.ready) {
            if self.inner.memory.state(slot).get() & DIRTY == 0 {
                table.free(slot);
            }
        }
        drop(table);
        self.inner.advance.look();
        pario_runtime::check_invariants();
    }

    /// The slots that this truncation has closed.
    fn closed(&self, table: &SlotTable) -> Vec<u32> {
        let slots = table.slots_of(self.file, self.first()).into_iter();
        slots.filter(|slot| table.entry(*slot).truncating).collect()
    }
}

impl Drop for PoolTruncation {
    fn drop(&mut self) {
        let mut table = self.inner.table();
        if let Some((index, _)) = self.record {
            TruncationRecord::clear(&self.inner.memory, index);
            table.recorded &= !(1 << index);
        }
        table.truncations.remove(&self.file);
        for slot in self.closed(&table) {
            table.entry_mut(slot).truncating = false;
            self.inner.memory.state(slot).clear(CLOSED);
        }
    }
}
