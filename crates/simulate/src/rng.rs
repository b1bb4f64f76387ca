//! A seeded generator of random numbers.
//!
//! It is SplitMix64, written out here, because published results of a seed must not change: random-number crates such as
//! `fastrand` do not promise the same numbers in every version.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Creates the stream of a seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Returns the next number of 64 random bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a duration that differs from `ns` by up to `permille` thousandths.
    pub fn jitter(&mut self, ns: u64, permille: u64) -> u64 {
        let wide = u128::from(ns) * u128::from(permille.min(1000)) / 1000;
        let drawn = (u128::from(self.next()) * (2 * wide + 1)) >> 64;
        (u128::from(ns) - wide + drawn) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_stay_within_bounds_and_repeat_with_the_seed() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            (0..1000).map(|_| rng.jitter(1000, 100)).collect::<Vec<_>>()
        };
        assert!(draw(1).iter().all(|ns| (900..=1100).contains(ns)));
        assert!(draw(1).iter().any(|&ns| ns < 920) && draw(1).iter().any(|&ns| ns > 1080));
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert_eq!(Rng::new(3).jitter(0, 100), 0);
        assert_eq!(Rng::new(3).jitter(50, 0), 50);
    }
}
