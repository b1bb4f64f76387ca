//! How many connections a server accepts, so that unauthenticated peers cannot use up its descriptors.
//!
//! A connection that has not completed the handshake is *ungreeted*. The server accepts few of them; a new one replaces the oldest of
//! its kind (TCP or this host). A client completes the handshake within milliseconds, so it is not the oldest. Greeted connections may
//! use the descriptors that the limit leaves besides those for storage, and TCP connections three quarters of these: clients of this
//! host can always connect.

use std::collections::{HashSet, VecDeque};

/// The largest number of connections.
const MAX_CONNECTIONS: usize = 4096;

/// The descriptors that are not for connections: storage uses up to a half, and the server itself and its connections to other
/// servers use some.
const STORAGE_SHARE: usize = 2;
const RESERVED: usize = 64;

/// The largest number of ungreeted connections of each kind.
const MAX_UNGREETED: usize = 128;

/// The kind of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionKind {
    Local,
    Tcp,
}

/// Whether the server accepts a new connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Accepted,
    /// The server accepts it and ends this one.
    Replaces(u64),
    /// There are too many.
    Refused,
}

/// The connections of a server.
pub(crate) struct Admissions {
    most: usize,
    ungreeted: [VecDeque<u64>; 2],
    /// Greeted connections.
    tcp: HashSet<u64>,
    local: HashSet<u64>,
}

impl Admissions {
    /// For a process with this limit on descriptors.
    pub fn new(descriptors: usize) -> Admissions {
        let most =
            (descriptors - descriptors / STORAGE_SHARE).saturating_sub(RESERVED).clamp(16, MAX_CONNECTIONS);
        Admissions {
            most,
            ungreeted: [VecDeque::new(), VecDeque::new()],
            tcp: HashSet::new(),
            local: HashSet::new(),
        }
    }

    /// At most an eighth of all connections is ungreeted.
    fn max_ungreeted(&self) -> usize {
        (self.most / 8).clamp(1, MAX_UNGREETED)
    }

    pub fn arrived(&mut self, number: u64, kind: ConnectionKind) -> Admission {
        let max_greeted = self.most - 2 * self.max_ungreeted();
        let is_full = match kind {
            ConnectionKind::Local => self.tcp.len() + self.local.len() >= max_greeted,
            ConnectionKind::Tcp => {
                self.tcp.len() >= max_greeted / 4 * 3 || self.tcp.len() + self.local.len() >= max_greeted
            }
        };
        if is_full {
            return Admission::Refused;
        }
        let most = self.max_ungreeted();
        let waiting = &mut self.ungreeted[kind as usize];
        waiting.push_back(number);
        let oldest = if waiting.len() > most { waiting.pop_front() } else { None };
        oldest.map_or(Admission::Accepted, Admission::Replaces)
    }

    pub fn greeted(&mut self, number: u64, kind: ConnectionKind) {
        self.ungreeted[kind as usize].retain(|one| *one != number);
        match kind {
            ConnectionKind::Local => self.local.insert(number),
            ConnectionKind::Tcp => self.tcp.insert(number),
        };
    }

    /// Removes and returns the oldest ungreeted connection, TCP first.
    pub fn take_oldest_ungreeted(&mut self) -> Option<u64> {
        let [local, tcp] = &mut self.ungreeted;
        tcp.pop_front().or_else(|| local.pop_front())
    }

    pub fn ended(&mut self, number: u64) {
        if !(self.tcp.remove(&number) || self.local.remove(&number)) {
            self.ungreeted.iter_mut().for_each(|waiting| waiting.retain(|one| *one != number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ungreeted_connections_replace_only_each_other() {
        let mut admissions = Admissions::new(1024);
        let most = admissions.max_ungreeted() as u64;
        assert_eq!(admissions.arrived(0, ConnectionKind::Tcp), Admission::Accepted);
        admissions.greeted(0, ConnectionKind::Tcp);
        assert_eq!(admissions.arrived(1, ConnectionKind::Local), Admission::Accepted);
        for number in 2..2 + most {
            assert_eq!(admissions.arrived(number, ConnectionKind::Tcp), Admission::Accepted);
        }
        for number in 0..5000 {
            assert_eq!(
                admissions.arrived(100_000 + number, ConnectionKind::Tcp),
                Admission::Replaces(if number < most { 2 + number } else { 100_000 + number - most })
            );
        }
        admissions.ended(100_000 + 4999);
        assert_eq!(admissions.arrived(7, ConnectionKind::Tcp), Admission::Accepted);
    }

    #[test]
    fn clients_of_this_host_can_connect_when_others_cannot() {
        let mut admissions = Admissions::new(1024);
        let mut number = 0;
        while admissions.arrived(number, ConnectionKind::Tcp) != Admission::Refused {
            admissions.greeted(number, ConnectionKind::Tcp);
            number += 1;
        }
        let tcp = number;
        while admissions.arrived(number, ConnectionKind::Local) != Admission::Refused {
            admissions.greeted(number, ConnectionKind::Local);
            number += 1;
        }
        assert!(number - tcp >= tcp / 4 && number < 512, "{tcp} by TCP, {number} in all");
        admissions.ended(0);
        assert_eq!(admissions.arrived(number, ConnectionKind::Tcp), Admission::Accepted);
    }
}
