//! Measured costs of the access paths, and the choice between them.
//!
//! Storage servers with a cache merge the small writes of many ranks. Whether two-phase I/O is then faster
//! than independent access depends on the machine, so the cost is measured. At the end of an access all
//! ranks know the longest time that any rank took. They record it for the class of the access: direction,
//! piece size and total size. The cost of a path that has not been tried is estimated from a [`CostPrior`].
//! The estimate is scaled by the error of the estimate of the other path.
//!
//! All ranks see the same accesses in the same order, so they have the same history. Accesses that overlap
//! in time may finish in different orders. The digests of the ranks then differ, and each rank accesses the
//! file independently.

use std::collections::BTreeMap;

use pario_types::digest;

/// The path of the bytes to the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessPath {
    /// Every rank accesses the file by itself.
    Independent,
    /// Ranks exchange data through windows of aggregators.
    TwoPhase,
}

/// An estimate of the cost of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostEstimate {
    /// Nanoseconds for each access.
    pub start: u64,
    /// Picoseconds for each byte of the access.
    pub byte: u64,
    /// Picoseconds for each piece of the access.
    pub piece: u64,
}

/// Estimates for both paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostPrior {
    /// For independent access.
    pub independent: CostEstimate,
    /// For two-phase I/O.
    pub two_phase: CostEstimate,
}

/// Accesses whose cost per byte is about the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccessClass {
    write: bool,
    /// Binary logarithms of the mean piece size and of the bytes of all ranks.
    piece: u32,
    bytes: u32,
}

impl AccessClass {
    /// The class of an access, from the totals over all ranks.
    pub fn of(write: bool, bytes: u64, pieces: u64) -> AccessClass {
        let log = |n: u64| n.max(1).ilog2();
        AccessClass { write, piece: log(bytes / pieces.max(1)), bytes: log(bytes) }
    }
}

/// The measured cost of one access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostSample {
    /// The class of the access.
    pub class: AccessClass,
    /// The path that the access took.
    pub path: AccessPath,
    /// The bytes of all ranks.
    pub bytes: u64,
    /// The nanoseconds of the slowest rank.
    pub took: u64,
}

/// The cost of one path for one class: picoseconds per byte, and the number of measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MeasuredCost {
    byte: u64,
    times: u32,
}

/// The measured costs of the accesses of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CostHistory {
    classes: BTreeMap<AccessClass, [MeasuredCost; 2]>,
    digest: u64,
}

/// The largest number of classes. Programs use few.
const MAX_CLASSES: usize = 64;

/// A path is tried if its estimated cost is at most this many times the lowest cost.
const TRY_WITHIN_FACTOR: u64 = 2;

/// After this many accesses on the cheaper path, one access on the other path checks whether that is still
/// so.
const RETRY_AFTER: u32 = 32;

impl CostHistory {
    /// A digest that differs between ranks whose histories differ, with high probability.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Records the cost of an access.
    pub fn record(&mut self, sample: &CostSample) {
        let CostSample { class, path, bytes, took } = *sample;
        if !self.classes.contains_key(&class) && self.classes.len() == MAX_CLASSES {
            self.classes.clear();
        }
        let byte = took.saturating_mul(1000) / bytes.max(1);
        let known = &mut self.classes.entry(class).or_default()[path as usize];
        known.byte = match known.times {
            0 => byte,
            // The first access includes costs that occur once, so the second counts more.
            1 => byte.min((known.byte + 3 * byte) / 4),
            _ => (3 * known.byte + byte) / 4,
        };
        known.times = known.times.saturating_add(1);
        self.digest = digest([self.digest, class.bytes.into(), class.piece.into(), path as u64, byte]);
    }

    /// The path for the next access, and the reason in words.
    pub fn choose_path(
        &self,
        prior: &CostPrior,
        write: bool,
        bytes: u64,
        pieces: u64,
    ) -> (AccessPath, String) {
        let known = self.classes.get(&AccessClass::of(write, bytes, pieces)).copied().unwrap_or_default();
        let estimates = [prior.independent.of(bytes, pieces), prior.two_phase.of(bytes, pieces)];
        let [independent, two_phase] = match known {
            [MeasuredCost { times: 0, .. }, MeasuredCost { times: 0, .. }] => estimates,
            [MeasuredCost { times: 0, .. }, two_phase] => {
                [scaled(estimates[0], two_phase.byte, estimates[1]), two_phase.byte]
            }
            [independent, MeasuredCost { times: 0, .. }] => {
                [independent.byte, scaled(estimates[1], independent.byte, estimates[0])]
            }
            [independent, two_phase] => [independent.byte, two_phase.byte],
        };
        let (best, other) = if independent <= two_phase {
            (AccessPath::Independent, AccessPath::TwoPhase)
        } else {
            (AccessPath::TwoPhase, AccessPath::Independent)
        };
        let (low, high) = (independent.min(two_phase), independent.max(two_phase));
        let (best_count, other_count) = (known[best as usize].times, known[other as usize].times);
        let close = high <= low.saturating_mul(TRY_WITHIN_FACTOR);
        let explore =
            close && best_count > 0 && (other_count == 0 || best_count / RETRY_AFTER > other_count - 1);
        let path = if explore { other } else { best };
        let describe = |path: AccessPath, cost: u64| {
            let how = if known[path as usize].times == 0 { "estimated" } else { "measured" };
            format!("{}.{:03} ns/B {how}", cost / 1000, cost % 1000)
        };
        let why = format!(
            "independent access costs {}, two-phase I/O {}{}",
            describe(AccessPath::Independent, independent),
            describe(AccessPath::TwoPhase, two_phase),
            if explore { "; the more expensive path is tried" } else { "" }
        );
        (path, why)
    }
}

/// An estimate, scaled by the error of another estimate.
fn scaled(estimate: u64, measured: u64, estimated: u64) -> u64 {
    let scaled = u128::from(estimate) * u128::from(measured) / u128::from(estimated.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

impl CostEstimate {
    /// Picoseconds per byte of an access.
    fn of(&self, bytes: u64, pieces: u64) -> u64 {
        let parts = self.start.saturating_mul(1000).saturating_add(pieces.saturating_mul(self.piece));
        self.byte + parts / bytes.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIOR: CostPrior = CostPrior {
        independent: CostEstimate { start: 100_000, byte: 1000, piece: 20_000 },
        two_phase: CostEstimate { start: 20_000, byte: 700, piece: 2_000 },
    };

    fn sample(path: AccessPath, took: u64) -> CostSample {
        CostSample { class: AccessClass::of(true, 1 << 20, 16), path, bytes: 1 << 20, took }
    }

    #[test]
    fn estimates_decide_until_there_is_a_measurement() {
        let costs = CostHistory::default();
        assert_eq!(costs.choose_path(&PRIOR, true, 1 << 20, 1 << 14).0, AccessPath::TwoPhase);
        let near = CostPrior { independent: CostEstimate { start: 1000, byte: 100, piece: 500 }, ..PRIOR };
        assert_eq!(costs.choose_path(&near, true, 1 << 20, 1 << 14).0, AccessPath::Independent);
    }

    #[test]
    fn a_close_path_is_tried_once_and_the_cheaper_one_stays() {
        let mut costs = CostHistory::default();
        let choose = |costs: &CostHistory| costs.choose_path(&PRIOR, true, 1 << 20, 16).0;
        assert_eq!(choose(&costs), AccessPath::TwoPhase);
        costs.record(&sample(AccessPath::TwoPhase, 800_000));
        assert_eq!(choose(&costs), AccessPath::Independent, "it is guessed to be close");
        costs.record(&sample(AccessPath::Independent, 200_000));
        for _ in 0..10 {
            assert_eq!(choose(&costs), AccessPath::Independent, "it has shown to be the better one");
            costs.record(&sample(AccessPath::Independent, 200_000));
        }
    }

    #[test]
    fn a_path_that_became_slower_is_left() {
        let mut costs = CostHistory::default();
        costs.record(&sample(AccessPath::TwoPhase, 300_000));
        costs.record(&sample(AccessPath::Independent, 200_000));
        let mut taken = Vec::new();
        for _ in 0..12 {
            let path = costs.choose_path(&PRIOR, true, 1 << 20, 16).0;
            taken.push(path);
            costs.record(&sample(path, if path == AccessPath::Independent { 900_000 } else { 300_000 }));
        }
        assert_eq!((taken[0], taken[11]), (AccessPath::Independent, AccessPath::TwoPhase));
    }

    #[test]
    fn the_other_path_is_retried_from_time_to_time() {
        let mut costs = CostHistory::default();
        costs.record(&sample(AccessPath::TwoPhase, 300_000));
        costs.record(&sample(AccessPath::Independent, 200_000));
        let mut others = 0;
        for _ in 0..200 {
            let path = costs.choose_path(&PRIOR, true, 1 << 20, 16).0;
            others += u32::from(path == AccessPath::TwoPhase);
            costs.record(&sample(path, if path == AccessPath::Independent { 200_000 } else { 300_000 }));
        }
        assert!((2..=10).contains(&others), "{others} of 200");
    }

    #[test]
    fn equal_histories_have_equal_digests() {
        let (mut one, mut two) = (CostHistory::default(), CostHistory::default());
        one.record(&sample(AccessPath::Independent, 5));
        assert_ne!(one.digest(), two.digest());
        two.record(&sample(AccessPath::Independent, 5));
        assert_eq!(one.digest(), two.digest());
        (0..1000).for_each(|n| {
            one.record(&CostSample {
                class: AccessClass::of(true, 1 << (n % 60), 1 << (n % 7)),
                ..sample(AccessPath::Independent, n)
            })
        });
        assert!(one.classes.len() <= MAX_CLASSES);
    }
}
