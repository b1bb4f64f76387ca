//! Reads several ranges of positions with guided prefetch, on behalf of an I/O agent.
//!
//! An I/O agent gets the parts of a request that lie in its blocks, so it knows the next accesses. Where ordinary
//! read-ahead cannot predict them, the loop of `guided` runs over the blocks; ordinary reads then read the positions
//! within each covering range. Ranges that are in memory already are neither prefetched nor released: other processes
//! may use them, and releasing them would cost those a read from storage.

use crate::error::Error;
use crate::file::PlainFile;
use crate::guided::{CoveringRanges, GuidedAccess, is_regular, run_guided};
use pario_buffer::UserBuffer;
use pario_types::AccessTuning;
use pario_types::{Offset, Pos, PrefetchLimits};
use pario_view::View;
use std::collections::VecDeque;
use std::ops::Range;

/// A file that is read for others, and can be told what comes next.
pub trait Foresight {
    /// How reading fails.
    type Error;

    /// Reads bytes of a view, from `at` on, into the memory's data bytes from `buf_at` on; how many there
    /// were: fewer only at the end of the file.
    fn read(
        &mut self,
        view: &View,
        at: Pos,
        buf: &UserBuffer,
        buf_at: u64,
        len: u64,
    ) -> Result<u64, Self::Error>;

    /// Gets ranges of the file ready; how many of them, from the first on: the others are refused.
    fn prefetch(&mut self, ranges: &[Range<u64>]) -> usize;

    /// Gives up ranges that were made ready: each once, in the order in which they were taken.
    fn release(&mut self, ranges: &[Range<u64>]);
}

/// Reads ranges of positions of the view, in ascending order, into the memory's data bytes from `buf_at`,
/// where they lie one after the other. Returns how many bytes there were: fewer only at the end of the file.
/// Each range is an access of its own.
pub fn read_guided<F: Foresight>(
    file: &mut F,
    view: &View,
    parts: &[Range<Pos>],
    buf: &UserBuffer,
    buf_at: u64,
    limits: PrefetchLimits,
) -> Result<u64, F::Error> {
    let mut walk = Walk { file, view, buf, buf_at, parts, at: 0, done: 0 };
    let guided = match limits.max_acc {
        0 => Ok(()),
        _ if !view.is_monotone() || looks_regular(view, parts) => Ok(()),
        _ => run_guided(CoveringRanges::new(view, parts, limits.block), limits, &mut walk),
    };
    // All of them, or what no file can have: the ordinary read says so.
    match guided.and_then(|()| walk.read_below(u64::MAX)) {
        Ok(()) | Err(EarlyEnd::End) => Ok(walk.done),
        Err(EarlyEnd::Failed(error)) => Err(error),
    }
}

impl PlainFile {
    /// [`read_guided`] from this file.
    pub fn read_guided(
        &self,
        view: &View,
        parts: &[Range<Pos>],
        buf: &UserBuffer,
        buf_at: u64,
        tune: &AccessTuning,
        limits: PrefetchLimits,
    ) -> Result<u64, Error> {
        let mut plain = Plain { file: self, tune, done: 0, asked: VecDeque::new() };
        read_guided(&mut plain, view, parts, buf, buf_at, limits)
    }
}

/// A plain file during a guided read.
struct Plain<'a> {
    file: &'a PlainFile,
    tune: &'a AccessTuning,
    done: u64,
    /// Of the ranges that are ready, in their order, whether the system was asked for it.
    asked: VecDeque<bool>,
}

impl Foresight for Plain<'_> {
    type Error = Error;

    fn read(&mut self, view: &View, at: Pos, buf: &UserBuffer, buf_at: u64, len: u64) -> Result<u64, Error> {
        let got = self.file.read(view, at, buf, buf_at, len, self.tune);
        let got = got.map_err(|error| error.after(self.done))?;
        self.done += got;
        Ok(got)
    }

    fn prefetch(&mut self, ranges: &[Range<u64>]) -> usize {
        let refused = ranges.iter().position(|range| {
            let asked = !self.file.is_in_memory(Offset(range.start));
            let refused = asked && !self.file.prefetch(Offset(range.start)..Offset(range.end));
            if !refused {
                self.asked.push_back(asked);
            }
            refused
        });
        refused.unwrap_or(ranges.len())
    }

    fn release(&mut self, ranges: &[Range<u64>]) {
        for range in ranges {
            if self.asked.pop_front() == Some(true) {
                // A system that does not care about it has nothing to give up.
                self.file.release(Offset(range.start)..Offset(range.end));
            }
        }
    }
}

/// Whether the request that the parts are taken from is one that read-ahead can guess. Blocks dealt out in
/// turn do not make a regular request irregular.
fn looks_regular(view: &View, parts: &[Range<Pos>]) -> bool {
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return true };
    let mut cursor = view.cursor(first.start, last.end.0.saturating_sub(first.start.0));
    is_regular(std::iter::from_fn(|| cursor.next_run(u64::MAX)))
}

/// The reason why a read ended early.
enum EarlyEnd<E> {
    /// The file ends here.
    End,
    Failed(E),
}

/// How far the reading is.
struct Walk<'a, F> {
    file: &'a mut F,
    view: &'a View,
    buf: &'a UserBuffer,
    buf_at: u64,
    /// The first of them is under way, from position `at` if that is beyond its start.
    parts: &'a [Range<Pos>],
    at: u64,
    done: u64,
}

impl<F: Foresight> Walk<'_, F> {
    /// Reads what is left below an offset.
    fn read_below(&mut self, end: u64) -> Result<(), EarlyEnd<F::Error>> {
        let below = if end == u64::MAX { u64::MAX } else { self.view.rank(Offset(end)).0 };
        while let Some((part, rest)) = self.parts.split_first() {
            let at = self.at.max(part.start.0);
            let len = part.end.0.min(below).saturating_sub(at);
            if len > 0 {
                let place = self.buf_at + self.done;
                let got =
                    self.file.read(self.view, Pos(at), self.buf, place, len).map_err(EarlyEnd::Failed)?;
                self.done += got;
                self.at = at + got;
                if got < len {
                    return Err(EarlyEnd::End);
                }
            }
            if part.end.0 > below {
                break;
            }
            self.parts = rest;
        }
        Ok(())
    }
}

impl<F: Foresight> GuidedAccess for Walk<'_, F> {
    type Stop = EarlyEnd<F::Error>;

    fn prefetch(&mut self, ranges: &[Range<u64>]) -> usize {
        self.file.prefetch(ranges)
    }

    fn access(&mut self, range: Range<u64>) -> Result<(), Self::Stop> {
        self.read_below(range.end)
    }

    fn release(&mut self, ranges: &[Range<u64>]) {
        self.file.release(ranges);
    }
}
