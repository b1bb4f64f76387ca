//! The file domain of one aggregator, and its division into windows.
//!
//! A file domain is a sequence of blocks at a constant stride. The ends of the region may cut the first and
//! the last block short. The domain is treated as a stream of bytes: the bytes of the first block, then
//! those of the second, and so on. A window is a piece of that stream. Mapping rounds to stream positions
//! and stream positions to file offsets is arithmetic.

use std::ops::Range;

/// The bytes of a region that belong to one aggregator.
#[derive(Clone, Copy, Debug)]
pub struct FileDomain {
    /// The file offset of the first block.
    start: u64,
    /// The size of the first block, at most `block`.
    head: u64,
    /// The file offset of the second block, if there is one.
    second: u64,
    /// The size of every other block. The last block may be shorter.
    block: u64,
    /// The distance from the start of a block to that of the next, from the second block on.
    stride: u64,
    /// The total size of all blocks.
    bytes: u64,
    /// The lock unit of the file. Windows within a block end at multiples of it if they are large enough.
    unit: u64,
}

/// The part of a file domain that is processed in one round. It fits into the buffer of the aggregator.
#[derive(Clone, Copy, Debug)]
pub struct DomainWindow {
    domain: FileDomain,
    from: u64,
    to: u64,
}

impl FileDomain {
    /// A contiguous domain.
    pub(crate) fn range(range: Range<u64>, unit: u64) -> FileDomain {
        let bytes = range.end.saturating_sub(range.start);
        FileDomain {
            start: range.start,
            head: bytes,
            second: range.end,
            block: bytes,
            stride: bytes,
            bytes,
            unit,
        }
    }

    /// Every `step`-th block of `unit` bytes from block `first` on, within `range`. The first block begins
    /// or ends in `range`.
    pub(crate) fn blocks(first: u64, step: u64, unit: u64, range: Range<u64>) -> FileDomain {
        if range.is_empty() || first > (range.end - 1) / unit {
            return FileDomain::range(range.start..range.start, unit);
        }
        if step <= 1 {
            return FileDomain::range(range.start.max(first * unit)..range.end, unit);
        }
        let more = ((range.end - 1) / unit - first) / step;
        let within = |number: u64| {
            let at = number * unit;
            at.max(range.start)..at.saturating_add(unit).min(range.end)
        };
        let head = within(first);
        let domain = FileDomain::range(head, unit);
        if more == 0 {
            return domain;
        }
        let last = within(first + more * step);
        let bytes = domain.head + (more - 1) * unit + (last.end - last.start);
        // There is more than one block, so the product is at most the offset of the last.
        let second = (first + step) * unit;
        FileDomain { second, block: unit, stride: step.saturating_mul(unit), bytes, ..domain }
    }

    /// The number of bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The number of rounds of at most `buffer` bytes each. A `buffer` of 0 counts as 1.
    pub fn windows(&self, buffer: u64) -> u64 {
        let buffer = buffer.max(1);
        let rest = self.bytes - self.head;
        if self.bytes <= buffer {
            u64::from(self.bytes > 0)
        } else if rest == 0 {
            let (first, step) = self.steps(buffer);
            1 + (self.bytes - first).div_ceil(step)
        } else if buffer >= self.block {
            (1 + rest.div_ceil(self.block)).div_ceil(buffer / self.block)
        } else {
            let tail = (rest % self.block).div_ceil(buffer);
            self.head.div_ceil(buffer) + rest / self.block * self.block.div_ceil(buffer) + tail
        }
    }

    /// The window of a round, for rounds of at most `buffer` bytes each. Rounds are numbered from 0. A
    /// window has whole blocks if the buffer holds at least one, and is a piece of a block otherwise.
    /// Windows after the last round are empty.
    pub fn window(&self, round: u64, buffer: u64) -> DomainWindow {
        let buffer = buffer.max(1);
        let [from, to] = [round, round.saturating_add(1)].map(|r| self.cut(r, buffer).min(self.bytes));
        DomainWindow { domain: *self, from, to }
    }

    /// The stream position at which a round begins.
    fn cut(&self, round: u64, buffer: u64) -> u64 {
        if round == 0 {
            0
        } else if self.bytes <= buffer {
            self.bytes
        } else if self.bytes == self.head {
            let (first, step) = self.steps(buffer);
            (round - 1).saturating_mul(step).saturating_add(first)
        } else if buffer >= self.block {
            let blocks = round.saturating_mul(buffer / self.block);
            (blocks - 1).saturating_mul(self.block).saturating_add(self.head)
        } else {
            let in_head = self.head.div_ceil(buffer);
            let Some(after) = round.checked_sub(in_head) else {
                return round * buffer;
            };
            let per_block = self.block.div_ceil(buffer);
            let whole = (after / per_block).saturating_mul(self.block);
            whole.saturating_add(after % per_block * buffer).saturating_add(self.head)
        }
    }

    /// The sizes of the first and of every other window within one block that exceeds `buffer`. Each is the
    /// largest size with which windows end at multiples of the lock unit, or `buffer` if that is smaller
    /// than a unit.
    fn steps(&self, buffer: u64) -> (u64, u64) {
        if buffer < self.unit {
            return (buffer, buffer);
        }
        let end = self.start + buffer;
        (end - end % self.unit - self.start, buffer - buffer % self.unit)
    }

    /// The file range from this stream position to the end of its block.
    fn rest_of_block(&self, position: u64) -> Range<u64> {
        match position.checked_sub(self.head) {
            None => self.start + position..self.start + self.head,
            Some(after) => {
                let begin = self.second + after / self.block * self.stride;
                let end = begin.saturating_add(self.block);
                begin + after % self.block..end
            }
        }
    }
}

impl DomainWindow {
    /// The number of bytes.
    pub fn bytes(&self) -> u64 {
        self.to - self.from
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.from == self.to
    }

    /// The file offset of the first byte. It equals [`DomainWindow::hi`] for an empty window.
    pub fn lo(&self) -> u64 {
        if self.is_empty() { self.domain.start } else { self.domain.rest_of_block(self.from).start }
    }

    /// The file offset after the last byte.
    pub fn hi(&self) -> u64 {
        if self.is_empty() { self.domain.start } else { self.domain.rest_of_block(self.to - 1).start + 1 }
    }

    /// The file ranges of the window, in ascending order. They do not touch, and none is empty.
    pub fn extents(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        let DomainWindow { domain, mut from, to } = *self;
        std::iter::from_fn(move || {
            let left = to - from;
            (left > 0).then(|| {
                let Range { start, end } = domain.rest_of_block(from);
                let length = (end - start).min(left);
                from += length;
                start..start + length
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(domain: FileDomain, buffer: u64) -> Vec<Vec<(u64, u64)>> {
        (0..domain.windows(buffer))
            .map(|round| domain.window(round, buffer).extents().map(|e| (e.start, e.end)).collect())
            .collect()
    }

    #[test]
    fn windows_of_a_range_end_at_multiples_of_the_unit() {
        let domain = FileDomain::range(10..100, 16);
        assert_eq!(rounds(domain, 40), [[(10, 48)], [(48, 80)], [(80, 100)]]);
        // The buffer is smaller than a unit: no alignment.
        assert_eq!(rounds(FileDomain::range(10..40, 16), 15), [[(10, 25)], [(25, 40)]]);
        // A single window has no boundary to align.
        assert_eq!(rounds(FileDomain::range(10..26, 16), 16), [[(10, 26)]]);
    }

    #[test]
    fn windows_of_blocks_hold_whole_blocks() {
        let domain = FileDomain::blocks(0, 3, 10, 5..97);
        let blocks = [(5, 10), (30, 40), (60, 70), (90, 97)];
        assert_eq!(domain.window(0, 99).extents().map(|e| (e.start, e.end)).collect::<Vec<_>>(), blocks);
        assert_eq!(rounds(domain, 25), [[(5, 10), (30, 40)], [(60, 70), (90, 97)]]);
        assert_eq!(rounds(domain, 10), [[(5, 10)], [(30, 40)], [(60, 70)], [(90, 97)]]);
        let window = domain.window(1, 25);
        assert_eq!((window.bytes(), window.lo(), window.hi()), (17, 60, 97));
    }

    #[test]
    fn blocks_larger_than_the_buffer_are_cut() {
        let domain = FileDomain::blocks(0, 3, 10, 3..36);
        assert_eq!(rounds(domain, 4), [[(3, 7)], [(7, 10)], [(30, 34)], [(34, 36)]]);
    }

    #[test]
    fn rounds_beyond_the_last_cover_nothing() {
        for domain in [FileDomain::range(10..40, 16), FileDomain::blocks(0, 3, 10, 5..97)] {
            for buffer in [0, 1, 7, 10, 25, 1000, u64::MAX] {
                for round in [domain.windows(buffer), u64::MAX - 1, u64::MAX] {
                    let window = domain.window(round, buffer);
                    assert!(window.is_empty() && window.lo() == window.hi());
                    assert_eq!(window.extents().next(), None);
                }
            }
        }
    }
}
