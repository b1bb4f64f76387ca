//! What the successor of a killed server has to know about leases: which mailboxes there were, and what their teams had.
//!
//! A record says how one thing is from now on, as a line of text, numbers in hexadecimal:
//!
//! ```text
//! here CLIENT TEAM            a mailbox that is connected, or expected
//! away CLIENT TEAM            one that is not
//! gone CLIENT                 there is none
//! has TEAM FILE START-END …   all that the team has leased of the file
//! ```

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use pario_locks::{LockExtent, LockMode, LockRelease};
use pario_types::{ClientId, FileId};

use super::book::{Book, Holder, Team, Way};
use super::mailboxes::{Mailbox, Place};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    Here { client: ClientId, team: Team },
    Away { client: ClientId, team: Team },
    Gone { client: ClientId },
    Has { team: Team, file: FileId, extents: Vec<LockExtent> },
}

impl Display for Record {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Record::Here { client, team } => write!(f, "here {:x} {:x}", client.0, team.0),
            Record::Away { client, team } => write!(f, "away {:x} {:x}", client.0, team.0),
            Record::Gone { client } => write!(f, "gone {:x}", client.0),
            Record::Has { team, file, extents } => {
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
            ("here", Some(team)) if extents.is_empty() => Some(Record::Here { client, team: Team(team) }),
            ("away", Some(team)) if extents.is_empty() => Some(Record::Away { client, team: Team(team) }),
            ("gone", None) => Some(Record::Gone { client }),
            ("has", Some(file)) => {
                let file = FileId(u64::try_from(file).ok()?);
                Some(Record::Has { team: Team(first), file, extents })
            }
            _ => None,
        }
    }
}

impl Book {
    /// How everything is that has changed since this was last asked.
    pub fn take_records(&mut self) -> Vec<Record> {
        let changed = std::mem::take(&mut self.changed);
        let boxes = changed.mailboxes.into_iter().map(|client| match self.mailboxes.get(client) {
            Some(mailbox) => known(client, mailbox),
            None => Record::Gone { client },
        });
        boxes.chain(changed.leases.into_iter().map(|(team, file)| self.has(team, file))).collect()
    }

    /// How everything is.
    pub fn all_records(&self) -> Vec<Record> {
        let boxes = self.mailboxes.iter().map(|(client, mailbox)| known(client, mailbox));
        let teams = self.teams.iter();
        let files = teams.flat_map(|(team, members)| members.files.iter().map(|file| self.has(*team, *file)));
        boxes.chain(files).collect()
    }

    fn has(&self, team: Team, file: FileId) -> Record {
        let cached = self.manager.cached(Holder::Team(team), file, LockMode::Exclusive);
        Record::Has { team, file, extents: cached.into_iter().map(|(extent, _)| extent).collect() }
    }

    /// Goes on where a predecessor ended, of whom these are all records; the book is new. `false`: they contradict each
    /// other.
    pub fn restore(&mut self, records: impl IntoIterator<Item = Record>) -> bool {
        let mut boxes: BTreeMap<ClientId, (Team, bool)> = BTreeMap::new();
        let mut leases: BTreeMap<(Team, FileId), Vec<LockExtent>> = BTreeMap::new();
        for record in records {
            match record {
                Record::Here { client, team } => drop(boxes.insert(client, (team, true))),
                Record::Away { client, team } => drop(boxes.insert(client, (team, false))),
                Record::Gone { client } => drop(boxes.remove(&client)),
                Record::Has { team, file, extents } => drop(leases.insert((team, file), extents)),
            }
        }
        for (client, (team, was_here)) in boxes {
            let place = if was_here { Place::Expected } else { Place::Away(self.fresh()) };
            self.mailboxes.insert(client, team, place);
            self.teams.entry(team).or_default().mailboxes.insert(client);
        }
        let leases = leases.into_iter().filter(|((team, _), _)| self.teams.contains_key(team));
        let leases: Vec<_> = leases.filter(|(_, extents)| !extents.is_empty()).collect();
        leases.into_iter().all(|((team, file), extents)| self.restore_lease(team, file, &extents))
    }

    /// The manager grants as much as is free, of which the team gives up what it did not have.
    fn restore_lease(&mut self, team: Team, file: FileId, extents: &[LockExtent]) -> bool {
        let holder = Holder::Team(team);
        if self.leased.insert(file) {
            self.effects.guard.push(file);
        }
        for extent in extents {
            if self.manager.covers(holder, file, *extent, LockMode::Exclusive) {
                continue;
            }
            let Ok(tickets) = self.ask(holder, 0, file, &[*extent], Way::Lease) else { return false };
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
                self.manager.release(holder, &release).expect("its own");
            }
        }
        true
    }
}

fn known(client: ClientId, mailbox: &Mailbox) -> Record {
    let team = mailbox.team;
    match mailbox.place {
        _ if mailbox.is_ending => Record::Gone { client },
        Place::Here(_) | Place::Expected => Record::Here { client, team },
        Place::Away(_) => Record::Away { client, team },
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
            Record::Here { client, team },
            Record::Away { client, team },
            Record::Gone { client },
            Record::Has { team, file, extents },
            Record::Has { team, file, extents: Vec::new() },
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
