//! A set of bytes as sorted ranges that neither overlap nor touch.

use std::ops::Range;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges(Vec<Range<u64>>);

impl Ranges {
    pub fn one(range: Range<u64>) -> Ranges {
        let mut ranges = Ranges::default();
        ranges.insert(range);
        ranges
    }

    /// The memory of so many ranges.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + '_ {
        self.0.iter().cloned()
    }

    /// The range from the first byte to the last.
    pub fn span(&self) -> Option<Range<u64>> {
        Some(self.0.first()?.start..self.0.last()?.end)
    }

    pub fn contains(&self, range: &Range<u64>) -> bool {
        range.is_empty()
            || self.0[self.first_beyond(range.start)..].first().is_some_and(|found| covers(found, range))
    }

    /// Whether a range overlaps or touches this one, so that it would not add another range.
    pub fn meets(&self, range: &Range<u64>) -> bool {
        let from = self.0.partition_point(|one| one.end < range.start);
        range.is_empty() || self.0.get(from).is_some_and(|one| one.start <= range.end)
    }

    pub fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        // All ranges that overlap or touch become one.
        let from = self.0.partition_point(|one| one.end < range.start);
        let to = self.0.partition_point(|one| one.start <= range.end);
        let merged = match self.0[from..to] {
            [] => range,
            ref met => range.start.min(met[0].start)..range.end.max(met[met.len() - 1].end),
        };
        self.0.splice(from..to, [merged]);
    }

    pub fn remove(&mut self, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        let from = self.first_beyond(range.start);
        let to = self.0.partition_point(|one| one.start < range.end).max(from);
        let left = self.0[from..to]
            .iter()
            .flat_map(|one| [one.start..one.end.min(range.start), one.start.max(range.end)..one.end]);
        let left: Vec<_> = left.filter(|one| one.start < one.end).collect();
        self.0.splice(from..to, left);
    }

    /// The index of the first range that ends beyond a byte.
    fn first_beyond(&self, at: u64) -> usize {
        self.0.partition_point(|one| one.end <= at)
    }
}

fn covers(outer: &Range<u64>, inner: &Range<u64>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_a_set_of_bytes(
            steps in prop::collection::vec((any::<bool>(), 0u64..64, 0u64..16), 0..60),
            asked in (0u64..64, 0u64..16),
        ) {
            let (mut ranges, mut bytes) = (Ranges::default(), [false; 80]);
            for (insert, at, len) in steps {
                bytes[at as usize..(at + len) as usize].fill(insert);
                match insert {
                    true => ranges.insert(at..at + len),
                    false => ranges.remove(&(at..at + len)),
                }
                let mut found = [false; 80];
                ranges.iter().for_each(|one| found[one.start as usize..one.end as usize].fill(true));
                prop_assert_eq!(found, bytes);
                prop_assert!(ranges.0.iter().all(|one| one.start < one.end));
                prop_assert!(ranges.0.windows(2).all(|two| two[0].end < two[1].start), "sorted and apart");
            }
            let asked = asked.0..asked.0 + asked.1;
            let these = &bytes[asked.start as usize..asked.end as usize];
            prop_assert_eq!(ranges.contains(&asked), these.iter().all(|set| *set));
            prop_assert_eq!(ranges.span().is_none(), ranges.is_empty());
            let (meets, before) = (ranges.meets(&asked), ranges.len());
            ranges.insert(asked.clone());
            prop_assert_eq!(meets, asked.is_empty() || ranges.len() <= before);
        }
    }
}
