//! Many values of a cell become one.

/// The reducer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reducer {
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// The one in the middle; of an even number, the mean of the two in the middle.
    Median,
    /// The coefficient of variation: the standard deviation (of all there are) divided by the mean.
    Variation,
    /// The number of models.
    Count,
}

impl Reducer {
    /// All of them.
    pub const ALL: [Reducer; 5] =
        [Reducer::Max, Reducer::Min, Reducer::Median, Reducer::Variation, Reducer::Count];

    /// In one word, as in files and addresses.
    pub fn word(self) -> &'static str {
        match self {
            Reducer::Max => "max",
            Reducer::Min => "min",
            Reducer::Median => "median",
            Reducer::Variation => "variation",
            Reducer::Count => "count",
        }
    }

    /// The one value; there is at least one to reduce.
    pub fn reduce(self, values: &[f64]) -> f64 {
        assert!(!values.is_empty(), "a cell has a model");
        let count = values.len() as f64;
        match self {
            Reducer::Max => values.iter().copied().fold(f64::MIN, f64::max),
            Reducer::Min => values.iter().copied().fold(f64::MAX, f64::min),
            Reducer::Median => median(values),
            Reducer::Variation => {
                let mean = values.iter().sum::<f64>() / count;
                let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
                if mean == 0.0 { 0.0 } else { variance.sqrt() / mean }
            }
            Reducer::Count => count,
        }
    }
}

/// The value in the middle; there is at least one.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_lists_by_hand() {
        let reduce = |values: &[f64]| Reducer::ALL.map(|reducer| reducer.reduce(values));
        assert_eq!(reduce(&[5.0]), [5.0, 5.0, 5.0, 0.0, 1.0]);
        assert_eq!(reduce(&[3.0, 1.0]), [3.0, 1.0, 2.0, 0.5, 2.0]);
        assert_eq!(reduce(&[2.0, 9.0, 4.0])[..3], [9.0, 2.0, 4.0]);
        assert_eq!(reduce(&[0.0, 0.0])[3], 0.0);
    }
}
