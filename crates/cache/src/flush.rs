//! Write-back of dirty blocks to storage.

use crate::geometry::AT_DIRTY;
use crate::pool::PoolInner;
use crate::state::{DIRTY, FLUSHING, ROOM};
use crate::table::{SlotPhase, SlotTable};
use pario_types::FileId;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use pario_runtime::time::Instant;

/// A dirty block that the caller stores; no other thread does meanwhile.
///
/// It is copied first, since clients may continue to write it: the stored bytes must match their checksum. A write after
/// [`next_dirty`](crate::Pool::next_dirty) leaves the block dirty. Dropping this value means
/// [`failed`](BlockFlush::failed).
#[derive(Debug)]
pub struct BlockFlush {
    inner: Arc<PoolInner>,
    slot: u32,
    file: FileId,
    block: u64,
    end: u32,
    stored: bool,
}

impl BlockFlush {
    fn start(inner: &Arc<PoolInner>, table: &mut SlotTable, slot: u32) -> BlockFlush {
        let memory = &inner.memory;
        let entry = table.entry_mut(slot);
        entry.flushing = true;
        let (file, block) = (entry.file, entry.block);
        // The order matters: a kill in between leaves the block dirty for a successor.
        memory.state(slot).set(FLUSHING);
        // The stored version uses up the space that was reserved for it: a write from here on needs more.
        let used = if table.plenty { 0 } else { ROOM };
        let before = memory.state(slot).clear(DIRTY | used);
        if before & DIRTY != 0 {
            memory.count_clean();
        }
        table.withdrawn(before & used);
        BlockFlush { inner: Arc::clone(inner), slot, file, block, end: memory.end(slot), stored: false }
    }

    pub(crate) fn oldest(inner: &Arc<PoolInner>, most: usize) -> Vec<BlockFlush> {
        let mut table = inner.table();
        table.tick();
        let mut flushes = Vec::new();
        let mut looked = false;
        while flushes.len() < most {
            match table.aged.pop_front() {
                Some((modified, slot)) => {
                    // A block that was modified since is not old any more: the next search finds it.
                    if is_ready(&mut table, slot) && table.memory.modified(slot).peek() == modified {
                        BlockFlush::run(inner, &mut table, slot, most, &mut flushes);
                    }
                }
                None if looked => break,
                None => {
                    look(&mut table);
                    looked = true;
                }
            }
        }
        flushes.sort_unstable_by_key(|flush: &BlockFlush| (flush.file, flush.block));
        flushes
    }

    /// A block, those right after it, and those right before it, as far as they are dirty.
    fn run(
        inner: &Arc<PoolInner>,
        table: &mut SlotTable,
        slot: u32,
        most: usize,
        flushes: &mut Vec<BlockFlush>,
    ) {
        let (file, block) = (table.entry(slot).file, table.entry(slot).block);
        let room = most - flushes.len();
        let after = (block..=u64::MAX).map_while(|block| table.find(file, block)).take(room).collect();
        let before = (0..block).rev().map_while(|block| table.find(file, block)).take(room).collect();
        let runs: [Vec<u32>; 2] = [after, before];
        for run in runs {
            for slot in run {
                if flushes.len() == most || !is_ready(table, slot) {
                    break;
                }
                flushes.push(BlockFlush::start(inner, table, slot));
            }
        }
    }

    /// The file of the block.
    pub fn file(&self) -> FileId {
        self.file
    }

    /// Its number in the file's local part.
    pub fn block(&self) -> u64 {
        self.block
    }

    /// The number of its bytes to store, from the first on.
    pub fn end(&self) -> u32 {
        self.end
    }

    /// Copies the block's first bytes out, at most [`end`](BlockFlush::end) of them.
    pub fn copy_to(&self, to: &mut [u8]) {
        assert!(to.len() <= self.end as usize, "{} of {} bytes", to.len(), self.end);
        self.inner.memory.read(self.slot, 0, to);
        self.inner.memory.segment.check_not_truncated();
    }

    /// The block is stored.
    pub fn clean(mut self) {
        self.stored = true;
    }

    /// The block could not be stored, and stays dirty. [`next_dirty`](crate::Pool::next_dirty) skips it for a while.
    pub fn failed(self) {}
}

impl Drop for BlockFlush {
    fn drop(&mut self) {
        let mut table = self.inner.table();
        // A thread of the server that writes to the block may have copied bytes that are not stored, and may be killed.
        if !self.stored || table.is_written_here(self.slot) {
            self.inner.memory.make_dirty(self.slot);
        }
        if self.stored && pario_runtime::is_planted("flush-forgets-concurrent-write") {
            self.inner.memory.state(self.slot).clear(DIRTY);
        }
        self.inner.memory.state(self.slot).clear(FLUSHING);
        let entry = table.entry_mut(self.slot);
        entry.flushing = false;
        entry.failures = if self.stored { 0 } else { entry.failures.saturating_add(1) };
        entry.retry = rest_after(entry.failures).map(|rest| Instant::now() + rest);
    }
}

/// The pause of a block that could not be stored so often: twice as long each time.
fn rest_after(failures: u8) -> Option<Duration> {
    const MOST: Duration = Duration::from_secs(15);
    let doubled = 1 << u32::from(failures.checked_sub(1)?).min(10);
    Some((Duration::from_millis(250) * doubled).min(MOST))
}

/// Whether it may be flushed now.
fn is_ready(table: &mut SlotTable, slot: u32) -> bool {
    let entry = table.entry(slot);
    !entry.flushing
        && !entry.truncating
        && entry.retry.is_none_or(|retry| retry <= Instant::now())
        && table.update_phase(slot) == SlotPhase::Valid
        && table.memory.state(slot).get() & DIRTY != 0
}

/// Searches all slots for those that may be flushed, and orders them by their last modification. Blocks that become dirty
/// later are younger than all of them, so the list is valid until it is used up.
fn look(table: &mut SlotTable) {
    let memory = Arc::clone(&table.memory);
    let counted = memory.header(AT_DIRTY).get();
    let mut dirty = 0;
    let mut aged = Vec::new();
    for slot in 0..memory.geometry.slots {
        if table.update_phase(slot) == SlotPhase::Valid && memory.state(slot).get() & DIRTY != 0 {
            dirty += 1;
            if is_ready(table, slot) {
                aged.push((memory.modified(slot).peek(), slot));
            }
        }
    }
    // A killed process may have left the count wrong. If it changed meanwhile, it is corrected another time.
    let _ = memory.header(AT_DIRTY).replace(counted, dirty);
    aged.sort_unstable();
    table.aged = aged.into();
}

/// All blocks that were dirty at one moment, to be stored once; later writes belong to another sweep. So a sweep ends
/// however busy the writers are.
#[derive(Debug)]
pub struct DirtySweep {
    inner: Arc<PoolInner>,
    /// The slots and their blocks.
    left: VecDeque<(u32, FileId, u64)>,
}

/// The next step of a [`DirtySweep`].
#[derive(Debug)]
pub enum SweepStep {
    /// Store these, in order of files and blocks.
    Flush(Vec<BlockFlush>),
    /// Other threads store or truncate the remaining blocks: ask again in a millisecond. If they fail, the blocks are
    /// returned here again.
    Wait,
    /// All is stored, except for blocks that the caller failed to store.
    Done,
}

impl DirtySweep {
    pub(crate) fn new(inner: &Arc<PoolInner>, file: Option<FileId>) -> DirtySweep {
        let mut table = inner.table();
        let slots = match file {
            Some(file) => table.slots_of(file, 0),
            None => (0..inner.memory.geometry.slots).collect(),
        };
        let mut left: Vec<(u32, FileId, u64)> = Vec::new();
        for slot in slots {
            let valid = table.update_phase(slot) == SlotPhase::Valid;
            let entry = table.entry(slot);
            if valid && (entry.flushing || inner.memory.state(slot).get() & DIRTY != 0) {
                left.push((slot, entry.file, entry.block));
            }
        }
        left.sort_unstable_by_key(|&(_, file, block)| (file, block));
        DirtySweep { inner: Arc::clone(inner), left: left.into() }
    }

    /// Returns the next step, with at most this many blocks.
    pub fn next(&mut self, most: usize) -> SweepStep {
        let mut table = self.inner.table();
        let mut flushes = Vec::new();
        for _ in 0..self.left.len() {
            if flushes.len() == most {
                break;
            }
            let Some((slot, file, block)) = self.left.pop_front() else { break };
            if table.find(file, block) != Some(slot) || table.update_phase(slot) != SlotPhase::Valid {
                continue;
            }
            let entry = table.entry(slot);
            if entry.flushing || entry.truncating {
                self.left.push_back((slot, file, block));
            } else if self.inner.memory.state(slot).get() & DIRTY != 0 {
                flushes.push(BlockFlush::start(&self.inner, &mut table, slot));
            }
        }
        drop(table);
        match (flushes.is_empty(), self.left.is_empty()) {
            (false, _) => SweepStep::Flush(flushes),
            (true, false) => SweepStep::Wait,
            (true, true) => {
                pario_runtime::check_invariants();
                SweepStep::Done
            }
        }
    }
}
