//! Histories that favour one kind of trouble.
//!
//! Most histories mix everything, and rarely have all that a certain bug needs. Half of them are about one mechanism, their *topic*: such a
//! history uses little else, and threads pause and faults happen where they matter to this mechanism.

use std::time::Duration;

use fastrand::Rng;

use crate::plan::{Ending, FaultKind, Plan};

/// A mechanism that a history can be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// A client or a server is killed in the middle of a copy, or the server ends.
    Copies,
    /// Copies between a client's memory and slots that are reused all the time.
    Slots,
    /// Connections break while a request is executed, so that the client sends it again.
    Requests,
    /// Several programs cache the same blocks, and do not always give up their leases in time.
    Leases,
    /// Replicas that a killed writer left divergent.
    Replicas,
    /// Names, while servers and clients end.
    Names,
    /// Syncs fail and are repeated, before hosts lose their memory.
    Syncs,
    /// `up` and `down` beside each other, while commands, servers and supervisors are killed.
    Commands,
    /// `cp` is killed and resumed, while hosts fail and disks have faults.
    Transfers,
    /// `check --repair` beside programs that create and remove files.
    Checks,
}

/// All topics: the name that the command line has for each, and its share. Those that need rarer events have a larger one.
pub const TOPICS: &[(Topic, &str, usize)] = &[
    (Topic::Copies, "copies", 4),
    (Topic::Slots, "slots", 2),
    (Topic::Requests, "requests", 4),
    (Topic::Leases, "leases", 4),
    (Topic::Replicas, "replicas", 3),
    (Topic::Names, "names", 2),
    (Topic::Syncs, "syncs", 2),
    (Topic::Commands, "commands", 5),
    (Topic::Transfers, "transfers", 3),
    (Topic::Checks, "checks", 2),
];

/// The share of histories without a topic.
const MIXED: usize = 31;

/// Where threads pause.
struct Stalls {
    one_site_in: u64,
    one_in: u32,
    within: u32,
    of: u32,
}

/// Any code, the caches of servers, the transfers of `cp`, the mailboxes of tier 1, truncations: see `Plan::stall_within`.
const ANYWHERE: u32 = 0;
const CACHES: u32 = 1;
const TRANSFERS: u32 = 2;
const MAILBOXES: u32 = 3;
const TRUNCATIONS: u32 = 4;

/// Threads of servers pause: see `Plan::stall_of`.
const SERVERS: u32 = 2;

/// Threads of clients pause in the code of the servers' caches.
const COPIES: Stalls = Stalls { one_site_in: 1, one_in: 10, within: CACHES, of: 1 };

/// The topic of this name.
pub fn find_topic(name: &str) -> Option<Topic> {
    TOPICS.iter().find(|(_, one, _)| *one == name).map(|(topic, ..)| *topic)
}

/// The name of a topic.
pub fn name_of(topic: Topic) -> &'static str {
    TOPICS.iter().find(|(one, ..)| *one == topic).map_or("", |(_, name, _)| name)
}

/// The topic of a history, if it has one.
pub fn draw_topic(random: &mut Rng) -> Option<Topic> {
    let all: usize = TOPICS.iter().map(|(_, _, share)| share).sum();
    let mut drawn = random.usize(0..all + MIXED);
    for (topic, _, share) in TOPICS {
        match drawn.checked_sub(*share) {
            None => return Some(*topic),
            Some(rest) => drawn = rest,
        }
    }
    None
}

/// Changes a plan so that its history is about one mechanism.
pub fn focus(plan: &mut Plan, topic: Topic, random: &mut Rng, allowed: &[FaultKind]) {
    (plan.managed, plan.stall_one_site_in, plan.faults_at_stalls) = (false, 0, true);
    (plan.locks, plan.views, plan.threads, plan.prefetches) = (false, false, false, false);
    (plan.names, plan.placed, plan.tier1) = (false, false, false);
    (plan.ending, plan.looks_before_ending) = (Ending::Down, 1);
    match topic {
        Topic::Copies => {
            plan.stall(COPIES);
            if random.u32(0..3) == 0 {
                // Servers copy the bytes of clients on other hosts.
                (plan.hosts, plan.stall_of) = (plan.hosts.max(2), SERVERS);
            }
            let kind = if random.bool() { FaultKind::Kill } else { FaultKind::Terminate };
            plan.only(&[kind], allowed, 4);
        }
        Topic::Slots => {
            (plan.limit, plan.slots, plan.clients, plan.calls) = (150_000, 16, 3, 40);
            plan.stall(COPIES);
            plan.only(&[], allowed, 0);
        }
        Topic::Requests => repeated_requests(plan, random, allowed),
        Topic::Leases => leases(plan, random, allowed),
        Topic::Replicas => replicas(plan, random, allowed),
        Topic::Names => {
            (plan.names, plan.clients, plan.calls) = (true, 3, 40);
            plan.only(&[FaultKind::Kill, FaultKind::Terminate], allowed, random.u32(0..4));
        }
        Topic::Syncs => failed_syncs(plan, random, allowed),
        Topic::Commands => commands(plan, random, allowed),
        Topic::Transfers => transfers(plan, random, allowed),
        Topic::Checks => checks(plan, random, allowed),
    }
}

/// A reply is lost, or a connection breaks while a thread of the server pauses.
fn repeated_requests(plan: &mut Plan, random: &mut Rng, allowed: &[FaultKind]) {
    (plan.truncates, plan.workers, plan.calls, plan.limit) = (true, 2, 40, 9000);
    plan.names = random.bool();
    if random.u32(0..4) == 0 {
        // A truncation is repeated and completed while a thread pauses that is about to begin it.
        (plan.names, plan.servers, plan.clients) = (false, plan.servers.min(2), plan.clients.min(2));
        plan.fault_interval = Duration::from_millis(20);
        plan.stall(Stalls { one_site_in: 1, one_in: 3, within: TRUNCATIONS, of: SERVERS });
        return plan.only(&[FaultKind::Break], allowed, 8);
    }
    if random.bool() {
        (plan.faults_at_stalls, plan.names, plan.servers) = (false, true, plan.servers.min(2));
        plan.clients = plan.clients.min(2);
        plan.fault_interval = Duration::from_micros(random.u64(100..2000));
        return plan.only(&[FaultKind::LostReply], allowed, 20);
    }
    let (one_site_in, one_in) = [(2, 30), (8, 2), (20, 2)][random.usize(0..3)];
    plan.stall(Stalls { one_site_in, one_in, within: ANYWHERE, of: 2 });
    plan.only(&[FaultKind::Break], allowed, 8);
}

/// Killed writers leave replicas divergent, or a host loses what its replicas had not stored.
fn replicas(plan: &mut Plan, random: &mut Rng, allowed: &[FaultKind]) {
    (plan.placed, plan.servers, plan.ending) = (true, plan.servers.max(2), Ending::Nothing);
    plan.looks_before_ending = 2;
    if random.bool() {
        plan.hosts = 1;
        plan.stall(COPIES);
        return plan.only(&[FaultKind::Kill], allowed, 3);
    }
    (plan.hosts, plan.faults_at_stalls) = (plan.servers.into(), false);
    (plan.calls, plan.limit) = (30, plan.limit.min(40_000));
    plan.fault_interval = Duration::from_millis(3);
    plan.only(&[FaultKind::HostLost], allowed, random.u32(1..4));
}

fn leases(plan: &mut Plan, random: &mut Rng, allowed: &[FaultKind]) {
    (plan.tier1, plan.is_one_team, plan.clients, plan.files, plan.limit) = (true, false, 3, 1, 9000);
    match random.u32(0..8) {
        0 => plan.only(&[FaultKind::Kill], allowed, 6),
        1 => plan.only(&[FaultKind::Stop, FaultKind::Cut], allowed, 3),
        2 | 3 => {
            // The thread that hears of recalls pauses, while the others of its process use the blocks that are recalled.
            (plan.limit, plan.calls, plan.long_stalls) = (4000, 40, true);
            plan.longest_pause = Duration::from_millis(2000);
            plan.stall(Stalls { one_site_in: 1, one_in: 20, within: MAILBOXES, of: 1 });
            return plan.only(&[], allowed, 0);
        }
        4 => {
            // A process of another host than the server does not hear for seconds that its lease is recalled, and goes on. All bytes are
            // in one block, so that it needs no server.
            (plan.hosts, plan.servers, plan.calls, plan.faults_at_stalls) = (3, 1, 40, false);
            (plan.limit, plan.longest_pause) = (4000, Duration::from_millis(1000));
            plan.fault_interval = Duration::from_millis(1500);
            return plan.only(&[FaultKind::HalfOpen], allowed, 4);
        }
        _ => {
            plan.stall(Stalls { one_site_in: 5, one_in: 4, within: ANYWHERE, of: 1 });
            plan.only(&[], allowed, 0);
        }
    }
    if random.bool() {
        plan.longest_pause = Duration::from_millis(400);
    }
}

/// The system drops data that a failed sync could not write, before the next sync succeeds; or closes are all that stores data.
fn failed_syncs(plan: &mut Plan, random: &mut Rng, allowed: &[FaultKind]) {
    (plan.syncs, plan.faults_at_stalls, plan.files) = (true, false, 1);
    if random.u32(0..3) == 0 {
        // Handles are dropped without a close, and another handle of the process is closed, before hosts lose their memory.
        (plan.syncs, plan.drops, plan.ending) = (false, true, Ending::HostsLost);
        plan.fault_interval = Duration::from_millis(4);
        return plan.only(&[FaultKind::HostLost], allowed, 3);
    }
    (plan.clients, plan.calls, plan.servers) = (plan.clients.min(2), 30, plan.servers.min(2));
    plan.hosts = plan.hosts.min(2);
    plan.fault_interval = Duration::from_micros(random.u64(200..3000));
    plan.only(&[FaultKind::SyncFails], allowed, 6);
    if plan.has_kind(FaultKind::SyncFails) {
        plan.ending = Ending::HostsLost;
    }
}

/// Commands of which each is killed at any of its steps, as are servers and supervisors.
fn commands(plan: &mut Plan, random: &mut Rng, allowed: &[FaultKind]) {
    (plan.managed, plan.faults_at_stalls, plan.limit) = (true, false, 9000);
    (plan.clients, plan.calls, plan.servers) = (2, 30, plan.servers.min(3));
    plan.hosts = [1, 1, 1, 2][random.usize(0..4)];
    plan.longest_pause = Duration::from_millis(60);
    plan.fault_interval = Duration::from_millis([4, 40][random.usize(0..2)]);
    let kinds = [FaultKind::Up, FaultKind::Down, FaultKind::Orphan, FaultKind::Kill];
    plan.only(&kinds, allowed, random.u32(6..20));
}

/// Copies that take seconds, of which threads pause, and whose servers lose what was not stored.
fn transfers(plan: &mut Plan, random: &mut Rng, allowed: &[FaultKind]) {
    (plan.managed, plan.faults_at_stalls, plan.clients) = (true, false, 1);
    (plan.calls, plan.servers, plan.slow_copies) = (12, plan.servers.clamp(2, 3), true);
    plan.longest_pause = Duration::from_millis(600);
    plan.fault_interval = Duration::from_millis(500);
    match random.u32(0..3) {
        0 => {
            // A thread of a copy stands still with an early piece, while others go on; then the copy is killed.
            (plan.long_stalls, plan.fault_interval) = (true, Duration::from_millis(2500));
            plan.longest_pause = Duration::from_secs(5);
            plan.stall(Stalls { one_site_in: 1, one_in: 8, within: TRANSFERS, of: 3 });
            plan.only(&[FaultKind::Copy, FaultKind::Kill], allowed, 5);
        }
        1 => {
            // Most pieces of a copy go to one server, so that others go on when that one stands still.
            plan.stripe = 10_000;
            plan.only(&[FaultKind::Copy, FaultKind::Stop, FaultKind::Kill], allowed, 7);
        }
        _ => {
            plan.hosts = plan.hosts.max(2);
            plan.only(&[FaultKind::Copy, FaultKind::HostLost], allowed, 6);
        }
    }
}

/// Files appear and vanish while `check` lists them.
fn checks(plan: &mut Plan, random: &mut Rng, allowed: &[FaultKind]) {
    (plan.managed, plan.faults_at_stalls, plan.names) = (true, false, true);
    (plan.clients, plan.calls, plan.servers) = (2, 40, plan.servers.min(3));
    plan.longest_pause = Duration::from_millis(random.u64(20..200));
    plan.fault_interval = Duration::from_millis(200);
    plan.stall(Stalls { one_site_in: 1, one_in: 10, within: ANYWHERE, of: 4 });
    plan.only(&[FaultKind::Check], allowed, 4);
}

impl Plan {
    fn stall(&mut self, stalls: Stalls) {
        (self.stall_one_site_in, self.stall_one_in) = (stalls.one_site_in, stalls.one_in);
        (self.stall_within, self.stall_of) = (stalls.within, stalls.of);
    }

    /// Has only faults of these kinds, as far as they are allowed.
    fn only(&mut self, kinds: &[FaultKind], allowed: &[FaultKind], count: u32) {
        self.faults = kinds.iter().filter(|kind| allowed.contains(kind)).map(|kind| (*kind, 1)).collect();
        self.fault_count = if self.faults.is_empty() { 0 } else { count };
    }
}
