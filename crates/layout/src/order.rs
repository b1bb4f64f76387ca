//! In which order bytes are first used, in units that cannot be taken apart.
//!
//! A plan tells the order for ranges of any length, and what keeps them moves whole blocks. A block belongs where the
//! first used of its bytes does: so whoever uses the ranges in their order needs each block first when it is next.

use std::collections::HashSet;
use std::ops::Range;

/// The units of so many bytes, numbered from 0 on, that these ranges have bytes of, in the order in which they first do;
/// as few runs as possible. No two ranges overlap.
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

/// The bytes of such units.
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

        /// What smaller units tell is enough for larger ones.
        #[test]
        fn units_can_be_taken_together_later(ranges in any_order(3000), small in 1u64..20, times in 1u64..20) {
            let told = units(ranges.clone(), small);
            let from_small: Vec<_> = bytes(&told, small).collect();
            prop_assert_eq!(units(from_small, small * times), units(ranges, small * times));
        }

        /// Who uses ranges in their order, and keeps what he got, gets units from front to back.
        #[test]
        fn who_follows_the_order_only_goes_forward(ranges in any_order(3000), unit in 1u64..300) {
            let laid: Vec<u64> = units(ranges.clone(), unit).into_iter().flatten().collect();
            let position = |unit: u64| laid.iter().position(|other| *other == unit).expect("it is there");
            let mut got = HashSet::new();
            let touched = ranges.into_iter().flatten().map(|at| at / unit).filter(|unit| got.insert(*unit));
            prop_assert!(touched.map(position).is_sorted());
        }
    }
}
