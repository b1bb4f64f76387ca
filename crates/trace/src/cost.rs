//! The cost of recording, measured during recording, in ticks of the recorder's clock.
//!
//! It includes both readings of the clock of each operation, the work after the second one, turning operations into
//! entries, and writing them. Of the thread buffer's operations every [`SAMPLE`]th is measured. A measurement that took so
//! long that the thread must have been interrupted counts as the mean of the rest; only writing, which may wait for a disk,
//! counts in full.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::clock::Clock;

/// One of so many operations in the thread buffer is measured, except one that finds the buffer full.
pub(crate) const SAMPLE: u64 = 64;
/// A longer measurement was interrupted: 15 to 50 µs.
const LONGEST: u64 = 50_000;

/// Frequent work of one kind, and its time. Only one thread at a time adds to it.
#[derive(Debug, Default)]
pub(crate) struct CostMeter {
    count: AtomicU64,
    measured: AtomicU64,
    ticks: AtomicU64,
}

impl CostMeter {
    pub fn add(&self, ticks: u64) {
        let more = |counter: &AtomicU64, by| counter.store(counter.load(Relaxed) + by, Relaxed);
        more(&self.count, 1);
        if ticks < LONGEST {
            more(&self.measured, 1);
            more(&self.ticks, ticks);
        }
    }

    fn mean(&self) -> f64 {
        self.ticks.load(Relaxed) as f64 / self.measured.load(Relaxed).max(1) as f64
    }

    fn count(&self) -> f64 {
        self.count.load(Relaxed) as f64
    }
}

/// The work under the lock, and the cost of the clock itself.
#[derive(Debug)]
pub(crate) struct RecordingCost {
    /// One reading of the clock.
    reading: f64,
    /// Operations that did not go through the thread buffer, after their end.
    pub slow: CostMeter,
    /// Turning waiting operations into entries.
    pub drains: CostMeter,
    pub writing: u64,
}

impl RecordingCost {
    /// Measures the cost of reading the clock, in some microseconds.
    pub fn new(clock: &Clock) -> RecordingCost {
        const READINGS: u32 = 64;
        let round = || {
            let began = clock.now();
            (0..READINGS).fold(began, |_, _| std::hint::black_box(clock.now())).since(began)
        };
        let best = (0..4).map(|_| round()).min().unwrap_or_default();
        let reading = best as f64 / f64::from(READINGS);
        RecordingCost { reading, slow: CostMeter::default(), drains: CostMeter::default(), writing: 0 }
    }

    /// The time of draining and writing so far.
    pub fn spent(&self) -> u64 {
        self.drains.ticks.load(Relaxed) + self.writing
    }

    /// The total, with so many operations that went through the thread buffer, of which some are measured.
    ///
    /// The interval between two readings of the clock includes one reading, so the measurement of an operation includes one
    /// of its two readings.
    pub fn ticks(&self, in_buffer: u64, measured: &CostMeter) -> u64 {
        let fast = in_buffer as f64 * (self.reading + measured.mean());
        let slow = self.slow.count() * (self.reading + self.slow.mean());
        (fast + slow + self.drains.count() * self.drains.mean()) as u64 + self.writing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ClockSource;

    #[test]
    fn what_was_interrupted_counts_as_the_mean() {
        let cost = RecordingCost {
            reading: 10.0,
            writing: 1000,
            ..RecordingCost::new(&Clock::start(ClockSource::System))
        };
        let buffer = CostMeter::default();
        [20, 40, LONGEST].into_iter().for_each(|ticks| buffer.add(ticks));
        [100, LONGEST * 9].into_iter().for_each(|ticks| cost.drains.add(ticks));
        cost.slow.add(50);
        assert_eq!(cost.ticks(200, &buffer), 200 * (10 + 30) + 60 + 2 * 100 + 1000);
    }
}
