//! What recording costs, measured on the way, in ticks of the recorder's clock.
//!
//! Everything is in it: both readings of the clock of each operation, what is done behind the second, which is measured of every
//! [`SAMPLE`]th operation in the lane and of all others, and turning operations into entries and writing them.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::clock::Clock;

/// Of so many operations in the lane one is measured.
pub(crate) const SAMPLE: u64 = 64;
/// What takes longer was interrupted by others, who are not the recorder's cost.
const LONGEST_SAMPLE: u64 = 20_000;

/// Measured operations; only the owner of the lane adds to them.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    count: AtomicU64,
    ticks: AtomicU64,
}

impl Samples {
    pub fn add(&self, ticks: u64) {
        if ticks < LONGEST_SAMPLE {
            self.count.store(self.count.load(Relaxed) + 1, Relaxed);
            self.ticks.store(self.ticks.load(Relaxed) + ticks, Relaxed);
        }
    }

    fn mean(&self) -> f64 {
        self.ticks.load(Relaxed) as f64 / self.count.load(Relaxed).max(1) as f64
    }
}

/// What is done under the lock, and what the clock itself takes.
#[derive(Debug)]
pub(crate) struct Cost {
    /// One reading of the clock.
    reading: f64,
    /// Operations that did not go through the lane, and what they took behind their end.
    pub slow: u64,
    pub slow_ticks: u64,
    /// Emptying the lane, encoding and writing.
    pub draining: u64,
}

impl Cost {
    /// With the cost of reading the clock, which is measured now, in some microseconds.
    pub fn new(clock: &Clock) -> Cost {
        const READINGS: u32 = 64;
        let round = || {
            let began = clock.now();
            (0..READINGS).fold(began, |_, _| std::hint::black_box(clock.now())).since(began)
        };
        let best = (0..4).map(|_| round()).min().unwrap_or_default();
        Cost { reading: best as f64 / f64::from(READINGS), slow: 0, slow_ticks: 0, draining: 0 }
    }

    /// All of it, with so many operations that went through the lane.
    ///
    /// From one reading of the clock to the next it is what lies between them and one reading, so that a sample
    /// has one of an operation's two readings in it.
    pub fn ticks(&self, in_lane: u64, samples: &Samples) -> u64 {
        let fast = in_lane as f64 * (self.reading + samples.mean());
        (fast + self.slow as f64 * self.reading) as u64 + self.slow_ticks + self.draining
    }
}
