//! The set of bytes of a file that are copied.

use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint ranges that do not touch, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet(BTreeMap<u64, u64>);

impl RangeSet {
    /// Adds these bytes.
    pub fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        // Ranges that overlap or touch it are merged into it.
        while let Some((&from, &to)) = self.0.range(..=end).next_back().filter(|(_, to)| **to >= start) {
            self.0.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.0.insert(start, end);
    }

    /// The first byte from `at` on that is not in the set.
    pub fn next_missing(&self, at: u64) -> u64 {
        match self.0.range(..=at).next_back() {
            Some((_, &to)) if to > at => to,
            _ => at,
        }
    }

    /// The first byte from `at` on that is in the set.
    pub fn next_present(&self, at: u64) -> Option<u64> {
        if self.next_missing(at) == at { self.0.range(at..).next().map(|(&from, _)| from) } else { Some(at) }
    }

    /// The number of bytes in the set.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|(from, to)| to - from).sum()
    }

    /// The ranges, in order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().map(|(&from, &to)| from..to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_set_of_bytes(inserted in prop::collection::vec((0u64..60, 0u64..12), 0..20)) {
            let mut ranges = RangeSet::default();
            let mut naive = [false; 80];
            for (start, len) in inserted {
                ranges.insert(start..start + len);
                (start..start + len).for_each(|byte| naive[byte as usize] = true);
                prop_assert_eq!(ranges.total(), naive.iter().filter(|is_in| **is_in).count() as u64);
            }
            for at in 0..70u64 {
                let next = |wanted: bool| (at..80).find(|byte| naive[*byte as usize] == wanted);
                prop_assert_eq!(Some(ranges.next_missing(at)), next(false));
                prop_assert_eq!(ranges.next_present(at), next(true));
            }
            let all: Vec<_> = ranges.iter().collect();
            prop_assert!(all.windows(2).all(|pair| pair[0].end < pair[1].start), "{:?}", all);
            let mut again = RangeSet::default();
            all.into_iter().for_each(|range| again.insert(range));
            prop_assert_eq!(again, ranges);
        }
    }
}
