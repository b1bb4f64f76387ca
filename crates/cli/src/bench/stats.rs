//! What a few measurements say: medians, spreads, and how sure one can be that one is larger than another.
//!
//! Run times are not normally distributed: they have a floor and a tail. So medians are compared, and the interval
//! of their ratio comes from drawing the measurements again and again, with replacement (the bootstrap). It is pure
//! and seeded: the same measurements always give the same interval.

/// How often measurements are drawn again.
const DRAWS: usize = 2000;
/// Fewer measurements than this on a side say nothing about chance.
pub const FEWEST: usize = 3;

/// The middle of some values, which may be in any order; of none, NaN.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    of_sorted(&sorted)
}

fn of_sorted(sorted: &[f64]) -> f64 {
    match (sorted.len() / 2, sorted.len() % 2) {
        (0, 0) => f64::NAN,
        (half, 1) => sorted[half],
        (half, _) => sorted[half - 1].midpoint(sorted[half]),
    }
}

/// The smallest and the largest of some values; of none, NaN.
pub fn range(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::NAN, f64::NAN), |(low, high), value| (low.min(*value), high.max(*value)))
}

/// A ratio of medians, and where it lies with the confidence asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The ratio of what was measured.
    pub value: f64,
    /// The end of the interval below it.
    pub low: f64,
    /// The end of the interval above it.
    pub high: f64,
}

/// What two series of measurements say about each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The second is larger, by more than the margin, and hardly by chance.
    Larger,
    /// The second is smaller, likewise.
    Smaller,
    /// Neither.
    Alike,
    /// There are too few to say.
    TooFew,
}

/// The median of `above` over that of `below`, with an interval of this confidence (such as 0.95). `None` unless
/// both have values, all of them above 0.
pub fn ratio(above: &[f64], below: &[f64], confidence: f64) -> Option<Ratio> {
    let usable = |values: &[f64]| !values.is_empty() && values.iter().all(|v| v.is_finite() && *v > 0.0);
    if !usable(above) || !usable(below) {
        return None;
    }
    let value = median(above) / median(below);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut drawn = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        drawn.push(median_of_draw(above, &mut random) / median_of_draw(below, &mut random));
    }
    drawn.sort_by(f64::total_cmp);
    let tail = ((1.0 - confidence) / 2.0 * DRAWS as f64) as usize;
    let (low, high) = (drawn[tail], drawn[DRAWS - 1 - tail]);
    Some(Ratio { value, low: low.min(value), high: high.max(value) })
}

/// Whether `after` differs from `before` by more than a margin (0.05 is 5 %).
pub fn verdict(before: &[f64], after: &[f64], confidence: f64, margin: f64) -> Verdict {
    if before.len() < FEWEST || after.len() < FEWEST {
        return Verdict::TooFew;
    }
    match ratio(after, before, confidence) {
        Some(ratio) if ratio.low > 1.0 + margin => Verdict::Larger,
        Some(ratio) if ratio.high < 1.0 / (1.0 + margin) => Verdict::Smaller,
        Some(_) => Verdict::Alike,
        None => Verdict::TooFew,
    }
}

fn median_of_draw(values: &[f64], random: &mut Random) -> f64 {
    let draw: Vec<f64> = values.iter().map(|_| values[random.below(values.len())]).collect();
    median(&draw)
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        // Below n, which is a small number of measurements.
        ((high * n as u64) >> 32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn times() -> impl Strategy<Value = Vec<f64>> {
        proptest::collection::vec(0.001f64..100.0, 1..12)
    }

    #[test]
    fn medians() {
        assert!(median(&[]).is_nan());
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[9.0, 1.0, 5.0]), 5.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 8.0]), 3.0);
        assert_eq!(range(&[4.0, 1.0, 2.0]), (1.0, 4.0));
    }

    #[test]
    fn a_clear_difference_is_seen_and_too_little_data_is_not_judged() {
        let before = [1.00, 1.02, 0.99, 1.01, 1.03];
        let after = before.map(|time| time * 1.5);
        assert_eq!(verdict(&before, &after, 0.99, 0.05), Verdict::Larger);
        assert_eq!(verdict(&after, &before, 0.99, 0.05), Verdict::Smaller);
        assert_eq!(verdict(&before, &before, 0.99, 0.05), Verdict::Alike);
        assert_eq!(verdict(&before, &after, 0.99, 0.6), Verdict::Alike, "within the margin");
        assert_eq!(verdict(&before[..2], &after, 0.99, 0.05), Verdict::TooFew);
        assert_eq!(ratio(&[1.0, 0.0], &before, 0.95), None);
        assert_eq!(ratio(&[], &before, 0.95), None);
    }

    /// Of two series with the same noise, hardly any pair is judged to be different.
    #[test]
    fn noise_is_not_a_difference() {
        let mut random = Random(7);
        let mut series = || -> Vec<f64> {
            // A floor, a spread of a tenth, and now and then a run that takes twice as long.
            let mut noise = || random.below(1 << 20) as f64 / f64::from(1 << 20);
            (0..7).map(|_| 1.0 + 0.1 * noise() + if noise() < 0.1 { 1.0 } else { 0.0 }).collect()
        };
        let pairs = 400;
        let different =
            (0..pairs).filter(|_| verdict(&series(), &series(), 0.99, 0.05) != Verdict::Alike).count();
        assert!(different * 50 < pairs, "{different} of {pairs}");
    }

    /// The percentile interval by its definition, over all draws there are; fit for two or three values.
    fn all_draws(values: &[f64]) -> Vec<f64> {
        let n = values.len();
        let draws = (0..n.pow(n as u32)).map(|code| {
            let draw: Vec<f64> = (0..n).map(|i| values[code / n.pow(i as u32) % n]).collect();
            median(&draw)
        });
        draws.collect()
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_ratio(a in times(), b in times()) {
            let r = ratio(&a, &b, 0.95).expect("all above 0");
            prop_assert_eq!(r.value, median(&a) / median(&b));
            prop_assert!(r.low <= r.value && r.value <= r.high);
            // Nor does it leave what can be drawn.
            let ((a_low, a_high), (b_low, b_high)) = (range(&a), range(&b));
            prop_assert!(r.low >= a_low / b_high * 0.999_999 && r.high <= a_high / b_low * 1.000_001);
        }

        #[test]
        fn more_confidence_is_a_wider_interval(a in times(), b in times()) {
            let (sure, surer) = (ratio(&a, &b, 0.8).expect("a ratio"), ratio(&a, &b, 0.99).expect("a ratio"));
            prop_assert!(surer.low <= sure.low && sure.high <= surer.high);
        }

        #[test]
        fn the_unit_of_time_does_not_matter(a in times(), b in times(), exponent in -8i32..8) {
            let unit = 2f64.powi(exponent); // so that nothing is rounded
            let scaled = |values: &[f64]| values.iter().map(|v| v * unit).collect::<Vec<_>>();
            prop_assert_eq!(ratio(&scaled(&a), &scaled(&b), 0.95), ratio(&a, &b, 0.95));
        }

        #[test]
        fn values_all_alike_have_no_interval(value in 0.001f64..10.0, other in 0.001f64..10.0, n in 1usize..9) {
            let r = ratio(&vec![value; n], &vec![other; n], 0.99).expect("a ratio");
            prop_assert_eq!((r.low, r.high), (r.value, r.value));
        }

        #[test]
        fn drawing_is_fair(a in proptest::collection::vec(0.5f64..2.0, 2..4), b in 0.5f64..2.0) {
            // Against all draws there are: the ends of the interval are at least nearly the quantiles.
            let mut all: Vec<f64> = all_draws(&a).iter().map(|m| m / b).collect();
            all.sort_by(f64::total_cmp);
            let r = ratio(&a, &[b], 0.8).expect("a ratio");
            let share = |holds: &dyn Fn(f64) -> bool| {
                all.iter().filter(|v| holds(**v)).count() as f64 / all.len() as f64
            };
            prop_assert!(share(&|v| v < r.low) <= 0.1 + 0.05, "below {}", share(&|v| v < r.low));
            prop_assert!(share(&|v| v > r.high) <= 0.1 + 0.05, "above {}", share(&|v| v > r.high));
            prop_assert!(share(&|v| v <= r.low) >= 0.1 - 0.05 || r.low == r.value);
        }
    }
}
