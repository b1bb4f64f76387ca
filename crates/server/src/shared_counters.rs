//! Numbers that clients share: what a file's shared pointer is made of where no memory is common to all.
//!
//! A number belongs to the client that set it first and ends with that client's connection. A change that is asked
//! for again, because its answer was lost, is not done again.

use std::collections::HashMap;
use std::sync::Mutex;

use pario_types::{ClientId, RequestId};
use pario_wire::message::CounterChange;

use crate::core::lock;
use crate::error::{Error, Result};

/// Most numbers, and most clients of all of them.
const MOST: usize = 4096;
const MOST_USERS: usize = 1 << 20;

#[derive(Default)]
pub(crate) struct SharedCounters(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    known: HashMap<u128, Tally>,
    users: usize,
}

struct Tally {
    value: u64,
    owner: ClientId,
    /// The last change of each client, and what was answered.
    last: HashMap<ClientId, (RequestId, u64)>,
}

impl SharedCounters {
    /// Changes a number; what it was before.
    pub fn change(&self, client: ClientId, id: RequestId, key: u128, change: CounterChange) -> Result<u64> {
        let mut inner = lock(&self.0);
        let Inner { known, users } = &mut *inner;
        let many = known.len() >= MOST;
        let tally = match (known.get_mut(&key), change) {
            (Some(tally), _) => tally,
            (None, CounterChange::Set(_)) if many => return Err(Error::TooMany("shared numbers")),
            (None, CounterChange::Set(_)) => {
                known.entry(key).or_insert(Tally { value: 0, owner: client, last: HashMap::new() })
            }
            (None, CounterChange::Drop) => return Ok(0),
            (None, CounterChange::Add(_)) => return Err(Error::NoCounter),
        };
        match tally.last.get(&client) {
            Some((done, before)) if *done == id => return Ok(*before),
            None if *users >= MOST_USERS => return Err(Error::TooMany("users of shared numbers")),
            _ => {}
        }
        let before = tally.value;
        match change {
            CounterChange::Set(value) => tally.value = value,
            CounterChange::Add(more) => tally.value = before.wrapping_add_signed(more),
            CounterChange::Drop => {
                inner.forget(|found, _| found == key);
                return Ok(before);
            }
        }
        *users += usize::from(tally.last.insert(client, (id, before)).is_none());
        Ok(before)
    }

    /// A client's connection has ended.
    pub fn left(&self, client: ClientId) {
        lock(&self.0).forget(|_, tally| tally.owner == client);
    }
}

impl Inner {
    fn forget(&mut self, which: impl Fn(u128, &Tally) -> bool) {
        self.known.retain(|key, tally| !which(*key, tally));
        self.users = self.known.values().map(|tally| tally.last.len()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: ClientId = ClientId(1);
    const OTHER: ClientId = ClientId(2);

    fn change(
        shared_counters: &SharedCounters,
        client: ClientId,
        id: u64,
        change: CounterChange,
    ) -> Option<u64> {
        match shared_counters.change(client, RequestId(id), 7, change) {
            Ok(before) => Some(before),
            Err(Error::NoCounter) => None,
            Err(e) => panic!("{e}"),
        }
    }

    #[test]
    fn a_change_is_done_once() {
        let shared_counters = SharedCounters::default();
        assert_eq!(change(&shared_counters, OTHER, 1, CounterChange::Add(5)), None);
        assert_eq!(change(&shared_counters, OWNER, 1, CounterChange::Set(10)), Some(0));
        assert_eq!(change(&shared_counters, OTHER, 2, CounterChange::Add(5)), Some(10));
        assert_eq!(change(&shared_counters, OTHER, 2, CounterChange::Add(5)), Some(10), "the same request");
        assert_eq!(change(&shared_counters, OTHER, 3, CounterChange::Add(-6)), Some(15));
        assert_eq!(change(&shared_counters, OWNER, 2, CounterChange::Add(0)), Some(9));
        assert_eq!(change(&shared_counters, OTHER, 4, CounterChange::Drop), Some(9));
        assert_eq!(change(&shared_counters, OTHER, 4, CounterChange::Drop), Some(0));
        assert_eq!(lock(&shared_counters.0).users, 0);
    }

    #[test]
    fn it_goes_with_who_set_it_first() {
        let shared_counters = SharedCounters::default();
        change(&shared_counters, OWNER, 1, CounterChange::Set(1));
        change(&shared_counters, OTHER, 1, CounterChange::Set(2));
        shared_counters.left(OTHER);
        assert_eq!(change(&shared_counters, OTHER, 2, CounterChange::Add(0)), Some(2));
        shared_counters.left(OWNER);
        assert_eq!(change(&shared_counters, OTHER, 3, CounterChange::Add(0)), None);
    }

    #[test]
    fn there_is_an_end_to_them() {
        let shared_counters = SharedCounters::default();
        for key in 0..MOST as u128 {
            shared_counters.change(OWNER, RequestId(1), key, CounterChange::Set(1)).expect("room");
        }
        let refused = shared_counters.change(OWNER, RequestId(1), u128::MAX, CounterChange::Set(1));
        assert!(matches!(refused, Err(Error::TooMany(_))));
        shared_counters.left(OWNER);
        assert_eq!(lock(&shared_counters.0).users, 0);
        assert_eq!(change(&shared_counters, OWNER, 2, CounterChange::Set(1)), Some(0));
    }
}
