//! Histories that favour one kind of trouble.
//!
//! Most histories mix everything, and rarely have all that a certain bug needs. One in three is about one mechanism: it uses little else,
//! and threads pause and faults happen where they matter to this mechanism.

use std::time::Duration;

use fastrand::Rng;

use crate::plan::{Ending, FaultKind, Plan};

/// Where threads pause.
struct Stalls {
    one_site_in: u64,
    one_in: u32,
    in_cache: bool,
    of: u32,
}

/// Threads of clients pause in the code of the servers' caches.
const COPIES: Stalls = Stalls { one_site_in: 1, one_in: 10, in_cache: true, of: 1 };

/// Changes a plan, perhaps, so that its history is about one mechanism.
pub fn focus(plan: &mut Plan, random: &mut Rng, allowed: &[FaultKind]) {
    // Topics that need rarer events are more frequent.
    let topics = [0, 0, 1, 2, 2, 3, 3, 4, 4, 5];
    let topic = topics.get(random.usize(0..3 * topics.len())).copied();
    if topic.is_some() {
        (plan.managed, plan.stall_one_site_in, plan.faults_at_stalls) = (false, 0, true);
        (plan.locks, plan.views, plan.threads, plan.prefetches) = (false, false, false, false);
        (plan.names, plan.placed, plan.tier1) = (false, false, false);
        (plan.ending, plan.looks_before_ending) = (Ending::Down, 1);
    }
    match topic {
        Some(0) => interrupted_copies(plan, random, allowed),
        Some(1) => {
            // Copies between a client's memory and slots that are reused all the time.
            (plan.limit, plan.slots, plan.clients, plan.calls) = (150_000, 16, 3, 40);
            plan.stall(COPIES);
            plan.only(&[], allowed, 0);
        }
        Some(2) => repeated_requests(plan, random, allowed),
        Some(3) => leases(plan, random, allowed),
        Some(4) => {
            // Replicas that a killed writer left divergent.
            (plan.placed, plan.servers, plan.ending) = (true, plan.servers.max(2), Ending::Nothing);
            (plan.looks_before_ending, plan.hosts) = (2, 1);
            plan.stall(COPIES);
            plan.only(&[FaultKind::Kill], allowed, 3);
        }
        Some(5) => {
            // Names, while servers and clients end.
            (plan.names, plan.clients, plan.calls) = (true, 3, 40);
            plan.only(&[FaultKind::Kill, FaultKind::Terminate], allowed, random.u32(0..4));
        }
        _ => {}
    }
}

/// A client is killed in the middle of a copy, or its server ends.
fn interrupted_copies(plan: &mut Plan, random: &mut Rng, allowed: &[FaultKind]) {
    plan.stall(COPIES);
    let kind = if random.bool() { FaultKind::Kill } else { FaultKind::Terminate };
    plan.only(&[kind], allowed, 4);
}

/// Connections break while a request is executed, so that the client sends it again.
fn repeated_requests(plan: &mut Plan, random: &mut Rng, allowed: &[FaultKind]) {
    let stalls = [(2, 30), (8, 2), (20, 2)][random.usize(0..3)];
    plan.stall(Stalls { one_site_in: stalls.0, one_in: stalls.1, in_cache: false, of: 2 });
    (plan.truncates, plan.workers, plan.calls, plan.limit) = (true, 2, 40, 9000);
    plan.names = random.bool();
    plan.only(&[FaultKind::Break], allowed, 8);
}

/// Several programs cache the same blocks, and do not always give up their leases in time.
fn leases(plan: &mut Plan, random: &mut Rng, allowed: &[FaultKind]) {
    (plan.tier1, plan.is_one_team, plan.clients, plan.files, plan.limit) = (true, false, 3, 1, 9000);
    match random.u32(0..4) {
        0 => plan.only(&[FaultKind::Kill], allowed, 6),
        1 => plan.only(&[FaultKind::Stop, FaultKind::Cut], allowed, 3),
        _ => {
            plan.stall(Stalls { one_site_in: 5, one_in: 4, in_cache: false, of: 1 });
            plan.only(&[], allowed, 0);
        }
    }
    if random.bool() {
        plan.longest_pause = Duration::from_millis(400);
    }
}

impl Plan {
    fn stall(&mut self, stalls: Stalls) {
        (self.stall_one_site_in, self.stall_one_in) = (stalls.one_site_in, stalls.one_in);
        (self.stall_in_cache, self.stall_of) = (stalls.in_cache, stalls.of);
    }

    /// Has only faults of these kinds, as far as they are allowed.
    fn only(&mut self, kinds: &[FaultKind], allowed: &[FaultKind], count: u32) {
        self.faults = kinds.iter().filter(|kind| allowed.contains(kind)).map(|kind| (*kind, 1)).collect();
        self.fault_count = if self.faults.is_empty() { 0 } else { count };
    }
}
