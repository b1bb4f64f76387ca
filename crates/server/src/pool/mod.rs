//! The pool of blocks in shared memory over the store.
//!
//! Sessions and local clients of the pool use the same blocks. No function waits: if another thread or client uses a block, or all
//! slots are pinned, the function returns how far it got, and the caller calls it again.

pub(crate) mod pieces;
pub(crate) mod pool_record;
pub(crate) mod space;
mod truncate;

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pario_cache::{BlockWrite, LedgerId, Lookup, Pin, PinError, Pool, SlotFill, SlotRef};
use pario_runtime::sync::Mutex;
use pario_store::Store;
use pario_types::FileId;
use pario_wire::message::{AcquireIntent, BlockRange, BlockSlot};

use crate::background::prefetcher::Prefetches;
use crate::counters::Counters;
use crate::error::{Error, Result};
use pieces::Pieces;
use space::SpaceReservation;

/// The largest number of blocks that one `Acquire` returns, and that one access of the store moves.
pub(crate) const BATCH: usize = 64;

/// An idle thread sleeps until it is woken; this limit is only a precaution.
pub(crate) const IDLE: Duration = Duration::from_secs(3600);

pub(crate) struct PoolTier {
    pub pool: Pool,
    pub store: Box<dyn Store>,
    pub prefetches: Prefetches,
    /// Locked while a truncation starts or is fenced.
    truncating: Mutex<()>,
    pub space: SpaceReservation,
    block: u64,
}

/// Bytes of a pinned block.
pub(crate) struct PinnedPiece {
    pub pin: Pin,
    pub range: Range<u32>,
}

/// The buffer of a transfer.
pub(crate) enum TransferBuffer<'a> {
    /// Receives bytes of the local part.
    Out(&'a mut [u8]),
    /// Has bytes for the local part.
    In(&'a [u8]),
}

/// How far a transfer got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransferStep {
    Complete,
    /// It stopped at a block that is in use, or for which there is no free slot.
    Blocked,
    /// It moved as many pieces of blocks as the buffer has bytes for.
    BufferUsedUp,
}

/// Bytes of one block.
#[derive(Clone, Copy)]
struct BlockPart {
    block: u64,
    within: u32,
    len: usize,
}

impl TransferBuffer<'_> {
    fn len(&self) -> usize {
        match self {
            TransferBuffer::Out(to) => to.len(),
            TransferBuffer::In(from) => from.len(),
        }
    }
}

impl PoolTier {
    /// A pool over a store in this directory.
    pub fn new(pool: Pool, store: Box<dyn Store>, directory: &Path) -> PoolTier {
        let block = u64::from(pool.geometry().block);
        let space = SpaceReservation::new(directory.to_owned());
        PoolTier {
            pool,
            store,
            prefetches: Prefetches::default(),
            truncating: Mutex::default(),
            space,
            block,
        }
    }

    /// The main function of the thread that prepares memory for the pool.
    pub fn run_page_preparer(&self, stop: &AtomicBool) {
        let mut pages = self.pool.page_preparer();
        while !stop.load(Ordering::Acquire) {
            pages.step(IDLE);
        }
    }

    /// Moves bytes between a buffer and a local part, as far as possible now; bytes beyond the local end are read as zeros. Consecutive
    /// pieces of a block cost one lookup.
    pub fn transfer(
        &self,
        file: FileId,
        pieces: &mut Pieces,
        mut bytes: TransferBuffer<'_>,
        done: &mut usize,
        counters: &Counters,
    ) -> Result<TransferStep> {
        let mut reserved = 0..0;
        while let Some(next) = pieces.peek() {
            let part = self.part(next.at, usize::try_from(next.len).unwrap_or(usize::MAX));
            let here = *done..*done + part.len;
            if here.end > bytes.len() {
                return Ok(TransferStep::BufferUsedUp);
            }
            match (self.pool.get(file, part.block), &mut bytes) {
                (Lookup::Hit(pin), TransferBuffer::Out(to)) => {
                    self.copy_out(&pin, part.block, pieces, to, done)
                }
                (Lookup::Hit(pin), TransferBuffer::In(from)) => {
                    let upto = pieces.read_ahead_end().div_ceil(self.block);
                    self.ensure_space(&pin, upto, &mut reserved, counters)?;
                    let write = pin.begin_write();
                    self.copy_in(&write, part.block, pieces, from, done);
                    self.finish_write(&pin, write, counters)?;
                }
                (Lookup::Fill(fill), TransferBuffer::In(from)) if part.len as u64 == self.block => {
                    let blocks = part.block..pieces.read_ahead_end().div_ceil(self.block);
                    let is_reserved = self.ensure_space_for_new(file, blocks, &mut reserved, counters)?;
                    self.write_new(fill, &from[here], is_reserved, counters)?;
                    *done += part.len;
                    pieces.advance(part.len as u64);
                }
                (Lookup::Fill(fill), TransferBuffer::In(_)) => {
                    self.fill(file, part.block, vec![fill], counters)?
                }
                (Lookup::Fill(first), TransferBuffer::Out(_)) => {
                    let wanted = (pieces.read_ahead_end() - 1) / self.block - part.block + 1;
                    let fills = self.more_fills(file, first, part.block, wanted);
                    self.fill(file, part.block, fills, counters)?;
                }
                (Lookup::Full, bytes) => match (self.free_slots(counters), bytes) {
                    (Ok(true), _) => {}
                    (Ok(false), _) => return Ok(TransferStep::Blocked),
                    // Nothing can be stored to free a slot. Stored blocks can still be read.
                    (Err(_), TransferBuffer::Out(to)) => {
                        self.read_uncached(file, &part, &mut to[here], counters)?;
                        *done += part.len;
                        pieces.advance(part.len as u64);
                    }
                    (Err(e), TransferBuffer::In(_)) => return Err(e),
                },
                (Lookup::Busy, _) => return Ok(TransferStep::Blocked),
            }
        }
        Ok(TransferStep::Complete)
    }

    /// Writes a whole block that is not in the pool.
    fn write_new(
        &self,
        mut fill: SlotFill,
        bytes: &[u8],
        is_reserved: bool,
        counters: &Counters,
    ) -> Result<()> {
        let whole = 0..self.block as u32;
        fill.bytes(whole.clone(), |slot| slot.copy_from_slice(bytes));
        let pin = fill.done_dirty(whole.end);
        if is_reserved {
            pin.grant_room();
        }
        self.finish_write(&pin, pin.begin_write(), counters)
    }

    /// Copies the next pieces that lie in this block to the buffer, as far as it has space.
    fn copy_out(&self, pin: &Pin, block: u64, pieces: &mut Pieces, to: &mut [u8], done: &mut usize) {
        self.each_piece(block, pieces, to.len(), done, |part, here| pin.read(part.within, &mut to[here]));
    }

    /// Copies the next pieces that lie in this block from the buffer, as far as it has bytes.
    fn copy_in(
        &self,
        write: &BlockWrite<'_>,
        block: u64,
        pieces: &mut Pieces,
        from: &[u8],
        done: &mut usize,
    ) {
        self.each_piece(block, pieces, from.len(), done, |part, here| write.put(part.within, &from[here]));
    }

    /// Calls `copy` for the next pieces that lie in a block, as far as their bytes are among the first `len` of the buffer.
    fn each_piece(
        &self,
        block: u64,
        pieces: &mut Pieces,
        len: usize,
        done: &mut usize,
        mut copy: impl FnMut(&BlockPart, Range<usize>),
    ) {
        while let Some(next) = pieces.peek()
            && next.at / self.block == block
        {
            let part = self.part(next.at, usize::try_from(next.len).unwrap_or(usize::MAX));
            let here = *done..*done + part.len;
            if here.end > len {
                break;
            }
            copy(&part, here);
            *done += part.len;
            pieces.advance(part.len as u64);
        }
    }

    /// Ends a write to a block. A flush meanwhile may have used up the reserved space.
    fn finish_write(&self, pin: &Pin, write: BlockWrite<'_>, counters: &Counters) -> Result<()> {
        match write.finish() {
            Ok(()) => Ok(()),
            Err(PinError::NoRoom) => self.ensure_space(pin, pin.block() + 1, &mut (0..0), counters),
            // The server is shutting down: the last search for dirty blocks may have been before this write.
            Err(PinError::Retired | PinError::Stale | PinError::Crowded) => Err(Error::Ending),
        }
    }

    /// Reads a block for which the pool has no free slot.
    fn read_uncached(
        &self,
        file: FileId,
        part: &BlockPart,
        out: &mut [u8],
        counters: &Counters,
    ) -> Result<()> {
        let mut block = vec![0; self.block as usize];
        let read = self.store.read(file, part.block, &mut [&mut block]);
        read.inspect_err(|e| counters.store_failed(e))?;
        counters.store_read_bytes.add(self.block);
        let within = part.within as usize;
        out.copy_from_slice(&block[within..within + part.len]);
        Ok(())
    }

    /// Pins the blocks of these bytes; whether that succeeded for all of them.
    pub fn pin_all(
        &self,
        file: FileId,
        at: u64,
        len: u64,
        pieces: &mut Vec<PinnedPiece>,
        counters: &Counters,
    ) -> Result<bool> {
        let mut done = 0;
        while done < len {
            let part = self.part(at + done, usize::try_from(len - done).unwrap_or(usize::MAX));
            match self.pool.get(file, part.block) {
                Lookup::Hit(pin) => {
                    pieces.push(PinnedPiece { pin, range: part.within..part.within + part.len as u32 });
                    done += part.len as u64;
                }
                Lookup::Fill(first) => {
                    let wanted = (at + len - 1) / self.block - part.block + 1;
                    let fills = self.more_fills(file, first, part.block, wanted);
                    self.fill(file, part.block, fills, counters)?;
                }
                Lookup::Busy | Lookup::Full => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Finds or fills the slots of these blocks for a client that has mapped the pool: in order, as many as possible now.
    pub fn acquire(
        &self,
        file: FileId,
        intent: AcquireIntent,
        runs: &[BlockRange],
        ledger: LedgerId,
        counters: &Counters,
    ) -> Result<Vec<BlockSlot>> {
        let mut slots = Vec::new();
        for run in runs {
            let mut block = run.first;
            let end = self.check_blocks(run)?;
            let mut reserved = 0..0;
            while block < end {
                if slots.len() == BATCH {
                    return Ok(slots);
                }
                match self.pool.get(file, block) {
                    Lookup::Hit(pin) => {
                        if intent != AcquireIntent::Read {
                            match self.ensure_space(&pin, end, &mut reserved, counters) {
                                Err(_) if !slots.is_empty() => return Ok(slots),
                                assured => assured?,
                            }
                        }
                        let found = pin.slot_ref();
                        slots.push(BlockSlot {
                            block,
                            slot: found.slot,
                            generation: found.generation,
                            pending: false,
                        });
                        block += 1;
                    }
                    Lookup::Fill(fill) if intent == AcquireIntent::Overwrite => {
                        let lent = match self.ensure_space_for_new(file, block..end, &mut reserved, counters)
                        {
                            Err(_) if !slots.is_empty() => return Ok(slots),
                            is_reserved => fill.lend(ledger, is_reserved?),
                        };
                        slots.push(BlockSlot {
                            block,
                            slot: lent.slot,
                            generation: lent.generation,
                            pending: true,
                        });
                        block += 1;
                    }
                    Lookup::Fill(first) => {
                        let wanted = (end - block).min((BATCH - slots.len()) as u64);
                        let fills = self.more_fills(file, first, block, wanted);
                        self.fill(file, block, fills, counters)?;
                    }
                    // A client that has some slots uses them first; freeing slots could evict them.
                    Lookup::Full if slots.is_empty() && self.free_slots(counters)? => {}
                    Lookup::Busy | Lookup::Full => return Ok(slots),
                }
            }
        }
        Ok(slots)
    }

    /// Adds blocks right after those that a client acquires: for reading, blocks that exist and that follow in storage as well; for
    /// writing, blocks that need not be read. They use at most a small part of the pool, no block is stored to free slots for them,
    /// and errors are ignored, because the client has not requested them.
    pub fn acquire_ahead(
        &self,
        file: FileId,
        intent: AcquireIntent,
        ahead: u16,
        slots: &mut Vec<BlockSlot>,
        counters: &Counters,
    ) {
        let Some(next) = slots.last().map(|slot| slot.block + 1) else { return };
        let (Ok(stored), Ok(end)) = (self.store.end(file), self.end(file)) else { return };
        let (stored, end) = (stored.div_ceil(self.block), end.div_ceil(self.block));
        let free = BATCH.saturating_sub(slots.len()).min(self.pool.geometry().slots as usize / 16) as u64;
        let upto = match intent {
            AcquireIntent::Read => {
                let last = next - 1;
                let Ok(together) = self.store.contiguous_blocks(file, last, u64::from(ahead) + 1) else {
                    return;
                };
                end.min(last + together)
            }
            // Scarce space is not reserved for blocks that may never be written.
            AcquireIntent::Modify | AcquireIntent::Overwrite if next >= stored && self.has_plenty() => {
                i64::MAX as u64 / self.block
            }
            AcquireIntent::Modify | AcquireIntent::Overwrite => next,
        };
        let run = next..upto.min(next + u64::from(ahead).min(free)).max(next);
        for block in run.clone() {
            let pin = match self.pool.get(file, block) {
                Lookup::Hit(pin) => pin,
                Lookup::Fill(first) => {
                    let fills = self.more_fills(file, first, block, run.end - block);
                    match self.fill(file, block, fills, counters).map(|()| self.pool.get(file, block)) {
                        Ok(Lookup::Hit(pin)) => pin,
                        _ => return,
                    }
                }
                Lookup::Busy | Lookup::Full => return,
            };
            let found = pin.slot_ref();
            slots.push(BlockSlot { block, slot: found.slot, generation: found.generation, pending: false });
        }
    }

    /// Publishes the slots of blocks in the pool's directory. No team may have a lease on the file.
    pub fn announce(&self, file: FileId, slots: &[BlockSlot]) {
        for slot in slots {
            let place = SlotRef { slot: slot.slot, generation: slot.generation };
            self.pool.announce(file, slot.block, place);
        }
    }

    /// The end of the local part. The pool is read first: a block that leaves it meanwhile is in the store by then.
    pub fn end(&self, file: FileId) -> Result<u64> {
        let cached = self.pool.end(file);
        Ok(cached.max(self.store.end(file)?))
    }

    /// The part of `len` bytes from `at` on that lies in the first block.
    fn part(&self, at: u64, len: usize) -> BlockPart {
        let within = at % self.block;
        let len = (self.block - within).min(len as u64);
        BlockPart { block: at / self.block, within: within as u32, len: len as usize }
    }

    /// The end of a range of blocks, if such blocks can exist.
    fn check_blocks(&self, run: &BlockRange) -> Result<u64> {
        let end = run.first.checked_add(u64::from(run.count));
        end.filter(|end| *end <= i64::MAX as u64 / self.block).ok_or(Error::BadRequest("blocks"))
    }

    /// Slots to fill for a missing block and for those right after it, as long as they are missing as well.
    pub fn more_fills(&self, file: FileId, first: SlotFill, block: u64, wanted: u64) -> Vec<SlotFill> {
        let mut fills = vec![first];
        for next in block + 1..block.saturating_add(wanted.min(BATCH as u64)) {
            match self.pool.get(file, next) {
                Lookup::Fill(fill) => fills.push(fill),
                Lookup::Hit(_) | Lookup::Busy | Lookup::Full => break,
            }
        }
        fills
    }

    /// Fills slots of consecutive blocks from the store.
    pub fn fill(&self, file: FileId, first: u64, fills: Vec<SlotFill>, counters: &Counters) -> Result<()> {
        let size = self.block as usize;
        let end = self.store.end(file)?;
        let stored = end.saturating_sub(first * self.block);
        let mut scratch = Vec::new();
        // Bytes beyond the stored end are zeros and need not be read.
        let count = fills.len().min(stored.div_ceil(self.block) as usize);
        if count > 0 {
            scratch.resize(count * size, 0);
            let mut blocks: Vec<&mut [u8]> = scratch.chunks_mut(size).collect();
            self.store.read(file, first, &mut blocks).inspect_err(|e| counters.store_failed(e))?;
            counters.filled_blocks.add(count as u64);
            counters.store_read_bytes.add(scratch.len() as u64);
        }
        let mut read = scratch.chunks(size);
        for (block, mut fill) in (first..).zip(fills) {
            if let Some(bytes) = read.next() {
                fill.bytes(0..self.block as u32, |slot| slot.copy_from_slice(bytes));
            }
            fill.done(end.saturating_sub(block * self.block).min(self.block) as u32);
        }
        Ok(())
    }
}
