//! The segment with names for its parts: the operations that the server and its clients share.

use crate::SlotRef;
use crate::directory::hash;
use crate::error::{Error, PinError, Result};
use crate::geometry::{
    AT_ASLEEP, AT_BLOCK, AT_CLOCK, AT_DIRTY, AT_EVENT, AT_HIGH, AT_LEDGERS, AT_MAGIC, AT_MARK, AT_SLOTS,
    AT_SUM, AT_TRUNCATIONS, AT_VERSION, Geometry, HEAD, HEADER, LEDGER_WORDS, MAGIC, TRUNCATION_BYTES,
    TRUNCATIONS, VERSION,
};
use crate::state::{DIRTY, RETIRED, ROOM, SharedWord};
use pario_shm::{FAULT_AROUND, Segment};
use pario_types::FileId;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

fn mix(sum: u64, value: u64) -> u64 {
    (sum ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

#[derive(Debug)]
pub(crate) struct PoolMemory {
    pub segment: Segment,
    /// The geometry at the time when the segment was created or opened: the header's numbers are not read again.
    pub geometry: Geometry,
    /// The regions that this process has mapped, a bit each.
    arrived: Box<[AtomicU64]>,
}

/// A pin's word: the slot's number plus 1, and whether its holder has begun to write.
pub(crate) const WRITING: u64 = 1 << 63;

impl PoolMemory {
    pub fn new(segment: Segment, geometry: Geometry) -> PoolMemory {
        let words = segment.len().div_ceil(FAULT_AROUND * 64);
        let arrived = std::iter::repeat_with(AtomicU64::default).take(words).collect();
        PoolMemory { segment, geometry, arrived }
    }

    /// A segment that is a pool already.
    pub fn open(segment: Segment) -> Result<PoolMemory> {
        let (geometry, len) = PoolMemory::read_header(&segment)?;
        match len == segment.len() {
            true => Ok(PoolMemory::new(segment, geometry)),
            false => Err(Error::NotAPool("its length is not what its header says")),
        }
    }

    /// The geometry of a pool from the start of its segment, and its expected length.
    pub fn read_header(segment: &Segment) -> Result<(Geometry, usize)> {
        if segment.len() < HEADER {
            return Err(Error::NotAPool("it is too short"));
        }
        let word = |at| segment.word(at).load(Ordering::Acquire);
        if word(AT_MAGIC) != MAGIC {
            return Err(Error::NotAPool("it does not begin like one"));
        }
        if word(AT_VERSION) != VERSION {
            return Err(Error::NotAPool("it has another version"));
        }
        if word(AT_SUM) != PoolMemory::sum(segment) {
            return Err(Error::NotAPool("somebody has changed its header"));
        }
        let number = |at| u32::try_from(word(at)).unwrap_or(0);
        let geometry =
            Geometry { block: number(AT_BLOCK), slots: number(AT_SLOTS), ledgers: number(AT_LEDGERS) };
        match geometry.check() {
            Ok(len) => Ok((geometry, len)),
            Err(_) => Err(Error::NotAPool("its header says impossible sizes")),
        }
    }

    /// A number of two words of the header.
    pub fn wide(&self, at: usize) -> u128 {
        u128::from(self.header(at).peek()) | u128::from(self.header(at + 8).peek()) << 64
    }

    #[inline]
    pub fn header(&self, at: usize) -> SharedWord<'_> {
        SharedWord(self.segment.word(at))
    }

    /// The random number of this pool.
    pub fn mark(&self) -> u64 {
        self.header(AT_MARK).peek()
    }

    #[inline]
    pub fn state(&self, slot: u32) -> SharedWord<'_> {
        self.slot_word(slot, 0)
    }

    #[inline]
    pub fn file(&self, slot: u32) -> SharedWord<'_> {
        self.slot_word(slot, 8)
    }

    #[inline]
    pub fn block(&self, slot: u32) -> SharedWord<'_> {
        self.slot_word(slot, 16)
    }

    fn end_word(&self, slot: u32) -> SharedWord<'_> {
        self.slot_word(slot, 24)
    }

    #[inline]
    pub fn used(&self, slot: u32) -> SharedWord<'_> {
        self.slot_word(slot, 32)
    }

    #[inline]
    pub fn modified(&self, slot: u32) -> SharedWord<'_> {
        self.slot_word(slot, 40)
    }

    /// The ledger plus 1 of the client that is to fill the slot.
    #[inline]
    pub fn borrower(&self, slot: u32) -> SharedWord<'_> {
        self.slot_word(slot, 48)
    }

    /// Labels the slot with its block.
    pub fn label(&self, slot: u32, file: u64, block: u64) {
        self.file(slot).note(file);
        self.block(slot).note(block);
        self.slot_word(slot, 56).note(PoolMemory::seal(&[u64::from(slot), file, block]));
    }

    /// Returns the block of the slot, unless the label is damaged.
    pub fn read_label(&self, slot: u32) -> Option<(u64, u64)> {
        let (file, block) = (self.file(slot).peek(), self.block(slot).peek());
        (self.slot_word(slot, 56).peek() == PoolMemory::seal(&[u64::from(slot), file, block]))
            .then_some((file, block))
    }

    /// A checksum that random bytes hardly match.
    pub fn seal(words: &[u64]) -> u64 {
        words.iter().copied().fold(1, mix)
    }

    /// The same for the constant words of the header.
    pub fn sum(segment: &Segment) -> u64 {
        let words = (AT_VERSION..=AT_MARK).step_by(8).map(|at| segment.word(at).load(Ordering::Acquire));
        words.fold(1, mix)
    }

    fn slot_word(&self, slot: u32, at: usize) -> SharedWord<'_> {
        SharedWord(self.segment.word(self.geometry.slot_at(slot) + at))
    }

    /// A word of the record of a truncation.
    pub fn truncation_word(&self, index: u32, word: u32) -> SharedWord<'_> {
        assert!(
            index < TRUNCATIONS && (word as usize) < TRUNCATION_BYTES / 8,
            "word {word} of record {index}"
        );
        self.header(AT_TRUNCATIONS + index as usize * TRUNCATION_BYTES + word as usize * 8)
    }

    #[inline]
    pub fn ledger_pid(&self, ledger: u32) -> SharedWord<'_> {
        SharedWord(self.segment.word(self.geometry.ledger_at(ledger)))
    }

    #[inline]
    pub fn ledger_start(&self, ledger: u32) -> SharedWord<'_> {
        SharedWord(self.segment.word(self.geometry.ledger_at(ledger) + 8))
    }

    #[inline]
    pub fn ledger_hits(&self, ledger: u32) -> SharedWord<'_> {
        SharedWord(self.segment.word(self.geometry.ledger_at(ledger) + 16))
    }

    #[inline]
    pub fn pin_word(&self, ledger: u32, index: u32) -> SharedWord<'_> {
        assert!(index < LEDGER_WORDS, "pin {index} of {LEDGER_WORDS}");
        SharedWord(self.segment.word(self.geometry.ledger_at(ledger) + HEAD + index as usize * 8))
    }

    /// The slot that a pin's word names, if it names one.
    pub fn pinned_slot(&self, word: u64) -> Option<u32> {
        let slot = (word & !WRITING).checked_sub(1)?;
        u32::try_from(slot).ok().filter(|&slot| slot < self.geometry.slots)
    }

    /// A lower bound of the number of bytes of the slot's block within the local part.
    #[inline]
    pub fn end(&self, slot: u32) -> u32 {
        self.end_word(slot).get().min(u64::from(self.geometry.block)) as u32
    }

    /// The end as it is, for checks.
    pub fn end_peeked(&self, slot: u32) -> u64 {
        self.end_word(slot).peek()
    }

    /// The first byte of the slot's block beyond its end that is not zero, for checks.
    pub fn nonzero_beyond_end(&self, slot: u32) -> Option<usize> {
        let end = self.end_peeked(slot).min(self.geometry.block.into()) as usize;
        let len = self.geometry.block as usize - end;
        let place = self.place(slot, end as u32, len);
        let nonzero = |bytes: &mut [u8]| bytes.iter().position(|byte| *byte != 0);
        self.segment.bytes(place, len, nonzero).map(|at| end + at)
    }

    #[inline]
    pub fn set_end(&self, slot: u32, end: u32) {
        self.end_word(slot).put(u64::from(end));
    }

    /// The location of bytes of a slot's block in the segment.
    #[inline]
    pub fn place(&self, slot: u32, at: u32, len: usize) -> usize {
        let block = self.geometry.block;
        assert!(at <= block && len <= (block - at) as usize, "{len} bytes at {at} of a block of {block}");
        self.geometry.block_at(slot) + at as usize
    }

    #[inline]
    pub fn read(&self, slot: u32, at: u32, to: &mut [u8]) {
        self.segment.read_into(self.place(slot, at, to.len()), to);
    }

    #[inline]
    pub fn write(&self, slot: u32, at: u32, from: &[u8]) {
        let place = self.place(slot, at, from.len());
        self.arrive(place, from.len());
        self.segment.write_from(place, from);
    }

    #[inline]
    pub fn bytes<R>(&self, slot: u32, at: u32, len: usize, f: impl FnOnce(&mut [u8]) -> R) -> R {
        let place = self.place(slot, at, len);
        self.arrive(place, len);
        self.segment.bytes(place, len, f)
    }

    /// Maps memory that is about to be written, if this process has not accessed it yet.
    #[inline]
    fn arrive(&self, place: usize, len: usize) {
        let last = (place + len).saturating_sub(1) / FAULT_AROUND;
        for each in place / FAULT_AROUND..=last {
            let (word, bit) = (&self.arrived[each / 64], 1 << (each % 64));
            if word.load(Ordering::Relaxed) & bit == 0 {
                self.segment.arrive(each);
                word.fetch_or(bit, Ordering::Relaxed);
            }
        }
    }

    /// Allocates the memory of slots before it is needed.
    pub fn prepare(&self, slots: Range<u32>) {
        if let Some(last) = slots.clone().last() {
            let (from, end) = (self.geometry.block_at(slots.start), self.geometry.block_at(last));
            self.segment.prepare(from, end + self.geometry.block as usize - from);
        }
    }

    /// Overwrites the bytes beyond `end` with zeros.
    pub fn zero_tail(&self, slot: u32, end: u32) {
        let len = (self.geometry.block - end) as usize;
        self.segment.zero(self.place(slot, end, len), len);
    }

    /// Returns the directory's entry of a block. It may be out of date, or another block may have its word.
    #[inline]
    pub fn look_up(&self, file: FileId, block: u64) -> Option<SlotRef> {
        SlotRef::from_hint(self.directory_word(file, block).peek())
    }

    /// Enters a block in the directory.
    pub fn announce(&self, file: FileId, block: u64, place: SlotRef) {
        self.directory_word(file, block).note(place.hint());
    }

    #[inline]
    fn directory_word(&self, file: FileId, block: u64) -> SharedWord<'_> {
        let index = hash(file, block) as usize & (self.geometry.directory() - 1);
        SharedWord(self.segment.word(self.geometry.directory_at(index)))
    }

    #[inline]
    pub fn now(&self) -> u64 {
        self.header(AT_CLOCK).peek()
    }

    /// Called before a write that reaches `end`: the caller has the slot pinned. If the caller is killed in the middle of its copy, what it has
    /// copied lies before the end of the block, so it is stored with the block, and does not vanish after others have seen it.
    #[inline]
    pub fn reach(&self, slot: u32, end: u32) {
        if pario_runtime::is_planted("end-shrinks") {
            self.set_end(slot, end);
        }
        self.end_word(slot).raise(u64::from(end));
    }

    /// Called after a write that [reached](PoolMemory::reach) its end: the caller has the slot pinned, and its bytes are in place. The server sets
    /// [`RETIRED`] in the same word before its last search for dirty slots, so it either sees this write or refuses it; and
    /// a flush that uses up the space for the block clears [`ROOM`] in the step in which it makes the block clean.
    #[inline]
    pub fn written(&self, slot: u32) -> std::result::Result<(), PinError> {
        let now = self.now();
        self.used(slot).note(now);
        self.modified(slot).note(now);
        match self.make_dirty(slot) & (RETIRED | ROOM) {
            ROOM => Ok(()),
            0 => Err(PinError::NoRoom),
            _ if pario_runtime::is_planted("retired-write-accepted") => Ok(()),
            _ => Err(PinError::Retired),
        }
    }

    /// Returns the state before.
    #[inline]
    pub fn make_dirty(&self, slot: u32) -> u64 {
        let before = self.state(slot).set(DIRTY);
        if before & DIRTY == 0 {
            self.count_dirty();
        }
        before
    }

    /// One more slot is dirty.
    #[inline]
    pub fn count_dirty(&self) {
        let before = self.header(AT_DIRTY).add(1).cast_signed();
        let first = before <= 0;
        if first || before.saturating_add(1) >= self.header(AT_HIGH).peek().cast_signed() {
            self.ring(first);
        }
    }

    /// One slot less is dirty.
    pub fn count_clean(&self) {
        self.header(AT_DIRTY).add(u64::MAX);
    }

    /// The number of dirty slots. A killed process may have left the count wrong until the next flush.
    #[inline]
    pub fn dirty(&self) -> u32 {
        let count = self.header(AT_DIRTY).get().cast_signed();
        count.clamp(0, i64::from(self.geometry.slots)) as u32
    }

    pub fn event(&self) -> &AtomicU32 {
        self.segment.word32(AT_EVENT)
    }

    /// Notifies the flusher; one that does not sleep is notified only if it `must` know. The event comes first: a flusher
    /// that has just missed it is seen asleep.
    pub fn ring(&self, must: bool) {
        if must {
            self.event().fetch_add(1, Ordering::SeqCst);
        }
        let asleep = self.header(AT_ASLEEP);
        if asleep.get() != 0 && asleep.swap(0) != 0 {
            self.event().fetch_add(1, Ordering::SeqCst);
            pario_shm::futex_wake_all(self.event());
        }
    }
}
