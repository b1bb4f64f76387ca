//! From the claims of all ranks to what each does: computed alike by everybody, without another word.

use crate::claim::Claim;
use crate::cost::{Costs, Kind, Lesson, Prior, Road};
use crate::coverage::{Coverage, plus};
use pario_domain::{Method, Partition};
use pario_types::{ErrorKind, digest};
use std::borrow::Cow;

/// How collective accesses of one direction move data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// As the accesses suggest.
    Auto,
    /// Every rank by itself.
    Direct,
    /// Every rank by itself or through windows, whichever costs less: there are storage servers that merge pieces.
    Measured(Prior),
    /// Through windows, whatever the accesses look like.
    Windows,
}

/// What steers the accesses of one direction; the same on all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How to move data.
    pub strategy: Strategy,
    /// How the region is dealt out.
    pub method: Method,
    /// The file system's lock unit.
    pub unit: u64,
    /// How many I/O servers it has.
    pub servers: u32,
    /// The largest window, at most the table's capacity.
    pub window: u64,
    /// The ranks that aggregate, in order, all different.
    pub aggregators: Vec<u32>,
    /// Pieces of at least this many bytes had better go straight to the file.
    pub direct_piece: u64,
    /// The file system lets one process of a node write a file at a time, so it is no use to try together.
    pub one_writer: bool,
    /// An aggregator keeps what it accesses in a cache of its own, so nobody else accesses its domain.
    pub owned: bool,
}

impl Strategy {
    fn number(self) -> u64 {
        match self {
            Strategy::Auto => 0,
            Strategy::Direct => 1,
            Strategy::Measured(_) => 2,
            Strategy::Windows => 3,
        }
    }
}

impl Settings {
    /// A number that hardly two different settings share.
    pub fn digest(&self) -> u64 {
        let words = [
            self.strategy.number(),
            self.method as u64,
            self.unit,
            u64::from(self.servers),
            self.window,
            self.direct_piece,
            u64::from(self.one_writer) | u64::from(self.owned) << 1,
        ];
        let ranks = self.aggregators.iter().map(|rank| u64::from(*rank));
        digest(words.into_iter().chain(ranks))
    }
}

/// What came of the claims.
#[derive(Clone, Debug)]
pub enum Way {
    /// Somebody cannot take part, so nobody does anything.
    Refused {
        /// What is wrong.
        kind: ErrorKind,
        /// With which rank first.
        rank: u32,
    },
    /// No rank has a byte to move.
    Nothing,
    /// Every rank accesses the file by itself.
    Direct(Choice),
    /// Through windows.
    Windows {
        /// Who gets which part of the region.
        partition: Partition,
        /// Every byte of the region is written by exactly one rank.
        covered: bool,
        /// Why.
        choice: Choice,
    },
}

/// Why a way was chosen, for those who look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// In words.
    pub why: Cow<'static, str>,
}

impl Way {
    /// What an access of these claims that took so long teaches about its way.
    pub(crate) fn lesson(&self, claims: &Together, took: u64) -> Option<Lesson> {
        let road = match self {
            Way::Direct(_) => Road::Alone,
            Way::Windows { .. } => Road::Windows,
            Way::Refused { .. } | Way::Nothing => return None,
        };
        let Together { write, bytes, pieces } = *claims;
        Some(Lesson { kind: Kind::of(write, bytes, pieces), road, bytes, took })
    }
}

/// What all ranks want, in sum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Together {
    write: bool,
    bytes: u64,
    pieces: u64,
}

impl Together {
    pub fn of(claims: &[Claim]) -> Together {
        let sum = |part: fn(&Claim) -> u64| claims.iter().map(part).fold(0, u64::saturating_add);
        Together { write: claims[0].call.write, bytes: sum(|c| c.bytes), pieces: sum(|c| c.pieces).max(1) }
    }
}

/// The way that these claims ask for.
pub fn plan(claims: &[Claim], settings: &Settings, coverage: &Coverage, costs: &Costs) -> Way {
    if let Some((rank, kind)) = (0..).zip(claims).find_map(|(rank, c)| Some((rank, c.error?))) {
        return Way::Refused { kind, rank };
    }
    if let Some(rank) = claims.iter().position(|c| c.call != claims[0].call) {
        return Way::Refused { kind: ErrorKind::NotSame, rank: rank as u32 };
    }
    let busy: Vec<&Claim> = claims.iter().filter(|c| c.bytes > 0).collect();
    let (Some(lo), Some(hi)) = (busy.iter().map(|c| c.lo).min(), busy.iter().map(|c| c.hi).max()) else {
        return Way::Nothing;
    };
    let why = match choose(claims, &busy, hi - lo, settings, costs) {
        Ok(why) => why,
        Err(why) => return Way::Direct(Choice { why }),
    };
    let Settings { method, unit, servers, .. } = *settings;
    let partition = Partition::new(method, lo..hi, settings.aggregators.len() as u32, unit, servers);
    let covered = claims[0].call.write && {
        let bytes = busy.iter().fold(0u64, |sum, c| sum.saturating_add(c.bytes));
        bytes == hi - lo && busy.iter().fold(0, |sum, c| plus(sum, c.print)) == coverage.range(lo..hi)
    };
    if claims[0].call.write && !covered && busy.iter().any(|c| c.no_holes) {
        return Way::Direct(Choice {
            why: "there are holes, and reading before writing is not wanted".into(),
        });
    }
    Way::Windows { partition, covered, choice: Choice { why } }
}

/// Why windows, or (as an error) why not.
fn choose(
    claims: &[Claim],
    busy: &[&Claim],
    span: u64,
    settings: &Settings,
    costs: &Costs,
) -> Result<Cow<'static, str>, Cow<'static, str>> {
    if claims.iter().any(|c| c.settings != claims[0].settings) {
        return Err("the hints differ between ranks".into());
    }
    if busy.iter().any(|c| c.alone) {
        return Err("atomic mode, a converted representation, or a view out of order".into());
    }
    let Together { write, bytes, pieces } = Together::of(claims);
    match settings.strategy {
        Strategy::Direct => return Err("by hint".into()),
        Strategy::Measured(prior) => {
            return match costs.choose(&prior, write, bytes, pieces) {
                (Road::Alone, why) => Err(why.into()),
                (Road::Windows, why) => Ok(why.into()),
            };
        }
        Strategy::Windows => return Ok("by hint".into()),
        Strategy::Auto => {}
    }
    match straight(busy, span, bytes / pieces, settings) {
        Some(why) => Err(why.into()),
        None => Ok("small interleaved pieces".into()),
    }
}

/// Why every rank had better access a file by itself, if so.
fn straight(busy: &[&Claim], span: u64, piece: u64, settings: &Settings) -> Option<&'static str> {
    if busy.len() == 1 {
        return Some("only one rank has data");
    }
    if !interleaved(busy) {
        return Some("the ranks' ranges do not interleave");
    }
    if piece >= settings.direct_piece {
        return Some("the pieces are large");
    }
    let bytes = busy.iter().fold(0u64, |sum, c| sum.saturating_add(c.bytes));
    (bytes < span / 8).then_some("the pieces lie far apart")
}

/// Whether some rank's range overlaps another's.
fn interleaved(busy: &[&Claim]) -> bool {
    let mut ranges: Vec<(u64, u64)> = busy.iter().map(|c| (c.lo, c.hi)).collect();
    if !ranges.is_sorted() {
        ranges.sort_unstable();
    }
    ranges.windows(2).any(|pair| pair[1].0 < pair[0].1)
}
