//! The book against a naive idea of what it is for: bytes, one by one, and who believes to have them.
//!
//! Processes of teams lease, answer recalls when they feel like it, and die; others access bytes. Whatever the order, no
//! access goes on at bytes that a process of another team has, no two teams have the same byte, no client knows where a
//! leased block is without being of the team; and when all mailboxes answer, nobody waits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use pario_locks::Extent;
use pario_units::{ClientId, FileId};
use proptest::prelude::*;

use super::book::{Ask, Book, CutOff, Step, Team};
use crate::error::Error;

const FILE: FileId = FileId(5);
const UNIT: u64 = 2;
/// Units that are looked at; the last stands for all behind it.
const UNITS: u64 = 10;
const GRACE: Duration = Duration::from_secs(20);

fn extent(units: &std::ops::Range<u64>) -> Extent {
    let end = if units.end >= UNITS { u64::MAX } else { units.end * UNIT };
    Extent::new(units.start * UNIT, end).expect("not empty")
}

fn units(extent: Extent) -> BTreeSet<u64> {
    let whole = |at: u64| at.is_multiple_of(UNIT) || at == u64::MAX;
    assert!(whole(extent.start()) && whole(extent.end()), "{extent:?}");
    (0..UNITS).filter(|unit| extent.start() <= unit * UNIT && unit * UNIT < extent.end()).collect()
}

#[derive(Clone, Debug)]
enum Op {
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
    Die {
        who: usize,
    },
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
        1 => which.prop_map(|who| Op::Die { who }),
        6 => (proptest::option::of(which), some_units(), some_units())
            .prop_map(|(by, units, more)| Op::Access { by, units, more }),
        8 => which.prop_map(|which| Op::End { which }),
        1 => Just(Op::Wait),
    ]
}

struct Process {
    team: Team,
    /// What it believes to have.
    has: BTreeSet<u64>,
    told: Vec<(u64, Extent)>,
}

struct Asking {
    ask: Ask,
    /// What the process has yielded since.
    yielded: BTreeSet<u64>,
}

struct Access {
    team: Option<Team>,
    tickets: Vec<u64>,
    units: BTreeSet<u64>,
}

struct World {
    book: Book,
    last: u64,
    processes: BTreeMap<u64, Process>,
    asking: Vec<Asking>,
    accesses: Vec<Access>,
    /// Whose clients know where a unit is in the pool.
    known: BTreeMap<u64, BTreeSet<Option<Team>>>,
}

impl World {
    fn new() -> World {
        World {
            book: Book::new(UNIT, GRACE),
            last: 0,
            processes: BTreeMap::new(),
            asking: Vec::new(),
            accesses: Vec::new(),
            known: BTreeMap::new(),
        }
    }

    fn who(&self, which: usize) -> Option<u64> {
        self.processes.keys().nth(which % self.processes.len().max(1)).copied()
    }

    fn arrive(&mut self, team: Team) {
        self.last += 1;
        self.book.add_mailbox(self.last, ClientId(self.last.into()), team, false).unwrap();
        self.processes.insert(self.last, Process { team, has: BTreeSet::new(), told: Vec::new() });
    }

    fn lease(&mut self, who: u64, extents: Vec<Extent>) {
        let ask = Ask::new(who, self.processes[&who].team, FILE, extents);
        self.asking.push(Asking { ask, yielded: BTreeSet::new() });
        self.go_on(self.asking.len() - 1);
    }

    /// Whether the request is over.
    fn go_on(&mut self, which: usize) -> bool {
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
                    if let Some(process) = self.processes.get_mut(&asking.ask.session) {
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

    fn poll(&mut self, who: u64) {
        let told = self.book.next_recalls(who);
        let process = self.processes.get_mut(&who).expect("alive");
        process.told.extend(told.into_iter().map(|(number, _, extent)| (number, extent)));
    }

    fn answer(&mut self, who: u64, which: usize, down: u64, up: u64) {
        let process = self.processes.get_mut(&who).expect("alive");
        if process.told.is_empty() {
            return;
        }
        let (number, wanted) = process.told.remove(which % process.told.len());
        let start = wanted.start().saturating_sub(down);
        let gone = Extent::new(start, wanted.end().saturating_add(up)).expect("not empty");
        let whole = |unit: &u64| gone.start() <= unit * UNIT && (unit + 1) * UNIT <= gone.end();
        let gone_units: BTreeSet<u64> = (0..UNITS).filter(whole).collect();
        process.has.retain(|unit| !gone_units.contains(unit));
        for asking in self.asking.iter_mut().filter(|asking| asking.ask.session == who) {
            asking.yielded.extend(&gone_units);
        }
        self.book.yielded(who, number, gone).expect("it covers what was wanted");
    }

    fn die(&mut self, who: u64) {
        self.processes.remove(&who);
        self.book.left(who, ClientId(who.into()));
        while let Some(which) = self.asking.iter().position(|asking| asking.ask.session == who) {
            self.end_lease(which);
        }
    }

    /// Its connections end at once, and it has when nobody knows any more where its blocks are.
    fn cut_off(&mut self, one: &CutOff) {
        assert_eq!(one.sessions, [one.mailbox]);
        self.die(one.mailbox);
        self.check();
        for unit in one.leased.iter().flat_map(|(_, extent)| units(*extent)) {
            self.known.remove(&unit);
        }
        self.book.ended(one.mailbox);
    }

    fn access(&mut self, team: Option<Team>, extents: &[Extent]) {
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

    fn apply(&mut self, op: Op) {
        match op {
            Op::Arrive { team } if self.processes.len() < 6 => self.arrive(Team(team.into())),
            Op::Arrive { .. } => {}
            Op::Lease { who, units, more } => {
                if let Some(who) = self.who(who) {
                    self.lease(who, apart(&units, &more));
                }
            }
            Op::GoOn { which } if !self.asking.is_empty() => {
                self.go_on(which % self.asking.len());
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
            Op::Die { who } => {
                self.who(who).into_iter().for_each(|who| self.die(who));
            }
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
                for one in self.book.cut_off() {
                    self.cut_off(&one);
                }
            }
        }
        self.check();
    }

    fn check(&mut self) {
        let mut owners: BTreeMap<u64, Team> = BTreeMap::new();
        for process in self.processes.values() {
            for unit in &process.has {
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
    fn settle(&mut self) {
        for _ in 0..100 {
            let processes: Vec<u64> = self.processes.keys().copied().collect();
            for who in processes {
                self.poll(who);
                while !self.processes[&who].told.is_empty() {
                    self.answer(who, 0, 0, 0);
                    self.check();
                }
            }
            while (0..self.accesses.len()).any(|which| self.end_access(which)) {}
            while (0..self.asking.len()).any(|which| self.go_on(which)) {
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
fn apart(one: &std::ops::Range<u64>, other: &std::ops::Range<u64>) -> Vec<Extent> {
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
        processes.into_iter().for_each(|who| world.die(who));
        prop_assert_eq!(world.book.status().teams, 0);
        prop_assert!(world.book.is_empty());
        // Every file that was guarded is open.
        let count = |files: &[FileId]| files.len();
        prop_assert_eq!(count(&world.book.effects.guard), count(&world.book.effects.open));
    }
}

#[test]
fn a_mailbox_is_cut_off_when_its_time_is_over_and_not_before() {
    let mut world = World::new();
    let begun = Instant::now();
    world.book.now = begun;
    world.arrive(Team(1));
    world.arrive(Team(2));
    world.lease(1, vec![extent(&(0..1))]);
    assert_eq!(world.processes[&1].has.len(), UNITS as usize, "the first gets all");
    world.lease(2, vec![extent(&(4..5))]);
    assert_eq!(world.book.effects.look_at, Some(begun + GRACE));
    world.book.now = begun + GRACE - Duration::from_nanos(1);
    assert_eq!(world.book.cut_off(), []);
    assert_eq!(world.book.effects.look_at, Some(begun + GRACE));
    world.book.now = begun + GRACE;
    // What it changes comes by another connection.
    world.book.clients.join(ClientId(77), Team(1), Some(7), ClientId(1)).unwrap();
    assert!(!world.book.clients.is_fenced(ClientId(77)));
    let cut_off = world.book.cut_off();
    assert_eq!((cut_off.len(), cut_off[0].mailbox), (1, 1));
    assert_eq!(BTreeSet::from_iter(&cut_off[0].sessions), BTreeSet::from([&1, &7]));
    assert_eq!(cut_off[0].leased, [(FILE, Extent::ALL)]);
    assert!(world.book.clients.is_fenced(ClientId(77)) && !world.book.clients.is_fenced(ClientId(2)));
    assert_eq!((world.book.cut_off(), world.book.effects.look_at), (vec![], None));
    world.die(1);
    assert!(!world.go_on(0), "it may still know where blocks are");
    world.book.ended(1);
    assert!(world.go_on(0), "the other goes on");
    // It comes again: nothing changes before it says that it has nothing left.
    world.book.clients.join(ClientId(77), Team(1), Some(8), ClientId(1)).unwrap();
    assert!(matches!(world.book.add_mailbox(9, ClientId(1), Team(1), false), Err(Error::LeaseLost)));
    assert!(world.book.clients.is_fenced(ClientId(77)) && world.book.clients.has_fenced());
    world.book.add_mailbox(9, ClientId(1), Team(1), true).unwrap();
    assert!(!world.book.clients.is_fenced(ClientId(77)) && !world.book.clients.has_fenced());
    world.book.left(9, ClientId(1));
    assert_eq!((world.book.status().cut_off, world.book.status().teams), (1, 1));
}

/// A lock whose revocation was put off had lost the bytes meanwhile, to a request that waited behind who wanted others of
/// its bytes.
#[test]
fn regression_a_lock_is_asked_again_only_after_it_has_answered() {
    let lease = |who, units, more| Op::Lease { who, units, more };
    let access = |units, more| Op::Access { by: None, units, more };
    let ops = [
        access(2..4, 5..8),
        access(0..1, 0..1),
        Op::End { which: 1 },
        Op::Arrive { team: 0 },
        lease(0, 2..3, 8..9),
        Op::Arrive { team: 2 },
        lease(6_085_455_393_120_586_099, 6..9, 0..1),
        access(6..8, 3..4),
        lease(0, 0..1, 0..1),
        lease(0, 0..1, 0..1),
        lease(0, 0..1, 0..1),
        Op::Arrive { team: 1 },
        access(0..1, 0..1),
        Op::GiveUpLease { which: 6_949_520_318_398_444_761 },
        Op::Arrive { team: 0 },
        Op::Arrive { team: 0 },
        lease(0, 7..9, 0..1),
        lease(0, 0..1, 0..1),
        Op::Arrive { team: 0 },
        lease(4_944_884_611_530_007_261, 8..10, 0..1),
        lease(1_084_907_734_747_643_553, 8..9, 6..7),
        access(0..1, 0..1),
    ];
    let mut world = World::new();
    ops.into_iter().for_each(|op| world.apply(op));
    world.settle();
}
