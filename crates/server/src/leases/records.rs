//! What the successor of a killed server has to know: the mailboxes, and the leases of their teams.
//!
//! A record has the new state of a mailbox or of the leases on a file, as a line of text, numbers in hexadecimal:
//!
//! ```text
//! here CLIENT TEAM            a mailbox that is connected, or expected
//! away CLIENT TEAM            a mailbox that is disconnected
//! gone CLIENT                 the client has no mailbox
//! has TEAM FILE START-END …   all leases of the team on the file
//! ```

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use pario_locks::{LockExtent, LockMode, LockRelease};
use pario_types::{ClientId, FileId};

use super::lease_table::{Holder, LeaseTable, RequestOrder, Team};
use super::mailboxes::{Mailbox, MailboxState};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    Connected { client: ClientId, team: Team },
    Disconnected { client: ClientId, team: Team },
    Gone { client: ClientId },
    Leased { team: Team, file: FileId, extents: Vec<LockExtent> },
}

impl Display for Record {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Record::Connected { client, team } => write!(f, "here {:x} {:x}", client.0, team.0),
            Record::Disconnected { client, team } => write!(f, "away {:x} {:x}", client.0, team.0),
            Record::Gone { client } => write!(f, "gone {:x}", client.0),
            Record::Leased { team, file, extents } => {
                write!(f, "has {:x} {:x}", team.0, file.0)?;
                extents.iter().try_for_each(|extent| write!(f, " {:x}-{:x}", extent.start(), extent.end()))
            }
        }
    }
}

impl Record {
    pub fn parse(line: &str) -> Option<Record> {
        let mut words = line.split(' ');
        let kind = words.next()?;
        let first = u128::from_str_radix(words.next()?, 16).ok()?;
        let second = words.next().map(|word| u128::from_str_radix(word, 16));
        let second = second.transpose().ok()?;
        let extents = words.map(|word| {
            let (start, end) = word.split_once('-')?;
            LockExtent::new(u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?)
        });
        let extents: Vec<LockExtent> = extents.collect::<Option<_>>()?;
        let client = ClientId(first);
        match (kind, second) {
            ("here", Some(team)) if extents.is_empty() => {
                Some(Record::Connected { client, team: Team(team) })
            }
            ("away", Some(team)) if extents.is_empty() => {
                Some(Record::Disconnected { client, team: Team(team) })
            }
            ("gone", None) => Some(Record::Gone { client }),
            ("has", Some(file)) => {
                let file = FileId(u64::try_from(file).ok()?);
                Some(Record::Leased { team: Team(first), file, extents })
            }
            _ => None,
        }
    }
}

impl LeaseTable {
    /// The records of all changes since the last call.
    pub fn take_records(&mut self) -> Vec<Record> {
        let changed = std::mem::take(&mut self.changed);
        let boxes = changed.mailboxes.into_iter().map(|client| match self.mailboxes.get(client) {
            Some(mailbox) => mailbox_record(client, mailbox),
            None => Record::Gone { client },
        });
        boxes.chain(changed.leases.into_iter().map(|(team, file)| self.lease_record(team, file))).collect()
    }

    /// The records of the whole table.
    pub fn all_records(&self) -> Vec<Record> {
        let boxes = self.mailboxes.iter().map(|(client, mailbox)| mailbox_record(client, mailbox));
        let teams = self.teams.iter();
        let files = teams
            .flat_map(|(team, members)| members.files.iter().map(|file| self.lease_record(*team, *file)));
        boxes.chain(files).collect()
    }

    fn lease_record(&self, team: Team, file: FileId) -> Record {
        let cached = self.manager.cached(Holder::Team(team), file, LockMode::Exclusive);
        Record::Leased { team, file, extents: cached.into_iter().map(|(extent, _)| extent).collect() }
    }

    /// Restores an empty table from all records of a predecessor. `false`: the records contradict each other.
    pub fn restore(&mut self, records: impl IntoIterator<Item = Record>) -> bool {
        let mut boxes: BTreeMap<ClientId, (Team, bool)> = BTreeMap::new();
        let mut leases: BTreeMap<(Team, FileId), Vec<LockExtent>> = BTreeMap::new();
        for record in records {
            match record {
                Record::Connected { client, team } => drop(boxes.insert(client, (team, true))),
                Record::Disconnected { client, team } => drop(boxes.insert(client, (team, false))),
                Record::Gone { client } => drop(boxes.remove(&client)),
                Record::Leased { team, file, extents } => drop(leases.insert((team, file), extents)),
            }
        }
        for (client, (team, was_connected)) in boxes {
            let state = if was_connected {
                MailboxState::Expected
            } else {
                MailboxState::Disconnected(self.next_number())
            };
            self.mailboxes.insert(client, team, state);
            self.teams.entry(team).or_default().mailboxes.insert(client);
        }
        let leases = leases.into_iter().filter(|((team, _), _)| self.teams.contains_key(team));
        let leases: Vec<_> = leases.filter(|(_, extents)| !extents.is_empty()).collect();
        leases.into_iter().all(|((team, file), extents)| self.restore_lease(team, file, &extents))
    }

    /// Restores the leases of a team on a file. The manager grants as much as is free; the team releases what it did not have.
    fn restore_lease(&mut self, team: Team, file: FileId, extents: &[LockExtent]) -> bool {
        let holder = Holder::Team(team);
        if self.leased.insert(file) {
            self.effects.close.push(file);
        }
        for extent in extents {
            if self.manager.covers(holder, file, *extent, LockMode::Exclusive) {
                continue;
            }
            let Ok(tickets) = self.request_locks(holder, 0, file, &[*extent], RequestOrder::Lease) else {
                return false;
            };
            let is_granted = self.is_granted(&tickets);
            self.end(&tickets);
            if !is_granted {
                return false;
            }
            for (run, lock) in self.manager.cached(holder, file, LockMode::Exclusive) {
                let without = |rest: Vec<LockExtent>, own: &LockExtent| {
                    rest.into_iter().flat_map(|rest| rest.minus(*own)).collect()
                };
                let gone: Vec<LockExtent> = extents.iter().fold(vec![run], without);
                let release = LockRelease { file, lock, gone, answer: false };
                self.manager.release(holder, &release).expect("the team holds it");
            }
        }
        true
    }
}

fn mailbox_record(client: ClientId, mailbox: &Mailbox) -> Record {
    let team = mailbox.team;
    match mailbox.state {
        _ if mailbox.is_ending => Record::Gone { client },
        MailboxState::Connected(_) | MailboxState::Expected => Record::Connected { client, team },
        MailboxState::Disconnected(_) => Record::Disconnected { client, team },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let (client, team, file) = (ClientId(u128::MAX), Team(0xc0de), FileId(u64::MAX));
        let extents =
            [(0, 16), (32, u64::MAX)].map(|(start, end)| LockExtent::new(start, end).unwrap()).to_vec();
        for record in [
            Record::Connected { client, team },
            Record::Disconnected { client, team },
            Record::Gone { client },
            Record::Leased { team, file, extents },
            Record::Leased { team, file, extents: Vec::new() },
        ] {
            assert_eq!(Record::parse(&record.to_string()), Some(record));
        }
        for bad in [
            "",
            "here",
            "here 1",
            "here 1 2 0-1",
            "gone 1 2",
            "has 1 2 3",
            "has 1 2 4-3",
            "was 1 2",
            "here x 1",
        ] {
            assert_eq!(Record::parse(bad), None, "{bad}");
        }
    }
}
