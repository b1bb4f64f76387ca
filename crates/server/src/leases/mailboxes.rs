//! Mailboxes: the clients by which processes of teams receive recalls.
//!
//! A mailbox belongs to a client, and not to a connection. When the connection ends, the process may still have bytes that it has not
//! stored, so the mailbox stays, *disconnected*: the team keeps its leases until the client connects again, or until another client
//! needs the bytes; that client does not wait. After a restart of the server the connected mailboxes are *expected*, and others wait
//! for them.
//!
//! The cache of a process is valid only while its mailbox exists. So it is safe to remove a mailbox at any time: its process learns
//! that it has lost its leases.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use pario_locks::{LockExtent, LockMode};
use pario_types::{ClientId, FileId};

use super::lease_table::{Holder, LeaseTable, PendingRecall, SessionId, Team};
use crate::error::{Error, Result};

/// The largest number of mailboxes; beyond it disconnected ones are removed.
const MAX_MAILBOXES: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MailboxState {
    Connected(SessionId),
    /// The server has restarted, and the mailbox was connected before.
    Expected,
    /// Since this number of the table.
    Disconnected(u64),
}

#[derive(Debug)]
pub(super) struct Mailbox {
    pub team: Team,
    pub state: MailboxState,
    /// Recalls that were not sent on this connection.
    pub unsent: VecDeque<u64>,
    /// The mailbox was cut off, and its leases will be released in a moment.
    pub is_ending: bool,
}

#[derive(Debug, Default)]
pub(super) struct Mailboxes {
    all: HashMap<ClientId, Mailbox>,
    sessions: HashMap<SessionId, ClientId>,
}

impl Mailboxes {
    pub fn get(&self, client: ClientId) -> Option<&Mailbox> {
        self.all.get(&client)
    }

    pub fn get_mut(&mut self, client: ClientId) -> Option<&mut Mailbox> {
        self.all.get_mut(&client)
    }

    /// Whether the cache of the client's process is valid.
    pub fn is_valid(&self, client: ClientId) -> bool {
        self.get(client).is_some_and(|mailbox| !mailbox.is_ending)
    }

    pub fn is_disconnected(&self, client: ClientId) -> bool {
        self.get(client).is_some_and(|mailbox| matches!(mailbox.state, MailboxState::Disconnected(_)))
    }

    /// The client of a mailbox's connection.
    pub fn client_of(&self, session: SessionId) -> Option<ClientId> {
        self.sessions.get(&session).copied()
    }

    pub fn insert(&mut self, client: ClientId, team: Team, state: MailboxState) {
        self.all.insert(client, Mailbox { team, state, unsent: VecDeque::new(), is_ending: false });
        self.set_state(client, state);
    }

    pub fn set_state(&mut self, client: ClientId, state: MailboxState) {
        let Some(mailbox) = self.all.get_mut(&client) else { return };
        if let MailboxState::Connected(before) = std::mem::replace(&mut mailbox.state, state) {
            self.sessions.remove(&before);
        }
        if let MailboxState::Connected(session) = state {
            self.sessions.insert(session, client);
        }
    }

    pub fn remove(&mut self, client: ClientId) -> Option<Mailbox> {
        let mailbox = self.all.remove(&client)?;
        if let MailboxState::Connected(session) = mailbox.state {
            self.sessions.remove(&session);
        }
        Some(mailbox)
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The number of connected mailboxes.
    pub fn connected(&self) -> usize {
        self.sessions.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (ClientId, &Mailbox)> {
        self.all.iter().map(|(client, mailbox)| (*client, mailbox))
    }

    /// The mailbox that has been disconnected for the longest time.
    pub fn longest_disconnected(&self) -> Option<ClientId> {
        let since = |(client, mailbox): (ClientId, &Mailbox)| match mailbox.state {
            MailboxState::Disconnected(since) if !mailbox.is_ending => Some((since, client)),
            _ => None,
        };
        self.iter().filter_map(since).min().map(|(_, client)| client)
    }
}

/// Processes of a team that are cut off because they did not yield.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CutOff {
    pub mailboxes: BTreeSet<ClientId>,
    /// The connections of these processes, including those of the mailboxes.
    pub sessions: Vec<SessionId>,
    /// The leases of the team.
    pub leased: Vec<(FileId, LockExtent)>,
}

impl LeaseTable {
    /// Makes the session one of the team's mailboxes; `false` if the caller has to try again. A client that had a mailbox before
    /// resumes it, if it was not cut off; with `anew` the process has dropped its cache and the mailbox starts again.
    pub fn add_mailbox(
        &mut self,
        session: SessionId,
        client: ClientId,
        team: Team,
        anew: bool,
    ) -> Result<bool> {
        match self.mailboxes.get(client) {
            Some(known) if known.team != team => {
                return Err(Error::BadRequest("team and that of its connection together"));
            }
            Some(known) if known.state == MailboxState::Connected(session) => return Ok(true),
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
        self.remove_oldest_if_full()?;
        self.clients.join(client, team, Some(session), client)?;
        self.mailboxes.insert(client, team, MailboxState::Connected(session));
        self.teams.entry(team).or_default().mailboxes.insert(client);
        self.changed.mailboxes.insert(client);
        Ok(true)
    }

    /// Connects a mailbox again. Recalls are sent again: the client may not have received them on the earlier connection.
    fn resume(&mut self, client: ClientId, session: SessionId) {
        self.mailboxes.set_state(client, MailboxState::Connected(session));
        self.overdue.remove(&client);
        self.changed.mailboxes.insert(client);
        let owed = self.recalls.iter().filter(|(_, recall)| recall.owing.contains(&client));
        let owed = owed.map(|(number, _)| *number).collect();
        self.mailboxes.get_mut(client).expect("it exists").unsent = owed;
    }

    /// Makes space for another mailbox.
    fn remove_oldest_if_full(&mut self) -> Result<()> {
        if self.mailboxes.len() < MAX_MAILBOXES {
            return Ok(());
        }
        let oldest =
            self.mailboxes.longest_disconnected().filter(|_| self.mailboxes.connected() < MAX_MAILBOXES);
        self.schedule_cut_off(oldest.ok_or(Error::TooMany("mailboxes"))?);
        Ok(())
    }

    /// Cuts off a mailbox as soon as possible.
    pub fn schedule_cut_off(&mut self, client: ClientId) {
        self.overdue.insert(client);
        self.schedule_check(self.now);
    }

    /// A connection has ended. If it was a mailbox's, its process may connect again.
    pub fn client_left(&mut self, session: SessionId, client: ClientId) {
        self.clients.client_left(session, client);
        let Some(client) = self.mailboxes.client_of(session) else { return };
        let since = self.next_number();
        self.mailboxes.set_state(client, MailboxState::Disconnected(since));
        let known = self.mailboxes.get(client).expect("it exists");
        if known.is_ending {
            return;
        }
        if self.teams[&known.team].files.is_empty() {
            return self.end_mailbox(client);
        }
        self.changed.mailboxes.insert(client);
        if self.recalls.values().any(|recall| recall.owing.contains(&client)) {
            self.schedule_cut_off(client);
        }
    }

    /// Ends a mailbox whose process caches nothing.
    pub fn close_mailbox(&mut self, session: SessionId) {
        if let Some(client) =
            self.mailboxes.client_of(session).filter(|client| self.mailboxes.is_valid(*client))
        {
            self.end_mailbox(client);
        }
    }

    /// Ends mailboxes that were cut off, after the slots that their processes know are invalid.
    pub fn finish_cut_off(&mut self, mailboxes: BTreeSet<ClientId>) {
        mailboxes.into_iter().for_each(|client| self.end_mailbox(client));
    }

    /// Whether a client may change bytes and learn their slots: the mailbox that it relies on is valid.
    pub fn may_change(&self, client: ClientId) -> bool {
        self.clients.mailbox_of(client).is_none_or(|mailbox| self.mailboxes.is_valid(mailbox))
    }

    /// Ends a mailbox. With its last mailbox a team loses its leases.
    fn end_mailbox(&mut self, client: ClientId) {
        let Some(mailbox) = self.mailboxes.remove(client) else { return };
        self.overdue.remove(&client);
        self.changed.mailboxes.insert(client);
        let members = self.teams.get_mut(&mailbox.team).expect("a mailbox has a team");
        members.mailboxes.remove(&client);
        if members.mailboxes.is_empty() {
            return self.end_team(mailbox.team);
        }
        let owed: Vec<u64> = self
            .recalls
            .iter_mut()
            .filter_map(|(number, recall)| recall.owing.remove(&client).then_some(*number))
            .collect();
        owed.into_iter().for_each(|number| self.finish_recall(number));
    }

    /// Cuts off the mailboxes that should have yielded by now. The caller ends their connections and those of clients that rely on
    /// them, then makes the slots of their leases invalid, and then calls [`LeaseTable::finish_cut_off`].
    pub fn cut_off(&mut self) -> Vec<CutOff> {
        let late = self.recalls.values().filter(|recall| recall.due <= self.now);
        let late = late.flat_map(|recall| recall.owing.iter().copied());
        let mut teams: BTreeMap<Team, BTreeSet<ClientId>> = BTreeMap::new();
        for client in late.chain(std::mem::take(&mut self.overdue)) {
            if let Some(mailbox) = self.mailboxes.get(client).filter(|mailbox| !mailbox.is_ending) {
                teams.entry(mailbox.team).or_default().insert(client);
            }
        }
        let cut_off =
            teams.into_iter().map(|(team, mailboxes)| self.begin_cut_off(team, mailboxes)).collect();
        let owing =
            |recall: &&PendingRecall| recall.owing.iter().any(|client| self.mailboxes.is_valid(*client));
        self.next_check = self.recalls.values().filter(owing).map(|recall| recall.due).min();
        self.effects.check_at = self.next_check;
        cut_off
    }

    fn begin_cut_off(&mut self, team: Team, mailboxes: BTreeSet<ClientId>) -> CutOff {
        for client in &mailboxes {
            // The process of a disconnected mailbox may have ended long ago.
            self.cut_off += u64::from(!self.mailboxes.is_disconnected(*client));
            self.mailboxes.get_mut(*client).expect("it exists").is_ending = true;
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
