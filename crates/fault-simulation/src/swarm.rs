//! Swarm testing: each history has a random subset of all features and kinds of faults.
//!
//! A feature that is used all the time hides bugs that need its absence: a program that syncs often has little to lose, and a partition that is
//! always restarted has short queues. So each history of a swarm leaves about half of everything out (Groce et al., "Swarm Testing", ISSTA
//! 2012).

use fastrand::Rng;

use crate::plan::{FaultKind, Plan};

/// The largest share of a kind of fault.
const MOST_SHARE: u32 = 3;

/// Changes a plan: each feature and each kind of fault is there or not, with equal chance.
pub fn swarm(plan: &mut Plan, random: &mut Rng, allowed: &[FaultKind]) {
    let features = [
        &mut plan.managed,
        &mut plan.tier1,
        &mut plan.is_one_team,
        &mut plan.truncates,
        &mut plan.syncs,
        &mut plan.names,
        &mut plan.locks,
        &mut plan.views,
        &mut plan.threads,
        &mut plan.prefetches,
        &mut plan.placed,
    ];
    features.into_iter().for_each(|feature| *feature = random.bool());
    let managed = plan.managed;
    let is_possible = |kind: &&FaultKind| match managed {
        true => !kind.damages_storage() && **kind != FaultKind::Scale,
        false => !kind.needs_commands(),
    };
    let chosen: Vec<FaultKind> =
        allowed.iter().filter(is_possible).filter(|_| random.bool()).copied().collect();
    plan.faults = chosen.into_iter().map(|kind| (kind, random.u32(1..=MOST_SHARE))).collect();
    plan.fault_count = if plan.faults.is_empty() { 0 } else { random.u32(1..16) };
}
