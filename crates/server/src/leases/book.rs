//! Who has leased what, who waits for it, and who has to give it up: events in, sessions to wake out.
//!
//! A lease is a cached exclusive lock of its team in the lock manager; every access of others to the file is an exact
//! shared one for its time, so accesses exclude leases and not each other. What one request needs is asked for at once,
//! and again at once if some of it was lost: so a request waits only for those that came before it, or for a team that is
//! being asked to give way, and nobody waits in a circle. An access of the team itself is an exact lock of the same
//! holder; if it is within what the team has it goes past those who wait, because they wait for the team, which has to
//! store what it is to give up.
//!
//! Two things keep what a process believes to have within what the book says:
//! - what a request for a lease has been granted is not recalled before the request is answered, and only what the team
//!   still has is the answer;
//! - what is answered is not among what a recall asks for that some mailbox may have answered already, and from then on
//!   that recall takes no more than it asks for.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use pario_locks::{
    Grant, LockAction, LockCounters, LockExtent, LockId, LockLimits, LockManager, LockMode, LockRelease,
    LockRequest, LockTicket,
};
use pario_types::{ClientId, FileId};
use pario_wire::message::LeaseCounters;

use super::clients::Clients;
use super::mailboxes::{Mailboxes, Place};
use crate::error::{Error, Result};

/// A program whose processes cache files together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Team(pub u128);

/// A connection.
pub(super) type Session = u64;

/// Locks of a team, and so recalls that a mailbox may have before it; and of a request.
const LIMITS: LockLimits = LockLimits { waiting: 1 << 12, locks: 1 << 14 };

/// Recalls in one answer.
const MOST_TOLD: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Holder {
    Team(Team),
    /// A request of somebody else.
    Request(u64),
}

pub(super) struct Book {
    unit: u64,
    grace: Duration,
    pub now: Instant,
    pub manager: LockManager<Holder>,
    last: u64,
    tickets: HashMap<u64, Asked>,
    pub teams: HashMap<Team, Members>,
    pub clients: Clients,
    pub mailboxes: Mailboxes,
    /// Mailboxes to be cut off, whatever the time.
    pub overdue: BTreeSet<ClientId>,
    pub recalls: BTreeMap<u64, Recall>,
    /// When overdue ones will be looked for.
    pub looking_at: Option<Instant>,
    pub leased: HashSet<FileId>,
    pub cut_off: u64,
    pub effects: Effects,
    /// Of which a successor has to know more.
    pub changed: Changed,
}

/// What is not as it was last [recorded](Book::take_records).
#[derive(Debug, Default)]
pub(super) struct Changed {
    pub mailboxes: BTreeSet<ClientId>,
    pub leases: BTreeSet<(Team, FileId)>,
}

/// What the book wants done.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// These can go on.
    pub wake: Vec<Session>,
    /// Files that have leases from now on; and those that have none any more.
    pub guard: Vec<FileId>,
    pub open: Vec<FileId>,
    /// When to ask for those that are overdue.
    pub look_at: Option<Instant>,
}

/// A request to the manager.
#[derive(Debug)]
struct Asked {
    session: Session,
    holder: Holder,
    file: FileId,
    extent: LockExtent,
    lease: bool,
    lock: Option<LockId>,
}

#[derive(Debug, Default)]
pub(super) struct Members {
    pub mailboxes: BTreeSet<ClientId>,
    /// Of which there may be leases.
    pub files: BTreeSet<FileId>,
    /// What was granted to requests that are not answered yet, by ticket; and revocations that wait for that.
    unanswered: BTreeMap<u64, (FileId, LockExtent)>,
    deferred: Vec<(LockId, FileId, LockExtent)>,
    /// Leases whose blocks clients may still know; by the lock with which they came.
    known: Vec<(LockId, FileId, LockExtent)>,
}

#[derive(Debug)]
pub(super) struct Recall {
    team: Team,
    file: FileId,
    lock: LockId,
    wanted: LockExtent,
    /// What those who have yielded all named.
    gone: LockExtent,
    pub owing: BTreeSet<ClientId>,
    pub due: Instant,
}

/// A request for a lease under way.
#[derive(Debug)]
pub(super) struct Ask {
    pub session: Session,
    pub team: Team,
    pub file: FileId,
    pub extents: Vec<LockExtent>,
    tickets: Vec<u64>,
}

impl Ask {
    pub fn new(session: Session, team: Team, file: FileId, extents: Vec<LockExtent>) -> Ask {
        Ask { session, team, file, extents, tickets: Vec::new() }
    }
}

/// How something is asked for: to be kept, for a time, or for a time and past those who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Lease,
    Behind,
    Past,
}

/// How far it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Wait,
    /// Clients have to forget where the blocks of these extents are; then [`Book::forgotten`].
    Forget(Vec<(LockId, LockExtent)>),
    /// The team has these.
    Done(Vec<LockExtent>),
}

impl Book {
    pub fn new(unit: u64, grace: Duration) -> Book {
        Book {
            unit,
            grace,
            now: Instant::now(),
            manager: LockManager::with_limits(unit, LIMITS),
            last: 0,
            tickets: HashMap::new(),
            teams: HashMap::new(),
            clients: Clients::default(),
            mailboxes: Mailboxes::default(),
            overdue: BTreeSet::new(),
            recalls: BTreeMap::new(),
            looking_at: None,
            leased: HashSet::new(),
            cut_off: 0,
            effects: Effects::default(),
            changed: Changed::default(),
        }
    }

    /// An access to these extents of a file by a team's client, or by somebody else. What comes back are the tickets of
    /// its locks, to be [ended](Book::end).
    pub fn demand(
        &mut self,
        team: Option<Team>,
        session: Session,
        file: FileId,
        extents: &[LockExtent],
    ) -> Result<Vec<u64>> {
        let holder = team.map_or_else(|| Holder::Request(self.fresh()), Holder::Team);
        let has = |extent: &LockExtent| self.manager.covers(holder, file, *extent, LockMode::Exclusive);
        let way = if extents.iter().all(has) { Way::Past } else { Way::Behind };
        self.ask(holder, session, file, extents, way)
    }

    pub fn is_granted(&self, tickets: &[u64]) -> bool {
        tickets.iter().all(|ticket| self.tickets.get(ticket).is_some_and(|asked| asked.lock.is_some()))
    }

    /// Goes on with a request for a lease.
    pub fn lease(&mut self, ask: &mut Ask) -> Result<Step> {
        let (team, file) = (ask.team, ask.file);
        if !self.teams.contains_key(&team) {
            return Err(Error::NoMailbox);
        }
        // Those of before the team lost its last mailbox are gone.
        ask.tickets.retain(|ticket| self.tickets.contains_key(ticket));
        if !self.is_granted(&ask.tickets) {
            return Ok(Step::Wait);
        }
        if !self.has_all(ask) {
            self.end(&std::mem::take(&mut ask.tickets));
            if self.leased.insert(file) {
                self.effects.guard.push(file);
            }
            ask.tickets = self.ask(Holder::Team(team), ask.session, file, &ask.extents, Way::Lease)?;
            if !self.is_granted(&ask.tickets) {
                return Ok(Step::Wait);
            }
        }
        let known: Vec<(LockId, LockExtent)> = self.teams[&team]
            .known
            .iter()
            .filter(|(_, of, _)| *of == file)
            .map(|(lock, _, extent)| (*lock, *extent))
            .collect();
        if !known.is_empty() {
            return Ok(Step::Forget(known));
        }
        let held = self.held(team, file);
        let around = |run: &LockExtent| ask.extents.iter().any(|extent| extent.overlaps(*run));
        for recall in self.recalls.values_mut().filter(|recall| (recall.team, recall.file) == (team, file)) {
            recall.gone = recall.wanted;
        }
        Ok(Step::Done(held.into_iter().filter(around).collect()))
    }

    /// Clients have forgotten these.
    pub fn forgotten(&mut self, team: Team, extents: &[(LockId, LockExtent)]) {
        if let Some(members) = self.teams.get_mut(&team) {
            members.known.retain(|(lock, _, _)| !extents.iter().any(|(done, _)| done == lock));
        }
    }

    /// The request is answered, or nobody wants an answer any more: its leases can be recalled from now on.
    pub fn end_ask(&mut self, ask: &Ask) {
        self.end(&ask.tickets);
    }

    /// An access is over, or nobody waits for it any more.
    pub fn end(&mut self, tickets: &[u64]) {
        for ticket in tickets {
            let Some(Asked { holder, file, lease, lock, .. }) = self.tickets.remove(ticket) else { continue };
            let actions = match (lock, holder) {
                (None, _) => self.manager.cancel(holder, LockTicket(*ticket)),
                (Some(_), Holder::Team(team)) if lease => {
                    self.answered(team, *ticket);
                    Vec::new()
                }
                (Some(lock), _) => self.manager.unlock(holder, lock).expect("its own"),
            };
            self.told(actions);
            self.forget_if_idle(file);
        }
    }

    /// What a mailbox is to be told: each recall once.
    pub fn next_recalls(&mut self, session: Session) -> Vec<(u64, FileId, LockExtent)> {
        let mut told = Vec::new();
        let client = self.mailboxes.at(session);
        let Some(mailbox) = client.and_then(|client| self.mailboxes.get_mut(client)) else { return told };
        while told.len() < MOST_TOLD
            && let Some(number) = mailbox.untold.pop_front()
        {
            told.extend(self.recalls.get(&number).map(|recall| (number, recall.file, recall.wanted)));
        }
        told
    }

    /// A mailbox's process has given up bytes. A recall that is over changes nothing.
    pub fn yielded(&mut self, session: Session, number: u64, gone: LockExtent) -> Result<()> {
        let Some(recall) = self.recalls.get_mut(&number) else { return Ok(()) };
        // Whole blocks only; what was asked for is so.
        let end = if gone.end() == u64::MAX { u64::MAX } else { gone.end() / self.unit * self.unit };
        let whole = LockExtent::new(gone.start().next_multiple_of(self.unit), end);
        let whole = whole.filter(|whole| whole.covers(recall.wanted)).ok_or(Error::BadRequest("ranges"))?;
        if self.mailboxes.at(session).is_some_and(|client| recall.owing.remove(&client)) {
            recall.gone = recall.gone.and(whole).expect("both cover what was asked for");
            self.settle(number);
        }
        Ok(())
    }

    /// The team gives up all of a file. Who is just asking for it asks again.
    pub fn release(&mut self, team: Team, file: FileId) {
        self.recalls.retain(|_, recall| (recall.team, recall.file) != (team, file));
        if let Some(members) = self.teams.get_mut(&team) {
            members.files.remove(&file);
            members.known.retain(|(_, of, _)| *of != file);
            members.deferred.retain(|(_, of, _)| *of != file);
        }
        self.unlock_all(team, file);
    }

    pub fn status(&self) -> LeaseCounters {
        let LockCounters { requests, grants, conflicts, revocations, waits } = self.manager.counters();
        LeaseCounters {
            teams: self.teams.len() as u32,
            mailboxes: self.mailboxes.here() as u32,
            requests,
            grants,
            conflicts,
            revocations,
            waits,
            cut_off: self.cut_off,
        }
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        let none = self.tickets.is_empty() && self.recalls.is_empty() && self.leased.is_empty();
        none && self.manager.locks() == 0 && self.manager.waiting() == 0
    }

    pub fn fresh(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Asks the manager for all of these, or for nothing.
    pub fn ask(
        &mut self,
        holder: Holder,
        session: Session,
        file: FileId,
        extents: &[LockExtent],
        way: Way,
    ) -> Result<Vec<u64>> {
        let lease = way == Way::Lease;
        let (mode, grant) =
            if lease { (LockMode::Exclusive, Grant::Largest) } else { (LockMode::Shared, Grant::Exact) };
        let mut tickets = Vec::new();
        for &extent in extents {
            let number = self.fresh();
            self.tickets.insert(number, Asked { session, holder, file, extent, lease, lock: None });
            tickets.push(number);
            let request = LockRequest { holder, ticket: LockTicket(number), file, extent, mode, grant };
            let outcome = match way {
                Way::Past => self.manager.request_own(request),
                Way::Lease | Way::Behind => self.manager.request(request),
            };
            match outcome {
                Ok(actions) => self.told(actions),
                Err(e) => {
                    self.end(&tickets);
                    return Err(Error::Locks(e));
                }
            }
        }
        // Who asks sees by itself what it has got at once.
        self.effects.wake.retain(|woken| *woken != session);
        Ok(tickets)
    }

    /// What the team has of a file, but for what it is being asked to give up; neighbours together.
    fn held(&self, team: Team, file: FileId) -> Vec<LockExtent> {
        let mut held: Vec<LockExtent> = Vec::new();
        for (run, lock) in self.manager.cached(Holder::Team(team), file, LockMode::Exclusive) {
            let recalled = self.recalls.values().find(|recall| recall.lock == lock);
            let rest = match recalled {
                Some(recall) => run.minus(recall.wanted).collect(),
                None => vec![run],
            };
            for run in rest {
                match held.last_mut().filter(|last| last.end() == run.start()) {
                    Some(last) => {
                        *last = LockExtent::new(last.start(), run.end()).expect("longer than before")
                    }
                    None => held.push(run),
                }
            }
        }
        held
    }

    /// Whether the team has what it asks for.
    fn has_all(&self, ask: &Ask) -> bool {
        let held = self.held(ask.team, ask.file);
        ask.extents.iter().all(|extent| held.iter().any(|run| run.covers(*extent)))
    }

    fn told(&mut self, actions: Vec<LockAction<Holder>>) {
        for action in actions {
            match action {
                LockAction::Granted { ticket, file, lock, extent, holder, .. } => {
                    let asked = self.tickets.get_mut(&ticket.0).expect("who does not wait has cancelled");
                    asked.lock = Some(lock);
                    self.effects.wake.push(asked.session);
                    if let (Holder::Team(team), true) = (holder, asked.lease) {
                        let members =
                            self.teams.get_mut(&team).expect("one that ends cancels what it waits for");
                        members.files.insert(file);
                        members.unanswered.insert(ticket.0, (file, asked.extent));
                        members.known.push((lock, file, extent));
                        self.changed.leases.insert((team, file));
                    }
                }
                LockAction::Revoke { holder: Holder::Team(team), file, lock, wanted } => {
                    // A team that is about to end gives up everything anyway.
                    let Some(members) = self.teams.get_mut(&team) else { continue };
                    members.deferred.push((lock, file, wanted));
                    self.recall_deferred(team);
                }
                LockAction::Revoke { .. } => unreachable!("only leases are cached"),
                LockAction::Refused { .. } => unreachable!("a file that somebody waits for is not forgotten"),
            }
        }
    }

    fn recall(&mut self, team: Team, file: FileId, lock: LockId, wanted: LockExtent) {
        let number = self.fresh();
        let due = self.now + self.grace;
        let owing = self.teams[&team].mailboxes.clone();
        for client in &owing {
            let mailbox = self.mailboxes.get_mut(*client).expect("the team has it");
            mailbox.untold.push_back(number);
            match mailbox.place {
                Place::Here(session) => self.effects.wake.push(session),
                Place::Expected => {}
                Place::Away(_) => self.expel(*client),
            }
        }
        self.recalls.insert(number, Recall { team, file, lock, wanted, gone: LockExtent::ALL, owing, due });
        self.look_at(due);
    }

    pub fn look_at(&mut self, when: Instant) {
        if self.looking_at.is_none_or(|looking_at| when < looking_at) {
            self.looking_at = Some(when);
            self.effects.look_at = Some(when);
        }
    }

    fn answered(&mut self, team: Team, ticket: u64) {
        if let Some(members) = self.teams.get_mut(&team) {
            members.unanswered.remove(&ticket);
            self.recall_deferred(team);
        }
    }

    /// Recalls what no longer waits for an answer.
    fn recall_deferred(&mut self, team: Team) {
        let Some(members) = self.teams.get_mut(&team) else { return };
        let deferred = std::mem::take(&mut members.deferred);
        // A lock that has lost the bytes since is asked all the same: it cannot be asked for others before.
        let waits = |(lock, file, wanted): &(LockId, FileId, LockExtent)| {
            let held = self.manager.cached(Holder::Team(team), *file, LockMode::Exclusive);
            let asked = held.into_iter().filter(|(_, of)| of == lock).filter_map(|(run, _)| run.and(*wanted));
            let unanswered = |run: LockExtent| {
                members.unanswered.values().any(|(of, extent)| of == file && extent.overlaps(run))
            };
            asked.into_iter().any(unanswered)
        };
        let (later, now): (Vec<_>, Vec<_>) = deferred.into_iter().partition(waits);
        members.deferred = later;
        now.into_iter().for_each(|(lock, file, wanted)| self.recall(team, file, lock, wanted));
    }

    /// If all have yielded, what they named is not the team's any more.
    pub fn settle(&mut self, number: u64) {
        let Some(recall) = self.recalls.get(&number).filter(|recall| recall.owing.is_empty()) else { return };
        let Recall { team, file, lock, gone, .. } = *recall;
        self.recalls.remove(&number);
        self.changed.leases.insert((team, file));
        let release = LockRelease { file, lock, gone: vec![gone], answer: true };
        let actions = self.manager.release(Holder::Team(team), &release).expect("its own");
        self.told(actions);
        self.forget_if_idle(file);
    }

    pub fn end_team(&mut self, team: Team) {
        let Some(members) = self.teams.remove(&team) else { return };
        self.recalls.retain(|_, recall| recall.team != team);
        self.clients.team_ended(team);
        let holder = Holder::Team(team);
        let asked = self.tickets.extract_if(|_, asked| asked.holder == holder && asked.lease);
        let asked: Vec<(u64, Asked)> = asked.collect();
        for (ticket, Asked { session, file, .. }) in asked {
            self.effects.wake.push(session);
            let actions = self.manager.cancel(holder, LockTicket(ticket));
            self.told(actions);
            self.forget_if_idle(file);
        }
        members.files.into_iter().for_each(|file| self.unlock_all(team, file));
    }

    fn unlock_all(&mut self, team: Team, file: FileId) {
        let holder = Holder::Team(team);
        self.changed.leases.insert((team, file));
        let cached = self.manager.cached(holder, file, LockMode::Exclusive);
        let locks: BTreeSet<LockId> = cached.into_iter().map(|(_, lock)| lock).collect();
        for lock in locks {
            let actions = self.manager.unlock(holder, lock).expect("its own");
            self.told(actions);
        }
        self.forget_if_idle(file);
    }

    fn forget_if_idle(&mut self, file: FileId) {
        if self.manager.is_idle(file) {
            self.manager.file_gone(file);
            if self.leased.remove(&file) {
                self.effects.open.push(file);
            }
        }
    }
}
