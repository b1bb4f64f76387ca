//! Ranges of bytes that are never empty, and sets of them.

use std::collections::BTreeMap;

/// Bytes `start..end` of a file; never empty. An end of `u64::MAX` means: to the end of the file, wherever it
/// is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockExtent {
    start: u64,
    end: u64,
}

impl LockExtent {
    /// The whole file.
    pub const ALL: LockExtent = LockExtent { start: 0, end: u64::MAX };

    /// The bytes `start..end`; `None` if there are none.
    pub fn new(start: u64, end: u64) -> Option<LockExtent> {
        (start < end).then_some(LockExtent { start, end })
    }

    /// The first byte.
    pub fn start(self) -> u64 {
        self.start
    }

    /// The first byte that is beyond.
    pub fn end(self) -> u64 {
        self.end
    }

    /// Whether they have bytes in common.
    pub fn overlaps(self, other: LockExtent) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// Whether all bytes of the other are among these.
    pub fn covers(self, other: LockExtent) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// The bytes in common.
    pub fn and(self, other: LockExtent) -> Option<LockExtent> {
        LockExtent::new(self.start.max(other.start), self.end.min(other.end))
    }

    /// The rest without the bytes of the other: up to two parts, in order.
    pub fn minus(self, other: LockExtent) -> impl Iterator<Item = LockExtent> + use<> {
        let below = LockExtent::new(self.start, self.end.min(other.start));
        let above = LockExtent::new(self.start.max(other.end), self.end);
        [below, above].into_iter().flatten()
    }

    /// The smallest extent around it that begins and ends at multiples of `unit`.
    pub fn widened(self, unit: u64) -> LockExtent {
        let end = self.end.checked_next_multiple_of(unit).unwrap_or(u64::MAX);
        LockExtent { start: self.start / unit * unit, end }
    }
}

/// The rest of `extents` without the bytes of `hole`.
pub(crate) fn without(extents: Vec<LockExtent>, hole: LockExtent) -> Vec<LockExtent> {
    extents.into_iter().flat_map(|extent| extent.minus(hole)).collect()
}

/// A set of extents that do not overlap. Adjacent extents are not merged.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExtentSet(BTreeMap<u64, u64>);

impl ExtentSet {
    pub fn insert(&mut self, run: LockExtent) {
        debug_assert!(!self.overlaps(run), "{run:?} lies upon another run");
        self.0.insert(run.start, run.end);
    }

    pub fn remove(&mut self, run: LockExtent) {
        let was = self.0.remove(&run.start);
        debug_assert_eq!(was, Some(run.end), "a run that is not there");
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = LockExtent> + '_ {
        self.0.iter().map(|(&start, &end)| LockExtent { start, end })
    }

    /// The runs with bytes in common with the extent, as a whole, in order.
    pub fn touching(&self, extent: LockExtent) -> impl Iterator<Item = LockExtent> + '_ {
        let before = self.0.range(..extent.start).next_back().filter(|&(_, &end)| end > extent.start);
        let within = self.0.range(extent.start..extent.end);
        before.into_iter().chain(within).map(|(&start, &end)| LockExtent { start, end })
    }

    pub fn overlaps(&self, extent: LockExtent) -> bool {
        self.touching(extent).next().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extent(start: u64, end: u64) -> LockExtent {
        LockExtent::new(start, end).expect("not empty")
    }

    fn any_extent() -> impl Strategy<Value = LockExtent> {
        (0u64..30, 1u64..12).prop_map(|(start, len)| extent(start, start + len))
    }

    fn bytes(extents: impl IntoIterator<Item = LockExtent>) -> Vec<u64> {
        extents.into_iter().flat_map(|e| e.start..e.end).collect()
    }

    #[test]
    fn widening_ends_at_the_end_of_all_files() {
        assert_eq!(extent(5, 9).widened(4), extent(4, 12));
        assert_eq!(extent(8, 12).widened(4), extent(8, 12));
        assert_eq!(extent(7, u64::MAX).widened(4), extent(4, u64::MAX));
        assert_eq!(extent(7, u64::MAX - 1).widened(1 << 40), extent(0, u64::MAX));
        assert_eq!(LockExtent::new(3, 3), None);
    }

    proptest! {
        #[test]
        fn extents_are_sets_of_bytes(a in any_extent(), b in any_extent()) {
            let in_b = |byte: &u64| (b.start..b.end).contains(byte);
            let (common, rest): (Vec<_>, Vec<_>) = (a.start..a.end).partition(in_b);
            prop_assert_eq!(a.overlaps(b), !common.is_empty());
            prop_assert_eq!(b.covers(a), rest.is_empty());
            prop_assert_eq!(bytes(a.and(b)), common);
            prop_assert_eq!(bytes(a.minus(b)), rest);
        }

        #[test]
        fn touching_finds_all(runs in prop::collection::vec(any_extent(), 0..12), at in any_extent()) {
            let mut set = ExtentSet::default();
            let mut list = Vec::new();
            for run in runs {
                if !set.overlaps(run) {
                    set.insert(run);
                    list.push(run);
                }
            }
            list.sort();
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), list.clone());
            list.retain(|run| run.overlaps(at));
            prop_assert_eq!(set.touching(at).collect::<Vec<_>>(), list);
        }
    }
}
