//! A client's side of a pool.

use crate::SlotRef;
use crate::error::{Error, PinError, Result};
use crate::geometry::{Geometry, LEDGER_WORDS};
use crate::ledger::LedgerId;
use crate::memory::{PoolMemory, WRITING};
use crate::state::{ABANDONED, CLOSED, DIRTY, PENDING, RETIRED, ROOM, SharedWord, VALID, generation_of};
use pario_shm::Segment;
use pario_types::FileId;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{Ordering, compiler_fence};

/// A server's pool in a client's memory. All threads of the process use it. A forked child of the process must not: its
/// pins would be valid only as long as the parent lives.
#[derive(Debug)]
pub struct PoolMapping {
    memory: PoolMemory,
    ledger: u32,
}

impl PoolMapping {
    /// Maps the pool whose descriptor a server passed.
    pub fn open(fd: OwnedFd, ledger: LedgerId) -> Result<PoolMapping> {
        let memory = PoolMemory::open(Segment::from_descriptor(fd).map_err(Error::Map)?)?;
        let mut mapped = PoolMapping { memory, ledger: 0 };
        mapped.rebind(ledger)?;
        Ok(mapped)
    }

    /// Uses another ledger from now on, which the server assigned after a reconnect.
    pub fn rebind(&mut self, LedgerId(ledger): LedgerId) -> Result<()> {
        if ledger >= self.memory.geometry.ledgers {
            return Err(Error::NotAPool("it has no such ledger"));
        }
        self.ledger = ledger;
        Ok(())
    }

    /// The ledger that it uses.
    pub fn ledger(&self) -> LedgerId {
        LedgerId(self.ledger)
    }

    /// The size of the pool.
    #[inline]
    pub fn geometry(&self) -> Geometry {
        self.memory.geometry
    }

    /// A random number of this pool: a server with another one has created another pool.
    pub fn mark(&self) -> u64 {
        self.memory.mark()
    }

    /// Returns the slot of a block from the pool's directory, if it has an entry.
    #[inline]
    pub fn look_up(&self, file: FileId, block: u64) -> Option<SlotRef> {
        self.memory.look_up(file, block)
    }

    /// Pins a block in the slot that the server named, for the time of a copy. The server cannot do anything with the block
    /// meanwhile, so hold it for no longer.
    #[inline]
    pub fn pin(
        &self,
        place: SlotRef,
        file: FileId,
        block: u64,
    ) -> std::result::Result<BlockGuard<'_>, PinError> {
        let hold = self.hold(place.slot)?;
        let state = self.memory.state(place.slot).get();
        let open = state & (VALID | CLOSED | RETIRED) == VALID;
        let is_stale = generation_of(state) != place.generation || !open || !self.is(place.slot, file, block);
        if is_stale && !pario_runtime::is_planted("pin-without-check") {
            return Err(PinError::Stale);
        }
        self.memory.used(place.slot).note(self.memory.now());
        self.memory.ledger_hits(self.ledger).count();
        Ok(BlockGuard { hold, generation: place.generation, room: state & ROOM != 0 })
    }

    /// Takes a block that the server lent to be filled. Do so at once: others wait for it.
    pub fn claim(
        &self,
        place: SlotRef,
        file: FileId,
        block: u64,
    ) -> std::result::Result<PendingFill<'_>, PinError> {
        let hold = self.hold(place.slot)?;
        let state = self.memory.state(place.slot).get();
        let open = state & (PENDING | CLOSED | RETIRED) == PENDING;
        let ours = self.memory.borrower(place.slot).get() == u64::from(self.ledger) + 1;
        if generation_of(state) != place.generation || !open || !ours || !self.is(place.slot, file, block) {
            return Err(PinError::Stale);
        }
        Ok(PendingFill { hold, generation: place.generation, published: false })
    }

    #[inline]
    fn is(&self, slot: u32, file: FileId, block: u64) -> bool {
        self.memory.file(slot).peek() == file.0 && self.memory.block(slot).peek() == block
    }

    /// Stores a slot's number in a free word of the ledger: the first half of a pin.
    #[inline]
    fn hold(&self, slot: u32) -> std::result::Result<Hold<'_>, PinError> {
        if slot >= self.memory.geometry.slots {
            return Err(PinError::Stale);
        }
        let first = first_word();
        for index in 0..LEDGER_WORDS {
            let word = self.memory.pin_word(self.ledger, (first + index) % LEDGER_WORDS);
            if word.replace(0, u64::from(slot) + 1).is_ok() {
                return Ok(Hold { memory: &self.memory, word, slot });
            }
        }
        Err(PinError::Crowded)
    }
}

/// The word at which this thread starts its search for a free one, so that threads rarely collide.
fn first_word() -> u32 {
    #[cfg(not(test))]
    {
        use std::sync::atomic::AtomicU32;
        static NEXT: AtomicU32 = AtomicU32::new(0);
        pario_runtime::thread_local!(static FIRST_WORD: u32 = NEXT.fetch_add(1, Ordering::Relaxed) % LEDGER_WORDS);
        FIRST_WORD.with(|first| *first)
    }
    #[cfg(test)]
    0
}

/// A word of the ledger with a slot's number.
#[derive(Debug)]
struct Hold<'a> {
    memory: &'a PoolMemory,
    word: SharedWord<'a>,
    slot: u32,
}

impl Hold<'_> {
    /// Announces that the slot's bytes are about to change: if this process is killed, the block counts as dirty.
    #[inline]
    fn begin_writing(&self) {
        self.word.release((u64::from(self.slot) + 1) | WRITING);
        compiler_fence(Ordering::SeqCst);
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.word.release(0);
    }
}

/// A pinned block: it stays in its slot until this value is dropped. Others may read and write it at the same time.
#[derive(Debug)]
pub struct BlockGuard<'a> {
    hold: Hold<'a>,
    generation: u32,
    /// Whether the store had space for a write when the block was pinned.
    room: bool,
}

impl BlockGuard<'_> {
    /// A lower bound of the number of its bytes within the local part; the others are zeros.
    #[inline]
    pub fn end(&self) -> u32 {
        self.hold.memory.end(self.hold.slot)
    }

    /// Its slot.
    pub fn place(&self) -> SlotRef {
        SlotRef { slot: self.hold.slot, generation: self.generation }
    }

    /// Copies bytes of the block out. It must have that many.
    #[inline]
    pub fn read(&self, at: u32, to: &mut [u8]) {
        self.hold.memory.read(self.hold.slot, at, to);
    }

    /// Lets `f` read bytes of the block.
    #[inline]
    pub fn read_with<R>(&self, range: Range<u32>, f: impl FnOnce(&[u8]) -> R) -> R {
        self.hold.memory.bytes(self.hold.slot, range.start, range.len(), |bytes| f(bytes))
    }

    /// Copies bytes into the block, which must be large enough. A [refused](Refused) write is not accepted.
    #[inline]
    pub fn write(&self, at: u32, from: &[u8]) -> std::result::Result<(), PinError> {
        self.changing(at..at + from.len() as u32, |memory, slot| memory.write(slot, at, from))
    }

    /// Lets `f` write bytes of the block: the last of the range, and any others. Other bytes stay. A [refused](Refused)
    /// write is not accepted.
    #[inline]
    pub fn write_with<R>(
        &self,
        range: Range<u32>,
        f: impl FnOnce(&mut [u8]) -> R,
    ) -> std::result::Result<R, PinError> {
        self.changing(range.clone(), |memory, slot| memory.bytes(slot, range.start, range.len(), f))
    }

    #[inline]
    fn changing<R>(
        &self,
        range: Range<u32>,
        change: impl FnOnce(&PoolMemory, u32) -> R,
    ) -> std::result::Result<R, PinError> {
        if !self.room {
            return Err(PinError::NoRoom);
        }
        let (memory, slot) = (self.hold.memory, self.hold.slot);
        self.hold.begin_writing();
        if pario_runtime::is_planted("pin-cleared-early") {
            self.hold.word.release(0);
        }
        if !range.is_empty() {
            memory.reach(slot, range.end);
        }
        let result = change(memory, slot);
        if !range.is_empty() {
            memory.written(slot)?;
        }
        Ok(result)
    }
}

/// A block that this client fills, and that is not visible to other processes yet. Fill and
/// [`publish`](PendingFill::publish) it; if it is dropped before that, it is returned to the server.
#[derive(Debug)]
pub struct PendingFill<'a> {
    hold: Hold<'a>,
    generation: u32,
    published: bool,
}

impl PendingFill<'_> {
    /// Copies bytes into the block, which must be large enough.
    #[inline]
    pub fn write(&mut self, at: u32, from: &[u8]) {
        self.hold.memory.write(self.hold.slot, at, from);
    }

    /// Lets `f` fill bytes of the block. Their content before is undefined.
    #[inline]
    pub fn write_with<R>(&mut self, range: Range<u32>, f: impl FnOnce(&mut [u8]) -> R) -> R {
        self.hold.memory.bytes(self.hold.slot, range.start, range.len(), f)
    }

    /// The block's bytes up to `end` are filled, and the rest becomes zeros. Every client may use it now, and it is dirty.
    /// If this is refused, nothing is changed.
    pub fn publish(mut self, end: u32) -> std::result::Result<(), PinError> {
        let (memory, slot) = (self.hold.memory, self.hold.slot);
        memory.zero_tail(slot, end);
        memory.set_end(slot, end);
        let now = memory.now();
        memory.used(slot).note(now);
        memory.modified(slot).note(now);
        self.published = true;
        let flags = if pario_runtime::is_planted("fill-not-dirty") { VALID } else { VALID | DIRTY };
        let before = self.finish(flags).ok_or(PinError::Stale)?;
        memory.count_dirty();
        if before & ROOM != 0 { Ok(()) } else { Err(PinError::NoRoom) }
    }

    /// Ends the loan, unless the server has; all other flags of the slot stay. Returns the state before, if there was a
    /// loan.
    fn finish(&self, flags: u64) -> Option<u64> {
        let state = self.hold.memory.state(self.hold.slot);
        let mut seen = state.get();
        while generation_of(seen) == self.generation && seen & (PENDING | RETIRED) == PENDING {
            match state.replace(seen, seen & !PENDING | flags) {
                Ok(_) => return Some(seen),
                Err(now) => seen = now,
            }
        }
        None
    }
}

impl Drop for PendingFill<'_> {
    fn drop(&mut self) {
        if !self.published {
            self.finish(ABANDONED);
        }
    }
}
