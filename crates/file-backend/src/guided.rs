//! Guided prefetch: decides when to tell the system which bytes are read next and which are no longer needed.
//!
//! An I/O agent knows the whole list of accesses before the first one. Ordinary read-ahead handles a single range and
//! ranges at equal strides, so these are left to it. For any other list, one covering range is computed for each block.
//! The loop goes through these in ascending order: it prefetches some, accesses some, releases those, and so on. The
//! system may refuse a prefetch at any time; then the access goes on without it.
//!
//! This module decides; `read_ranges` performs the operations on the file ([`GuidedAccess`]). Covering ranges are computed
//! one by one from the view, so memory depends neither on the number of pieces nor on the number of blocks. Ranges are
//! prefetched and released several at a time, because for a file on a partition each call is a message.

use std::collections::VecDeque;
use std::ops::Range;

use pario_types::{Offset, Pos, PrefetchLimits};
use pario_view::{Run, View};

/// The operations of guided prefetch on one file.
pub(crate) trait GuidedAccess {
    /// The reason for an early end.
    type Stop;

    /// Prefetches ranges. Returns how many were accepted, from the first on; the others are refused.
    fn prefetch(&mut self, ranges: &[Range<u64>]) -> usize;

    /// Performs all accesses within a range.
    fn access(&mut self, range: Range<u64>) -> Result<(), Self::Stop>;

    /// Releases prefetched ranges: each one that was not refused exactly once, in order.
    fn release(&mut self, ranges: &[Range<u64>]);
}

/// Goes through covering ranges in their order.
pub(crate) fn run_guided<G: GuidedAccess>(
    covers: impl Iterator<Item = Range<u64>>,
    limits: PrefetchLimits,
    guide: &mut G,
) -> Result<(), G::Stop> {
    let mut state = PrefetchLoop { guide, ready: VecDeque::new() };
    let result = state.run(covers, limits);
    // After an early end some are left.
    state.release(state.ready.len());
    result
}

/// Whether ordinary read-ahead recognises these pieces: at most two, or equal ones at equal distances. The first and
/// the last may be parts of such pieces, because requests are cut anywhere.
pub(crate) fn is_regular(mut runs: impl Iterator<Item = Run>) -> bool {
    let (Some(mut before), Some(second)) = (runs.next(), runs.next()) else { return true };
    if before.count == 1 && before.len < second.len {
        // Of a first piece only the end is where it belongs.
        before.offset = before.offset.wrapping_sub_unsigned(second.len - before.len);
        before.len = second.len;
    }
    let piece = before.len;
    let mut stride = (before.count > 1).then_some(before.stride);
    std::iter::once(second).chain(runs).all(|next| {
        let from = before.offset.wrapping_add(before.stride.wrapping_mul(before.count as i64 - 1));
        let distance = next.offset.wrapping_sub(from);
        let follows = before.len == piece && *stride.get_or_insert(distance) == distance;
        let alike = next.count == 1 || (next.stride == distance && next.len == piece);
        before = next;
        follows && alike && next.len <= piece
    })
}

/// For each block that positions of a view touch, the smallest range that covers what they touch in it. The
/// view's offsets ascend, and so do the positions.
pub(crate) struct CoveringRanges<'a> {
    view: &'a View,
    parts: std::slice::Iter<'a, Range<Pos>>,
    /// The rest of the part under way.
    open: Range<u64>,
    block: u64,
}

impl<'a> CoveringRanges<'a> {
    pub fn new(view: &'a View, parts: &'a [Range<Pos>], block: u64) -> CoveringRanges<'a> {
        CoveringRanges { view, parts: parts.iter(), open: 0..0, block: block.max(1) }
    }

    /// The offset of the next byte, if there is one.
    fn next_offset(&mut self) -> Option<u64> {
        while self.open.is_empty() {
            let part = self.parts.next()?;
            self.open = part.start.0..part.end.0;
        }
        self.view.select(Pos(self.open.start)).map(|offset| offset.0)
    }
}

impl Iterator for CoveringRanges<'_> {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        let start = self.next_offset()?;
        let block_end = (start / self.block + 1).saturating_mul(self.block);
        let mut last = start;
        while self.next_offset().is_some_and(|at| at < block_end) {
            // At least one position is below, so there is a last one, and it lies in the file.
            let below = self.view.rank(Offset(block_end)).0.min(self.open.end);
            last = self.view.select(Pos(below - 1))?.0;
            self.open.start = below;
        }
        Some(start..last + 1)
    }
}

struct PrefetchLoop<'a, G> {
    guide: &'a mut G,
    /// Ranges that were prefetched and are not released yet; the next ones to access.
    ready: VecDeque<Range<u64>>,
}

impl<G: GuidedAccess> PrefetchLoop<'_, G> {
    fn run(
        &mut self,
        mut covers: impl Iterator<Item = Range<u64>>,
        limits: PrefetchLimits,
    ) -> Result<(), G::Stop> {
        // Those after the ready ones, as far as they were looked at.
        let mut next: Vec<Range<u64>> = Vec::new();
        loop {
            // A refusal means that there is no more room: the same range is tried again after a release.
            let room = limits.max_pre - self.ready.len();
            next.extend(covers.by_ref().take(room.max(1).saturating_sub(next.len())));
            let asked = &next[..room.min(next.len())];
            if !asked.is_empty() {
                let taken = self.guide.prefetch(asked).min(asked.len());
                self.ready.extend(next.drain(..taken));
            }
            if self.ready.is_empty() {
                if next.is_empty() {
                    return Ok(());
                }
                self.guide.access(next.remove(0))?;
                continue;
            }
            let turn = self.ready.len().min(limits.max_acc.max(1));
            for range in self.ready.range(..turn) {
                self.guide.access(range.clone())?;
            }
            self.release(turn);
        }
    }

    fn release(&mut self, count: usize) {
        let ranges: Vec<_> = self.ready.drain(..count).collect();
        if !ranges.is_empty() {
            self.guide.release(&ranges);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario_reference_model::arb_file_type;
    use pario_view::{Basic, Pattern};
    use proptest::prelude::*;

    /// Records its calls: `p` prefetched, `x` refused, `a` accessed, `r` released, each with the
    /// block's number, for blocks of 10 bytes.
    #[derive(Default)]
    struct Notes {
        said: Vec<String>,
        refuse: Vec<usize>,
        prefetches: usize,
        stop_at: Option<u64>,
    }

    impl GuidedAccess for Notes {
        type Stop = u64;

        fn prefetch(&mut self, ranges: &[Range<u64>]) -> usize {
            let taken = ranges.iter().position(|range| {
                self.prefetches += 1;
                let refused = self.refuse.contains(&self.prefetches);
                self.said.push(format!("{}{}", if refused { 'x' } else { 'p' }, range.start / 10));
                refused
            });
            taken.unwrap_or(ranges.len())
        }

        fn access(&mut self, range: Range<u64>) -> Result<(), u64> {
            self.said.push(format!("a{}", range.start / 10));
            if self.stop_at == Some(range.start / 10) { Err(range.start) } else { Ok(()) }
        }

        fn release(&mut self, ranges: &[Range<u64>]) {
            self.said.extend(ranges.iter().map(|range| format!("r{}", range.start / 10)));
        }
    }

    fn limits(max_pre: usize, max_acc: usize) -> PrefetchLimits {
        PrefetchLimits { block: 10, max_pre, max_acc }
    }

    fn in_blocks(blocks: &[u64]) -> impl Iterator<Item = Range<u64>> {
        blocks.iter().map(|block| block * 10 + block % 3..block * 10 + 5)
    }

    fn toured(blocks: &[u64], limits: PrefetchLimits, refuse: &[usize]) -> String {
        let mut notes = Notes { refuse: refuse.to_vec(), ..Notes::default() };
        assert_eq!(run_guided(in_blocks(blocks), limits, &mut notes), Ok(()));
        notes.said.join(" ")
    }

    #[test]
    fn ranges_are_made_ready_accessed_released_and_topped_up() {
        let blocks = [0, 1, 4, 6, 9];
        assert_eq!(toured(&blocks, limits(2, 1), &[]), "p0 p1 a0 r0 p4 a1 r1 p6 a4 r4 p9 a6 r6 a9 r9");
        assert_eq!(toured(&blocks, limits(3, 2), &[]), "p0 p1 p4 a0 a1 r0 r1 p6 p9 a4 a6 r4 r6 a9 r9");
        assert_eq!(toured(&blocks, limits(9, 9), &[]), "p0 p1 p4 p6 p9 a0 a1 a4 a6 a9 r0 r1 r4 r6 r9");
    }

    #[test]
    fn refused_prefetches_are_retried_and_accessed_anyway() {
        let all: Vec<usize> = (1..=20).collect();
        assert_eq!(toured(&[0, 1, 4], limits(2, 2), &all), "x0 a0 x1 a1 x4 a4");
        assert_eq!(toured(&[0, 1, 4, 6], limits(3, 2), &[2]), "p0 x1 a0 r0 p1 p4 p6 a1 a4 r1 r4 a6 r6");
        assert_eq!(toured(&[0, 1, 4], limits(0, 3), &[]), "a0 a1 a4");
    }

    #[test]
    fn an_early_end_releases_what_was_ready() {
        let mut notes = Notes { stop_at: Some(1), ..Notes::default() };
        assert_eq!(run_guided(in_blocks(&[0, 1, 4, 6, 9]), limits(3, 2), &mut notes), Err(11));
        assert_eq!(notes.said.join(" "), "p0 p1 p4 a0 a1 r0 r1 r4");
        let mut notes = Notes { stop_at: Some(0), refuse: vec![1], ..Notes::default() };
        assert_eq!(run_guided(in_blocks(&[0, 1, 4]), limits(3, 2), &mut notes), Err(0));
        assert_eq!(notes.said.join(" "), "x0 a0");
    }

    fn run(offset: i64, len: u64, stride: i64, count: u64) -> Run {
        Run { offset, len, stride, count, basic: Basic::BYTE }
    }

    #[test]
    fn equal_pieces_at_equal_distances_are_regular_and_may_be_cut_at_the_ends() {
        let piece = |offset, len| run(offset, len, 0, 1);
        let regular: &[&[Run]] = &[
            &[],
            &[piece(7, 9)],
            &[run(4, 4, 16, 100)],
            &[piece(7, 1), piece(900, 30)],
            &[piece(6, 2), run(20, 4, 16, 9), piece(164, 1)],
            &[run(0, 4, 16, 3), run(48, 4, 16, 3), run(96, 4, 16, 2)],
            &[piece(0, 5), piece(10, 5), piece(20, 5), piece(30, 2)],
            &[piece(3, 2), piece(10, 5), piece(20, 5)],
        ];
        for runs in regular {
            assert!(is_regular(runs.iter().copied()), "{runs:?}");
        }
        let irregular: &[&[Run]] = &[
            &[piece(0, 5), piece(10, 5), piece(21, 5)],
            &[piece(0, 5), piece(10, 6), piece(20, 5), piece(30, 6)],
            &[piece(0, 5), piece(10, 4), piece(20, 5)],
            &[run(0, 4, 16, 3), run(50, 4, 16, 3)],
            &[run(0, 4, 16, 3), run(48, 4, 17, 3)],
            &[run(0, 4, 16, 3), run(48, 2, 16, 3)],
            &[run(0, 4, 16, 3), piece(48, 5)],
        ];
        for runs in irregular {
            assert!(!is_regular(runs.iter().copied()), "{runs:?}");
        }
    }

    #[test]
    fn each_block_has_one_covering_range() {
        let view = View::contiguous(Offset(0));
        let covers = |list: &[Range<u64>]| {
            let parts: Vec<_> = list.iter().map(|part| Pos(part.start)..Pos(part.end)).collect();
            CoveringRanges::new(&view, &parts, 10).collect::<Vec<_>>()
        };
        assert_eq!(covers(&[3..4, 7..9, 12..13, 15..16]), [3..9, 12..16]);
        assert_eq!(covers(&[5..32, 34..36, 60..61]), [5..10, 10..20, 20..30, 30..36, 60..61]);
        assert_eq!(covers(&[8..8, 8..10, 10..12]), [8..10, 10..12]);
        let end = i64::MAX as u64;
        assert_eq!(covers(&[3..4, end - 9..end]), [3..4, end - 9..end - 7, end - 7..end]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]

        #[test]
        fn every_byte_is_accessed_once_and_every_prefetch_released_once(
            filetype in arb_file_type(), disp in 0u64..100, block in 1u64..200,
            parts in prop::collection::vec((0u64..90, 0u64..90), 0..12),
            max_pre in 0usize..6, max_acc in 1usize..6,
            refuse in prop::collection::vec(1usize..60, 0..20), stop_at in prop::option::of(0u64..50),
        ) {
            let view = View::new(Offset(disp), Pattern::native(&filetype).unwrap());
            prop_assume!(view.tile().size() > 0 && view.is_monotone());
            let mut at = 0;
            let parts: Vec<_> = parts.into_iter().map(|(skip, len)| {
                let part = Pos(at + skip)..Pos(at + skip + len);
                at = part.end.0;
                part
            }).collect();
            let bytes: Vec<u64> = parts.iter().flat_map(|part| part.start.0..part.end.0)
                .map(|at| view.select(Pos(at)).unwrap().0).collect();
            let covers: Vec<_> = CoveringRanges::new(&view, &parts, block).collect();
            let mut expected: Vec<Range<u64>> = Vec::new();
            for byte in bytes {
                match expected.last_mut() {
                    Some(last) if last.start / block == byte / block => last.end = byte + 1,
                    _ => expected.push(byte..byte + 1),
                }
            }
            prop_assert_eq!(&covers, &expected);

            let mut notes = Notes { refuse, stop_at, ..Notes::default() };
            let result = run_guided(covers.iter().cloned(), limits(max_pre, max_acc), &mut notes);
            let said = |letter: char| notes.said.iter().filter_map(move |s| s.strip_prefix(letter));
            prop_assert!(said('p').eq(said('r')));
            if result.is_ok() {
                prop_assert_eq!(said('a').count(), covers.len());
            }
            let mut ready = 0;
            for word in &notes.said {
                ready += i32::from(word.starts_with('p')) - i32::from(word.starts_with('r'));
                prop_assert!((0..=max_pre as i32).contains(&ready));
            }
        }
    }
}
