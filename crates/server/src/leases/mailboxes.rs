//! Mailboxes: the clients by which processes of teams hear of recalls, and where they are.
//!
//! A mailbox is its client, and not a connection. When the connection ends the process may still have bytes that it has
//! not stored, so its mailbox is *away*: the team's leases stay until it comes again, or until somebody wants them, who
//! does not wait for it. After a restart of the server those that were here are *expected*, and waited for.
//!
//! What a process keeps is good only as long as its mailbox is known. So it is safe to forget one at any time: its
//! process is told that it has lost what it had.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use pario_locks::{LockExtent, LockMode};
use pario_types::{ClientId, FileId};

use super::book::{Book, Holder, Recall, Session, Team};
use crate::error::{Error, Result};

/// Mailboxes at a server; beyond that those that are away are forgotten.
const MOST_MAILBOXES: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Here(Session),
    Expected,
    /// Since then, in numbers of the book.
    Away(u64),
}

#[derive(Debug)]
pub(super) struct Mailbox {
    pub team: Team,
    pub place: Place,
    /// Recalls that it has not been told.
    pub untold: VecDeque<u64>,
    /// It was cut off, and others will go on in a moment.
    pub is_ending: bool,
}

#[derive(Debug, Default)]
pub(super) struct Mailboxes {
    all: HashMap<ClientId, Mailbox>,
    sessions: HashMap<Session, ClientId>,
}

impl Mailboxes {
    pub fn get(&self, client: ClientId) -> Option<&Mailbox> {
        self.all.get(&client)
    }

    pub fn get_mut(&mut self, client: ClientId) -> Option<&mut Mailbox> {
        self.all.get_mut(&client)
    }

    /// Whether what its process keeps is good.
    pub fn knows(&self, client: ClientId) -> bool {
        self.get(client).is_some_and(|mailbox| !mailbox.is_ending)
    }

    pub fn is_away(&self, client: ClientId) -> bool {
        self.get(client).is_some_and(|mailbox| matches!(mailbox.place, Place::Away(_)))
    }

    /// Whose connection this is, if it is a mailbox's.
    pub fn at(&self, session: Session) -> Option<ClientId> {
        self.sessions.get(&session).copied()
    }

    pub fn insert(&mut self, client: ClientId, team: Team, place: Place) {
        self.all.insert(client, Mailbox { team, place, untold: VecDeque::new(), is_ending: false });
        self.put(client, place);
    }

    /// It is there from now on.
    pub fn put(&mut self, client: ClientId, place: Place) {
        let Some(mailbox) = self.all.get_mut(&client) else { return };
        if let Place::Here(before) = std::mem::replace(&mut mailbox.place, place) {
            self.sessions.remove(&before);
        }
        if let Place::Here(session) = place {
            self.sessions.insert(session, client);
        }
    }

    pub fn remove(&mut self, client: ClientId) -> Option<Mailbox> {
        let mailbox = self.all.remove(&client)?;
        if let Place::Here(session) = mailbox.place {
            self.sessions.remove(&session);
        }
        Some(mailbox)
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// How many are connected.
    pub fn here(&self) -> usize {
        self.sessions.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (ClientId, &Mailbox)> {
        self.all.iter().map(|(client, mailbox)| (*client, mailbox))
    }

    /// The one that has been away for longest.
    pub fn longest_away(&self) -> Option<ClientId> {
        let away = |(client, mailbox): (ClientId, &Mailbox)| match mailbox.place {
            Place::Away(since) if !mailbox.is_ending => Some((since, client)),
            _ => None,
        };
        self.iter().filter_map(away).min().map(|(_, client)| client)
    }
}

/// Processes of a team that did not yield.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CutOff {
    pub mailboxes: BTreeSet<ClientId>,
    /// Their connections, those of the mailboxes among them.
    pub sessions: Vec<Session>,
    /// What the team has leased.
    pub leased: Vec<(FileId, LockExtent)>,
}

impl Book {
    /// The session is one of the team's mailboxes: whether it is so now, or has to ask again. A client that had one before
    /// goes on with it, if nobody took what its process has; `anew`: the process has nothing.
    pub fn add_mailbox(
        &mut self,
        session: Session,
        client: ClientId,
        team: Team,
        anew: bool,
    ) -> Result<bool> {
        match self.mailboxes.get(client) {
            Some(known) if known.team != team => {
                return Err(Error::BadRequest("team and that of its connection together"));
            }
            Some(known) if known.place == Place::Here(session) => return Ok(true),
            Some(known) if known.is_ending && anew => return Ok(false),
            Some(known) if !known.is_ending && !anew => {
                self.clients.join(client, team, Some(session), client)?;
                self.resume(client, session);
                return Ok(true);
            }
            Some(known) if !known.is_ending => self.end_mailbox(client),
            None if anew => {}
            _ => return Err(Error::LeaseLost),
        }
        self.make_room()?;
        self.clients.join(client, team, Some(session), client)?;
        self.mailboxes.insert(client, team, Place::Here(session));
        self.teams.entry(team).or_default().mailboxes.insert(client);
        self.changed.mailboxes.insert(client);
        Ok(true)
    }

    /// It may not have heard what it was told by an earlier connection.
    fn resume(&mut self, client: ClientId, session: Session) {
        self.mailboxes.put(client, Place::Here(session));
        self.overdue.remove(&client);
        self.changed.mailboxes.insert(client);
        let owed = self.recalls.iter().filter(|(_, recall)| recall.owing.contains(&client));
        let owed = owed.map(|(number, _)| *number).collect();
        self.mailboxes.get_mut(client).expect("just seen").untold = owed;
    }

    /// For one more mailbox.
    fn make_room(&mut self) -> Result<()> {
        if self.mailboxes.len() < MOST_MAILBOXES {
            return Ok(());
        }
        let oldest = self.mailboxes.longest_away().filter(|_| self.mailboxes.here() < MOST_MAILBOXES);
        self.expel(oldest.ok_or(Error::TooMany("mailboxes"))?);
        Ok(())
    }

    /// A mailbox is to be cut off as soon as may be.
    pub fn expel(&mut self, client: ClientId) {
        self.overdue.insert(client);
        self.look_at(self.now);
    }

    /// A connection has ended. If it was a mailbox's, its process may come again.
    pub fn left(&mut self, session: Session, client: ClientId) {
        self.clients.left(session, client);
        let Some(client) = self.mailboxes.at(session) else { return };
        let since = self.fresh();
        self.mailboxes.put(client, Place::Away(since));
        let known = self.mailboxes.get(client).expect("just seen");
        if known.is_ending {
            return;
        }
        if self.teams[&known.team].files.is_empty() {
            return self.end_mailbox(client);
        }
        self.changed.mailboxes.insert(client);
        if self.recalls.values().any(|recall| recall.owing.contains(&client)) {
            self.expel(client);
        }
    }

    /// A mailbox's process has nothing any more, and needs no mailbox.
    pub fn leave(&mut self, session: Session) {
        if let Some(client) = self.mailboxes.at(session).filter(|client| self.mailboxes.knows(*client)) {
            self.end_mailbox(client);
        }
    }

    /// Mailboxes that were cut off have yielded everything: their processes no longer know where blocks are.
    pub fn ended(&mut self, mailboxes: BTreeSet<ClientId>) {
        mailboxes.into_iter().for_each(|client| self.end_mailbox(client));
    }

    /// Whether a client may change bytes, and know where they are: the mailbox that it relies on is known.
    pub fn may_change(&self, client: ClientId) -> bool {
        self.clients.mailbox_of(client).is_none_or(|mailbox| self.mailboxes.knows(mailbox))
    }

    /// With its last mailbox a team loses its leases.
    fn end_mailbox(&mut self, client: ClientId) {
        let Some(mailbox) = self.mailboxes.remove(client) else { return };
        self.overdue.remove(&client);
        self.changed.mailboxes.insert(client);
        let members = self.teams.get_mut(&mailbox.team).expect("it has a mailbox");
        members.mailboxes.remove(&client);
        if members.mailboxes.is_empty() {
            return self.end_team(mailbox.team);
        }
        let owed: Vec<u64> = self
            .recalls
            .iter_mut()
            .filter_map(|(number, recall)| recall.owing.remove(&client).then_some(*number))
            .collect();
        owed.into_iter().for_each(|number| self.settle(number));
    }

    /// Cuts off the mailboxes that should have yielded by now. Their connections are to be ended, and those of clients that
    /// rely on them; after that what they had leased is to be made unknown to clients, and then they have
    /// [ended](Book::ended).
    pub fn cut_off(&mut self) -> Vec<CutOff> {
        let late = self.recalls.values().filter(|recall| recall.due <= self.now);
        let late = late.flat_map(|recall| recall.owing.iter().copied());
        let mut teams: BTreeMap<Team, BTreeSet<ClientId>> = BTreeMap::new();
        for client in late.chain(std::mem::take(&mut self.overdue)) {
            if let Some(mailbox) = self.mailboxes.get(client).filter(|mailbox| !mailbox.is_ending) {
                teams.entry(mailbox.team).or_default().insert(client);
            }
        }
        let cut_off = teams.into_iter().map(|(team, mailboxes)| self.fence(team, mailboxes)).collect();
        let owing = |recall: &&Recall| recall.owing.iter().any(|client| self.mailboxes.knows(*client));
        self.looking_at = self.recalls.values().filter(owing).map(|recall| recall.due).min();
        self.effects.look_at = self.looking_at;
        cut_off
    }

    fn fence(&mut self, team: Team, mailboxes: BTreeSet<ClientId>) -> CutOff {
        for client in &mailboxes {
            // Who is away may have ended long ago.
            self.cut_off += u64::from(!self.mailboxes.is_away(*client));
            self.mailboxes.get_mut(*client).expect("it is known").is_ending = true;
        }
        self.changed.mailboxes.extend(&mailboxes);
        let held = |file: &FileId| {
            let cached = self.manager.cached(Holder::Team(team), *file, LockMode::Exclusive);
            cached.into_iter().map(|(extent, _)| (*file, extent)).collect::<Vec<_>>()
        };
        let leased = self.teams[&team].files.iter().flat_map(held).collect();
        CutOff { sessions: self.clients.relying_on(&mailboxes), mailboxes, leased }
    }
}
