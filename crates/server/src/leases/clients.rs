//! Clients that have joined teams.
//!
//! A process has several clients: one hears of recalls, its mailbox, and by others it stores what it is to give up. These
//! name the mailbox when they join, so they are known, also by new connections, if it is cut off.

use std::collections::{BTreeSet, HashMap};

use pario_types::ClientId;

use super::book::{Session, Team};
use crate::error::{Error, Result};

const MOST_JOINED: usize = 1 << 16;

#[derive(Default)]
pub(super) struct Clients {
    joined: HashMap<ClientId, Joined>,
}

struct Joined {
    team: Team,
    /// Unless it came through another server.
    session: Option<Session>,
    mailbox: ClientId,
}

impl Clients {
    pub fn join(
        &mut self,
        client: ClientId,
        team: Team,
        session: Option<Session>,
        mailbox: ClientId,
    ) -> Result<()> {
        if self.joined.len() >= MOST_JOINED && !self.joined.contains_key(&client) {
            return Err(Error::TooMany("clients in teams"));
        }
        self.joined.insert(client, Joined { team, session, mailbox });
        Ok(())
    }

    pub fn team_of(&self, client: ClientId) -> Option<Team> {
        self.joined.get(&client).map(|joined| joined.team)
    }

    /// The mailbox that a client of a team relies on.
    pub fn mailbox_of(&self, client: ClientId) -> Option<ClientId> {
        self.joined.get(&client).map(|joined| joined.mailbox)
    }

    /// The connections of those who rely on mailboxes, their own among them.
    pub fn relying_on(&self, mailboxes: &BTreeSet<ClientId>) -> Vec<Session> {
        let relies = |joined: &&Joined| mailboxes.contains(&joined.mailbox);
        self.joined.values().filter(relies).filter_map(|joined| joined.session).collect()
    }

    pub fn are_there(&self) -> bool {
        !self.joined.is_empty()
    }

    /// A connection of the client has ended.
    pub fn left(&mut self, session: Session, client: ClientId) {
        if self.joined.get(&client).is_some_and(|joined| joined.session == Some(session)) {
            self.joined.remove(&client);
        }
    }

    /// Of those who came through other servers nobody says when they are gone.
    pub fn team_ended(&mut self, team: Team) {
        self.joined.retain(|_, joined| joined.team != team || joined.session.is_some());
    }
}
