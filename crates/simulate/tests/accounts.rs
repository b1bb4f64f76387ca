//! Lock traffic computed in three ways: by hand, by a lock manager without any simulation, and by the simulation.

use std::collections::BTreeMap;

use pario_domain::PartitioningMethod;
use pario_locks::{
    BeginOutcome, ClientLocks, Grant, LockAction, LockCounters, LockExtent, LockManager, LockMode,
    LockRequest,
};
use pario_simulate::{Callback, Machine, Protocol, Setup, Size, Workload, run};
use pario_types::FileId;

const UNIT: u64 = 1024;

const FILE_SYSTEMS: [Protocol; 2] = [Protocol::Server, Protocol::Token];

/// A manager and clients whose operations never overlap in time: each access ends before the next begins.
struct SerialClients {
    manager: LockManager<u32>,
    held: BTreeMap<u32, ClientLocks>,
}

impl SerialClients {
    fn new() -> SerialClients {
        SerialClients { manager: LockManager::new(UNIT), held: BTreeMap::new() }
    }

    fn access(&mut self, client: u32, unit: u64, mode: LockMode) {
        let (file, extent) = (FileId(1), LockExtent::new(unit * UNIT, (unit + 1) * UNIT).expect("not empty"));
        let held = self.held.entry(client).or_insert_with(|| ClientLocks::new(UNIT));
        let ticket = match held.begin(file, extent, mode) {
            BeginOutcome::Now(ticket) => ticket,
            BeginOutcome::Ask(ticket) => {
                let grant = Grant::Largest;
                let request = LockRequest { holder: client, ticket, file, extent, mode, grant };
                let mut actions = self.manager.request(request).expect("sound");
                while let Some(action) = actions.pop() {
                    match action {
                        LockAction::Granted { holder, ticket, file, lock, extent, mode } => {
                            let held = self.held.get_mut(&holder).expect("it asked");
                            assert!(held.granted(ticket, file, lock, extent, mode));
                        }
                        LockAction::Revoke { holder, lock, wanted, .. } => {
                            let held = self.held.get_mut(&holder).expect("it holds");
                            let release = held.revoke(lock, wanted).expect("it has it");
                            actions.extend(self.manager.release(holder, &release).expect("sound"));
                        }
                        LockAction::Refused { .. } => unreachable!("no file goes away"),
                    }
                }
                ticket
            }
        };
        assert_eq!(self.held.get_mut(&client).expect("known").end(ticket), []);
    }

    fn counted(&self) -> [u64; 4] {
        four(self.manager.counters())
    }
}

/// Requests, grants, conflicts, revocations.
fn four(counters: LockCounters) -> [u64; 4] {
    [counters.requests, counters.grants, counters.conflicts, counters.revocations]
}

/// Two ranks on two nodes, both aggregators, access `units` lock units on one server; a window is one unit, and both begin
/// their windows together.
fn simulated(method: PartitioningMethod, protocol: Protocol, write: bool, units: u64) -> [u64; 4] {
    let machine = Machine { processes_per_node: 1, jitter: 0, ..Machine::default() };
    let callback = Some(Callback::Part);
    let setup = Setup {
        protocol,
        callback,
        method,
        write,
        servers: 1,
        stripe: UNIT,
        buffer: UNIT,
        machine,
        ..Setup::default()
    };
    // Each rank has half of the region.
    let work = Workload::named("contiguous", 2, Size { edge: units / 2, calls: 1 }).expect("sound");
    let outcome = run(&setup, &work).expect("runs");
    assert_eq!(four(outcome.locks)[0..2], four(outcome.seen)[0..2]);
    assert_eq!(outcome.locks.revocations, outcome.seen.revocations);
    four(outcome.locks)
}

#[test]
fn readers_ask_once_each() {
    let mut serial = SerialClients::new();
    (0..8).for_each(|unit| serial.access((unit % 2) as u32, unit, LockMode::Shared));
    for protocol in FILE_SYSTEMS {
        for method in PartitioningMethod::ALL {
            assert_eq!(simulated(method, protocol, false, 8), [2, 2, 0, 0], "{method:?}");
        }
    }
    assert_eq!(serial.counted(), [2, 2, 0, 0]);
}

/// Client 0 has units 0 to 3, client 1 units 4 to 7. Client 0 gets a lock on all of the file. Client 1 requests unit 4:
/// client 0 keeps unit 0. Client 0 requests unit 1: client 1 releases all units before 4. From then on each client has the
/// locks that it needs.
#[test]
fn contiguous_halves_need_three_requests() {
    let mut serial = SerialClients::new();
    for step in 0..4 {
        serial.access(0, step, LockMode::Exclusive);
        serial.access(1, 4 + step, LockMode::Exclusive);
    }
    assert_eq!(serial.counted(), [3, 3, 2, 2]);
    for protocol in FILE_SYSTEMS {
        assert_eq!(
            simulated(PartitioningMethod::Aligned, protocol, true, 8),
            serial.counted(),
            "{protocol:?}"
        );
        assert_eq!(simulated(PartitioningMethod::Even, protocol, true, 8), serial.counted(), "{protocol:?}");
    }
}

/// Alternating units, both clients at the same time. Client 0 gets a lock on all of the file. Client 1 requests unit 1:
/// client 0 keeps unit 0. From then on client 1 has its lock in each round, and client 0, one unit behind, revokes what
/// lies before client 1's latest unit.
#[test]
fn alternating_units_cost_a_revocation_in_each_round() {
    let mut serial = SerialClients::new();
    serial.access(0, 0, LockMode::Exclusive);
    serial.access(1, 1, LockMode::Exclusive);
    for round in 1..4 {
        serial.access(1, 2 * round + 1, LockMode::Exclusive);
        serial.access(0, 2 * round, LockMode::Exclusive);
    }
    assert_eq!(serial.counted(), [5, 5, 4, 4]);
    for protocol in FILE_SYSTEMS {
        assert_eq!(
            simulated(PartitioningMethod::StaticCyclic, protocol, true, 8),
            serial.counted(),
            "{protocol:?}"
        );
    }
}

/// As many servers as clients: each client has a server of its own and requests one lock.
#[test]
fn a_server_for_each_client_means_one_request_each() {
    let machine = Machine { processes_per_node: 1, ..Machine::default() };
    let setup = Setup {
        method: PartitioningMethod::GroupCyclic,
        servers: 4,
        stripe: UNIT,
        machine,
        ..Setup::default()
    };
    let work = Workload::named("contiguous", 4, Size { edge: 8, calls: 5 }).expect("sound");
    let outcome = run(&setup, &work).expect("runs");
    assert_eq!(four(outcome.locks), [4, 4, 0, 0]);
    assert_eq!(outcome.interleaved, 0);
}
