//! The server's own tier: a pool of blocks in shared memory over a store.
//!
//! Sessions and the pool's local clients meet here. Nothing waits: where a block is in somebody else's hands, or
//! all slots are pinned, the caller is told how far it got and comes again.

use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pario_cache::{LedgerId, Lookup, Pin, PinError, Pool, SlotFill, SlotRef};
use pario_store::Store;
use pario_types::FileId;
use pario_wire::message::{AcquireIntent, BlockRange, BlockSlot};

use crate::error::{Error, Result};
use crate::pieces::Pieces;
use crate::prefetch::Prefetches;
use crate::room::Room;
use crate::status::Counters;

/// Most blocks that one acquire answers, and that one access of the store moves.
pub(crate) const BATCH: usize = 64;

/// With nothing to do threads sleep until somebody wakes them; this is only for the case that nobody does.
pub(crate) const IDLE: Duration = Duration::from_secs(3600);

pub(crate) struct Tier {
    pub pool: Pool,
    pub store: Box<dyn Store>,
    pub prefetches: Prefetches,
    /// Held while a truncation starts or is fenced.
    pub(crate) truncating: Mutex<()>,
    pub room: Room,
    block: u64,
}

/// Bytes of a block that stays where it is.
pub(crate) struct Piece {
    pub pin: Pin,
    pub range: Range<u32>,
}

/// A payload, and which way it goes.
pub(crate) enum Bytes<'a> {
    /// To be filled from the local part.
    Out(&'a mut [u8]),
    /// To be written to it.
    In(&'a [u8]),
}

/// How far a transfer got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    All,
    /// Up to a block that cannot be had now.
    Some,
    /// As many whole pieces of blocks as there are bytes for.
    Available,
}

/// A block and which of its bytes.
#[derive(Clone, Copy)]
struct Part {
    block: u64,
    within: u32,
    len: usize,
}

impl Bytes<'_> {
    fn len(&self) -> usize {
        match self {
            Bytes::Out(to) => to.len(),
            Bytes::In(from) => from.len(),
        }
    }
}

impl Tier {
    /// The store is in this directory.
    pub fn new(pool: Pool, store: Box<dyn Store>, directory: &Path) -> Tier {
        let block = u64::from(pool.geometry().block);
        let room = Room::new(directory.to_owned());
        Tier { pool, store, prefetches: Prefetches::default(), truncating: Mutex::default(), room, block }
    }

    /// Keeps memory ready for blocks that come.
    pub fn run_pages(&self, stop: &AtomicBool) {
        let mut pages = self.pool.page_preparer();
        while !stop.load(Ordering::Acquire) {
            pages.step(IDLE);
        }
    }

    /// Moves a payload's bytes to or from their places in a local part, as far as possible now; beyond the local end
    /// zeros are read. Pieces of a block that follow each other cost one look for the block.
    pub fn transfer(
        &self,
        file: FileId,
        pieces: &mut Pieces,
        mut bytes: Bytes<'_>,
        done: &mut usize,
        counters: &Counters,
    ) -> Result<Moved> {
        let mut reserved = 0..0;
        while let Some(next) = pieces.peek() {
            let part = self.part(next.at, usize::try_from(next.len).unwrap_or(usize::MAX));
            let here = *done..*done + part.len;
            if here.end > bytes.len() {
                return Ok(Moved::Available);
            }
            match (self.pool.get(file, part.block), &mut bytes) {
                (Lookup::Hit(pin), Bytes::Out(to)) => self.copy_out(&pin, part.block, pieces, to, done),
                (Lookup::Hit(pin), Bytes::In(from)) => {
                    let upto = pieces.upto().div_ceil(self.block);
                    self.assure(&pin, upto, &mut reserved, counters)?;
                    let written = self.copy_in(&pin, part.block, pieces, from, done);
                    self.mark_written(&pin, written, counters)?;
                }
                (Lookup::Fill(mut fill), Bytes::In(from)) if part.len as u64 == self.block => {
                    let blocks = part.block..pieces.upto().div_ceil(self.block);
                    let is_reserved = self.assure_new(file, blocks, &mut reserved, counters)?;
                    let whole = 0..self.block as u32;
                    fill.bytes(whole.clone(), |slot| slot.copy_from_slice(&from[here]));
                    let pin = fill.done(whole.end);
                    if is_reserved {
                        pin.grant_room();
                    }
                    self.mark_written(&pin, whole.end, counters)?;
                    *done += part.len;
                    pieces.advance(part.len as u64);
                }
                (Lookup::Fill(fill), Bytes::In(_)) => self.fill(file, part.block, vec![fill], counters)?,
                (Lookup::Fill(first), Bytes::Out(_)) => {
                    let wanted = (pieces.upto() - 1) / self.block - part.block + 1;
                    let fills = self.more_fills(file, first, part.block, wanted);
                    self.fill(file, part.block, fills, counters)?;
                }
                (Lookup::Full, bytes) => match (self.make_room(counters), bytes) {
                    (Ok(true), _) => {}
                    (Ok(false), _) => return Ok(Moved::Some),
                    // Nothing can be stored to make room; what is stored can still be read.
                    (Err(_), Bytes::Out(to)) => {
                        self.read_past(file, &part, &mut to[here], counters)?;
                        *done += part.len;
                        pieces.advance(part.len as u64);
                    }
                    (Err(e), Bytes::In(_)) => return Err(e),
                },
                (Lookup::Busy, _) => return Ok(Moved::Some),
            }
        }
        Ok(Moved::All)
    }

    /// Copies all pieces that follow in this block out of it, as far as there is room.
    fn copy_out(&self, pin: &Pin, block: u64, pieces: &mut Pieces, to: &mut [u8], done: &mut usize) {
        self.each_piece(block, pieces, to.len(), done, |part, here| pin.read(part.within, &mut to[here]));
    }

    /// Copies all pieces that follow in this block into it, as far as there are bytes; how far that reaches.
    fn copy_in(&self, pin: &Pin, block: u64, pieces: &mut Pieces, from: &[u8], done: &mut usize) -> u32 {
        let mut written = 0;
        self.each_piece(block, pieces, from.len(), done, |part, here| {
            pin.put(part.within, &from[here]);
            written = written.max(part.within + part.len as u32);
        });
        written
    }

    /// Passes over the pieces that follow in a block, as far as their bytes are among the first `len` of the payload.
    fn each_piece(
        &self,
        block: u64,
        pieces: &mut Pieces,
        len: usize,
        done: &mut usize,
        mut copy: impl FnMut(&Part, Range<usize>),
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

    /// Bytes up to this one were written to a block. A flush meanwhile may have used up the room for it.
    fn mark_written(&self, pin: &Pin, end: u32, counters: &Counters) -> Result<()> {
        match pin.mark_written(0..end) {
            Ok(()) => Ok(()),
            Err(PinError::NoRoom) => self.assure(pin, pin.block() + 1, &mut (0..0), counters),
            // The pool is being given up: the last look for dirty blocks may have been before this write.
            Err(PinError::Retired | PinError::Stale | PinError::Crowded) => Err(Error::Ending),
        }
    }

    /// Reads a block that is not in the pool, and for which there is no room.
    fn read_past(&self, file: FileId, part: &Part, out: &mut [u8], counters: &Counters) -> Result<()> {
        let mut block = vec![0; self.block as usize];
        let read = self.store.read(file, part.block, &mut [&mut block]);
        read.inspect_err(|e| counters.store_failed(e))?;
        counters.store_read_bytes.add(self.block);
        let within = part.within as usize;
        out.copy_from_slice(&block[within..within + part.len]);
        Ok(())
    }

    /// Pins the blocks of these bytes; whether that worked for all of them.
    pub fn pin_all(
        &self,
        file: FileId,
        at: u64,
        len: u64,
        pieces: &mut Vec<Piece>,
        counters: &Counters,
    ) -> Result<bool> {
        let mut done = 0;
        while done < len {
            let part = self.part(at + done, usize::try_from(len - done).unwrap_or(usize::MAX));
            match self.pool.get(file, part.block) {
                Lookup::Hit(pin) => {
                    pieces.push(Piece { pin, range: part.within..part.within + part.len as u32 });
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

    /// Slots that hold these blocks, for a client of the pool: in order, as many as can be had now.
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
            let end = self.check_run(run)?;
            let mut reserved = 0..0;
            while block < end {
                if slots.len() == BATCH {
                    return Ok(slots);
                }
                match self.pool.get(file, block) {
                    Lookup::Hit(pin) => {
                        if intent != AcquireIntent::Read {
                            match self.assure(&pin, end, &mut reserved, counters) {
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
                        let lent = match self.assure_new(file, block..end, &mut reserved, counters) {
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
                    // Who has some goes on with those; making room could take them away again.
                    Lookup::Full if slots.is_empty() && self.make_room(counters)? => {}
                    Lookup::Busy | Lookup::Full => return Ok(slots),
                }
            }
        }
        Ok(slots)
    }

    /// Adds blocks right after those of a client that goes through a file from its beginning on: for reading those that
    /// there are and that follow in storage as well, for writing those that need not be read; no more than a small part of
    /// the pool. Nothing is stored to
    /// make room for them, and what goes wrong is not told: nobody has asked.
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
        let room = BATCH.saturating_sub(slots.len()).min(self.pool.geometry().slots as usize / 16) as u64;
        let upto = match intent {
            AcquireIntent::Read => {
                let last = next - 1;
                let Ok(together) = self.store.contiguous_blocks(file, last, u64::from(ahead) + 1) else {
                    return;
                };
                end.min(last + together)
            }
            // Room that is scarce is not set aside for what may never be written.
            AcquireIntent::Modify | AcquireIntent::Overwrite if next >= stored && self.has_plenty() => {
                i64::MAX as u64 / self.block
            }
            AcquireIntent::Modify | AcquireIntent::Overwrite => next,
        };
        let run = next..upto.min(next + u64::from(ahead).min(room)).max(next);
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

    /// Tells everybody where blocks are: nobody has leased any of the file.
    pub fn announce(&self, file: FileId, slots: &[BlockSlot]) {
        for slot in slots {
            let place = SlotRef { slot: slot.slot, generation: slot.generation };
            self.pool.announce(file, slot.block, place);
        }
    }

    /// How far the local part reaches. The pool first: a block that leaves it meanwhile is in the store by then.
    pub fn end(&self, file: FileId) -> Result<u64> {
        let cached = self.pool.end(file);
        Ok(cached.max(self.store.end(file)?))
    }

    /// The block that byte `at` is in, and how many of `len` bytes are.
    fn part(&self, at: u64, len: usize) -> Part {
        let within = at % self.block;
        let len = (self.block - within).min(len as u64);
        Part { block: at / self.block, within: within as u32, len: len as usize }
    }

    /// Where a run of blocks ends, if there can be such blocks.
    fn check_run(&self, run: &BlockRange) -> Result<u64> {
        let end = run.first.checked_add(u64::from(run.count));
        end.filter(|end| *end <= i64::MAX as u64 / self.block).ok_or(Error::BadRequest("blocks"))
    }

    /// Slots to fill for blocks right behind one that is missing, as long as those are missing, too.
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
        // What lies beyond the stored end is zeros; no need to read it.
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
