//! Reads several ranges of positions with guided prefetch, on behalf of an I/O agent.
//!
//! An I/O agent gets the parts of a request that lie in its blocks, so it knows the next accesses. Where ordinary
//! read-ahead cannot predict them, the loop of `guided` runs over the blocks; ordinary reads then read the positions
//! within each covering range. Ranges that are cached already are neither prefetched nor released: other processes may
//! use them, and releasing them would cost those a read from storage.

use std::collections::VecDeque;
use std::ops::Range;

use pario_buffer::UserBuffer;
use pario_types::{AccessTuning, Offset, Pos, PrefetchLimits};
use pario_view::View;

use crate::backend::FileBackend;
use crate::error::BackendError;
use crate::guided::{CoveringRanges, GuidedAccess, is_regular, run_guided};

/// Reads ranges of positions of the view in ascending order into consecutive data bytes of the buffer from `buf_at` on.
/// Returns the number of bytes read, which is less than requested only at the end of the file. Each range is an access
/// of its own.
pub fn read_ranges<B: FileBackend + ?Sized>(
    file: &B,
    view: &View,
    ranges: &[Range<Pos>],
    buf: &UserBuffer,
    buf_at: u64,
    tuning: &AccessTuning,
    limits: PrefetchLimits,
) -> Result<u64, BackendError> {
    let asked = VecDeque::new();
    let mut reader = GuidedReader { file, tuning, view, buf, buf_at, ranges, at: 0, done: 0, asked };
    let guided = if limits.max_acc == 0 || !view.is_monotone() || looks_regular(view, ranges) {
        Ok(())
    } else {
        run_guided(CoveringRanges::new(view, ranges, limits.block), limits, &mut reader)
    };
    // Reads the rest. An offset that no file can have is an error of the ordinary read.
    match guided.and_then(|()| reader.read_below(u64::MAX)) {
        Ok(()) | Err(EarlyEnd::EndOfFile) => Ok(reader.done),
        Err(EarlyEnd::Failed(error)) => Err(error),
    }
}

/// Whether read-ahead can predict the request that the ranges are taken from. Blocks that are assigned to agents
/// round-robin do not make a regular request irregular.
fn looks_regular(view: &View, ranges: &[Range<Pos>]) -> bool {
    let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return true };
    let mut cursor = view.cursor(first.start, last.end.0.saturating_sub(first.start.0));
    is_regular(std::iter::from_fn(|| cursor.next_run(u64::MAX)))
}

/// The reason why a read ended early.
enum EarlyEnd {
    EndOfFile,
    Failed(BackendError),
}

/// The progress of a guided read.
struct GuidedReader<'a, B: ?Sized> {
    file: &'a B,
    tuning: &'a AccessTuning,
    view: &'a View,
    buf: &'a UserBuffer,
    buf_at: u64,
    /// The remaining ranges. The first one continues at position `at` if that is beyond its start.
    ranges: &'a [Range<Pos>],
    at: u64,
    done: u64,
    /// For each accepted range, in order: whether the backend was asked for it. Cached ranges are not asked for.
    asked: VecDeque<bool>,
}

impl<B: FileBackend + ?Sized> GuidedReader<'_, B> {
    /// Reads the remaining bytes below an offset.
    fn read_below(&mut self, end: u64) -> Result<(), EarlyEnd> {
        let below = if end == u64::MAX { u64::MAX } else { self.view.rank(Offset(end)).0 };
        while let Some((range, rest)) = self.ranges.split_first() {
            let at = self.at.max(range.start.0);
            let len = range.end.0.min(below).saturating_sub(at);
            if len > 0 {
                let got = self
                    .file
                    .read(self.view, Pos(at), self.buf, self.buf_at + self.done, len, self.tuning)
                    .map_err(|error| EarlyEnd::Failed(error.after(self.done)))?;
                self.done += got;
                self.at = at + got;
                if got < len {
                    return Err(EarlyEnd::EndOfFile);
                }
            }
            if range.end.0 > below {
                break;
            }
            self.ranges = rest;
        }
        Ok(())
    }
}

impl<B: FileBackend + ?Sized> GuidedAccess for GuidedReader<'_, B> {
    type Stop = EarlyEnd;

    fn prefetch(&mut self, ranges: &[Range<u64>]) -> usize {
        let flags: Vec<bool> = ranges.iter().map(|range| !self.file.is_cached(range)).collect();
        let ask: Vec<_> =
            ranges.iter().zip(&flags).filter(|(_, ask)| **ask).map(|(range, _)| range.clone()).collect();
        let mut left = if ask.is_empty() { 0 } else { self.file.prefetch(&ask) };
        // Counts the ranges before the first refused one.
        let taken = flags.iter().take_while(|asked| {
            let refused = **asked && left == 0;
            left -= usize::from(**asked && !refused);
            !refused
        });
        let before = self.asked.len();
        self.asked.extend(taken);
        self.asked.len() - before
    }

    fn access(&mut self, range: Range<u64>) -> Result<(), EarlyEnd> {
        self.read_below(range.end)
    }

    fn release(&mut self, ranges: &[Range<u64>]) {
        let asked = ranges.iter().filter(|_| self.asked.pop_front() == Some(true));
        let asked: Vec<_> = asked.cloned().collect();
        if !asked.is_empty() {
            self.file.release(&asked);
        }
    }
}
