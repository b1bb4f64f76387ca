//! The book against a naive idea of what it is for: bytes, one by one, and who believes to have them.
//!
//! Processes of teams lease, answer recalls when they feel like it, lose their connections, come again and leave; the
//! server is killed and its successor goes on; others access bytes. Whatever the order, no access goes on at bytes that a
//! process of another team has and may store, no two teams have the same byte, no client knows where a leased block is
//! without being of the team; and when all mailboxes answer, nobody waits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pario_locks::LockExtent;
use pario_types::{ClientId, FileId};
use proptest::prelude::*;

use super::book::{Ask, Book, Step, Team};
use super::records::Record;
use crate::error::Error;

pub(super) const FILE: FileId = FileId(5);
const UNIT: u64 = 2;
/// Units that are looked at; the last stands for all behind it.
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
    Arrive {
        team: u8,
    },
    Lease {
        who: usize,
        units: std::ops::Range<u64>,
        more: std::ops::Range<u64>,
    },
    GoOn {
        which: usize,
    },
    GiveUpLease {
        which: usize,
    },
    Poll {
        who: usize,
    },
    Yield {
        who: usize,
        which: usize,
        down: u64,
        up: u64,
    },
    Release {
        team: u8,
    },
    /// Its process has nothing any more.
    Leave {
        who: usize,
    },
    /// Its connections end.
    Break {
        who: usize,
    },
    /// It comes again, if it has none.
    Return {
        who: usize,
    },
    /// The server is killed and started again.
    Restart,
    /// By a client of a process' team, or by nobody's.
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
        3 => (0u8..3).prop_map(|team| Op::Arrive { team }),
        8 => (which, some_units(), some_units())
            .prop_map(|(who, units, more)| Op::Lease { who, units, more }),
        8 => which.prop_map(|which| Op::GoOn { which }),
        1 => which.prop_map(|which| Op::GiveUpLease { which }),
        6 => which.prop_map(|who| Op::Poll { who }),
        8 => (which, which, 0u64..4, 0u64..12)
            .prop_map(|(who, which, down, up)| Op::Yield { who, which, down, up }),
        1 => (0u8..3).prop_map(|team| Op::Release { team }),
        1 => which.prop_map(|who| Op::Leave { who }),
        2 => which.prop_map(|who| Op::Break { who }),
        4 => which.prop_map(|who| Op::Return { who }),
        1 => Just(Op::Restart),
        6 => (proptest::option::of(which), some_units(), some_units())
            .prop_map(|(by, units, more)| Op::Access { by, units, more }),
        8 => which.prop_map(|which| Op::End { which }),
        1 => Just(Op::Wait),
    ]
}

pub(super) struct Process {
    team: Team,
    /// The connection of its mailbox.
    pub session: Option<u64>,
    /// What it believes to have.
    pub has: BTreeSet<u64>,
    pub told: Vec<(u64, LockExtent)>,
}

struct Asking {
    by: u64,
    ask: Ask,
    /// What the process has yielded since.
    yielded: BTreeSet<u64>,
}

pub(super) struct Access {
    team: Option<Team>,
    pub tickets: Vec<u64>,
    units: BTreeSet<u64>,
}

pub(super) struct World {
    pub book: Book,
    last: u64,
    pub processes: BTreeMap<u64, Process>,
    asking: Vec<Asking>,
    pub accesses: Vec<Access>,
    /// Whose clients know where a unit is in the pool.
    known: BTreeMap<u64, BTreeSet<Option<Team>>>,
    recorded: Vec<Record>,
}

impl World {
    pub fn new() -> World {
        World {
            book: Book::new(UNIT, GRACE),
            last: 0,
            processes: BTreeMap::new(),
            asking: Vec::new(),
            accesses: Vec::new(),
            known: BTreeMap::new(),
            recorded: Vec::new(),
        }
    }

    fn who(&self, which: usize) -> Option<u64> {
        self.processes.keys().nth(which % self.processes.len().max(1)).copied()
    }

    fn fresh(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub fn arrive(&mut self, team: Team) -> u64 {
        let (who, session) = (self.fresh(), self.fresh());
        assert!(self.book.add_mailbox(session, ClientId(who.into()), team, true).unwrap());
        let process = Process { team, session: Some(session), has: BTreeSet::new(), told: Vec::new() };
        self.processes.insert(who, process);
        who
    }

    /// It comes again: with what it has if that is still good.
    pub fn come_again(&mut self, who: u64) {
        let (session, client) = (self.fresh(), ClientId(who.into()));
        let process = self.processes.get_mut(&who).expect("alive");
        if process.session.is_some() {
            return;
        }
        let is_known = self.book.mailboxes.knows(client);
        match self.book.add_mailbox(session, client, process.team, false) {
            Ok(true) => assert!(is_known),
            Err(Error::LeaseLost) => {
                assert!(!is_known);
                process.has.clear();
                assert!(self.book.add_mailbox(session, client, process.team, true).unwrap());
            }
            other => panic!("{other:?}"),
        }
        process.session = Some(session);
    }

    pub fn lease(&mut self, who: u64, extents: Vec<LockExtent>) {
        let Some(session) = self.processes[&who].session else { return };
        let ask = Ask::new(session, self.processes[&who].team, FILE, extents);
        self.asking.push(Asking { by: who, ask, yielded: BTreeSet::new() });
        self.step(self.asking.len() - 1);
    }

    /// Whether the request is over.
    pub fn step(&mut self, which: usize) -> bool {
        loop {
            let asking = &mut self.asking[which];
            match self.book.lease(&mut asking.ask) {
                Ok(Step::Wait) => return false,
                Ok(Step::Forget(extents)) => {
                    for unit in extents.iter().flat_map(|(_, extent)| units(*extent)) {
                        self.known.remove(&unit);
                    }
                    self.book.forgotten(asking.ask.team, &extents);
                }
                Ok(Step::Done(extents)) => {
                    let got: BTreeSet<u64> = extents.into_iter().flat_map(units).collect();
                    let asked: BTreeSet<u64> = asking.ask.extents.iter().copied().flat_map(units).collect();
                    assert!(got.is_superset(&asked), "{got:?} for {asked:?}");
                    let own = Some(asking.ask.team);
                    for unit in &got {
                        let knows = self.known.get(unit).into_iter().flatten().find(|team| **team != own);
                        assert_eq!(knows, None, "a client of others knows unit {unit}");
                    }
                    if let Some(process) = self.processes.get_mut(&asking.by) {
                        process.has.extend(got.difference(&asking.yielded));
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
        let over = self.asking.remove(which);
        self.book.end_ask(&over.ask);
    }

    pub fn poll(&mut self, who: u64) {
        let Some(session) = self.processes[&who].session else { return };
        let told = self.book.next_recalls(session);
        let process = self.processes.get_mut(&who).expect("alive");
        process.told.extend(told.into_iter().map(|(number, _, extent)| (number, extent)));
    }

    pub fn answer(&mut self, who: u64, which: usize, down: u64, up: u64) {
        let process = self.processes.get_mut(&who).expect("alive");
        let Some(session) = process.session.filter(|_| !process.told.is_empty()) else { return };
        let (number, wanted) = process.told.remove(which % process.told.len());
        let start = wanted.start().saturating_sub(down);
        let gone = LockExtent::new(start, wanted.end().saturating_add(up)).expect("not empty");
        let whole = |unit: &u64| gone.start() <= unit * UNIT && (unit + 1) * UNIT <= gone.end();
        let gone_units: BTreeSet<u64> = (0..UNITS).filter(whole).collect();
        process.has.retain(|unit| !gone_units.contains(unit));
        for asking in self.asking.iter_mut().filter(|asking| asking.by == who) {
            asking.yielded.extend(&gone_units);
        }
        self.book.yielded(session, number, gone).expect("it covers what was wanted");
    }

    fn leave(&mut self, who: u64) {
        let Some(session) = self.processes[&who].session else { return };
        self.book.leave(session);
        self.break_off(who);
        self.processes.remove(&who);
    }

    pub fn break_off(&mut self, who: u64) {
        let process = self.processes.get_mut(&who).expect("alive");
        process.told.clear();
        let Some(session) = process.session.take() else { return };
        self.book.left(session, ClientId(who.into()));
        while let Some(which) = self.asking.iter().position(|asking| asking.by == who) {
            self.end_lease(which);
        }
        self.look();
    }

    /// Cuts off those whose time is over: their connections end at once, and they have when nobody knows any more where
    /// their blocks are.
    pub fn look(&mut self) {
        for one in self.book.cut_off() {
            let is_one = |(who, _): &(&u64, &Process)| one.mailboxes.contains(&ClientId((**who).into()));
            let connected =
                self.processes.iter().filter(is_one).filter(|(_, process)| process.session.is_some());
            let (who, sessions): (Vec<u64>, BTreeSet<Option<u64>>) =
                connected.map(|(who, process)| (*who, process.session)).unzip();
            assert_eq!(one.sessions.iter().copied().map(Some).collect::<BTreeSet<_>>(), sessions);
            who.into_iter().for_each(|who| self.break_off(who));
            self.check();
            for unit in one.leased.iter().flat_map(|(_, extent)| units(*extent)) {
                self.known.remove(&unit);
            }
            self.book.ended(one.mailboxes);
        }
    }

    /// A successor knows what was recorded, and nothing else.
    pub fn restart(&mut self) {
        self.recorded.extend(self.book.take_records());
        self.asking.clear();
        self.accesses.clear();
        let past = self.recorded.iter().map(|record| Record::parse(&record.to_string()).expect("read again"));
        let now = std::mem::replace(&mut self.book, Book::new(UNIT, GRACE)).now;
        self.book.now = now;
        assert!(self.book.restore(past));
        let all = self.book.all_records();
        let mut again = Book::new(UNIT, GRACE);
        assert!(again.restore(all.clone()));
        let sorted = |mut records: Vec<Record>| {
            records.sort_by_key(Record::to_string);
            records
        };
        assert_eq!(sorted(again.all_records()), sorted(all));
        for process in self.processes.values_mut() {
            (process.session, process.told) = (None, Vec::new());
        }
        self.check();
    }

    pub fn access(&mut self, team: Option<Team>, extents: &[LockExtent]) {
        self.last += 1;
        let tickets = self.book.demand(team, self.last, FILE, extents).unwrap();
        let units = extents.iter().copied().flat_map(units).collect();
        self.accesses.push(Access { team, tickets, units });
    }

    /// Whether it was under way.
    fn end_access(&mut self, which: usize) -> bool {
        let access = &self.accesses[which];
        let under_way = self.book.is_granted(&access.tickets);
        if under_way {
            let access = self.accesses.remove(which);
            self.book.end(&access.tickets);
        }
        under_way
    }

    pub fn apply(&mut self, op: Op) {
        match op {
            Op::Arrive { team } if self.processes.len() < 6 => {
                self.arrive(Team(team.into()));
            }
            Op::Arrive { .. } => {}
            Op::Lease { who, units, more } => {
                if let Some(who) = self.who(who) {
                    self.lease(who, apart(&units, &more));
                }
            }
            Op::GoOn { which } if !self.asking.is_empty() => {
                self.step(which % self.asking.len());
            }
            Op::GiveUpLease { which } if !self.asking.is_empty() => {
                self.end_lease(which % self.asking.len());
            }
            Op::GoOn { .. } | Op::GiveUpLease { .. } => {}
            Op::Poll { who } => {
                self.who(who).into_iter().for_each(|who| self.poll(who));
            }
            Op::Yield { who, which, down, up } => {
                self.who(who).into_iter().for_each(|who| self.answer(who, which, down, up));
            }
            Op::Release { team } => {
                let team = Team(team.into());
                // A team does so when none of its processes uses the file.
                let members = self.processes.values_mut().filter(|process| process.team == team);
                members.for_each(|process| process.has.clear());
                self.book.release(team, FILE);
            }
            Op::Leave { who } => {
                self.who(who).into_iter().for_each(|who| self.leave(who));
            }
            Op::Break { who } => {
                self.who(who).into_iter().for_each(|who| self.break_off(who));
            }
            Op::Return { who } => {
                self.who(who).into_iter().for_each(|who| self.come_again(who));
            }
            Op::Restart => self.restart(),
            Op::Access { by, units, more } => {
                let team = by.and_then(|by| self.who(by)).map(|who| self.processes[&who].team);
                self.access(team, &apart(&units, &more));
            }
            Op::End { which } if !self.accesses.is_empty() => {
                self.end_access(which % self.accesses.len());
            }
            Op::End { .. } => {}
            Op::Wait => {
                self.book.now += GRACE / 3;
            }
        }
        self.look();
        self.recorded.extend(self.book.take_records());
        self.check();
    }

    fn check(&mut self) {
        let mut owners: BTreeMap<u64, Team> = BTreeMap::new();
        for (who, process) in &self.processes {
            // What the others have is not taken any more.
            let is_good = self.book.mailboxes.knows(ClientId((*who).into()));
            for unit in process.has.iter().filter(|_| is_good) {
                let owner = *owners.entry(*unit).or_insert(process.team);
                assert_eq!(owner, process.team, "two teams have unit {unit}");
            }
        }
        for access in &self.accesses {
            if !self.book.is_granted(&access.tickets) {
                continue;
            }
            for unit in &access.units {
                let owner = owners.get(unit).copied();
                assert!(owner.is_none() || owner == access.team, "an access at unit {unit} of {owner:?}");
                self.known.entry(*unit).or_default().insert(access.team);
            }
        }
    }

    /// All mailboxes answer and all accesses end, until nothing is left to do.
    pub fn settle(&mut self) {
        for _ in 0..100 {
            let processes: Vec<u64> = self.processes.keys().copied().collect();
            for who in processes {
                self.come_again(who);
                self.poll(who);
                while !self.processes[&who].told.is_empty() {
                    self.answer(who, 0, 0, 0);
                    self.check();
                }
            }
            while (0..self.accesses.len()).any(|which| self.end_access(which)) {}
            while (0..self.asking.len()).any(|which| self.step(which)) {
                self.check();
            }
            if self.asking.is_empty() && self.accesses.is_empty() {
                return;
            }
        }
        panic!("{} accesses and {} leases wait for ever", self.accesses.len(), self.asking.len());
    }
}

/// Two extents that neither overlap nor touch, as a request has them, or one.
fn apart(one: &std::ops::Range<u64>, other: &std::ops::Range<u64>) -> Vec<LockExtent> {
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
    fn nobody_gets_at_what_others_have_and_nobody_waits_for_ever(
        ops in proptest::collection::vec(any_op(), 1..120),
    ) {
        let mut world = World::new();
        for op in ops {
            world.apply(op);
        }
        world.settle();
        let processes: Vec<u64> = world.processes.keys().copied().collect();
        processes.into_iter().for_each(|who| world.leave(who));
        prop_assert_eq!(world.book.status().teams, 0);
        prop_assert!(world.book.is_empty());
        // Every file that was guarded is open.
        let count = |files: &[FileId]| files.len();
        prop_assert_eq!(count(&world.book.effects.guard), count(&world.book.effects.open));
        // And a successor knows of nothing.
        world.restart();
        prop_assert!(world.book.is_empty() && world.book.all_records().is_empty());
    }
}
