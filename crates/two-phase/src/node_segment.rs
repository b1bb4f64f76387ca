//! The shared memory of the ranks of a node: words for allgathers, and windows.
//!
//! Layout of the segment, in bytes:
//!
//! | offset | content |
//! |---|---|
//! | 0 | event: 32-bit number that changes whenever a rank may continue |
//! | 8 | number of ranks that sleep on the event |
//! | 16 | broken: not 0 once a rank has left a collective call before its end |
//! | 24 | a word for the layer above (the shared file pointer) |
//! | 32 | number of full windows that wait to be written, if one rank writes at a time |
//! | 40 | not 0 while a rank writes |
//! | 64 | two banks of allgather counters, each: arrived, ready, published, 5 words unused |
//! | 192 | two banks of allgather words: [`WORDS_PER_RANK`] words for each rank of the file |
//! | … | slots: two for each local aggregator, each 16 words (see [`WindowSlot`]) |
//! | … | from a multiple of 4096 on: one window of `capacity` bytes for each slot |
//! | … | one row of marks for each slot: a bit for each byte of its window, the lowest bit of a word first |
//!
//! Words are native-endian 64-bit numbers. Generations and sequence numbers only grow, so no word is reset
//! between accesses.

use pario_shm::{FutexWait, Segment, SegmentHandle};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The number of words that a rank contributes to an allgather.
pub const WORDS_PER_RANK: usize = 16;

/// The number of windows of each aggregator. One is filled while the other is written.
pub(crate) const DEPTH: u64 = 2;

const EVENT: usize = 0;
const SLEEPERS: usize = 8;
const BROKEN: usize = 16;
const SPARE: usize = 24;
const FULL: usize = 32;
const WRITER: usize = 40;
const BANKS: usize = 64;
const BANK: usize = 64;
const CELLS: usize = BANKS + 2 * BANK;
const SLOT: usize = 128;
const PAGE: usize = 4096;

/// The dimensions of a node segment. They are the same on all ranks of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentShape {
    /// The number of ranks of the file on all nodes.
    pub ranks: u32,
    /// The number of ranks on this node.
    pub locals: u32,
    /// The size of the largest window in bytes.
    pub capacity: usize,
}

impl SegmentShape {
    fn slots_at(&self) -> usize {
        CELLS + 2 * self.ranks as usize * WORDS_PER_RANK * 8
    }

    fn windows_at(&self) -> usize {
        (self.slots_at() + self.slots() * SLOT).next_multiple_of(PAGE)
    }

    fn slots(&self) -> usize {
        self.locals as usize * DEPTH as usize
    }

    fn stride(&self) -> usize {
        self.capacity.next_multiple_of(PAGE)
    }

    fn marks_at(&self) -> usize {
        self.windows_at() + self.slots() * self.stride()
    }

    /// The number of bytes in a row of marks.
    fn row(&self) -> usize {
        self.stride() / 8
    }

    fn bytes(&self) -> usize {
        self.marks_at() + self.slots() * self.row()
    }
}

/// The shared memory of a node.
#[derive(Debug)]
pub struct NodeSegment {
    segment: Segment,
    shape: SegmentShape,
}

impl NodeSegment {
    /// Creates a segment.
    pub fn create(shape: SegmentShape) -> io::Result<NodeSegment> {
        Ok(NodeSegment { segment: Segment::create(shape.bytes())?, shape })
    }

    /// Creates a segment that has a name until [`NodeSegment::stop_sharing`]. `id` is a random number.
    pub fn create_named(shape: SegmentShape, id: u64) -> io::Result<NodeSegment> {
        Ok(NodeSegment { segment: Segment::create_named(shape.bytes(), id)?, shape })
    }

    /// Creates a segment for a single rank.
    pub fn private(shape: SegmentShape) -> io::Result<NodeSegment> {
        Ok(NodeSegment { segment: Segment::private(shape.bytes())?, shape })
    }

    /// Prevents further opens, after all ranks of the node have opened the segment.
    pub fn stop_sharing(&mut self) {
        self.segment.stop_sharing();
    }

    /// Opens the segment that another rank of this node created.
    pub fn open(handle: &SegmentHandle, shape: SegmentShape) -> io::Result<NodeSegment> {
        let segment = Segment::open(handle)?;
        if segment.len() != shape.bytes() {
            return Err(io::Error::other("the ranks of a node disagree about their shared memory"));
        }
        Ok(NodeSegment { segment, shape })
    }

    /// The handle with which other ranks open the segment. Only the creator has one.
    pub fn handle(&self) -> io::Result<SegmentHandle> {
        self.segment.handle()
    }

    /// The dimensions of the segment.
    pub fn shape(&self) -> SegmentShape {
        self.shape
    }

    /// A word for the layer above. It is 0 at first.
    pub fn user_word(&self) -> &AtomicU64 {
        self.segment.word(SPARE)
    }

    /// The event number to pass to [`NodeSegment::sleep`]. Read it before checking whether there is work.
    pub fn event(&self) -> u32 {
        self.segment.word32(EVENT).load(Ordering::SeqCst)
    }

    /// Sleeps until a rank may continue. Returns at once if the event number is not `seen` any more.
    pub fn sleep(&self, seen: u32, limit: Duration) -> FutexWait {
        let sleepers = self.segment.word(SLEEPERS);
        sleepers.fetch_add(1, Ordering::SeqCst);
        let woken = pario_shm::futex_wait(self.segment.word32(EVENT), seen, limit);
        sleepers.fetch_sub(1, Ordering::SeqCst);
        woken
    }

    /// Wakes the other ranks of the node.
    pub(crate) fn notify(&self) {
        let event = self.segment.word32(EVENT);
        event.fetch_add(1, Ordering::SeqCst);
        if self.segment.word(SLEEPERS).load(Ordering::SeqCst) > 0 {
            pario_shm::futex_wake_all(event);
        }
    }

    /// Reports that this rank has left a collective call before its end, so that no rank waits for it.
    pub fn mark_broken(&self) {
        self.segment.word(BROKEN).store(1, Ordering::SeqCst);
        self.notify();
    }

    /// Whether a rank has left a collective call before its end.
    pub fn is_broken(&self) -> bool {
        self.segment.word(BROKEN).load(Ordering::Relaxed) != 0
    }

    /// The number of full windows that wait to be written.
    pub(crate) fn full_windows(&self) -> &AtomicU64 {
        self.segment.word(FULL)
    }

    /// Not 0 while a rank writes.
    pub(crate) fn active_writer(&self) -> &AtomicU64 {
        self.segment.word(WRITER)
    }

    fn bank(&self, generation: u64, word: usize) -> &AtomicU64 {
        self.segment.word(BANKS + (generation as usize & 1) * BANK + 8 * word)
    }

    /// The number of ranks of this node that have started this allgather.
    pub(crate) fn arrived(&self, generation: u64) -> &AtomicU64 {
        self.bank(generation, 0)
    }

    /// The last allgather that all ranks of this node have started.
    pub(crate) fn ready(&self, generation: u64) -> &AtomicU64 {
        self.bank(generation, 1)
    }

    /// The last allgather whose words are complete.
    pub(crate) fn published(&self, generation: u64) -> &AtomicU64 {
        self.bank(generation, 2)
    }

    fn rank_word(&self, generation: u64, rank: u32, word: usize) -> &AtomicU64 {
        let bank = (generation as usize & 1) * self.shape.ranks as usize;
        self.segment.word(CELLS + ((bank + rank as usize) * WORDS_PER_RANK + word) * 8)
    }

    pub(crate) fn set_words(&self, generation: u64, rank: u32, words: &[u64]) {
        for (i, value) in words.iter().enumerate() {
            self.rank_word(generation, rank, i).store(*value, Ordering::Relaxed);
        }
    }

    pub(crate) fn words(&self, generation: u64, rank: u32) -> [u64; WORDS_PER_RANK] {
        std::array::from_fn(|i| self.rank_word(generation, rank, i).load(Ordering::Relaxed))
    }

    /// The slot for a sequence number of a local aggregator.
    pub(crate) fn slot(&self, aggregator_index: u32, sequence: u64) -> WindowSlot<'_> {
        let index = aggregator_index as usize * DEPTH as usize + (sequence % DEPTH) as usize;
        let words = self.shape.slots_at() + index * SLOT;
        let window = self.shape.windows_at() + index * self.shape.stride();
        WindowSlot { node: self, words, window, marks: self.shape.marks_at() + index * self.shape.row() }
    }
}

/// A window and its state words.
///
/// The slots of an aggregator serve its sequence numbers in turn. When a sequence number begins, all words
/// are 0 except the count of completed sequence numbers. The meaning of some words depends on the direction
/// of the access.
#[derive(Clone, Copy)]
pub(crate) struct WindowSlot<'a> {
    node: &'a NodeSegment,
    words: usize,
    window: usize,
    marks: usize,
}

/// The states of a slot.
pub(crate) mod state {
    /// Reads: no rank has read the window. Writes: not all ranks have announced their bytes.
    pub const FRESH: u64 = 0;
    /// A rank that may access the file has to read the window.
    pub const WANTED: u64 = 1;
    /// A rank is reading the window.
    pub const READING: u64 = 2;
    /// Ranks may copy.
    pub const READY: u64 = 3;
    /// All ranks have copied their bytes. An aggregator has to write the window.
    pub const FULL: u64 = 4;
    /// An aggregator is writing the window.
    pub const WRITING: u64 = 5;
}

impl WindowSlot<'_> {
    fn word(&self, index: usize) -> &AtomicU64 {
        self.node.segment.word(self.words + 8 * index)
    }

    /// The number of sequence numbers that this slot has completed.
    fn completed(&self) -> &AtomicU64 {
        self.word(0)
    }

    /// Whether the slot serves this sequence number. The sequence numbers of an aggregator begin at 0.
    pub fn is_current(&self, sequence: u64) -> bool {
        self.completed().load(Ordering::Acquire) == sequence / DEPTH
    }

    /// Whether this sequence number is completed.
    pub fn is_completed(&self, sequence: u64) -> bool {
        self.completed().load(Ordering::Acquire) > sequence / DEPTH
    }

    pub fn arrived(&self) -> &AtomicU64 {
        self.word(1)
    }

    pub fn state(&self) -> &AtomicU64 {
        self.word(2)
    }

    pub fn announced(&self) -> &AtomicU64 {
        self.word(3)
    }

    /// The number of announced bytes.
    pub fn bytes(&self) -> &AtomicU64 {
        self.word(4)
    }

    pub fn fingerprint_low(&self) -> &AtomicU64 {
        self.word(5)
    }

    pub fn fingerprint_high(&self) -> &AtomicU64 {
        self.word(6)
    }

    /// Writes: the complement of the lowest announced offset. 0 means that there is none.
    pub fn inverted_low(&self) -> &AtomicU64 {
        self.word(7)
    }

    /// Writes: the end of the highest announced byte. Reads: the end of the file.
    pub fn high(&self) -> &AtomicU64 {
        self.word(8)
    }

    /// Not 0 if the window is unusable because the file could not be read.
    pub fn failed_read(&self) -> &AtomicU64 {
        self.word(9)
    }

    /// Not 0 if the window was read under a lock that is held until the window is written.
    pub fn locked(&self) -> &AtomicU64 {
        self.word(10)
    }

    /// Completes the current sequence number and frees the slot for the next.
    pub fn complete(&self) {
        for index in 1..11 {
            self.word(index).store(0, Ordering::Relaxed);
        }
        self.completed().fetch_add(1, Ordering::Release);
        self.node.notify();
    }

    fn mark_word(&self, index: u64) -> &AtomicU64 {
        self.node.segment.word(self.marks + 8 * index as usize)
    }

    /// Marks bytes of the window as written by a rank. The arrival of the rank publishes the marks.
    pub fn mark(&self, bytes: Range<u64>) {
        assert!(bytes.end <= self.node.shape.capacity as u64, "window bytes {bytes:?}");
        let mut at = bytes.start;
        while at < bytes.end {
            let (word, bit) = (at / 64, at % 64);
            let len = (64 - bit).min(bytes.end - at);
            match len {
                // A store cannot lose the marks of other ranks here, and costs much less.
                64 => self.mark_word(word).store(u64::MAX, Ordering::Relaxed),
                _ => drop(self.mark_word(word).fetch_or(u64::MAX >> (64 - len) << bit, Ordering::Relaxed)),
            }
            at += len;
        }
    }

    /// Returns the runs of marked bytes among the first `len` in order, and clears all marks. All ranks
    /// have arrived, so no rank marks bytes at the same time.
    pub fn take_marks(&self, len: u64) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for word in 0..len.div_ceil(64) {
            let mut marks = self.mark_word(word).load(Ordering::Relaxed);
            if marks == 0 {
                continue;
            }
            self.mark_word(word).store(0, Ordering::Relaxed);
            let mut at = word * 64;
            while marks != 0 {
                let skip = marks.trailing_zeros();
                let count = (marks >> skip).trailing_ones();
                let run = at + u64::from(skip)..at + u64::from(skip + count);
                match runs.last_mut().filter(|last| last.end == run.start) {
                    Some(last) => last.end = run.end,
                    None => runs.push(run.clone()),
                }
                marks = marks.checked_shr(skip + count).unwrap_or(0);
                at = run.end;
            }
        }
        runs
    }

    /// Calls `f` with the bytes `[at, at + len)` of the window.
    pub fn window<R>(&self, at: u64, len: u64, f: impl FnOnce(&mut [u8]) -> R) -> R {
        let (at, len) = (at as usize, len as usize);
        assert!(at + len <= self.node.shape.capacity, "window bytes {at}+{len}");
        self.node.segment.bytes(self.window + at, len, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn marks_are_a_set_of_bytes(pieces in prop::collection::vec((0u64..300, 0u64..150), 0..20)) {
            let node = NodeSegment::private(SegmentShape { ranks: 1, locals: 1, capacity: 450 }).expect("memory");
            let mut bytes = [false; 450];
            let slot = node.slot(0, 1);
            for (at, len) in pieces {
                slot.mark(at..at + len);
                bytes[at as usize..(at + len) as usize].fill(true);
            }
            let mut found = [false; 450];
            let runs = slot.take_marks(450);
            prop_assert!(runs.windows(2).all(|two| two[0].end < two[1].start));
            runs.iter().for_each(|run| found[run.start as usize..run.end as usize].fill(true));
            prop_assert_eq!(found, bytes);
            prop_assert_eq!(slot.take_marks(450), vec![]);
        }
    }
}
