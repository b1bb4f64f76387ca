//! Clients that have joined teams.
//!
//! A process has several clients: one receives recalls, its mailbox; by the others it stores bytes before it yields them. These name the
//! mailbox when they join. So the server refuses their changes after the mailbox is cut off, also on new connections.

use std::collections::{BTreeSet, HashMap};

use pario_types::ClientId;

use super::lease_table::{SessionId, Team};
use crate::error::{Error, Result};

/// The largest number of clients in teams.
const MAX_JOINED: usize = 1 << 16;

#[derive(Default)]
pub(super) struct Clients {
    joined: HashMap<ClientId, Joined>,
}

struct Joined {
    team: Team,
    /// `None` if the client is connected to another server.
    session: Option<SessionId>,
    mailbox: ClientId,
}

impl Clients {
    pub fn join(
        &mut self,
        client: ClientId,
        team: Team,
        session: Option<SessionId>,
        mailbox: ClientId,
    ) -> Result<()> {
        if self.joined.len() >= MAX_JOINED && !self.joined.contains_key(&client) {
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

    /// The connections of clients that rely on these mailboxes, including the mailboxes' own.
    pub fn relying_on(&self, mailboxes: &BTreeSet<ClientId>) -> Vec<SessionId> {
        let relies = |joined: &&Joined| mailboxes.contains(&joined.mailbox);
        self.joined.values().filter(relies).filter_map(|joined| joined.session).collect()
    }

    pub fn any_joined(&self) -> bool {
        !self.joined.is_empty()
    }

    /// A connection of the client has ended.
    pub fn client_left(&mut self, session: SessionId, client: ClientId) {
        if self.joined.get(&client).is_some_and(|joined| joined.session == Some(session)) {
            self.joined.remove(&client);
        }
    }

    /// Removes the team's clients that are connected to other servers: this server does not notice when they disconnect.
    pub fn team_ended(&mut self, team: Team) {
        self.joined.retain(|_, joined| joined.team != team || joined.session.is_some());
    }
}
