//! Clients that have joined teams, and those that were cut off: what their processes still have is not taken any more.
//!
//! A process has several clients: one hears of recalls, its mailbox, and by others it stores what it is to give up. These
//! name the mailbox when they join, so they are known, also by new connections, if it is cut off.

use std::collections::{HashMap, VecDeque};

use pario_units::ClientId;

use super::book::{Session, Team};
use crate::error::{Error, Result};

const MOST_JOINED: usize = 1 << 16;

/// Clients that were cut off of which this is remembered.
const MOST_FENCED: usize = 1024;

#[derive(Default)]
pub(super) struct Clients {
    joined: HashMap<ClientId, Joined>,
    /// Mailboxes that were cut off and have not begun anew, the last one last.
    fenced: VecDeque<ClientId>,
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

    /// Cuts off a mailbox's client: the connections of its process.
    pub fn fence(&mut self, mailbox: ClientId) -> Vec<Session> {
        if self.fenced.len() == MOST_FENCED {
            self.fenced.pop_front();
        }
        self.fenced.push_back(mailbox);
        let relies = |joined: &&Joined| joined.mailbox == mailbox;
        self.joined.values().filter(relies).filter_map(|joined| joined.session).collect()
    }

    /// Whether somebody was cut off.
    pub fn has_fenced(&self) -> bool {
        !self.fenced.is_empty()
    }

    /// Whether the client is of a process that was cut off.
    pub fn is_fenced(&self, client: ClientId) -> bool {
        self.joined.get(&client).is_some_and(|joined| self.fenced.contains(&joined.mailbox))
    }

    /// A mailbox is made: after it was cut off only if its process has nothing left of before.
    pub fn begin(&mut self, mailbox: ClientId, anew: bool) -> Result<()> {
        if self.fenced.contains(&mailbox) && !anew {
            return Err(Error::LeaseLost);
        }
        self.fenced.retain(|fenced| *fenced != mailbox);
        Ok(())
    }
}
