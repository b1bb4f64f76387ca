//! What the two roads have cost, and which to take next.
//!
//! Where servers with a cache of their own merge what ranks write, it depends on the machine whether ranks had better
//! go to the servers each by itself, or through windows. So it is measured: when an access settles, everybody
//! learns the longest time that any rank took, and counts it for accesses of its kind (direction, size of pieces, size of
//! all). Until a road has been tried its cost is guessed from a [`Prior`], and corrected by as much as the guess
//! about the other one was wrong.
//!
//! All ranks see the same accesses in the same order, so they know the same. Should they not (accesses that
//! overlap may end in different order), their digests differ, and then each goes by itself.

use std::collections::BTreeMap;

use pario_types::digest;

/// How bytes get to the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Road {
    /// Every rank by itself.
    Alone,
    /// Through windows.
    Windows,
}

/// A guess of what a road costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guess {
    /// Nanoseconds at least.
    pub start: u64,
    /// Picoseconds for each byte of the access.
    pub byte: u64,
    /// Picoseconds for each piece.
    pub piece: u64,
}

/// Guesses of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prior {
    /// Of every rank by itself.
    pub alone: Guess,
    /// Of windows.
    pub windows: Guess,
}

/// Accesses that cost alike for the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    write: bool,
    /// Logarithms of the mean piece and of the bytes of all ranks.
    piece: u32,
    bytes: u32,
}

impl Kind {
    /// The kind of an access of all ranks together.
    pub fn of(write: bool, bytes: u64, pieces: u64) -> Kind {
        let log = |n: u64| n.max(1).ilog2();
        Kind { write, piece: log(bytes / pieces.max(1)), bytes: log(bytes) }
    }
}

/// What an access has taught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lesson {
    /// Which accesses it is about.
    pub kind: Kind,
    /// The road that was taken.
    pub road: Road,
    /// Bytes of all ranks.
    pub bytes: u64,
    /// Nanoseconds of the rank that took longest.
    pub took: u64,
}

/// One road's cost for one kind: picoseconds a byte, and how often it was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Measured {
    byte: u64,
    times: u32,
}

/// What has been measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    kinds: BTreeMap<Kind, [Measured; 2]>,
    digest: u64,
}

/// Kinds that are kept; programs have few.
const MOST_KINDS: usize = 64;

/// A road that should cost this many times the best at most is worth trying.
const WORTH_TRYING: u64 = 2;

/// After so many accesses by the better road, one by the other shows whether it still is.
const TRY_AGAIN: u32 = 32;

impl Costs {
    /// A number that hardly two ranks share that know different things.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Counts what an access took.
    pub fn learn(&mut self, lesson: &Lesson) {
        let Lesson { kind, road, bytes, took } = *lesson;
        if !self.kinds.contains_key(&kind) && self.kinds.len() == MOST_KINDS {
            self.kinds.clear();
        }
        let byte = took.saturating_mul(1000) / bytes.max(1);
        let known = &mut self.kinds.entry(kind).or_default()[road as usize];
        known.byte = match known.times {
            0 => byte,
            // The first one pays for what is done once, so the second counts more.
            1 => byte.min((known.byte + 3 * byte) / 4),
            _ => (3 * known.byte + byte) / 4,
        };
        known.times = known.times.saturating_add(1);
        self.digest = digest([self.digest, kind.bytes.into(), kind.piece.into(), road as u64, byte]);
    }

    /// The road to take, and why, in words.
    pub fn choose(&self, prior: &Prior, write: bool, bytes: u64, pieces: u64) -> (Road, String) {
        let known = self.kinds.get(&Kind::of(write, bytes, pieces)).copied().unwrap_or_default();
        let guesses = [prior.alone.of(bytes, pieces), prior.windows.of(bytes, pieces)];
        let [alone, windows] = match known {
            [Measured { times: 0, .. }, Measured { times: 0, .. }] => guesses,
            [Measured { times: 0, .. }, windows] => {
                [scaled(guesses[0], windows.byte, guesses[1]), windows.byte]
            }
            [alone, Measured { times: 0, .. }] => [alone.byte, scaled(guesses[1], alone.byte, guesses[0])],
            [alone, windows] => [alone.byte, windows.byte],
        };
        let (best, other) = match alone <= windows {
            true => (Road::Alone, Road::Windows),
            false => (Road::Windows, Road::Alone),
        };
        let (cheap, dear) = (alone.min(windows), alone.max(windows));
        let (mine, its) = (known[best as usize].times, known[other as usize].times);
        let close = dear <= cheap.saturating_mul(WORTH_TRYING);
        let curious = close && mine > 0 && (its == 0 || mine / TRY_AGAIN > its - 1);
        let road = if curious { other } else { best };
        let told = |road: Road, cost: u64| {
            let how = if known[road as usize].times == 0 { "guessed" } else { "measured" };
            format!("{}.{:03} ns/B {how}", cost / 1000, cost % 1000)
        };
        let why = format!(
            "each by itself costs {}, through windows {}{}",
            told(Road::Alone, alone),
            told(Road::Windows, windows),
            if curious { "; the dearer one is tried" } else { "" }
        );
        (road, why)
    }
}

/// A guess, corrected by what another guess turned out to be.
fn scaled(guess: u64, measured: u64, guessed: u64) -> u64 {
    let scaled = u128::from(guess) * u128::from(measured) / u128::from(guessed.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

impl Guess {
    /// Picoseconds for each byte of an access.
    fn of(&self, bytes: u64, pieces: u64) -> u64 {
        let parts = self.start.saturating_mul(1000).saturating_add(pieces.saturating_mul(self.piece));
        self.byte + parts / bytes.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIOR: Prior = Prior {
        alone: Guess { start: 100_000, byte: 1000, piece: 20_000 },
        windows: Guess { start: 20_000, byte: 700, piece: 2_000 },
    };

    fn lesson(road: Road, took: u64) -> Lesson {
        Lesson { kind: Kind::of(true, 1 << 20, 16), road, bytes: 1 << 20, took }
    }

    #[test]
    fn guesses_decide_until_something_is_measured() {
        let costs = Costs::default();
        assert_eq!(costs.choose(&PRIOR, true, 1 << 20, 1 << 14).0, Road::Windows);
        let near = Prior { alone: Guess { start: 1000, byte: 100, piece: 500 }, ..PRIOR };
        assert_eq!(costs.choose(&near, true, 1 << 20, 1 << 14).0, Road::Alone);
    }

    #[test]
    fn what_is_close_is_tried_once_and_the_better_one_stays() {
        let mut costs = Costs::default();
        let choose = |costs: &Costs| costs.choose(&PRIOR, true, 1 << 20, 16).0;
        assert_eq!(choose(&costs), Road::Windows);
        costs.learn(&lesson(Road::Windows, 800_000));
        assert_eq!(choose(&costs), Road::Alone, "it is guessed to be close");
        costs.learn(&lesson(Road::Alone, 200_000));
        for _ in 0..10 {
            assert_eq!(choose(&costs), Road::Alone, "it has shown to be the better one");
            costs.learn(&lesson(Road::Alone, 200_000));
        }
    }

    #[test]
    fn what_got_worse_is_left() {
        let mut costs = Costs::default();
        costs.learn(&lesson(Road::Windows, 300_000));
        costs.learn(&lesson(Road::Alone, 200_000));
        let mut taken = Vec::new();
        for _ in 0..12 {
            let road = costs.choose(&PRIOR, true, 1 << 20, 16).0;
            taken.push(road);
            costs.learn(&lesson(road, if road == Road::Alone { 900_000 } else { 300_000 }));
        }
        assert_eq!((taken[0], taken[11]), (Road::Alone, Road::Windows));
    }

    #[test]
    fn the_other_one_is_looked_at_again_now_and_then() {
        let mut costs = Costs::default();
        costs.learn(&lesson(Road::Windows, 300_000));
        costs.learn(&lesson(Road::Alone, 200_000));
        let mut others = 0;
        for _ in 0..200 {
            let road = costs.choose(&PRIOR, true, 1 << 20, 16).0;
            others += u32::from(road == Road::Windows);
            costs.learn(&lesson(road, if road == Road::Alone { 200_000 } else { 300_000 }));
        }
        assert!((2..=10).contains(&others), "{others} of 200");
    }

    #[test]
    fn who_learned_the_same_has_the_same_digest() {
        let (mut one, mut two) = (Costs::default(), Costs::default());
        one.learn(&lesson(Road::Alone, 5));
        assert_ne!(one.digest(), two.digest());
        two.learn(&lesson(Road::Alone, 5));
        assert_eq!(one.digest(), two.digest());
        (0..1000).for_each(|n| {
            one.learn(&Lesson { kind: Kind::of(true, 1 << (n % 60), 1 << (n % 7)), ..lesson(Road::Alone, n) })
        });
        assert!(one.kinds.len() <= MOST_KINDS);
    }
}
