//! The leases of all teams, the requests that wait for them, and the recalls. Events are calls; the results are sessions to wake.
//!
//! A lease is a cached exclusive lock of its team in the lock manager. Every access by others to the file is an exact shared lock for
//! the time of the access, so accesses exclude leases but not each other. A request takes all its locks at once, and again at once if
//! it lost some of them. So a request waits only for earlier requests, or for a team with a pending recall, and no cycle of waiting
//! requests can occur. An access of the team itself is an exact lock of the same holder. Within the team's leases it bypasses waiting
//! requests, because these wait for the team, which has to store the bytes before it can yield them.
//!
//! Two rules keep what a process believes to have leased within this table:
//! - An extent that was granted to a lease request is not recalled before the request is answered, and the answer contains only what
//!   the team still has.
//! - The answer contains nothing that a pending recall asks for, because a mailbox may have yielded it already; and from then on that
//!   recall takes no more than it asked for.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use pario_locks::{
    Grant, LockAction, LockCounters, LockExtent, LockId, LockLimits, LockManager, LockMode, LockRelease,
    LockRequest, LockTicket,
};
use pario_runtime::time::Instant;
use pario_types::{ClientId, FileId};
use pario_wire::message::LeaseCounters;

use super::clients::Clients;
use super::mailboxes::{MailboxState, Mailboxes};
use crate::error::{Error, Result};

/// A program whose processes cache files together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Team(pub u128);

/// The number of a session.
pub(super) type SessionId = u64;

/// The limits on locks and waiting requests of one holder.
const LIMITS: LockLimits = LockLimits { waiting: 1 << 12, locks: 1 << 14 };

/// The largest number of recalls in one reply.
const MAX_RECALLS: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Holder {
    Team(Team),
    /// An access of a client outside of teams, or of another team.
    Request(u64),
}

pub(super) struct LeaseTable {
    unit: u64,
    grace: Duration,
    pub now: Instant,
    pub manager: LockManager<Holder>,
    last: u64,
    tickets: HashMap<u64, PendingLock>,
    pub teams: HashMap<Team, TeamState>,
    pub clients: Clients,
    pub mailboxes: Mailboxes,
    /// Mailboxes to cut off at the next check.
    pub overdue: BTreeSet<ClientId>,
    pub recalls: BTreeMap<u64, PendingRecall>,
    /// When overdue mailboxes are checked next.
    pub next_check: Option<Instant>,
    pub leased: HashSet<FileId>,
    pub cut_off: u64,
    pub effects: Effects,
    pub changed: UnrecordedChanges,
}

/// Changes since the last [record](LeaseTable::take_records).
#[derive(Debug, Default)]
pub(super) struct UnrecordedChanges {
    pub mailboxes: BTreeSet<ClientId>,
    pub leases: BTreeSet<(Team, FileId)>,
}

/// What the caller has to do after a change.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Sessions to run.
    pub wake: Vec<SessionId>,
    /// Files that have leases from now on.
    pub close: Vec<FileId>,
    /// Files that have no leases any more.
    pub open: Vec<FileId>,
    /// When to call [`LeaseTable::cut_off`].
    pub check_at: Option<Instant>,
}

/// A request to the lock manager, granted or waiting.
#[derive(Debug)]
struct PendingLock {
    session: SessionId,
    holder: Holder,
    file: FileId,
    extent: LockExtent,
    lease: bool,
    lock: Option<LockId>,
}

#[derive(Debug, Default)]
pub(super) struct TeamState {
    pub mailboxes: BTreeSet<ClientId>,
    /// Files on which the team may have leases.
    pub files: BTreeSet<FileId>,
    /// Extents that were granted to requests which are not answered yet, by ticket.
    unanswered: BTreeMap<u64, (FileId, LockExtent)>,
    /// Revocations that wait for these answers.
    deferred: Vec<(LockId, FileId, LockExtent)>,
    /// Leases whose slots other clients may still know, by the lock of the grant.
    published: Vec<(LockId, FileId, LockExtent)>,
}

#[derive(Debug)]
pub(super) struct PendingRecall {
    team: Team,
    file: FileId,
    lock: LockId,
    wanted: LockExtent,
    /// The intersection of what all mailboxes have yielded.
    gone: LockExtent,
    /// The mailboxes that have not yielded.
    pub owing: BTreeSet<ClientId>,
    pub due: Instant,
}

impl PendingRecall {
    /// The team that has to yield.
    #[cfg(any(test, pario_simulation))]
    pub fn team(&self) -> Team {
        self.team
    }
}

/// A request for a lease that is under way.
#[derive(Debug)]
pub(super) struct LeaseAttempt {
    pub session: SessionId,
    pub team: Team,
    pub file: FileId,
    pub extents: Vec<LockExtent>,
    tickets: Vec<u64>,
}

impl LeaseAttempt {
    pub fn new(session: SessionId, team: Team, file: FileId, extents: Vec<LockExtent>) -> LeaseAttempt {
        LeaseAttempt { session, team, file, extents, tickets: Vec::new() }
    }
}

/// The kind of a request to the lock manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestOrder {
    /// A lease, behind waiting requests.
    Lease,
    /// An access, behind waiting requests.
    Queued,
    /// An access of a team within its leases, before waiting requests.
    Bypass,
}

/// The state of a request for a lease.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LeaseStep {
    Wait,
    /// The slots of these extents have to become invalid for clients; then [`LeaseTable::invalidated`].
    Invalidate(Vec<(LockId, LockExtent)>),
    /// The team has these.
    Done(Vec<LockExtent>),
}

impl LeaseTable {
    pub fn new(unit: u64, grace: Duration) -> LeaseTable {
        LeaseTable {
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
            next_check: None,
            leased: HashSet::new(),
            cut_off: 0,
            effects: Effects::default(),
            changed: UnrecordedChanges::default(),
        }
    }

    /// Begins an access to these extents of a file by a team's client, or by another client. The result is the tickets of its locks, for
    /// [`LeaseTable::end`].
    pub fn begin_access(
        &mut self,
        team: Option<Team>,
        session: SessionId,
        file: FileId,
        extents: &[LockExtent],
    ) -> Result<Vec<u64>> {
        let holder = team.map_or_else(|| Holder::Request(self.next_number()), Holder::Team);
        let has = |extent: &LockExtent| self.manager.covers(holder, file, *extent, LockMode::Exclusive);
        let order = if extents.iter().all(has) { RequestOrder::Bypass } else { RequestOrder::Queued };
        self.request_locks(holder, session, file, extents, order)
    }

    pub fn is_granted(&self, tickets: &[u64]) -> bool {
        tickets.iter().all(|ticket| self.tickets.get(ticket).is_some_and(|pending| pending.lock.is_some()))
    }

    /// Continues a request for a lease.
    pub fn lease(&mut self, attempt: &mut LeaseAttempt) -> Result<LeaseStep> {
        let (team, file) = (attempt.team, attempt.file);
        if !self.teams.contains_key(&team) {
            return Err(Error::NoMailbox);
        }
        // Tickets from before the team lost its last mailbox do not exist any more.
        attempt.tickets.retain(|ticket| self.tickets.contains_key(ticket));
        if !self.is_granted(&attempt.tickets) {
            return Ok(LeaseStep::Wait);
        }
        if !self.has_all(attempt) {
            self.end(&std::mem::take(&mut attempt.tickets));
            if self.leased.insert(file) {
                self.effects.close.push(file);
            }
            attempt.tickets = self.request_locks(
                Holder::Team(team),
                attempt.session,
                file,
                &attempt.extents,
                RequestOrder::Lease,
            )?;
            if !self.is_granted(&attempt.tickets) {
                return Ok(LeaseStep::Wait);
            }
        }
        let published: Vec<(LockId, LockExtent)> = self.teams[&team]
            .published
            .iter()
            .filter(|(_, of, _)| *of == file)
            .map(|(lock, _, extent)| (*lock, *extent))
            .collect();
        if !published.is_empty() {
            return Ok(LeaseStep::Invalidate(published));
        }
        let held = self.leased_extents(team, file);
        let around = |run: &LockExtent| attempt.extents.iter().any(|extent| extent.overlaps(*run));
        for recall in self.recalls.values_mut().filter(|recall| (recall.team, recall.file) == (team, file)) {
            recall.gone = recall.wanted;
        }
        Ok(LeaseStep::Done(held.into_iter().filter(around).collect()))
    }

    /// The slots of these extents are invalid for clients.
    pub fn invalidated(&mut self, team: Team, extents: &[(LockId, LockExtent)]) {
        if let Some(members) = self.teams.get_mut(&team) {
            members.published.retain(|(lock, _, _)| !extents.iter().any(|(done, _)| done == lock));
        }
    }

    /// The request is answered or abandoned: its leases can be recalled from now on.
    pub fn end_attempt(&mut self, attempt: &LeaseAttempt) {
        self.end(&attempt.tickets);
    }

    /// Ends accesses, or cancels waiting requests.
    pub fn end(&mut self, tickets: &[u64]) {
        for ticket in tickets {
            let Some(PendingLock { holder, file, lease, lock, .. }) = self.tickets.remove(ticket) else {
                continue;
            };
            let actions = match (lock, holder) {
                (None, _) => self.manager.cancel(holder, LockTicket(*ticket)),
                (Some(_), Holder::Team(team)) if lease => {
                    self.attempt_answered(team, *ticket);
                    Vec::new()
                }
                (Some(lock), _) => self.manager.unlock(holder, lock).expect("the holder has it"),
            };
            self.apply(actions);
            self.remove_if_idle(file);
        }
    }

    /// The next recalls for a mailbox: each is returned once for a connection.
    pub fn next_recalls(&mut self, session: SessionId) -> Vec<(u64, FileId, LockExtent)> {
        let mut recalls = Vec::new();
        let client = self.mailboxes.client_of(session);
        let Some(mailbox) = client.and_then(|client| self.mailboxes.get_mut(client)) else { return recalls };
        while recalls.len() < MAX_RECALLS
            && let Some(number) = mailbox.unsent.pop_front()
        {
            recalls.extend(self.recalls.get(&number).map(|recall| (number, recall.file, recall.wanted)));
        }
        recalls
    }

    /// A mailbox's process has yielded bytes. This has no effect if the recall is over.
    pub fn yielded(&mut self, session: SessionId, number: u64, gone: LockExtent) -> Result<()> {
        let Some(recall) = self.recalls.get_mut(&number) else { return Ok(()) };
        // Whole blocks only; a recall asks for whole blocks.
        let end = if gone.end() == u64::MAX { u64::MAX } else { gone.end() / self.unit * self.unit };
        let whole = LockExtent::new(gone.start().next_multiple_of(self.unit), end);
        let whole = whole.filter(|whole| whole.covers(recall.wanted)).ok_or(Error::BadRequest("ranges"))?;
        if self.mailboxes.client_of(session).is_some_and(|client| recall.owing.remove(&client)) {
            recall.gone = recall.gone.and(whole).expect("both cover the recalled extent");
            self.finish_recall(number);
        }
        Ok(())
    }

    /// Releases all leases of a team on a file. A lease request of the team that is under way takes its locks again.
    pub fn release(&mut self, team: Team, file: FileId) {
        self.recalls.retain(|_, recall| (recall.team, recall.file) != (team, file));
        if let Some(members) = self.teams.get_mut(&team) {
            members.files.remove(&file);
            members.published.retain(|(_, of, _)| *of != file);
            members.deferred.retain(|(_, of, _)| *of != file);
        }
        self.unlock_all(team, file);
    }

    pub fn status(&self) -> LeaseCounters {
        let LockCounters { requests, grants, conflicts, revocations, waits } = self.manager.counters();
        LeaseCounters {
            teams: self.teams.len() as u32,
            mailboxes: self.mailboxes.connected() as u32,
            requests,
            grants,
            conflicts,
            revocations,
            waits,
            cut_off: self.cut_off,
        }
    }

    /// Every request that waits in the lock manager belongs to a ticket here, and the other way round.
    #[cfg(any(test, pario_simulation))]
    pub fn check_tickets(&self) -> Result<(), String> {
        let waiting = self.tickets.values().filter(|pending| pending.lock.is_none()).count();
        match self.manager.waiting() {
            queued if queued == waiting => Ok(()),
            queued => Err(format!("{waiting} requests wait, but {queued} are queued")),
        }
    }

    /// Without clients nobody accesses anything, and nobody has to yield.
    #[cfg(pario_simulation)]
    pub fn check_idle(&self) -> Result<(), String> {
        match self.tickets.is_empty() && self.recalls.is_empty() {
            true => Ok(()),
            false => Err(format!("left without clients: {:?}, {:?}", self.tickets, self.recalls)),
        }
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        let none = self.tickets.is_empty() && self.recalls.is_empty() && self.leased.is_empty();
        none && self.manager.locks() == 0 && self.manager.waiting() == 0
    }

    pub fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Requests locks on all of these extents, or on none if one fails.
    pub fn request_locks(
        &mut self,
        holder: Holder,
        session: SessionId,
        file: FileId,
        extents: &[LockExtent],
        order: RequestOrder,
    ) -> Result<Vec<u64>> {
        let lease = order == RequestOrder::Lease;
        let (mode, grant) =
            if lease { (LockMode::Exclusive, Grant::Largest) } else { (LockMode::Shared, Grant::Exact) };
        let mut tickets = Vec::new();
        for &extent in extents {
            let number = self.next_number();
            self.tickets.insert(number, PendingLock { session, holder, file, extent, lease, lock: None });
            tickets.push(number);
            let request = LockRequest { holder, ticket: LockTicket(number), file, extent, mode, grant };
            let outcome = match order {
                RequestOrder::Bypass => self.manager.request_own(request),
                RequestOrder::Lease | RequestOrder::Queued => self.manager.request(request),
            };
            match outcome {
                Ok(actions) => self.apply(actions),
                Err(e) => {
                    self.end(&tickets);
                    return Err(Error::Locks(e));
                }
            }
        }
        // The session that makes the request checks by itself what was granted at once.
        self.effects.wake.retain(|woken| *woken != session);
        Ok(tickets)
    }

    /// The team's leases on a file without recalled extents; adjacent ones are merged.
    fn leased_extents(&self, team: Team, file: FileId) -> Vec<LockExtent> {
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

    /// Whether the team has leases on all extents of the request.
    fn has_all(&self, attempt: &LeaseAttempt) -> bool {
        let held = self.leased_extents(attempt.team, attempt.file);
        attempt.extents.iter().all(|extent| held.iter().any(|run| run.covers(*extent)))
    }

    fn apply(&mut self, actions: Vec<LockAction<Holder>>) {
        for action in actions {
            match action {
                LockAction::Granted { ticket, file, lock, extent, holder, .. } => {
                    let pending =
                        self.tickets.get_mut(&ticket.0).expect("a cancelled request is not granted");
                    pending.lock = Some(lock);
                    self.effects.wake.push(pending.session);
                    if let (Holder::Team(team), true) = (holder, pending.lease) {
                        let members =
                            self.teams.get_mut(&team).expect("a team that ends cancels its requests");
                        members.files.insert(file);
                        members.unanswered.insert(ticket.0, (file, pending.extent));
                        members.published.push((lock, file, extent));
                        self.changed.leases.insert((team, file));
                    }
                }
                LockAction::Revoke { holder: Holder::Team(team), file, lock, wanted } => {
                    // A team that is about to end releases all its leases anyway.
                    let Some(members) = self.teams.get_mut(&team) else { continue };
                    members.deferred.push((lock, file, wanted));
                    self.recall_deferred(team);
                }
                LockAction::Revoke { .. } => unreachable!("only leases are cached"),
                LockAction::Refused { .. } => {
                    unreachable!("a file with waiting requests is not removed from the manager")
                }
            }
        }
    }

    fn recall(&mut self, team: Team, file: FileId, lock: LockId, wanted: LockExtent) {
        let number = self.next_number();
        let due = self.now + self.grace;
        let owing = self.teams[&team].mailboxes.clone();
        for client in &owing {
            let mailbox = self.mailboxes.get_mut(*client).expect("the team has it");
            mailbox.unsent.push_back(number);
            match mailbox.state {
                MailboxState::Connected(session) => self.effects.wake.push(session),
                MailboxState::Expected => {}
                MailboxState::Disconnected(_) => self.schedule_cut_off(*client),
            }
        }
        self.recalls
            .insert(number, PendingRecall { team, file, lock, wanted, gone: LockExtent::ALL, owing, due });
        self.schedule_check(due);
    }

    pub fn schedule_check(&mut self, when: Instant) {
        if self.next_check.is_none_or(|next_check| when < next_check) {
            self.next_check = Some(when);
            self.effects.check_at = Some(when);
        }
    }

    fn attempt_answered(&mut self, team: Team, ticket: u64) {
        if let Some(members) = self.teams.get_mut(&team) {
            members.unanswered.remove(&ticket);
            self.recall_deferred(team);
        }
    }

    /// Sends the recalls that no longer wait for an answer.
    fn recall_deferred(&mut self, team: Team) {
        let Some(members) = self.teams.get_mut(&team) else { return };
        let deferred = std::mem::take(&mut members.deferred);
        // A lock that has lost the bytes since is recalled all the same: before that it cannot be recalled for other bytes.
        let waits = |(lock, file, wanted): &(LockId, FileId, LockExtent)| {
            let held = self.manager.cached(Holder::Team(team), *file, LockMode::Exclusive);
            let pending =
                held.into_iter().filter(|(_, of)| of == lock).filter_map(|(run, _)| run.and(*wanted));
            let unanswered = |run: LockExtent| {
                members.unanswered.values().any(|(of, extent)| of == file && extent.overlaps(run))
            };
            pending.into_iter().any(unanswered)
        };
        let (later, now): (Vec<_>, Vec<_>) = deferred.into_iter().partition(waits);
        members.deferred = later;
        now.into_iter().for_each(|(lock, file, wanted)| self.recall(team, file, lock, wanted));
    }

    /// If all mailboxes have yielded, the team loses what they all named.
    pub fn finish_recall(&mut self, number: u64) {
        let Some(recall) = self.recalls.get(&number).filter(|recall| recall.owing.is_empty()) else { return };
        let PendingRecall { team, file, lock, gone, .. } = *recall;
        self.recalls.remove(&number);
        self.changed.leases.insert((team, file));
        let release = LockRelease { file, lock, gone: vec![gone], answer: true };
        let actions = self.manager.release(Holder::Team(team), &release).expect("the holder has it");
        self.apply(actions);
        self.remove_if_idle(file);
    }

    pub fn end_team(&mut self, team: Team) {
        let Some(members) = self.teams.remove(&team) else { return };
        self.recalls.retain(|_, recall| recall.team != team);
        self.clients.team_ended(team);
        let holder = Holder::Team(team);
        let pending = self.tickets.extract_if(|_, pending| pending.holder == holder && pending.lease);
        let pending: Vec<(u64, PendingLock)> = pending.collect();
        for (ticket, PendingLock { session, file, .. }) in pending {
            self.effects.wake.push(session);
            let actions = self.manager.cancel(holder, LockTicket(ticket));
            self.apply(actions);
            self.remove_if_idle(file);
        }
        members.files.into_iter().for_each(|file| self.unlock_all(team, file));
    }

    fn unlock_all(&mut self, team: Team, file: FileId) {
        let holder = Holder::Team(team);
        self.changed.leases.insert((team, file));
        let cached = self.manager.cached(holder, file, LockMode::Exclusive);
        let locks: BTreeSet<LockId> = cached.into_iter().map(|(_, lock)| lock).collect();
        for lock in locks {
            let actions = self.manager.unlock(holder, lock).expect("the holder has it");
            self.apply(actions);
        }
        self.remove_if_idle(file);
    }

    fn remove_if_idle(&mut self, file: FileId) {
        if self.manager.is_idle(file) {
            self.manager.file_gone(file);
            if self.leased.remove(&file) {
                self.effects.open.push(file);
            }
        }
    }
}
