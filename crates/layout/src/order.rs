//! The order in which bytes are first used, in whole units.
//!
//! A placement plan gives the order for ranges of any length, while storage moves whole blocks. A block is ordered by the
//! first of its bytes that is used. So a program that uses the ranges in order needs the blocks in order, too.

use std::collections::HashSet;
use std::ops::Range;

/// The units of `unit` bytes, numbered from 0, that the ranges touch, in the order of their first use; adjacent units are
/// joined into runs. The ranges must not overlap.
pub fn units(ranges: impl IntoIterator<Item = Range<u64>>, unit: u64) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    // Units that several ranges may have bytes of, and one had: those that the ends of ranges cut.
    let mut shared = HashSet::new();
    for range in ranges.into_iter().filter(|range| !range.is_empty()) {
        let mut run = range.start / unit..range.end.div_ceil(unit);
        let [begins, ends] = [range.start, range.end].map(|at| at % unit == 0);
        if run.end - run.start == 1 {
            let is_shared = !begins || !ends;
            run.start += u64::from(is_shared && !shared.insert(run.start));
        } else {
            let (first, last) = (run.start, run.end - 1);
            run.start += u64::from(!begins && !shared.insert(first));
            run.end -= u64::from(!ends && !shared.insert(last));
        }
        match runs.last_mut() {
            _ if run.is_empty() => {}
            Some(before) if before.end == run.start => before.end = run.end,
            _ => runs.push(run),
        }
    }
    runs
}

/// The byte ranges of units.
pub(crate) fn bytes(units: &[Range<u64>], unit: u64) -> impl Iterator<Item = Range<u64>> + '_ {
    units.iter().map(move |run| run.start * unit..run.end.saturating_mul(unit).min(i64::MAX as u64))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Ranges apart from each other in any order.
    pub(crate) fn any_order(below: u64) -> impl Strategy<Value = Vec<Range<u64>>> {
        let cuts = prop::collection::btree_set(0..below, 0..20).prop_map(|cuts| {
            let cuts: Vec<u64> = cuts.into_iter().collect();
            cuts.windows(2).map(|two| two[0]..two[1]).collect::<Vec<_>>()
        });
        (cuts.prop_shuffle(), 0usize..20).prop_map(|(mut ranges, most)| {
            ranges.truncate(most);
            ranges
        })
    }

    proptest! {
        #[test]
        fn units_are_in_the_order_in_which_bytes_come(ranges in any_order(300), unit in 1u64..40) {
            let mut naive: Vec<u64> = Vec::new();
            for at in ranges.iter().cloned().flatten() {
                if !naive.contains(&(at / unit)) {
                    naive.push(at / unit);
                }
            }
            let runs = units(ranges, unit);
            prop_assert!(runs.windows(2).all(|two| two[0].end != two[1].start));
            prop_assert_eq!(runs.into_iter().flatten().collect::<Vec<_>>(), naive);
        }

        /// The order of larger units follows from that of smaller units.
        #[test]
        fn units_can_be_taken_together_later(ranges in any_order(3000), small in 1u64..20, times in 1u64..20) {
            let told = units(ranges.clone(), small);
            let from_small: Vec<_> = bytes(&told, small).collect();
            prop_assert_eq!(units(from_small, small * times), units(ranges, small * times));
        }

        /// A reader that uses the ranges in order and caches units reads the units from front to back.
        #[test]
        fn a_reader_in_order_only_goes_forward(ranges in any_order(3000), unit in 1u64..300) {
            let laid: Vec<u64> = units(ranges.clone(), unit).into_iter().flatten().collect();
            let position = |unit: u64| laid.iter().position(|other| *other == unit).expect("it is there");
            let mut got = HashSet::new();
            let touched = ranges.into_iter().flatten().map(|at| at / unit).filter(|unit| got.insert(*unit));
            prop_assert!(touched.map(position).is_sorted());
        }
    }
}
