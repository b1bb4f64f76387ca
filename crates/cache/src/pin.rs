//! Pins and fills of the server's threads: blocks that stay, and slots that are being filled.

use crate::SlotRef;
use crate::error::PinError;
use crate::ledger::LedgerId;
use crate::pool::PoolInner;
use crate::state::ROOM;
use crate::table::{SlotPhase, SlotTable};
use pario_types::FileId;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

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

    /// Copies bytes into the block, and [marks](Pin::mark_written) them. It must be large enough.
    pub fn write(&self, at: u32, from: &[u8]) -> Result<(), PinError> {
        self.put(at, from);
        self.mark_written(at..at + from.len() as u32)
    }

    /// Copies bytes into the block, which have to be [marked](Pin::mark_written) before the pin is dropped: once for many.
    pub fn put(&self, at: u32, from: &[u8]) {
        self.inner.memory.write(self.slot, at, from);
    }

    /// Lets `f` use bytes of the block, for instance to read them from a socket. Written bytes have to be
    /// [marked](Pin::mark_written) before the pin is dropped.
    pub fn bytes<R>(&self, range: Range<u32>, f: impl FnOnce(&mut [u8]) -> R) -> R {
        self.inner.memory.bytes(self.slot, range.start, range.len(), f)
    }

    /// These bytes were written: the block is dirty and reaches at least so far. If this is refused, the pool is being
    /// [given up](crate::Pool::retire), and the write is not accepted; or the store may have no space for it, and the write
    /// is accepted once there is some ([`grant_room`](Pin::grant_room)).
    pub fn mark_written(&self, range: Range<u32>) -> Result<(), PinError> {
        assert!(range.end <= self.inner.memory.geometry.block, "{range:?} of a block");
        if range.is_empty() {
            return Ok(());
        }
        self.inner.memory.reach(self.slot, range.end);
        self.inner.memory.written(self.slot)
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

    /// The block is filled as far as it is within the local part; the rest becomes zeros. It counts as stored: bytes of a
    /// client have to be [marked](Pin::mark_written) at the pin.
    pub fn done(self, end: u32) -> Pin {
        if !self.blank {
            self.inner.memory.zero_tail(self.slot, end);
        }
        let mut table = self.inner.table();
        table.publish(self.slot, end);
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
