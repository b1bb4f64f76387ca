//! The buffer of one thread, in which plain operations wait until they are written, without a lock.
//!
//! Nearly all programs do their accesses in one thread, the one that opens their first file. It creates the buffer and is
//! the only one that adds operations; the thread that holds the lock of the recorder removes them. Neither waits for the
//! other: the owner advances `head`, the holder `tail`.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::clock::Moment;
use crate::plain::{PackedCall, PlainOperation};
use crate::sys;

/// The largest number of waiting operations; their memory stays in the processor's nearest cache.
const SLOTS: usize = 64;

/// The waiting operations of one thread.
#[derive(Debug)]
pub(crate) struct ThreadBuffer {
    owner: u64,
    head: AtomicU64,
    tail: AtomicU64,
    /// The start of the first operation in the empty buffer; the others count from it.
    first: AtomicU64,
    slots: Box<[[AtomicU64; 3]; SLOTS]>,
}

/// The result of adding an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PutResult {
    /// It is in the buffer, which has had so many before.
    Done(u64),
    /// The buffer has to be emptied first.
    Full,
    /// It is of another thread, or too large for the buffer's format.
    Unfit,
}

impl ThreadBuffer {
    /// The buffer of the calling thread.
    pub fn new() -> ThreadBuffer {
        let slots = Box::new([const { [const { AtomicU64::new(0) }; 3] }; SLOTS]);
        let zero = || AtomicU64::new(0);
        ThreadBuffer { owner: sys::thread(), head: zero(), tail: zero(), first: zero(), slots }
    }

    /// Adds an operation.
    #[inline]
    pub fn put(&self, what: PackedCall, offset: u64, start: Moment, over: Moment) -> PutResult {
        let took = over.0.wrapping_sub(start.0);
        if took > u64::from(u32::MAX) || sys::thread() != self.owner {
            return PutResult::Unfit;
        }
        let (head, tail) = (self.head.load(Relaxed), self.tail.load(Acquire));
        if head == tail {
            self.first.store(start.0, Relaxed);
        }
        let since = start.0.wrapping_sub(self.first.load(Relaxed));
        if head - tail == SLOTS as u64 || since > u64::from(u32::MAX) {
            return PutResult::Full;
        }
        let slot = &self.slots[head as usize % SLOTS];
        slot[0].store(since << 32 | took, Relaxed);
        slot[1].store(offset, Relaxed);
        slot[2].store(what.0, Relaxed);
        self.head.store(head + 1, Release);
        PutResult::Done(head)
    }

    /// The number of operations that it has had.
    pub fn had(&self) -> u64 {
        self.head.load(Relaxed)
    }

    /// The number of waiting operations.
    pub fn waiting(&self) -> usize {
        self.had().saturating_sub(self.tail.load(Relaxed)) as usize
    }

    /// Removes all waiting operations; only one thread at a time may do that.
    #[inline]
    pub fn take(&self, mut each: impl FnMut(PlainOperation)) {
        let (head, tail) = (self.head.load(Acquire), self.tail.load(Relaxed));
        let first = self.first.load(Relaxed);
        for at in tail..head {
            let [times, offset, what] = &self.slots[at as usize % SLOTS];
            let times = times.load(Relaxed);
            let (start, took) = (first.wrapping_add(times >> 32), times as u32);
            each(PlainOperation {
                start,
                took,
                offset: offset.load(Relaxed),
                what: PackedCall(what.load(Relaxed)),
            });
        }
        self.tail.store(head, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_in_order() {
        let buffer = ThreadBuffer::new();
        let mut out = Vec::new();
        let mut put = 0;
        for round in 0..100u64 {
            for _ in 0..round * 13 % 700 {
                let start = Moment(put * 100);
                if buffer.put(PackedCall(put), put * 7, start, Moment(start.0 + 5)) == PutResult::Full {
                    buffer.take(|plain| out.push(plain));
                    assert_eq!(
                        buffer.put(PackedCall(put), put * 7, start, Moment(start.0 + 5)),
                        PutResult::Done(put)
                    );
                }
                put += 1;
            }
            buffer.take(|plain| out.push(plain));
        }
        assert_eq!(out.len() as u64, put);
        for (number, plain) in (0u64..).zip(&out) {
            let wanted =
                PlainOperation { start: number * 100, took: 5, offset: number * 7, what: PackedCall(number) };
            assert_eq!(*plain, wanted);
        }
    }

    #[test]
    fn times_that_do_not_fit_are_said() {
        let buffer = ThreadBuffer::new();
        let far = 1 << 32;
        assert_eq!(buffer.put(PackedCall(0), 0, Moment(5), Moment(5 + far)), PutResult::Unfit);
        assert_eq!(buffer.put(PackedCall(0), 0, Moment(7), Moment(4)), PutResult::Unfit);
        assert_eq!(buffer.put(PackedCall(0), 0, Moment(5), Moment(6)), PutResult::Done(0));
        assert_eq!(buffer.put(PackedCall(0), 0, Moment(5 + far), Moment(6 + far)), PutResult::Full);
        assert_eq!(buffer.put(PackedCall(0), 0, Moment(4), Moment(6)), PutResult::Full);
        let other = std::thread::scope(|scope| {
            scope.spawn(|| buffer.put(PackedCall(0), 0, Moment(5), Moment(6))).join().expect("no panic")
        });
        assert_eq!(other, PutResult::Unfit);
        buffer.take(|_| ());
        assert_eq!(buffer.put(PackedCall(0), 0, Moment(5 + far), Moment(6 + far)), PutResult::Done(1));
    }

    /// Another thread empties the buffer while its owner fills it.
    #[test]
    fn two_threads_lose_nothing() {
        const COUNT: u64 = 200_000;
        let buffer = ThreadBuffer::new();
        let out = std::thread::scope(|scope| {
            let taker = scope.spawn(|| {
                let mut out = Vec::new();
                while out.len() < COUNT as usize {
                    buffer.take(|plain| out.push(plain));
                    std::thread::yield_now();
                }
                out
            });
            for number in 0..COUNT {
                let start = number << 20;
                while buffer.put(PackedCall(number), number, Moment(start), Moment(start | 9))
                    == PutResult::Full
                {
                    std::thread::yield_now();
                }
            }
            taker.join().expect("no panic")
        });
        for (number, plain) in (0..COUNT).zip(out) {
            assert_eq!(
                (plain.start, plain.took, plain.offset, plain.what.0),
                (number << 20, 9, number, number)
            );
        }
    }
}
