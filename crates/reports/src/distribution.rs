//! The distribution of many numbers in little memory.
//!
//! Numbers are counted in buckets, 16 per power of two, so that a median is right to about 3 %. Count, sum, minimum and
//! maximum are exact.

use std::collections::BTreeMap;

/// Count, sum, extremes and approximate median of many numbers.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    /// How many numbers there are.
    pub count: u64,
    sum: u128,
    min: u64,
    /// The largest number.
    pub max: u64,
    buckets: BTreeMap<u32, u64>,
}

impl Distribution {
    /// Adds a number.
    pub fn add(&mut self, value: u64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.count += 1;
        self.sum += u128::from(value);
        self.max = self.max.max(value);
        *self.buckets.entry(bucket(value)).or_default() += 1;
    }

    /// The mean, rounded down; 0 without numbers.
    pub fn mean(&self) -> u64 {
        (self.sum / u128::from(self.count.max(1))) as u64
    }

    /// The approximate median; 0 without numbers.
    pub fn median(&self) -> u64 {
        let mut below = 0;
        for (&bucket, &count) in &self.buckets {
            below += count;
            if 2 * below >= self.count {
                return middle(bucket).clamp(self.min, self.max);
            }
        }
        0
    }

    /// For each power of two that occurs, and 0: the power, and how many numbers are at least that and less than its double.
    pub fn powers(&self) -> Vec<(u64, u64)> {
        let mut powers: Vec<(u64, u64)> = Vec::new();
        for (&bucket, &count) in &self.buckets {
            let power = match lowest(bucket) {
                0 => 0,
                value => 1 << value.ilog2(),
            };
            match powers.last_mut() {
                Some((last, sum)) if *last == power => *sum += count,
                _ => powers.push((power, count)),
            }
        }
        powers
    }
}

/// Numbers below 32 have a bucket each; above, the five leading bits and the bits after them number it.
fn bucket(value: u64) -> u32 {
    let shift = (value | 1).ilog2().saturating_sub(4);
    16 * shift + (value >> shift) as u32
}

/// How many low bits the numbers of a bucket are free in.
fn shift(bucket: u32) -> u32 {
    (bucket / 16).saturating_sub(1)
}

fn lowest(bucket: u32) -> u64 {
    u64::from(bucket - 16 * shift(bucket)) << shift(bucket)
}

fn middle(bucket: u32) -> u64 {
    lowest(bucket) + (1 << shift(bucket)) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_numbers_are_exact() {
        let mut distribution = Distribution::default();
        [3, 1, 31, 0, 7].into_iter().for_each(|n| distribution.add(n));
        assert_eq!((distribution.mean(), distribution.median(), distribution.max), (8, 3, 31));
        assert_eq!(distribution.powers(), [(0, 1), (1, 1), (2, 1), (4, 1), (16, 1)]);
        assert_eq!(Distribution::default().median(), 0);
    }

    proptest! {
        #[test]
        fn a_number_lies_in_its_bucket(value in any::<u64>(), bits in 0u32..64) {
            let value = value >> bits;
            let bucket = bucket(value);
            prop_assert!(lowest(bucket) <= value && (value - lowest(bucket)) >> shift(bucket) == 0);
            prop_assert!(middle(bucket).abs_diff(value) <= value / 32 + 1);
        }

        #[test]
        fn a_median_is_nearly_right(mut values in prop::collection::vec(0u64..1 << 40, 1..200)) {
            let mut distribution = Distribution::default();
            values.iter().for_each(|&value| distribution.add(value));
            values.sort();
            let right = values[(values.len() - 1) / 2];
            prop_assert!(distribution.median().abs_diff(right) <= right / 31 + 1);
            prop_assert_eq!(distribution.powers().iter().map(|&(_, n)| n).sum::<u64>(), values.len() as u64);
        }
    }
}
