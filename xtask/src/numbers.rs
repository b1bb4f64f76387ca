//! Repeated measurements: median, spread, and how they are shown.

use std::fmt;

/// Times of one thing measured several times, in seconds; or ratios of such times.
#[derive(Debug, Default, Clone)]
pub struct Times {
    sorted: Vec<f64>,
}

impl Times {
    pub fn add(&mut self, seconds: f64) {
        let at = self.sorted.partition_point(|known| *known <= seconds);
        self.sorted.insert(at, seconds);
    }

    pub fn median(&self) -> f64 {
        let n = self.sorted.len();
        match n {
            0 => f64::NAN,
            _ if n % 2 == 1 => self.sorted[n / 2],
            _ => f64::midpoint(self.sorted[n / 2 - 1], self.sorted[n / 2]),
        }
    }

    pub fn min(&self) -> f64 {
        self.sorted.first().copied().unwrap_or(f64::NAN)
    }

    pub fn max(&self) -> f64 {
        self.sorted.last().copied().unwrap_or(f64::NAN)
    }

    /// Quartile 1 (a quarter lies below) to 3, between the nearest measurements.
    pub fn quartile(&self, which: u32) -> f64 {
        let Some(last) = self.sorted.len().checked_sub(1) else { return f64::NAN };
        let at = last as f64 * f64::from(which) / 4.0;
        let below = self.sorted[at.floor() as usize];
        below + (self.sorted[at.ceil() as usize] - below) * at.fract()
    }

    /// `median (quartiles)` of ratios.
    pub fn as_ratio(&self) -> String {
        match self.sorted.len() {
            0 => "–".to_string(),
            _ => format!("{:.2} ({:.2}–{:.2})", self.median(), self.quartile(1), self.quartile(3)),
        }
    }
}

/// `median (min–max)` in milliseconds.
impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.sorted.is_empty() {
            return f.pad("–");
        }
        let ms = |seconds: f64| seconds * 1e3;
        f.pad(&format!("{:.2} ({:.2}–{:.2})", ms(self.median()), ms(self.min()), ms(self.max())))
    }
}

#[cfg(test)]
mod tests {
    use super::Times;

    #[test]
    fn median_and_spread() {
        let mut times = Times::default();
        assert_eq!(times.to_string(), "–");
        for seconds in [0.003, 0.001, 0.010] {
            times.add(seconds);
        }
        assert_eq!(times.to_string(), "3.00 (1.00–10.00)");
        times.add(0.005);
        assert!((times.median() - 0.004).abs() < 1e-12);
    }

    #[test]
    fn quartiles_lie_between_measurements() {
        let mut ratios = Times::default();
        assert_eq!(ratios.as_ratio(), "–");
        for ratio in [4.0, 1.0, 3.0, 2.0] {
            ratios.add(ratio);
        }
        assert_eq!(ratios.as_ratio(), "2.50 (1.75–3.25)");
    }
}
