//! How many connections a server takes, so that strangers cannot use up its descriptors.
//!
//! A connection that has not greeted is nobody's. There are few of them at a time; a new one ends the oldest of its kind, by
//! TCP or of this host. A client greets within milliseconds, so it is not the oldest. Connections that have greeted may use
//! what the limit on descriptors leaves besides those for storage, and those by TCP three quarters of that: clients of this
//! host always get in.

use std::collections::{HashSet, VecDeque};

/// Connections in all.
const MOST: usize = 4096;

/// Of a limit on descriptors, the parts that are not for connections: storage has up to a half, and some are used by the
/// server itself and by connections to other servers.
const STORAGE: usize = 2;
const OWN: usize = 64;

/// Connections that have not greeted, of each kind.
const MOST_UNGREETED: usize = 128;

/// How a connection got here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Local,
    Far,
}

/// What becomes of a new connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is taken.
    Taken,
    /// It is taken in the place of this one, which is to be ended.
    Instead(u64),
    /// There are too many.
    Refused,
}

/// The connections that there are.
pub(crate) struct Admissions {
    most: usize,
    ungreeted: [VecDeque<u64>; 2],
    /// Those by TCP that have greeted, and how many of this host have.
    far: HashSet<u64>,
    local: HashSet<u64>,
}

impl Admissions {
    /// For a process that may have so many descriptors.
    pub fn new(descriptors: usize) -> Admissions {
        let most = (descriptors - descriptors / STORAGE).saturating_sub(OWN).clamp(16, MOST);
        Admissions {
            most,
            ungreeted: [VecDeque::new(), VecDeque::new()],
            far: HashSet::new(),
            local: HashSet::new(),
        }
    }

    /// Connections that have not greeted are an eighth of all at most.
    fn most_ungreeted(&self) -> usize {
        (self.most / 8).clamp(1, MOST_UNGREETED)
    }

    pub fn come(&mut self, number: u64, kind: Kind) -> Admission {
        let room = self.most - 2 * self.most_ungreeted();
        let is_full = match kind {
            Kind::Local => self.far.len() + self.local.len() >= room,
            Kind::Far => self.far.len() >= room / 4 * 3 || self.far.len() + self.local.len() >= room,
        };
        if is_full {
            return Admission::Refused;
        }
        let most = self.most_ungreeted();
        let waiting = &mut self.ungreeted[kind as usize];
        waiting.push_back(number);
        let oldest = if waiting.len() > most { waiting.pop_front() } else { None };
        oldest.map_or(Admission::Taken, Admission::Instead)
    }

    pub fn greeted(&mut self, number: u64, kind: Kind) {
        self.ungreeted[kind as usize].retain(|one| *one != number);
        match kind {
            Kind::Local => self.local.insert(number),
            Kind::Far => self.far.insert(number),
        };
    }

    /// The oldest that has not greeted, by TCP first; it counts as ended.
    pub fn oldest_ungreeted(&mut self) -> Option<u64> {
        let [local, far] = &mut self.ungreeted;
        far.pop_front().or_else(|| local.pop_front())
    }

    pub fn left(&mut self, number: u64) {
        if !(self.far.remove(&number) || self.local.remove(&number)) {
            self.ungreeted.iter_mut().for_each(|waiting| waiting.retain(|one| *one != number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_replace_each_other_and_nobody_else() {
        let mut admissions = Admissions::new(1024);
        let most = admissions.most_ungreeted() as u64;
        assert_eq!(admissions.come(0, Kind::Far), Admission::Taken);
        admissions.greeted(0, Kind::Far);
        assert_eq!(admissions.come(1, Kind::Local), Admission::Taken);
        for number in 2..2 + most {
            assert_eq!(admissions.come(number, Kind::Far), Admission::Taken);
        }
        for number in 0..5000 {
            assert_eq!(
                admissions.come(100_000 + number, Kind::Far),
                Admission::Instead(if number < most { 2 + number } else { 100_000 + number - most })
            );
        }
        admissions.left(100_000 + 4999);
        assert_eq!(admissions.come(7, Kind::Far), Admission::Taken);
    }

    #[test]
    fn clients_of_this_host_get_in_when_those_of_others_do_not() {
        let mut admissions = Admissions::new(1024);
        let mut number = 0;
        while admissions.come(number, Kind::Far) != Admission::Refused {
            admissions.greeted(number, Kind::Far);
            number += 1;
        }
        let far = number;
        while admissions.come(number, Kind::Local) != Admission::Refused {
            admissions.greeted(number, Kind::Local);
            number += 1;
        }
        assert!(number - far >= far / 4 && number < 512, "{far} of others, {number} in all");
        admissions.left(0);
        assert_eq!(admissions.come(number, Kind::Far), Admission::Taken);
    }
}
