//! The plan of a collective access.
//!
//! Every rank computes the same plan from the summaries of all ranks, without further communication.

use crate::cost::{AccessClass, AccessPath, CostHistory, CostPrior, CostSample};
use crate::coverage::{CoverageHash, add_mod};
use crate::summary::AccessSummary;
use pario_domain::{FileDomains, PartitioningMethod};
use pario_types::{ErrorKind, digest};
use std::borrow::Cow;

/// The settings of collective accesses of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferStrategy {
    /// The access pattern decides.
    Auto,
    /// Every rank accesses the file by itself.
    Independent,
    /// The cheaper path by measurement, for storage servers that merge small pieces.
    CostBased(CostPrior),
    /// Two-phase I/O, for every access pattern.
    TwoPhase,
}

/// The settings of the collective accesses of one direction. They are the same on all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TwoPhaseSettings {
    /// The transfer strategy.
    pub strategy: TransferStrategy,
    /// The partitioning of the accessed region into file domains.
    pub method: PartitioningMethod,
    /// The lock unit of the file system.
    pub unit: u64,
    /// The number of I/O servers of the file system.
    pub servers: u32,
    /// The largest window, at most the capacity of the node segment.
    pub window: u64,
    /// The aggregators, in order of their file domains. No rank occurs twice.
    pub aggregators: Vec<u32>,
    /// The mean piece size from which on independent access is used.
    pub large_piece: u64,
    /// The file system serialises the writes of one node to a file, so only one rank of a node writes at a
    /// time.
    pub single_writer: bool,
    /// Each aggregator caches its file domain, so no other rank accesses that domain.
    pub exclusive_domains: bool,
}

impl TransferStrategy {
    fn number(self) -> u64 {
        match self {
            TransferStrategy::Auto => 0,
            TransferStrategy::Independent => 1,
            TransferStrategy::CostBased(_) => 2,
            TransferStrategy::TwoPhase => 3,
        }
    }
}

impl TwoPhaseSettings {
    /// A digest that differs for different settings, with high probability.
    pub fn digest(&self) -> u64 {
        let words = [
            self.strategy.number(),
            self.method as u64,
            self.unit,
            u64::from(self.servers),
            self.window,
            self.large_piece,
            u64::from(self.single_writer) | u64::from(self.exclusive_domains) << 1,
        ];
        let ranks = self.aggregators.iter().map(|rank| u64::from(*rank));
        digest(words.into_iter().chain(ranks))
    }
}

/// The execution plan of a collective access.
#[derive(Clone, Debug)]
pub enum CollectivePlan {
    /// The arguments of a rank are invalid, so no rank does anything.
    Refused {
        /// The kind of the error.
        kind: ErrorKind,
        /// The first rank with the error.
        rank: u32,
    },
    /// No rank has a byte to move.
    Nothing,
    /// Every rank accesses the file by itself, for the given reason.
    Independent(Cow<'static, str>),
    /// Aggregators access the file, and ranks exchange data with them through windows.
    TwoPhase {
        /// The file domains of the aggregators.
        domains: FileDomains,
        /// Every byte of the region is written by exactly one rank.
        covered: bool,
        /// The reason for this plan.
        reason: Cow<'static, str>,
    },
}

impl CollectivePlan {
    /// The cost sample of an access with this plan, from the nanoseconds of the slowest rank.
    pub(crate) fn cost_sample(&self, totals: &AccessTotals, took: u64) -> Option<CostSample> {
        let path = match self {
            CollectivePlan::Independent(_) => AccessPath::Independent,
            CollectivePlan::TwoPhase { .. } => AccessPath::TwoPhase,
            CollectivePlan::Refused { .. } | CollectivePlan::Nothing => return None,
        };
        let AccessTotals { write, bytes, pieces } = *totals;
        Some(CostSample { class: AccessClass::of(write, bytes, pieces), path, bytes, took })
    }
}

/// The totals over all ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessTotals {
    write: bool,
    bytes: u64,
    pieces: u64,
}

impl AccessTotals {
    pub fn of(summaries: &[AccessSummary]) -> AccessTotals {
        let sum = |part: fn(&AccessSummary) -> u64| summaries.iter().map(part).fold(0, u64::saturating_add);
        AccessTotals {
            write: summaries[0].call.write,
            bytes: sum(|s| s.bytes),
            pieces: sum(|s| s.pieces).max(1),
        }
    }
}

/// Computes the plan from the summaries of all ranks.
pub fn plan_access(
    summaries: &[AccessSummary],
    settings: &TwoPhaseSettings,
    coverage: &CoverageHash,
    costs: &CostHistory,
) -> CollectivePlan {
    if let Some((rank, kind)) = (0..).zip(summaries).find_map(|(rank, s)| Some((rank, s.error?))) {
        return CollectivePlan::Refused { kind, rank };
    }
    if let Some(rank) = summaries.iter().position(|s| s.call != summaries[0].call) {
        return CollectivePlan::Refused { kind: ErrorKind::NotSame, rank: rank as u32 };
    }
    let busy: Vec<&AccessSummary> = summaries.iter().filter(|s| s.bytes > 0).collect();
    let (Some(lo), Some(hi)) = (busy.iter().map(|s| s.lo).min(), busy.iter().map(|s| s.hi).max()) else {
        return CollectivePlan::Nothing;
    };
    let reason = match choose(summaries, &busy, hi - lo, settings, costs) {
        Ok(reason) => reason,
        Err(reason) => return CollectivePlan::Independent(reason),
    };
    let TwoPhaseSettings { method, unit, servers, .. } = *settings;
    let domains = FileDomains::new(method, lo..hi, settings.aggregators.len() as u32, unit, servers);
    let covered = summaries[0].call.write && {
        let bytes = busy.iter().fold(0u64, |sum, s| sum.saturating_add(s.bytes));
        bytes == hi - lo
            && busy.iter().fold(0, |sum, s| add_mod(sum, s.fingerprint)) == coverage.of_range(lo..hi)
    };
    if summaries[0].call.write && !covered && busy.iter().any(|s| s.no_holes) {
        return CollectivePlan::Independent(
            "the windows have holes, and data sieving is not possible".into(),
        );
    }
    CollectivePlan::TwoPhase { domains, covered, reason }
}

/// The reason for two-phase I/O, or as an error the reason against it.
fn choose(
    summaries: &[AccessSummary],
    busy: &[&AccessSummary],
    span: u64,
    settings: &TwoPhaseSettings,
    costs: &CostHistory,
) -> Result<Cow<'static, str>, Cow<'static, str>> {
    if summaries.iter().any(|s| s.settings_digest != summaries[0].settings_digest) {
        return Err("the hints differ between ranks".into());
    }
    if busy.iter().any(|s| s.independent_only) {
        return Err("atomic mode, a converted data representation, or a view that is not monotone".into());
    }
    let AccessTotals { write, bytes, pieces } = AccessTotals::of(summaries);
    match settings.strategy {
        TransferStrategy::Independent => return Err("by hint".into()),
        TransferStrategy::CostBased(prior) => {
            return match costs.choose_path(&prior, write, bytes, pieces) {
                (AccessPath::Independent, why) => Err(why.into()),
                (AccessPath::TwoPhase, why) => Ok(why.into()),
            };
        }
        TransferStrategy::TwoPhase => return Ok("by hint".into()),
        TransferStrategy::Auto => {}
    }
    match independent_reason(busy, span, bytes / pieces, settings) {
        Some(why) => Err(why.into()),
        None => Ok("small interleaved pieces".into()),
    }
}

/// The reason for independent access, if the pattern suggests it.
fn independent_reason(
    busy: &[&AccessSummary],
    span: u64,
    piece: u64,
    settings: &TwoPhaseSettings,
) -> Option<&'static str> {
    if busy.len() == 1 {
        return Some("only one rank has data");
    }
    if !ranges_interleave(busy) {
        return Some("the ranks' ranges do not interleave");
    }
    if piece >= settings.large_piece {
        return Some("the pieces are large");
    }
    let bytes = busy.iter().fold(0u64, |sum, s| sum.saturating_add(s.bytes));
    (bytes < span / 8).then_some("the pieces lie far apart")
}

/// Whether the range of any rank overlaps that of another.
fn ranges_interleave(busy: &[&AccessSummary]) -> bool {
    let mut ranges: Vec<(u64, u64)> = busy.iter().map(|s| (s.lo, s.hi)).collect();
    if !ranges.is_sorted() {
        ranges.sort_unstable();
    }
    ranges.windows(2).any(|pair| pair[1].0 < pair[0].1)
}
