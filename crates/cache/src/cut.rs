//! Cutting a file's local part.

use crate::error::{Error, Result};
use crate::geometry::CUTS;
use crate::memory::Memory;
use crate::pool::Inner;
use crate::state::{CLOSED, DIRTY};
use crate::table::{Phase, Table};
use pario_types::{FileId, TruncationId};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A cut under way. From its start to its end (its drop) nobody else accesses the blocks concerned: they are busy to the
/// server's threads, stale to clients, and not flushed. So the store can be cut in between, and neither an old fill nor an
/// old flush brings back what is gone:
///
/// 1. Call [`ready`](Cut::ready) until it returns true: earlier pins, fills and flushes have ended.
/// 2. [Record](Cut::record) the truncation in the pool.
/// 3. Cut the store.
/// 4. If the store is cut, [finish](Cut::finish): the blocks beyond the new end leave the pool, and the last block's tail
///    becomes zeros. If not, [roll back](Cut::roll_back).
///
/// The pool drops nothing before the store is cut, so a store that fails never makes an older version of a block visible.
/// The record tells the successor of a killed server to ask the store whether it was cut, and to go on with step 4
/// ([`interrupted_cuts`](crate::Pool::interrupted_cuts)).
///
/// Dropped before it finished, a cut has changed nothing. A cut beyond the local part changes nothing either.
#[derive(Debug)]
pub struct Cut {
    inner: Arc<Inner>,
    file: FileId,
    end: u64,
    ready: bool,
    /// The record in the pool, and its truncation.
    record: Option<(u32, TruncationId)>,
}

/// What a pool's record says of a cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorded {
    pub index: u32,
    pub file: FileId,
    end: u64,
    truncation: TruncationId,
}

impl Recorded {
    /// All records that are sound.
    pub fn read_all(memory: &Memory) -> Vec<Recorded> {
        (0..CUTS).filter_map(|index| Recorded::read(memory, index)).collect()
    }

    fn read(memory: &Memory, index: u32) -> Option<Recorded> {
        let [file, end, truncation, seal] = [0, 1, 2, 3].map(|word| memory.cut_word(index, word).get());
        let is_sound =
            file != 0 && truncation != 0 && seal == Memory::seal(&[index.into(), file, end, truncation]);
        is_sound.then_some(Recorded { index, file: FileId(file), end, truncation: TruncationId(truncation) })
    }

    /// The seal comes last: a kill in between leaves no record.
    fn write(&self, memory: &Memory) {
        let words = [self.file.0, self.end, self.truncation.0];
        words.into_iter().zip(0..).for_each(|(value, word)| memory.cut_word(self.index, word).put(value));
        let seal = Memory::seal(&[self.index.into(), self.file.0, self.end, self.truncation.0]);
        memory.cut_word(self.index, 3).put(seal);
    }

    fn clear(memory: &Memory, index: u32) {
        memory.cut_word(index, 3).put(0);
    }

    /// The first block concerned.
    pub fn first(&self, memory: &Memory) -> u64 {
        self.end / u64::from(memory.geometry.block)
    }
}

impl Cut {
    pub(crate) fn start(inner: &Arc<Inner>, file: FileId, end: u64) -> Option<Cut> {
        let mut table = inner.table();
        if table.cuts.contains_key(&file) {
            return None;
        }
        let cut = Cut { inner: Arc::clone(inner), file, end, ready: false, record: None };
        table.cuts.insert(file, cut.first());
        Some(cut)
    }

    /// The cut of a predecessor. Its blocks are closed since before it was recorded, so nobody has pinned them.
    pub(crate) fn resume(inner: &Arc<Inner>, found: Recorded) -> Cut {
        let record = Some((found.index, found.truncation));
        Cut { inner: Arc::clone(inner), file: found.file, end: found.end, ready: true, record }
    }

    /// The file that is cut.
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

    /// Whether the store can be cut. If not, somebody still has one of the blocks: ask again in a millisecond.
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
            match table.settle(slot) {
                Phase::Valid => {
                    inner.memory.state(slot).set(CLOSED);
                    table.entry_mut(slot).cut = true;
                    ready &= !table.entry(slot).flushing && !table.pinned_here(slot);
                    closed.push(slot);
                }
                Phase::Filling | Phase::Lent { .. } => ready = false,
                Phase::Free => {}
            }
        }
        // Only now that all are closed: nobody pins one of them after this look at the ledgers.
        let held = table.held();
        self.ready = ready && !closed.iter().any(|slot| held.binary_search(slot).is_ok());
        self.ready
    }

    /// Waits until the store can be cut: for threads that hold no pins and serve nobody else.
    pub fn wait(&mut self, limit: Duration) -> Result<()> {
        let start = Instant::now();
        while !self.ready() {
            if start.elapsed() >= limit {
                return Err(Error::Held);
            }
            std::thread::sleep(Duration::from_micros(200));
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
        if index == CUTS {
            return false;
        }
        table.recorded |= 1 << index;
        Recorded { index, file: self.file, end: self.end, truncation }.write(&self.inner.memory);
        self.record = Some((index, truncation));
        true
    }

    /// The store is cut: cuts the pool.
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
    }

    /// The store may not be cut, or only in part. What is dirty stays, and so is newer than what is stored; what is clean
    /// leaves the pool, so that the next reader gets what is stored now.
    pub fn roll_back(&mut self) {
        let mut table = self.inner.table();
        for slot in self.closed(&table).into_iter().filter(|_| self.ready) {
            if self.inner.memory.state(slot).get() & DIRTY == 0 {
                table.free(slot);
            }
        }
        drop(table);
        self.inner.advance.look();
    }

    /// The slots that this cut has closed.
    fn closed(&self, table: &Table) -> Vec<u32> {
        let slots = table.slots_of(self.file, self.first()).into_iter();
        slots.filter(|slot| table.entry(*slot).cut).collect()
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        let mut table = self.inner.table();
        if let Some((index, _)) = self.record {
            Recorded::clear(&self.inner.memory, index);
            table.recorded &= !(1 << index);
        }
        table.cuts.remove(&self.file);
        for slot in self.closed(&table) {
            table.entry_mut(slot).cut = false;
            self.inner.memory.state(slot).clear(CLOSED);
        }
    }
}
