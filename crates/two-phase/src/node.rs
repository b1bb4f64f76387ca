//! The table at which the ranks of a node meet: shared words and windows.
//!
//! Layout of the segment, in bytes:
//!
//! | at | what |
//! |---|---|
//! | 0 | event: 32-bit number that changes whenever somebody may go on |
//! | 8 | how many sleep on it |
//! | 16 | broken: not 0 once a rank has left in the middle of something |
//! | 24 | a word for the layer above (the shared file pointer) |
//! | 32 | full windows that wait to be written, where one rank writes at a time |
//! | 40 | whether some rank writes |
//! | 64 | two banks of a meeting, each: arrived, ready, published, 5 words free |
//! | 192 | two banks of cells: for each rank of the file [`CELL`] words |
//! | … | slots: for each local aggregator two, each 16 words (see [`Slot`]) |
//! | … | from a multiple of 4096 on: windows, one for each slot, `capacity` bytes |
//! | … | marks, one row for each slot: a bit for each byte of its window, the lowest of a word first |
//!
//! Words are native-endian 64-bit numbers. Generations and turns only grow, so nothing has to be put back
//! to zero between accesses.

use pario_shm::{Segment, Ticket, Woken};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Words that a rank brings to a meeting.
pub const CELL: usize = 16;

/// Windows of each aggregator: while one is being written, the next is being filled.
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

/// What a node's table is made for; the same on all its ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Ranks of the file, on all nodes.
    pub ranks: u32,
    /// Ranks on this node.
    pub locals: u32,
    /// The largest window in bytes.
    pub capacity: usize,
}

impl Shape {
    fn slots_at(&self) -> usize {
        CELLS + 2 * self.ranks as usize * CELL * 8
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

    /// Bytes of a row of marks.
    fn row(&self) -> usize {
        self.stride() / 8
    }

    fn bytes(&self) -> usize {
        self.marks_at() + self.slots() * self.row()
    }
}

/// The table of a node.
#[derive(Debug)]
pub struct Node {
    segment: Segment,
    shape: Shape,
}

impl Node {
    /// A new table.
    pub fn create(shape: Shape) -> io::Result<Node> {
        Ok(Node { segment: Segment::create(shape.bytes())?, shape })
    }

    /// A new table that has a name until its door is closed; `id` is a random number.
    pub fn create_named(shape: Shape, id: u64) -> io::Result<Node> {
        Ok(Node { segment: Segment::create_named(shape.bytes(), id)?, shape })
    }

    /// A table for one rank alone.
    pub fn private(shape: Shape) -> io::Result<Node> {
        Ok(Node { segment: Segment::private(shape.bytes())?, shape })
    }

    /// All ranks of the node have opened it: nobody else can.
    pub fn close_door(&mut self) {
        self.segment.close_door();
    }

    /// The table that another rank of this node made.
    pub fn open(ticket: &Ticket, shape: Shape) -> io::Result<Node> {
        let segment = Segment::open(ticket)?;
        if segment.len() != shape.bytes() {
            return Err(io::Error::other("the ranks of a node disagree about their shared memory"));
        }
        Ok(Node { segment, shape })
    }

    /// What another rank needs to open it; for the maker.
    pub fn ticket(&self) -> io::Result<Ticket> {
        self.segment.ticket()
    }

    /// What it is made for.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// A word that this room does not use, zero at first.
    pub fn spare(&self) -> &AtomicU64 {
        self.segment.word(SPARE)
    }

    /// The number to give to [`Node::sleep`], taken before looking whether one can go on.
    pub fn event(&self) -> u32 {
        self.segment.half(EVENT).load(Ordering::SeqCst)
    }

    /// Sleeps until somebody may go on, unless that has happened since `seen` was taken.
    pub fn sleep(&self, seen: u32, limit: Duration) -> Woken {
        let sleepers = self.segment.word(SLEEPERS);
        sleepers.fetch_add(1, Ordering::SeqCst);
        let woken = pario_shm::sleep(self.segment.half(EVENT), seen, limit);
        sleepers.fetch_sub(1, Ordering::SeqCst);
        woken
    }

    /// Tells the others that something has changed.
    pub(crate) fn notify(&self) {
        let event = self.segment.half(EVENT);
        event.fetch_add(1, Ordering::SeqCst);
        if self.segment.word(SLEEPERS).load(Ordering::SeqCst) > 0 {
            pario_shm::wake_all(event);
        }
    }

    /// Says that this rank has left in the middle of something, so that nobody waits for it.
    pub fn break_up(&self) {
        self.segment.word(BROKEN).store(1, Ordering::SeqCst);
        self.notify();
    }

    /// Whether a rank has left in the middle of something.
    pub fn is_broken(&self) -> bool {
        self.segment.word(BROKEN).load(Ordering::Relaxed) != 0
    }

    /// Full windows that wait to be written.
    pub(crate) fn full(&self) -> &AtomicU64 {
        self.segment.word(FULL)
    }

    /// Not zero while a rank writes.
    pub(crate) fn writer(&self) -> &AtomicU64 {
        self.segment.word(WRITER)
    }

    fn bank(&self, generation: u64, word: usize) -> &AtomicU64 {
        self.segment.word(BANKS + (generation as usize & 1) * BANK + 8 * word)
    }

    /// Ranks that have come to this meeting.
    pub(crate) fn arrived(&self, generation: u64) -> &AtomicU64 {
        self.bank(generation, 0)
    }

    /// The last meeting to which all ranks of this node have come.
    pub(crate) fn ready(&self, generation: u64) -> &AtomicU64 {
        self.bank(generation, 1)
    }

    /// The last meeting whose cells are complete.
    pub(crate) fn published(&self, generation: u64) -> &AtomicU64 {
        self.bank(generation, 2)
    }

    fn cell_word(&self, generation: u64, rank: u32, word: usize) -> &AtomicU64 {
        let bank = (generation as usize & 1) * self.shape.ranks as usize;
        self.segment.word(CELLS + ((bank + rank as usize) * CELL + word) * 8)
    }

    pub(crate) fn set_cell(&self, generation: u64, rank: u32, words: &[u64]) {
        for (i, value) in words.iter().enumerate() {
            self.cell_word(generation, rank, i).store(*value, Ordering::Relaxed);
        }
    }

    pub(crate) fn cell(&self, generation: u64, rank: u32) -> [u64; CELL] {
        std::array::from_fn(|i| self.cell_word(generation, rank, i).load(Ordering::Relaxed))
    }

    /// The slot of a local aggregator's turn.
    pub(crate) fn slot(&self, lane: u32, turn: u64) -> Slot<'_> {
        let index = lane as usize * DEPTH as usize + (turn % DEPTH) as usize;
        let words = self.shape.slots_at() + index * SLOT;
        let window = self.shape.windows_at() + index * self.shape.stride();
        Slot { node: self, words, window, marks: self.shape.marks_at() + index * self.shape.row() }
    }
}

/// One window and the words that go with it.
///
/// The slots of a lane take its turns in order. Besides the count of completed turns, all words are zero when
/// a turn begins; what some mean depends on its direction.
#[derive(Clone, Copy)]
pub(crate) struct Slot<'a> {
    node: &'a Node,
    words: usize,
    window: usize,
    marks: usize,
}

/// How far a slot's turn is.
pub(crate) mod state {
    /// Reads: nobody has read the window. Writes: not all have announced.
    pub const FRESH: u64 = 0;
    /// Somebody may read the file into the window, and has to.
    pub const WANTED: u64 = 1;
    /// Somebody does.
    pub const READING: u64 = 2;
    /// Ranks may copy.
    pub const READY: u64 = 3;
    /// All ranks have copied in; an aggregator has to write.
    pub const FULL: u64 = 4;
    /// An aggregator does.
    pub const WRITING: u64 = 5;
}

impl Slot<'_> {
    fn word(&self, index: usize) -> &AtomicU64 {
        self.node.segment.word(self.words + 8 * index)
    }

    /// Turns that this slot has completed.
    fn completed(&self) -> &AtomicU64 {
        self.word(0)
    }

    /// Whether it is this turn's time. Turns of a lane are numbered from 0.
    pub fn serves(&self, turn: u64) -> bool {
        self.completed().load(Ordering::Acquire) == turn / DEPTH
    }

    /// Whether this turn is over.
    pub fn is_past(&self, turn: u64) -> bool {
        self.completed().load(Ordering::Acquire) > turn / DEPTH
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

    /// Bytes announced.
    pub fn bytes(&self) -> &AtomicU64 {
        self.word(4)
    }

    pub fn print_low(&self) -> &AtomicU64 {
        self.word(5)
    }

    pub fn print_high(&self) -> &AtomicU64 {
        self.word(6)
    }

    /// Writes: the complement of the lowest offset announced, so that zero means none.
    pub fn not_low(&self) -> &AtomicU64 {
        self.word(7)
    }

    /// Writes: the end of the highest byte announced. Reads: where the file ends.
    pub fn high(&self) -> &AtomicU64 {
        self.word(8)
    }

    /// Not zero if the window must not be used: reading the file failed.
    pub fn spoiled(&self) -> &AtomicU64 {
        self.word(9)
    }

    /// Not zero if the window was read under a lock that is held until it is written.
    pub fn locked(&self) -> &AtomicU64 {
        self.word(10)
    }

    /// Ends the turn: the slot is free for the next.
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

    /// Marks bytes of the window as brought by some rank, which it says by arriving.
    pub fn mark(&self, bytes: Range<u64>) {
        assert!(bytes.end <= self.node.shape.capacity as u64, "window bytes {bytes:?}");
        let mut at = bytes.start;
        while at < bytes.end {
            let (word, bit) = (at / 64, at % 64);
            let len = (64 - bit).min(bytes.end - at);
            match len {
                // Nothing that others mark can be lost, and a store is much cheaper.
                64 => self.mark_word(word).store(u64::MAX, Ordering::Relaxed),
                _ => drop(self.mark_word(word).fetch_or(u64::MAX >> (64 - len) << bit, Ordering::Relaxed)),
            }
            at += len;
        }
    }

    /// The runs of marked bytes among the first `len`, in order; no byte is marked afterwards. All have arrived: nobody
    /// marks any more.
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

    /// The window's bytes `[at, at + len)`.
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
            let node = Node::private(Shape { ranks: 1, locals: 1, capacity: 450 }).expect("memory");
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
