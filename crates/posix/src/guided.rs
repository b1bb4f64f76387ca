//! Guided prefetch: when to tell the system which bytes come next, and which are done with.
//!
//! Whoever does the accesses of many (an I/O agent, an aggregator) knows the whole list before the first one.
//! One range, or ranges in equal strides, are what ordinary read-ahead is made for, and it is left alone. For
//! any other list one covering range is computed for each block of the file system, and these are gone
//! through in ascending order: some are prefetched ahead, some accessed, those released, and so on. The
//! system may refuse a prefetch at any time; then the access goes on without.
//!
//! This module decides; whoever calls it brings the file ([`Guide`]).

use std::collections::VecDeque;
use std::ops::Range;

/// A file that can be told what comes next.
pub trait Guide {
    /// What can go wrong in an access.
    type Error;

    /// Gets a range ready; `false` if that is refused.
    fn prefetch(&mut self, range: Range<u64>) -> bool;

    /// Does everything there is to do within a range.
    fn access(&mut self, range: Range<u64>) -> Result<(), Self::Error>;

    /// Gives up a range that was made ready: exactly once for every prefetch that was not refused.
    fn release(&mut self, range: Range<u64>);
}

/// How far to go ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a block; at least 1.
    pub block: u64,
    /// Ranges that are ready at a time.
    pub max_pre: usize,
    /// Ranges that are accessed before the next ones are made ready; 0 turns guided prefetch off.
    pub max_acc: usize,
}

/// Goes through a list of accesses, in ascending order, one covering range for each block. `false`: this
/// list is better left to ordinary read-ahead, and nothing was done.
pub fn access<G: Guide>(accesses: &[Range<u64>], limits: Limits, guide: &mut G) -> Result<bool, G::Error> {
    let stretches = stretches(accesses);
    if limits.max_acc == 0 || is_regular(&stretches) {
        return Ok(false);
    }
    let mut tour = Tour { guide, ready: VecDeque::new() };
    let result = tour.run(Covers::new(stretches, limits.block), limits);
    // After an error some are left.
    tour.release(tour.ready.len());
    result.map(|()| true)
}

/// The accessed bytes in ascending order, with what touches or overlaps joined.
fn stretches(accesses: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut sorted: Vec<_> = accesses.iter().filter(|range| !range.is_empty()).cloned().collect();
    sorted.sort_unstable_by_key(|range| range.start);
    sorted.dedup_by(|next, last| {
        let joined = next.start <= last.end;
        if joined {
            last.end = last.end.max(next.end);
        }
        joined
    });
    sorted
}

/// Whether ordinary read-ahead sees through this: at most one stretch, or equal ones at equal distances.
fn is_regular(stretches: &[Range<u64>]) -> bool {
    let equal = |pair: &[Range<u64>]| pair[0].end - pair[0].start == pair[1].end - pair[1].start;
    let mut strides = stretches.windows(2).map(|pair| pair[1].start - pair[0].start);
    let first = strides.next();
    stretches.windows(2).all(equal) && strides.all(|stride| Some(stride) == first)
}

/// For each block that stretches touch, the smallest range that covers what they touch in it.
struct Covers {
    stretches: std::vec::IntoIter<Range<u64>>,
    /// What is left of the stretch under way.
    open: Option<Range<u64>>,
    block: u64,
}

impl Covers {
    fn new(stretches: Vec<Range<u64>>, block: u64) -> Covers {
        let mut stretches = stretches.into_iter();
        let open = stretches.next();
        Covers { stretches, open, block: block.max(1) }
    }
}

impl Iterator for Covers {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        let start = self.open.as_ref()?.start;
        let block_end = (start / self.block).saturating_add(1).saturating_mul(self.block);
        let mut end = start;
        while let Some(open) = self.open.take() {
            if open.start >= block_end {
                self.open = Some(open);
                break;
            }
            end = open.end.min(block_end);
            self.open = if open.end > block_end { Some(block_end..open.end) } else { self.stretches.next() };
        }
        Some(start..end)
    }
}

struct Tour<'a, G> {
    guide: &'a mut G,
    /// Ranges that were prefetched and are not released yet; the next ones to access.
    ready: VecDeque<Range<u64>>,
}

impl<G: Guide> Tour<'_, G> {
    fn run(&mut self, covers: Covers, limits: Limits) -> Result<(), G::Error> {
        let mut covers = covers.peekable();
        loop {
            // A refusal means that there is no more room: the same range is tried again after a release.
            while self.ready.len() < limits.max_pre {
                let Some(range) = covers.next_if(|range| self.guide.prefetch(range.clone())) else { break };
                self.ready.push_back(range);
            }
            if self.ready.is_empty() {
                match covers.next() {
                    None => return Ok(()),
                    Some(range) => self.guide.access(range)?,
                }
                continue;
            }
            let turn = self.ready.len().min(limits.max_acc);
            for range in self.ready.range(..turn) {
                self.guide.access(range.clone())?;
            }
            self.release(turn);
        }
    }

    fn release(&mut self, count: usize) {
        for range in self.ready.drain(..count) {
            self.guide.release(range);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Writes down what it is told: `p` prefetched, `x` refused, `a` accessed, `r` released, each with the
    /// block's number, for blocks of 10 bytes.
    #[derive(Default)]
    struct Notes {
        said: Vec<String>,
        refuse: Vec<usize>,
        prefetches: usize,
        fail_at: Option<u64>,
    }

    impl Guide for Notes {
        type Error = u64;

        fn prefetch(&mut self, range: Range<u64>) -> bool {
            self.prefetches += 1;
            let taken = !self.refuse.contains(&self.prefetches);
            self.said.push(format!("{}{}", if taken { 'p' } else { 'x' }, range.start / 10));
            taken
        }

        fn access(&mut self, range: Range<u64>) -> Result<(), u64> {
            self.said.push(format!("a{}", range.start / 10));
            if self.fail_at == Some(range.start / 10) { Err(range.start) } else { Ok(()) }
        }

        fn release(&mut self, range: Range<u64>) {
            self.said.push(format!("r{}", range.start / 10));
        }
    }

    fn limits(max_pre: usize, max_acc: usize) -> Limits {
        Limits { block: 10, max_pre, max_acc }
    }

    /// One access in each of these blocks, irregular.
    fn in_blocks(blocks: &[u64]) -> Vec<Range<u64>> {
        blocks.iter().map(|block| block * 10 + block % 3..block * 10 + 5).collect()
    }

    fn tour(blocks: &[u64], limits: Limits, refuse: &[usize]) -> String {
        let mut notes = Notes { refuse: refuse.to_vec(), ..Notes::default() };
        assert_eq!(access(&in_blocks(blocks), limits, &mut notes), Ok(true));
        notes.said.join(" ")
    }

    #[test]
    fn ranges_are_made_ready_accessed_released_and_topped_up() {
        let blocks = [0, 1, 4, 6, 9];
        assert_eq!(tour(&blocks, limits(2, 1), &[]), "p0 p1 a0 r0 p4 a1 r1 p6 a4 r4 p9 a6 r6 a9 r9");
        assert_eq!(tour(&blocks, limits(3, 2), &[]), "p0 p1 p4 a0 a1 r0 r1 p6 p9 a4 a6 r4 r6 a9 r9");
        assert_eq!(tour(&blocks, limits(9, 9), &[]), "p0 p1 p4 p6 p9 a0 a1 a4 a6 a9 r0 r1 r4 r6 r9");
    }

    #[test]
    fn what_is_refused_is_tried_again_and_accessed_anyway() {
        let all: Vec<usize> = (1..=20).collect();
        assert_eq!(tour(&[0, 1, 4], limits(2, 2), &all), "x0 a0 x1 a1 x4 a4");
        assert_eq!(tour(&[0, 1, 4, 6], limits(3, 2), &[2]), "p0 x1 a0 r0 p1 p4 p6 a1 a4 r1 r4 a6 r6");
        assert_eq!(tour(&[0, 1, 4], limits(0, 3), &[]), "a0 a1 a4");
    }

    #[test]
    fn it_is_left_to_read_ahead_what_read_ahead_can_do() {
        let strided: Vec<_> = (0..9).map(|i| i * 25..i * 25 + 7).collect();
        let one: Vec<_> = vec![20..30, 0..20, 30..55];
        let sparse: Vec<_> = vec![7..8, 90..91];
        for list in [&strided, &one, &sparse, &vec![], &vec![5..5, 9..9]] {
            let mut notes = Notes::default();
            assert_eq!(access(list, limits(2, 2), &mut notes), Ok(false));
            assert!(notes.said.is_empty());
        }
        let mut notes = Notes::default();
        assert_eq!(access(&in_blocks(&[0, 1, 4, 6]), limits(2, 0), &mut notes), Ok(false), "turned off");
        assert!(notes.said.is_empty());
    }

    #[test]
    fn an_error_ends_the_tour_and_releases_what_was_ready() {
        let mut notes = Notes { fail_at: Some(1), ..Notes::default() };
        assert_eq!(access(&in_blocks(&[0, 1, 4, 6, 9]), limits(3, 2), &mut notes), Err(11));
        assert_eq!(notes.said.join(" "), "p0 p1 p4 a0 a1 r0 r1 r4");
        let mut notes = Notes { fail_at: Some(0), refuse: vec![1], ..Notes::default() };
        assert_eq!(access(&in_blocks(&[0, 1, 4]), limits(3, 2), &mut notes), Err(0));
        assert_eq!(notes.said.join(" "), "x0 a0");
    }

    #[test]
    fn each_block_has_one_covering_range() {
        let covers = |list: &[Range<u64>]| Covers::new(stretches(list), 10).collect::<Vec<_>>();
        assert_eq!(covers(&[12..13, 3..4, 7..9, 15..16]), [3..9, 12..16]);
        assert_eq!(covers(&[5..32, 34..36, 60..61]), [5..10, 10..20, 20..30, 30..36, 60..61]);
        assert_eq!(covers(&[8..10, 9..12, 8..9]), [8..10, 10..12]);
        assert_eq!(covers(&[3..4, u64::MAX - 5..u64::MAX]), [3..4, u64::MAX - 5..u64::MAX]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn every_byte_is_accessed_once_and_every_prefetch_released_once(
            list in prop::collection::vec((0u64..500, 0u64..40), 0..30),
            max_pre in 0usize..6, max_acc in 1usize..6,
            refuse in prop::collection::vec(1usize..60, 0..20), fail_at in prop::option::of(0u64..50),
        ) {
            let list: Vec<_> = list.into_iter().map(|(start, len)| start..start + len).collect();
            let covers: Vec<_> = Covers::new(stretches(&list), 10).collect();
            // Each cover lies in one block, begins and ends with an accessed byte, and they ascend.
            prop_assert!(covers.iter().all(|c| c.start < c.end && c.start / 10 == (c.end - 1) / 10));
            prop_assert!(covers.windows(2).all(|pair| pair[0].start / 10 < pair[1].start / 10));
            let accessed = |at: u64| list.iter().any(|range| range.contains(&at));
            prop_assert!(covers.iter().all(|c| accessed(c.start) && accessed(c.end - 1)));
            prop_assert!(list.iter().flat_map(Range::clone).all(|at| covers.iter().any(|c| c.contains(&at))));

            let mut notes = Notes { refuse, fail_at, ..Notes::default() };
            let result = access(&list, limits(max_pre, max_acc), &mut notes);
            let said = |letter: char| {
                let mut of: Vec<_> = notes.said.iter().filter_map(|s| s.strip_prefix(letter)).collect();
                of.sort();
                of
            };
            prop_assert_eq!(said('p'), said('r'));
            if result == Ok(true) {
                prop_assert_eq!(said('a').len(), covers.len());
            }
            let mut ready = 0;
            for word in &notes.said {
                ready += i32::from(word.starts_with('p')) - i32::from(word.starts_with('r'));
                prop_assert!((0..=max_pre as i32).contains(&ready));
            }
        }
    }
}
