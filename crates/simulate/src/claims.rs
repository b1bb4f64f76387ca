//! Conclusions from the simulation as claims that can turn out false, and the machines on which they hold.
//!
//! Each claim is checked on 32 servers with one aggregator per node of four processes. 128 ranks then have as many
//! aggregators as servers, 512 ranks four times as many: all mechanisms are in effect at these sizes. [`sensitivity`]
//! repeats the check with each number of the machine made smaller and larger, and with other kinds of callbacks and rounds.

use pario_domain::PartitioningMethod::{self, Aligned, Even, GroupCyclic, StaticCyclic};

use crate::fs::run;
use crate::setup::{Callback, Outcome, Protocol, Rounds, Setup};
use crate::workload::{Size, Workload};

/// A conclusion that a simulation can confirm or refute.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// A short name.
    pub name: &'static str,
    /// The claim in words.
    pub text: &'static str,
    check: fn(&Setup) -> Finding,
}

/// The result of checking a claim on one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether the claim holds.
    pub holds: bool,
    /// The figures that decide it, in MiB/s unless they say otherwise.
    pub figures: String,
}

impl Claim {
    /// Checks the claim on a machine: its numbers, callbacks, rounds and seed. The rest of the setup has no effect.
    pub fn check(&self, setup: &Setup) -> Finding {
        (self.check)(setup)
    }
}

/// All claims.
pub const CLAIMS: &[Claim] = &[
    Claim {
        name: "server-writes-cyclic",
        text: "server locks, writes: both cyclic methods at least twice as fast as even and aligned with 1 and 2 aggregators per \
               server, 1.5 times with 4",
        check: cyclic_writes,
    },
    Claim {
        name: "server-writes-group-scales",
        text: "server locks, writes: with 2 and 4 aggregators per server group-cyclic goes on scaling (1.3 times and more each); \
               static-cyclic is slower than with 1",
        check: group_scales,
    },
    Claim {
        name: "server-writes-bt-spikes",
        text: "server locks, static-cyclic writes of bt: per aggregator at least 1.1 times as fast where aggregators divide \
               the servers as with the next numbers that do not",
        check: bt_spikes,
    },
    Claim {
        name: "token-writes-aligned",
        text: "tokens, writes: aligned first, by a tenth and more over even where parts do not begin at lock boundaries, by \
               half over static-cyclic",
        check: aligned_first,
    },
    Claim {
        name: "token-writes-even-aligned",
        text: "tokens, writes: even within 5 % of aligned where its parts begin at lock boundaries",
        check: even_like_aligned,
    },
    Claim {
        name: "token-writes-even-unaligned",
        text: "tokens, writes, 1 and 2 aggregators per server: even nearer to static-cyclic than to aligned where its parts do not \
               begin at lock boundaries",
        check: even_like_cyclic,
    },
    Claim {
        name: "reads-cyclic-last",
        text: "reads: static-cyclic last, under both protocols",
        check: reads_cyclic_last,
    },
    Claim {
        name: "reads-alike",
        text: "reads: all methods within 10 % of the first, under both protocols",
        check: reads_alike,
    },
];

const SERVERS: u16 = 32;

/// Numbers of ranks with as many aggregators as servers, twice and four times as many.
const CROWDS: [u32; 3] = [128, 256, 512];

fn outcome(
    base: &Setup,
    protocol: Protocol,
    method: PartitioningMethod,
    write: bool,
    ranks: u32,
    edge: u64,
) -> Outcome {
    let calls = if write { 3 } else { 10 };
    let work = Workload::named("coll_perf", ranks, Size { edge, calls }).expect("a sound size");
    let setup = Setup { protocol, method, write, servers: SERVERS, ..base.clone() };
    run(&setup, &work).expect("a sound setup")
}

fn bandwidth(base: &Setup, protocol: Protocol, method: PartitioningMethod, ranks: u32, edge: u64) -> f64 {
    outcome(base, protocol, method, true, ranks, edge).bandwidth_mib_s()
}

/// An edge at which even domains begin at lock boundaries, and one at which they do not.
const EDGES: [u64; 2] = [128, 100];

fn finding(holds: bool, figures: &[(&str, f64)]) -> Finding {
    let words: Vec<String> = figures.iter().map(|(name, value)| format!("{name} {value:.0}")).collect();
    Finding { holds, figures: words.join(", ") }
}

fn all(findings: impl IntoIterator<Item = Finding>) -> Finding {
    let findings: Vec<Finding> = findings.into_iter().collect();
    let figures = findings.iter().map(|finding| finding.figures.clone()).collect::<Vec<_>>().join("; ");
    Finding { holds: findings.iter().all(|finding| finding.holds), figures }
}

fn cyclic_writes(base: &Setup) -> Finding {
    let cases = EDGES.into_iter().flat_map(|edge| CROWDS.map(|ranks| (edge, ranks)));
    all(cases.map(|(edge, ranks)| {
        let [even, aligned, fixed, group] =
            PartitioningMethod::ALL.map(|m| bandwidth(base, Protocol::Server, m, ranks, edge));
        let figures =
            [("even", even), ("aligned", aligned), ("static-cyclic", fixed), ("group-cyclic", group)];
        let times = if ranks == CROWDS[2] { 1.5 } else { 2.0 };
        finding(fixed.min(group) >= times * even.max(aligned), &figures)
    }))
}

fn group_scales(base: &Setup) -> Finding {
    all(EDGES.map(|edge| {
        let row = |m| CROWDS.map(|ranks| bandwidth(base, Protocol::Server, m, ranks, edge));
        let (group, fixed) = (row(GroupCyclic), row(StaticCyclic));
        let scales = group[1] >= 1.3 * group[0] && group[2] >= 1.3 * group[1];
        let dips = fixed[1].max(fixed[2]) < 0.97 * fixed[0];
        let names = ["group-cyclic at 1", "2", "4 per server", "static-cyclic at 1", "2", "4"];
        let figures: Vec<(&str, f64)> = names.into_iter().zip(group.into_iter().chain(fixed)).collect();
        finding(scales && dips, &figures)
    }))
}

fn bt_spikes(base: &Setup) -> Finding {
    let each = |ranks| {
        let setup = Setup {
            protocol: Protocol::Server,
            method: StaticCyclic,
            servers: SERVERS,
            write: true,
            ..base.clone()
        };
        let work = Workload::named("bt", ranks, Size { edge: 0, calls: 4 }).expect("a sound size");
        let outcome = run(&setup, &work).expect("a sound setup");
        outcome.bandwidth_mib_s() / f64::from(outcome.aggregators)
    };
    let [four, seven, thirteen, sixteen, more] = [16, 25, 49, 64, 81].map(each);
    let figures =
        [("per aggregator: of 4", four), ("7", seven), ("13", thirteen), ("16", sixteen), ("21", more)];
    finding(four >= 1.1 * seven && sixteen >= 1.1 * thirteen.max(more), &figures)
}

fn three(base: &Setup, ranks: u32, edge: u64) -> [f64; 3] {
    [Even, Aligned, StaticCyclic].map(|m| bandwidth(base, Protocol::Token, m, ranks, edge))
}

fn aligned_first(base: &Setup) -> Finding {
    all([64, 256].map(|ranks| {
        let [even, aligned, fixed] = three(base, ranks, 100);
        let figures = [("even", even), ("aligned", aligned), ("static-cyclic", fixed)];
        finding(aligned >= 1.1 * even && aligned >= 1.5 * fixed, &figures)
    }))
}

fn even_like_aligned(base: &Setup) -> Finding {
    let [even, aligned, fixed] = three(base, 64, 128);
    finding(even >= 0.95 * aligned, &[("even", even), ("aligned", aligned), ("static-cyclic", fixed)])
}

fn even_like_cyclic(base: &Setup) -> Finding {
    all([128, 256].map(|ranks| {
        let [even, aligned, fixed] = three(base, ranks, 100);
        let figures = [("even", even), ("aligned", aligned), ("static-cyclic", fixed)];
        finding((even - fixed).abs() < aligned - even, &figures)
    }))
}

fn reads(base: &Setup, judge: fn([f64; 3]) -> bool) -> Finding {
    all([Protocol::Server, Protocol::Token].into_iter().flat_map(|protocol| {
        EDGES.map(|edge| {
            let of = |m| outcome(base, protocol, m, false, 128, edge).bandwidth_mib_s();
            let [even, aligned, fixed] = [Even, Aligned, StaticCyclic].map(of);
            let figures = [("even", even), ("aligned", aligned), ("static-cyclic", fixed)];
            finding(judge([even, aligned, fixed]), &figures)
        })
    }))
}

fn reads_cyclic_last(base: &Setup) -> Finding {
    reads(base, |[even, aligned, fixed]| fixed < even.min(aligned))
}

fn reads_alike(base: &Setup) -> Finding {
    reads(base, |row| row.iter().all(|&each| each >= 0.9 * row.iter().fold(0.0, |a: f64, b| a.max(*b))))
}

/// A machine that differs from the default one in one number.
#[derive(Clone, Debug)]
pub struct Variation {
    /// The difference.
    pub name: String,
    /// The setup to run.
    pub setup: Setup,
}

/// Numbers that are varied, and the factor by which each is multiplied and divided.
const VARIED: &[(&str, u64)] = &[
    ("latency", 4),
    ("lock_time", 4),
    ("message_time", 4),
    ("piece_time", 3),
    ("copy_rate", 2),
    ("node_rate", 2),
    ("client_rate", 2),
    ("client_cache", 4),
    ("server_rate", 2),
    ("request_time", 4),
    ("storage_rate", 3),
    ("seek_time", 2),
    ("storage_queue", 4),
    ("server_ahead", 4),
    ("ahead_first", 4),
    ("ahead_most", 8),
    ("jitter", 3),
];

/// Returns the default machine first, then those that differ from it in one number.
pub fn variations() -> Vec<Variation> {
    let usual = Setup::default();
    let mut all = vec![Variation { name: "the usual machine".into(), setup: usual.clone() }];
    for &(name, factor) in VARIED {
        for up in [false, true] {
            let mut setup = usual.clone();
            let number = setup.machine.number(name).expect("a machine has it");
            *number = if up { *number * factor } else { *number / factor };
            let sign = if up { "×" } else { "÷" };
            all.push(Variation { name: format!("{name} {sign} {factor}"), setup });
        }
    }
    let with = |name: &str, setup| Variation { name: name.into(), setup };
    let mut flash = usual.clone();
    flash.machine.seek_time = 50_000;
    all.push(with("flash: seek_time 50 µs", flash));
    all.push(with("another seed", Setup { seed: 77, ..usual.clone() }));
    all.push(with("rounds free", Setup { rounds: Rounds::Free, ..usual.clone() }));
    all.push(with("callbacks of parts", Setup { callback: Some(Callback::Part), ..usual.clone() }));
    all.push(with("buffers of 4 MiB", Setup { buffer: 4 << 20, ..usual.clone() }));
    all.push(with("buffers of 64 MiB", Setup { buffer: 64 << 20, ..usual }));
    all
}

/// The result of checking a claim on many machines.
#[derive(Clone, Debug)]
pub struct ClaimResult {
    /// The claim.
    pub claim: Claim,
    /// The number of machines on which it was checked.
    pub of: usize,
    /// The machines on which it does not hold, with the figures.
    pub fails: Vec<(String, String)>,
}

/// Checks every claim on every machine, and reports progress as (done, total).
pub fn sensitivity(mut progress: impl FnMut(usize, usize)) -> Vec<ClaimResult> {
    let machines = variations();
    let total = machines.len() * CLAIMS.len();
    let mut done = 0;
    let mut held = Vec::new();
    for claim in CLAIMS {
        let mut fails = Vec::new();
        for Variation { name, setup } in &machines {
            progress(done, total);
            let finding = claim.check(setup);
            if !finding.holds {
                fails.push((name.clone(), finding.figures));
            }
            done += 1;
        }
        held.push(ClaimResult { claim: *claim, of: machines.len(), fails });
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    #[test]
    fn variations_differ_from_the_usual_machine_and_from_each_other() {
        let all = variations();
        let names: std::collections::BTreeSet<&str> = all.iter().map(|v| v.name.as_str()).collect();
        assert_eq!(names.len(), all.len());
        let varied = all.iter().filter(|v| v.setup.machine != Machine::default()).count();
        assert_eq!(varied, 2 * VARIED.len() + 1);
    }
}
