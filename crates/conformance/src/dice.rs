//! Random numbers from a seed.

use std::ops::Range;
use std::time::Duration;

/// A source of numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The numbers of this seed.
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "a source never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 up to `n`, without it.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// An index of something that has `n` places.
    pub fn index(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// `true` once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    /// Sleeps for a random number of milliseconds of this range: faults happen at arbitrary moments, and no assertion depends on
    /// which moment it is.
    pub fn pause(&mut self, milliseconds: Range<u64>) {
        let within_us = (milliseconds.end - milliseconds.start) * 1000;
        std::thread::sleep(Duration::from_micros(milliseconds.start * 1000 + self.below(within_us)));
    }

    /// This number of random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend(self.next().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}
