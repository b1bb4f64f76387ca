//! Counters that clients share: a file's shared pointer uses one where the ranks have no common memory.
//!
//! A counter belongs to the client that set it first and ends with that client's connection. A request that is repeated, because its
//! reply was lost, is executed once.

use std::collections::HashMap;

use pario_runtime::sync::Mutex;
use pario_types::{ClientId, RequestId};
use pario_wire::message::CounterChange;

use crate::error::{Error, Result};

/// The largest number of counters, and of clients of all of them.
const MAX_COUNTERS: usize = 4096;
const MAX_USERS: usize = 1 << 20;

#[derive(Default)]
pub(crate) struct SharedCounters(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    known: HashMap<u128, SharedCounter>,
    users: usize,
}

struct SharedCounter {
    value: u64,
    owner: ClientId,
    /// The last change of each client, and its result.
    last: HashMap<ClientId, (RequestId, u64)>,
}

impl SharedCounters {
    /// Changes a counter; its value before.
    pub fn change(&self, client: ClientId, id: RequestId, key: u128, change: CounterChange) -> Result<u64> {
        let mut inner = self.0.lock();
        let Inner { known, users } = &mut *inner;
        let many = known.len() >= MAX_COUNTERS;
        let counter = match (known.get_mut(&key), change) {
            (Some(counter), _) => counter,
            (None, CounterChange::Set(_)) if many => return Err(Error::TooMany("shared numbers")),
            (None, CounterChange::Set(_)) => {
                known.entry(key).or_insert(SharedCounter { value: 0, owner: client, last: HashMap::new() })
            }
            (None, CounterChange::Drop) => return Ok(0),
            (None, CounterChange::Add(_)) => return Err(Error::NoCounter),
        };
        match counter.last.get(&client) {
            Some((done, before)) if *done == id => return Ok(*before),
            None if *users >= MAX_USERS => return Err(Error::TooMany("users of shared numbers")),
            _ => {}
        }
        let before = counter.value;
        match change {
            CounterChange::Set(value) => counter.value = value,
            CounterChange::Add(more) => counter.value = before.wrapping_add_signed(more),
            CounterChange::Drop => {
                inner.remove_where(|found, _| found == key);
                return Ok(before);
            }
        }
        *users += usize::from(counter.last.insert(client, (id, before)).is_none());
        Ok(before)
    }

    /// Removes the counters of a client whose connection has ended.
    pub fn client_left(&self, client: ClientId) {
        self.0.lock().remove_where(|_, counter| counter.owner == client);
    }
}

impl Inner {
    fn remove_where(&mut self, which: impl Fn(u128, &SharedCounter) -> bool) {
        self.known.retain(|key, counter| !which(*key, counter));
        self.users = self.known.values().map(|counter| counter.last.len()).sum();
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
    fn a_repeated_request_changes_a_counter_once() {
        let shared_counters = SharedCounters::default();
        assert_eq!(change(&shared_counters, OTHER, 1, CounterChange::Add(5)), None);
        assert_eq!(change(&shared_counters, OWNER, 1, CounterChange::Set(10)), Some(0));
        assert_eq!(change(&shared_counters, OTHER, 2, CounterChange::Add(5)), Some(10));
        assert_eq!(change(&shared_counters, OTHER, 2, CounterChange::Add(5)), Some(10), "the same request");
        assert_eq!(change(&shared_counters, OTHER, 3, CounterChange::Add(-6)), Some(15));
        assert_eq!(change(&shared_counters, OWNER, 2, CounterChange::Add(0)), Some(9));
        assert_eq!(change(&shared_counters, OTHER, 4, CounterChange::Drop), Some(9));
        assert_eq!(change(&shared_counters, OTHER, 4, CounterChange::Drop), Some(0));
        assert_eq!(shared_counters.0.lock().users, 0);
    }

    #[test]
    fn a_counter_ends_with_the_client_that_set_it_first() {
        let shared_counters = SharedCounters::default();
        change(&shared_counters, OWNER, 1, CounterChange::Set(1));
        change(&shared_counters, OTHER, 1, CounterChange::Set(2));
        shared_counters.client_left(OTHER);
        assert_eq!(change(&shared_counters, OTHER, 2, CounterChange::Add(0)), Some(2));
        shared_counters.client_left(OWNER);
        assert_eq!(change(&shared_counters, OTHER, 3, CounterChange::Add(0)), None);
    }

    #[test]
    fn the_number_of_counters_is_limited() {
        let shared_counters = SharedCounters::default();
        for key in 0..MAX_COUNTERS as u128 {
            shared_counters.change(OWNER, RequestId(1), key, CounterChange::Set(1)).expect("room");
        }
        let refused = shared_counters.change(OWNER, RequestId(1), u128::MAX, CounterChange::Set(1));
        assert!(matches!(refused, Err(Error::TooMany(_))));
        shared_counters.client_left(OWNER);
        assert_eq!(shared_counters.0.lock().users, 0);
        assert_eq!(change(&shared_counters, OWNER, 2, CounterChange::Set(1)), Some(0));
    }
}
