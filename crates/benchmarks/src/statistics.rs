//! Statistics of a few measurements: medians, ranges, and confidence intervals of their ratios.
//!
//! Run times are not normally distributed: they have a floor and a tail. So medians are compared, and the interval
//! of their ratio comes from resampling with replacement (the bootstrap). The generator is seeded: the same measurements
//! always give the same interval.

/// The number of resamples.
const RESAMPLES: usize = 2000;
/// Fewer measurements than this allow no conclusion.
pub const FEWEST: usize = 3;

/// The median of values in any order; NaN without values.
pub fn median(values: &[f64]) -> f64 {
    if values.is_empty() { f64::NAN } else { pario_io_models::median(values) }
}

/// The smallest and the largest value; NaN without values.
pub fn range(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::NAN, f64::NAN), |(low, high), value| (low.min(*value), high.max(*value)))
}

/// A ratio of medians with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MedianRatio {
    /// The ratio of the measured medians.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// How the second of two series of measurements differs from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is significantly larger, by more than the margin.
    Larger,
    /// It is significantly smaller, by more than the margin.
    Smaller,
    /// There is no significant difference.
    Alike,
    /// There are too few measurements.
    TooFew,
}

/// The median of `above` over that of `below`, with an interval of this confidence (such as 0.95). `None` unless
/// both have values, all of them above 0.
pub fn ratio(above: &[f64], below: &[f64], confidence: f64) -> Option<MedianRatio> {
    let usable = |values: &[f64]| !values.is_empty() && values.iter().all(|v| v.is_finite() && *v > 0.0);
    if !usable(above) || !usable(below) {
        return None;
    }
    let value = median(above) / median(below);
    let mut random = fastrand::Rng::with_seed(0x9e37_79b9_7f4a_7c15);
    let mut drawn = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        drawn.push(median_of_resample(above, &mut random) / median_of_resample(below, &mut random));
    }
    drawn.sort_by(f64::total_cmp);
    let tail = ((1.0 - confidence) / 2.0 * RESAMPLES as f64) as usize;
    let (low, high) = (drawn[tail], drawn[RESAMPLES - 1 - tail]);
    Some(MedianRatio { value, low: low.min(value), high: high.max(value) })
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

fn median_of_resample(values: &[f64], random: &mut fastrand::Rng) -> f64 {
    let draw: Vec<f64> = values.iter().map(|_| values[random.usize(..values.len())]).collect();
    median(&draw)
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
    fn a_clear_difference_is_found_and_too_few_measurements_are_not_compared() {
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
        let mut random = fastrand::Rng::with_seed(7);
        let mut series = || -> Vec<f64> {
            // A floor, a spread of a tenth, and now and then a run that takes twice as long.
            let mut noise = || random.f64();
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
