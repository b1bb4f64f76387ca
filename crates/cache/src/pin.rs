//! Pins and fills of the server's threads: blocks that stay, and slots that are being filled.

use crate::SlotRef;
use crate::error::PinError;
use crate::ledger::LedgerId;
use crate::pool::PoolInner;
use crate::state::{DIRTY, ROOM};
use crate::table::{SlotPhase, SlotTable};
use pario_types::FileId;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The part of the number of pins of a slot that counts the threads of the server that write to it.
pub(crate) const WRITER: u32 = 1 << 16;

/// A block in the pool that stays there as long as this value exists. Clients and other threads may write it meanwhile.
#[derive(Debug)]
pub struct Pin {
    inner: Arc<PoolInner>,
    slot: u32,
    generation: u32,
    file: FileId,
    block: u64,
}

impl Pin {
    pub(crate) fn new(inner: &Arc<PoolInner>, table: &SlotTable, slot: u32) -> Pin {
        inner.pins[slot as usize].fetch_add(1, Ordering::AcqRel);
        let entry = table.entry(slot);
        Pin {
            inner: Arc::clone(inner),
            slot,
            generation: entry.generation,
            file: entry.file,
            block: entry.block,
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

    /// A lower bound of the number of its bytes within the local part; the others are zeros.
    pub fn end(&self) -> u32 {
        self.inner.memory.end(self.slot)
    }

    /// The reference by which clients that have mapped the pool find it.
    pub fn slot_ref(&self) -> SlotRef {
        SlotRef { slot: self.slot, generation: self.generation }
    }

    /// Copies bytes of the block out. It must have that many.
    pub fn read(&self, at: u32, to: &mut [u8]) {
        self.inner.memory.read(self.slot, at, to);
        self.inner.memory.segment.check_not_truncated();
    }

    /// Copies bytes into the block. It must be large enough. See [`BlockWrite::finish`].
    pub fn write(&self, at: u32, from: &[u8]) -> Result<(), PinError> {
        let write = self.begin_write();
        write.put(at, from);
        write.finish()
    }

    /// Begins a write to the block.
    pub fn begin_write(&self) -> BlockWrite<'_> {
        self.inner.pins[self.slot as usize].fetch_add(WRITER, Ordering::AcqRel);
        BlockWrite { pin: self }
    }

    /// Whether the store has space for the block's next version. If not, reserve it, and [grant it](Pin::grant_room).
    pub fn has_room(&self) -> bool {
        self.inner.memory.state(self.slot).get() & ROOM != 0 || self.inner.table().grant(self.slot, false)
    }

    /// Space is reserved for the block's next version.
    pub fn grant_room(&self) {
        self.inner.table().grant(self.slot, true);
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.inner.pins[self.slot as usize].fetch_sub(1, Ordering::AcqRel);
    }
}

/// A write of a thread of the server to a block, which may consist of many pieces.
///
/// The block is dirty, and reaches as far as the pieces, before they are copied, and a flush meanwhile leaves it dirty. So a successor of a
/// server that is killed in the middle stores what was copied, and readers do not see bytes that vanish later.
#[derive(Debug)]
pub struct BlockWrite<'a> {
    pin: &'a Pin,
}

impl BlockWrite<'_> {
    /// Copies bytes into the block. It must be large enough.
    pub fn put(&self, at: u32, from: &[u8]) {
        let (memory, slot) = (&self.pin.inner.memory, self.pin.slot);
        let end = at + from.len() as u32;
        assert!(end <= memory.geometry.block, "{at}..{end} of a block");
        if !from.is_empty() && !pario_runtime::is_planted("server-copies-first") {
            memory.reach(slot, end);
            if memory.state(slot).get() & DIRTY == 0 {
                memory.make_dirty(slot);
            }
        }
        memory.write(slot, at, from);
        if !from.is_empty() && pario_runtime::is_planted("server-copies-first") {
            memory.reach(slot, end);
        }
    }

    /// Everything is copied. If this is refused, the pool is being [given up](crate::Pool::retire), and the write is not accepted; or the
    /// store may have no space for it, and the write is accepted once there is some ([`grant_room`](Pin::grant_room)).
    pub fn finish(self) -> Result<(), PinError> {
        self.pin.inner.memory.written(self.pin.slot)
    }
}

impl Drop for BlockWrite<'_> {
    fn drop(&mut self) {
        self.pin.inner.pins[self.pin.slot as usize].fetch_sub(WRITER, Ordering::AcqRel);
    }
}

/// A slot for a block that is not in the pool: fill it and call [`done`](SlotFill::done), or [`lend`](SlotFill::lend) it to
/// a client that fills it. It is not visible to others until then. If this value is dropped before, the slot is free again.
#[derive(Debug)]
pub struct SlotFill {
    inner: Arc<PoolInner>,
    slot: u32,
    generation: u32,
    file: FileId,
    block: u64,
    /// It is all zeros, and was never filled.
    blank: bool,
}

impl SlotFill {
    pub(crate) fn new(inner: &Arc<PoolInner>, table: &SlotTable, slot: u32, blank: bool) -> SlotFill {
        let entry = table.entry(slot);
        SlotFill {
            inner: Arc::clone(inner),
            slot,
            generation: entry.generation,
            file: entry.file,
            block: entry.block,
            blank,
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

    /// Lets `f` fill bytes of the block. Their content before is undefined.
    pub fn bytes<R>(&mut self, range: Range<u32>, f: impl FnOnce(&mut [u8]) -> R) -> R {
        self.blank = false;
        self.inner.memory.bytes(self.slot, range.start, range.len(), f)
    }

    /// The block is filled from the store, as far as it is within the local part; the rest becomes zeros.
    pub fn done(self, end: u32) -> Pin {
        self.publish(end, 0)
    }

    /// The block is filled with new bytes, and dirty; the rest becomes zeros. The write has to be [finished](BlockWrite::finish) at the pin.
    pub fn done_dirty(self, end: u32) -> Pin {
        let pin = self.publish(end, DIRTY);
        pin.inner.memory.count_dirty();
        pin
    }

    fn publish(self, end: u32, flags: u64) -> Pin {
        if !self.blank {
            self.inner.memory.zero_tail(self.slot, end);
        }
        let mut table = self.inner.table();
        table.publish(self.slot, end, flags);
        Pin::new(&self.inner, &table, self.slot)
    }

    /// A client is to fill all of it. Others find the block busy until it has, or until it is gone. `reserved`: space is
    /// reserved for it.
    pub fn lend(self, ledger: LedgerId, reserved: bool) -> SlotRef {
        self.inner.table().lend(self.slot, ledger.0, reserved);
        SlotRef { slot: self.slot, generation: self.generation }
    }
}

impl Drop for SlotFill {
    fn drop(&mut self) {
        let mut table = self.inner.table();
        let entry = table.entry(self.slot);
        if entry.generation == self.generation && entry.phase == SlotPhase::Filling {
            table.free(self.slot);
        }
    }
}
