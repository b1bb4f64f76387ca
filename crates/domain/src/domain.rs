//! What one aggregator is responsible for, and the windows in which it gets through it.
//!
//! A domain is a row of blocks at a constant stride of which only the first and the last may be cut short by
//! the region's ends. It is kept as a stream of bytes: the first block's bytes, then the second's. A window
//! is a piece of that stream, and both directions, round to stream to file, are arithmetic.

use std::ops::Range;

/// The bytes of a region that belong to one aggregator.
#[derive(Clone, Copy, Debug)]
pub struct Domain {
    /// Where the first block's bytes begin.
    start: u64,
    /// Bytes of the first block, at most `block`.
    head: u64,
    /// Where the second block begins, if there is one.
    second: u64,
    /// Bytes of every other block but the last, which may be shorter.
    block: u64,
    /// From the start of a block to that of the next, from the second on.
    stride: u64,
    /// Bytes of all blocks.
    bytes: u64,
    /// The lock unit of the file: windows within a block end at its multiples if they are large enough.
    unit: u64,
}

/// What an aggregator covers in one round: a piece of its domain that fits its buffer.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    domain: Domain,
    from: u64,
    to: u64,
}

impl Domain {
    /// One contiguous range.
    pub(crate) fn range(range: Range<u64>, unit: u64) -> Domain {
        let bytes = range.end.saturating_sub(range.start);
        Domain {
            start: range.start,
            head: bytes,
            second: range.end,
            block: bytes,
            stride: bytes,
            bytes,
            unit,
        }
    }

    /// Every `step`-th block of `unit` bytes from number `first` on, as far as they lie in `range`, in which
    /// the first block begins or ends.
    pub(crate) fn blocks(first: u64, step: u64, unit: u64, range: Range<u64>) -> Domain {
        if range.is_empty() || first > (range.end - 1) / unit {
            return Domain::range(range.start..range.start, unit);
        }
        if step <= 1 {
            return Domain::range(range.start.max(first * unit)..range.end, unit);
        }
        let more = ((range.end - 1) / unit - first) / step;
        let within = |number: u64| {
            let at = number * unit;
            at.max(range.start)..at.saturating_add(unit).min(range.end)
        };
        let head = within(first);
        let domain = Domain::range(head, unit);
        if more == 0 {
            return domain;
        }
        let last = within(first + more * step);
        let bytes = domain.head + (more - 1) * unit + (last.end - last.start);
        // More than one block: the product is at most the offset of the last.
        let second = (first + step) * unit;
        Domain { second, block: unit, stride: step.saturating_mul(unit), bytes, ..domain }
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The rounds needed when each takes at most `buffer` bytes; a `buffer` of 0 counts as 1.
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

    /// What is covered in a round, counted from 0, when each takes at most `buffer` bytes: whole blocks if
    /// the buffer holds one or more, else a piece of a block. Rounds beyond the last cover nothing.
    pub fn window(&self, round: u64, buffer: u64) -> Window {
        let buffer = buffer.max(1);
        let [from, to] = [round, round.saturating_add(1)].map(|r| self.cut(r, buffer).min(self.bytes));
        Window { domain: *self, from, to }
    }

    /// Where in the stream a round begins.
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

    /// The lengths of the first and of every other window within one block that exceeds `buffer`: the most
    /// that lets each end at a multiple of the unit, or all of `buffer` if it is smaller than a unit.
    fn steps(&self, buffer: u64) -> (u64, u64) {
        if buffer < self.unit {
            return (buffer, buffer);
        }
        let end = self.start + buffer;
        (end - end % self.unit - self.start, buffer - buffer % self.unit)
    }

    /// The file range from this position of the stream to the end of its block.
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

impl Window {
    /// How many bytes it covers.
    pub fn bytes(&self) -> u64 {
        self.to - self.from
    }

    /// Whether it covers none.
    pub fn is_empty(&self) -> bool {
        self.from == self.to
    }

    /// The file offset of its first byte; of an empty one, the same as [`Window::hi`].
    pub fn lo(&self) -> u64 {
        if self.is_empty() { self.domain.start } else { self.domain.rest_of_block(self.from).start }
    }

    /// The file offset after its last byte.
    pub fn hi(&self) -> u64 {
        if self.is_empty() { self.domain.start } else { self.domain.rest_of_block(self.to - 1).start + 1 }
    }

    /// The ranges of the file that it covers: ascending, apart from each other, none empty.
    pub fn extents(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        let Window { domain, mut from, to } = *self;
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

    fn rounds(domain: Domain, buffer: u64) -> Vec<Vec<(u64, u64)>> {
        (0..domain.windows(buffer))
            .map(|round| domain.window(round, buffer).extents().map(|e| (e.start, e.end)).collect())
            .collect()
    }

    #[test]
    fn windows_of_a_range_end_at_multiples_of_the_unit() {
        let domain = Domain::range(10..100, 16);
        assert_eq!(rounds(domain, 40), [[(10, 48)], [(48, 80)], [(80, 100)]]);
        // Smaller than a unit: as it comes.
        assert_eq!(rounds(Domain::range(10..40, 16), 15), [[(10, 25)], [(25, 40)]]);
        // One window has no boundary to move.
        assert_eq!(rounds(Domain::range(10..26, 16), 16), [[(10, 26)]]);
    }

    #[test]
    fn windows_of_blocks_hold_whole_blocks() {
        let domain = Domain::blocks(0, 3, 10, 5..97);
        let blocks = [(5, 10), (30, 40), (60, 70), (90, 97)];
        assert_eq!(domain.window(0, 99).extents().map(|e| (e.start, e.end)).collect::<Vec<_>>(), blocks);
        assert_eq!(rounds(domain, 25), [[(5, 10), (30, 40)], [(60, 70), (90, 97)]]);
        assert_eq!(rounds(domain, 10), [[(5, 10)], [(30, 40)], [(60, 70)], [(90, 97)]]);
        let window = domain.window(1, 25);
        assert_eq!((window.bytes(), window.lo(), window.hi()), (17, 60, 97));
    }

    #[test]
    fn blocks_larger_than_the_buffer_are_cut() {
        let domain = Domain::blocks(0, 3, 10, 3..36);
        assert_eq!(rounds(domain, 4), [[(3, 7)], [(7, 10)], [(30, 34)], [(34, 36)]]);
    }

    #[test]
    fn rounds_beyond_the_last_cover_nothing() {
        for domain in [Domain::range(10..40, 16), Domain::blocks(0, 3, 10, 5..97)] {
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
