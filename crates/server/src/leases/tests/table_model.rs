//! Property tests of the lease table against a naive model: for every unit of a file, the processes that believe to have leased it.
//!
//! Processes of teams lease, answer recalls at any time, lose their connections, connect again and end; the server is killed and its
//! successor continues; other clients access bytes. In any order, no access proceeds at bytes that a process of another team has and
//! may store, no two teams have the same byte, no client outside of the team knows the slot of a leased block; and when all mailboxes
//! answer, no request waits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pario_locks::LockExtent;
use pario_types::{ClientId, FileId};
use proptest::prelude::*;

use crate::error::Error;
use crate::leases::lease_table::{LeaseAttempt, LeaseStep, LeaseTable, Team};
use crate::leases::records::Record;

pub(super) const FILE: FileId = FileId(5);
const UNIT: u64 = 2;
/// The number of units in the model; the last stands for all after it.
pub(super) const UNITS: u64 = 10;
pub(super) const GRACE: Duration = Duration::from_secs(20);

pub(super) fn extent(units: &std::ops::Range<u64>) -> LockExtent {
    let end = if units.end >= UNITS { u64::MAX } else { units.end * UNIT };
    LockExtent::new(units.start * UNIT, end).expect("not empty")
}

fn units(extent: LockExtent) -> BTreeSet<u64> {
    let whole = |at: u64| at.is_multiple_of(UNIT) || at == u64::MAX;
    assert!(whole(extent.start()) && whole(extent.end()), "{extent:?}");
    (0..UNITS).filter(|unit| extent.start() <= unit * UNIT && unit * UNIT < extent.end()).collect()
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    Connect {
        team: u8,
    },
    Lease {
        pid: usize,
        units: std::ops::Range<u64>,
        more: std::ops::Range<u64>,
    },
    Continue {
        which: usize,
    },
    AbandonLease {
        which: usize,
    },
    Poll {
        pid: usize,
    },
    Yield {
        pid: usize,
        which: usize,
        down: u64,
        up: u64,
    },
    Release {
        team: u8,
    },
    /// The process ends.
    Leave {
        pid: usize,
    },
    /// The connections of the process end.
    Disconnect {
        pid: usize,
    },
    /// The process connects again, if it has no connection.
    Reconnect {
        pid: usize,
    },
    /// The server is killed and started again.
    Restart,
    /// An access by a client of a process's team, or by another client.
    Access {
        by: Option<usize>,
        units: std::ops::Range<u64>,
        more: std::ops::Range<u64>,
    },
    End {
        which: usize,
    },
    Wait,
}

fn some_units() -> impl Strategy<Value = std::ops::Range<u64>> {
    (0..UNITS, 1u64..4).prop_map(|(start, len)| start..(start + len).min(UNITS))
}

fn any_op() -> impl Strategy<Value = Op> {
    let which = any::<usize>();
    prop_oneof![
        3 => (0u8..3).prop_map(|team| Op::Connect { team }),
        8 => (which, some_units(), some_units())
            .prop_map(|(pid, units, more)| Op::Lease { pid, units, more }),
        8 => which.prop_map(|which| Op::Continue { which }),
        1 => which.prop_map(|which| Op::AbandonLease { which }),
        6 => which.prop_map(|pid| Op::Poll { pid }),
        8 => (which, which, 0u64..4, 0u64..12)
            .prop_map(|(pid, which, down, up)| Op::Yield { pid, which, down, up }),
        1 => (0u8..3).prop_map(|team| Op::Release { team }),
        1 => which.prop_map(|pid| Op::Leave { pid }),
        2 => which.prop_map(|pid| Op::Disconnect { pid }),
        4 => which.prop_map(|pid| Op::Reconnect { pid }),
        1 => Just(Op::Restart),
        6 => (proptest::option::of(which), some_units(), some_units())
            .prop_map(|(by, units, more)| Op::Access { by, units, more }),
        8 => which.prop_map(|which| Op::End { which }),
        1 => Just(Op::Wait),
    ]
}

pub(super) struct Process {
    team: Team,
    /// The connection of the process's mailbox.
    pub session: Option<u64>,
    /// The units that the process believes to have leased.
    pub leased: BTreeSet<u64>,
    /// Recalls that the process has received.
    pub recalls: Vec<(u64, LockExtent)>,
}

struct PendingLease {
    by: u64,
    attempt: LeaseAttempt,
    /// The units that the process has yielded since.
    yielded: BTreeSet<u64>,
}

pub(super) struct Access {
    team: Option<Team>,
    pub tickets: Vec<u64>,
    units: BTreeSet<u64>,
}

pub(super) struct Simulation {
    pub table: LeaseTable,
    last: u64,
    pub processes: BTreeMap<u64, Process>,
    pending: Vec<PendingLease>,
    pub accesses: Vec<Access>,
    /// The teams whose clients know the slot of a unit; `None` stands for clients outside of teams.
    known: BTreeMap<u64, BTreeSet<Option<Team>>>,
    recorded: Vec<Record>,
}

impl Simulation {
    pub fn new() -> Simulation {
        Simulation {
            table: LeaseTable::new(UNIT, GRACE),
            last: 0,
            processes: BTreeMap::new(),
            pending: Vec::new(),
            accesses: Vec::new(),
            known: BTreeMap::new(),
            recorded: Vec::new(),
        }
    }

    fn pid(&self, which: usize) -> Option<u64> {
        self.processes.keys().nth(which % self.processes.len().max(1)).copied()
    }

    fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub fn connect(&mut self, team: Team) -> u64 {
        let (pid, session) = (self.next_number(), self.next_number());
        assert!(self.table.add_mailbox(session, ClientId(pid.into()), team, true).unwrap());
        let process = Process { team, session: Some(session), leased: BTreeSet::new(), recalls: Vec::new() };
        self.processes.insert(pid, process);
        pid
    }

    /// Connects a process again; it keeps its leases if they are still valid.
    pub fn reconnect(&mut self, pid: u64) {
        let (session, client) = (self.next_number(), ClientId(pid.into()));
        let process = self.processes.get_mut(&pid).expect("alive");
        if process.session.is_some() {
            return;
        }
        let is_known = self.table.mailboxes.is_valid(client);
        match self.table.add_mailbox(session, client, process.team, false) {
            Ok(true) => assert!(is_known),
            Err(Error::LeaseLost) => {
                assert!(!is_known);
                process.leased.clear();
                assert!(self.table.add_mailbox(session, client, process.team, true).unwrap());
            }
            other => panic!("{other:?}"),
        }
        process.session = Some(session);
    }

    pub fn lease(&mut self, pid: u64, extents: Vec<LockExtent>) {
        let Some(session) = self.processes[&pid].session else { return };
        let attempt = LeaseAttempt::new(session, self.processes[&pid].team, FILE, extents);
        self.pending.push(PendingLease { by: pid, attempt, yielded: BTreeSet::new() });
        self.step(self.pending.len() - 1);
    }

    /// Continues a request for a lease; whether it is over.
    pub fn step(&mut self, which: usize) -> bool {
        loop {
            let pending = &mut self.pending[which];
            match self.table.lease(&mut pending.attempt) {
                Ok(LeaseStep::Wait) => return false,
                Ok(LeaseStep::Invalidate(extents)) => {
                    for unit in extents.iter().flat_map(|(_, extent)| units(*extent)) {
                        self.known.remove(&unit);
                    }
                    self.table.invalidated(pending.attempt.team, &extents);
                }
                Ok(LeaseStep::Done(extents)) => {
                    let got: BTreeSet<u64> = extents.into_iter().flat_map(units).collect();
                    let asked: BTreeSet<u64> =
                        pending.attempt.extents.iter().copied().flat_map(units).collect();
                    assert!(got.is_superset(&asked), "{got:?} for {asked:?}");
                    let own = Some(pending.attempt.team);
                    for unit in &got {
                        let knows = self.known.get(unit).into_iter().flatten().find(|team| **team != own);
                        assert_eq!(knows, None, "a client outside of the team knows unit {unit}");
                    }
                    if let Some(process) = self.processes.get_mut(&pending.by) {
                        process.leased.extend(got.difference(&pending.yielded));
                    }
                    self.end_lease(which);
                    return true;
                }
                Err(e) => {
                    assert!(matches!(e, Error::NoMailbox), "{e}");
                    self.end_lease(which);
                    return true;
                }
            }
        }
    }

    fn end_lease(&mut self, which: usize) {
        let over = self.pending.remove(which);
        self.table.end_attempt(&over.attempt);
    }

    pub fn poll(&mut self, pid: u64) {
        let Some(session) = self.processes[&pid].session else { return };
        let recalls = self.table.next_recalls(session);
        let process = self.processes.get_mut(&pid).expect("alive");
        process.recalls.extend(recalls.into_iter().map(|(number, _, extent)| (number, extent)));
    }

    pub fn answer(&mut self, pid: u64, which: usize, down: u64, up: u64) {
        let process = self.processes.get_mut(&pid).expect("alive");
        let Some(session) = process.session.filter(|_| !process.recalls.is_empty()) else { return };
        let (number, wanted) = process.recalls.remove(which % process.recalls.len());
        let start = wanted.start().saturating_sub(down);
        let gone = LockExtent::new(start, wanted.end().saturating_add(up)).expect("not empty");
        let whole = |unit: &u64| gone.start() <= unit * UNIT && (unit + 1) * UNIT <= gone.end();
        let gone_units: BTreeSet<u64> = (0..UNITS).filter(whole).collect();
        process.leased.retain(|unit| !gone_units.contains(unit));
        for pending in self.pending.iter_mut().filter(|pending| pending.by == pid) {
            pending.yielded.extend(&gone_units);
        }
        self.table.yielded(session, number, gone).expect("it covers what was wanted");
    }

    fn leave(&mut self, pid: u64) {
        let Some(session) = self.processes[&pid].session else { return };
        self.table.close_mailbox(session);
        self.disconnect(pid);
        self.processes.remove(&pid);
    }

    pub fn disconnect(&mut self, pid: u64) {
        let process = self.processes.get_mut(&pid).expect("alive");
        process.recalls.clear();
        let Some(session) = process.session.take() else { return };
        self.table.client_left(session, ClientId(pid.into()));
        while let Some(which) = self.pending.iter().position(|pending| pending.by == pid) {
            self.end_lease(which);
        }
        self.check_overdue();
    }

    /// Cuts off processes whose time is over: their connections end at once, and their leases when no client knows their slots any
    /// more.
    pub fn check_overdue(&mut self) {
        for one in self.table.cut_off() {
            let is_one = |(pid, _): &(&u64, &Process)| one.mailboxes.contains(&ClientId((**pid).into()));
            let connected =
                self.processes.iter().filter(is_one).filter(|(_, process)| process.session.is_some());
            let (pid, sessions): (Vec<u64>, BTreeSet<Option<u64>>) =
                connected.map(|(pid, process)| (*pid, process.session)).unzip();
            assert_eq!(one.sessions.iter().copied().map(Some).collect::<BTreeSet<_>>(), sessions);
            pid.into_iter().for_each(|pid| self.disconnect(pid));
            self.check();
            for unit in one.leased.iter().flat_map(|(_, extent)| units(*extent)) {
                self.known.remove(&unit);
            }
            self.table.finish_cut_off(one.mailboxes);
        }
    }

    /// Restarts the server: its successor knows only the records.
    pub fn restart(&mut self) {
        self.recorded.extend(self.table.take_records());
        self.pending.clear();
        self.accesses.clear();
        let past = self.recorded.iter().map(|record| Record::parse(&record.to_string()).expect("read again"));
        let now = std::mem::replace(&mut self.table, LeaseTable::new(UNIT, GRACE)).now;
        self.table.now = now;
        assert!(self.table.restore(past));
        let all = self.table.all_records();
        let mut again = LeaseTable::new(UNIT, GRACE);
        assert!(again.restore(all.clone()));
        let sorted = |mut records: Vec<Record>| {
            records.sort_by_key(Record::to_string);
            records
        };
        assert_eq!(sorted(again.all_records()), sorted(all));
        for process in self.processes.values_mut() {
            (process.session, process.recalls) = (None, Vec::new());
        }
        self.check();
    }

    pub fn access(&mut self, team: Option<Team>, extents: &[LockExtent]) {
        self.last += 1;
        let tickets = self.table.begin_access(team, self.last, FILE, extents).unwrap();
        let units = extents.iter().copied().flat_map(units).collect();
        self.accesses.push(Access { team, tickets, units });
    }

    /// Ends an access; whether it was under way.
    fn end_access(&mut self, which: usize) -> bool {
        let access = &self.accesses[which];
        let under_way = self.table.is_granted(&access.tickets);
        if under_way {
            let access = self.accesses.remove(which);
            self.table.end(&access.tickets);
        }
        under_way
    }

    pub fn apply(&mut self, op: Op) {
        match op {
            Op::Connect { team } if self.processes.len() < 6 => {
                self.connect(Team(team.into()));
            }
            Op::Connect { .. } => {}
            Op::Lease { pid, units, more } => {
                if let Some(pid) = self.pid(pid) {
                    self.lease(pid, disjoint(&units, &more));
                }
            }
            Op::Continue { which } if !self.pending.is_empty() => {
                self.step(which % self.pending.len());
            }
            Op::AbandonLease { which } if !self.pending.is_empty() => {
                self.end_lease(which % self.pending.len());
            }
            Op::Continue { .. } | Op::AbandonLease { .. } => {}
            Op::Poll { pid } => {
                self.pid(pid).into_iter().for_each(|pid| self.poll(pid));
            }
            Op::Yield { pid, which, down, up } => {
                self.pid(pid).into_iter().for_each(|pid| self.answer(pid, which, down, up));
            }
            Op::Release { team } => {
                let team = Team(team.into());
                // A team releases its leases when none of its processes uses the file.
                let members = self.processes.values_mut().filter(|process| process.team == team);
                members.for_each(|process| process.leased.clear());
                self.table.release(team, FILE);
            }
            Op::Leave { pid } => {
                self.pid(pid).into_iter().for_each(|pid| self.leave(pid));
            }
            Op::Disconnect { pid } => {
                self.pid(pid).into_iter().for_each(|pid| self.disconnect(pid));
            }
            Op::Reconnect { pid } => {
                self.pid(pid).into_iter().for_each(|pid| self.reconnect(pid));
            }
            Op::Restart => self.restart(),
            Op::Access { by, units, more } => {
                let team = by.and_then(|by| self.pid(by)).map(|pid| self.processes[&pid].team);
                self.access(team, &disjoint(&units, &more));
            }
            Op::End { which } if !self.accesses.is_empty() => {
                self.end_access(which % self.accesses.len());
            }
            Op::End { .. } => {}
            Op::Wait => {
                self.table.now += GRACE / 3;
            }
        }
        self.check_overdue();
        self.recorded.extend(self.table.take_records());
        self.check();
    }

    fn check(&mut self) {
        self.table.check_invariants(self.table.now).unwrap();
        let mut owners: BTreeMap<u64, Team> = BTreeMap::new();
        for (pid, process) in &self.processes {
            // The server refuses changes of processes without a valid mailbox.
            let is_good = self.table.mailboxes.is_valid(ClientId((*pid).into()));
            for unit in process.leased.iter().filter(|_| is_good) {
                let owner = *owners.entry(*unit).or_insert(process.team);
                assert_eq!(owner, process.team, "two teams have unit {unit}");
            }
        }
        for access in &self.accesses {
            if !self.table.is_granted(&access.tickets) {
                continue;
            }
            for unit in &access.units {
                let owner = owners.get(unit).copied();
                assert!(owner.is_none() || owner == access.team, "an access at unit {unit} of {owner:?}");
                self.known.entry(*unit).or_default().insert(access.team);
            }
        }
    }

    /// Answers all recalls and ends all accesses, until no request waits.
    pub fn complete_all(&mut self) {
        for _ in 0..100 {
            let processes: Vec<u64> = self.processes.keys().copied().collect();
            for pid in processes {
                self.reconnect(pid);
                self.poll(pid);
                while !self.processes[&pid].recalls.is_empty() {
                    self.answer(pid, 0, 0, 0);
                    self.check();
                }
            }
            while (0..self.accesses.len()).any(|which| self.end_access(which)) {}
            while (0..self.pending.len()).any(|which| self.step(which)) {
                self.check();
            }
            if self.pending.is_empty() && self.accesses.is_empty() {
                return;
            }
        }
        panic!("{} accesses and {} lease requests wait for ever", self.accesses.len(), self.pending.len());
    }
}

/// Two extents that neither overlap nor touch, as a request has them, or one.
fn disjoint(one: &std::ops::Range<u64>, other: &std::ops::Range<u64>) -> Vec<LockExtent> {
    let mut both = vec![extent(one)];
    if one.end < other.start || other.end < one.start {
        both.push(extent(other));
    }
    both.sort_unstable();
    both
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn leases_exclude_other_accesses_and_no_request_waits_for_ever(
        ops in proptest::collection::vec(any_op(), 1..120),
    ) {
        let mut simulation = Simulation::new();
        for op in ops {
            simulation.apply(op);
        }
        simulation.complete_all();
        let processes: Vec<u64> = simulation.processes.keys().copied().collect();
        processes.into_iter().for_each(|pid| simulation.leave(pid));
        prop_assert_eq!(simulation.table.status().teams, 0);
        prop_assert!(simulation.table.is_empty());
        // Every gate that was closed is open.
        let count = |files: &[FileId]| files.len();
        prop_assert_eq!(count(&simulation.table.effects.close), count(&simulation.table.effects.open));
        // A successor knows no leases.
        simulation.restart();
        prop_assert!(simulation.table.is_empty() && simulation.table.all_records().is_empty());
    }
}
