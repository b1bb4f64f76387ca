//! Counters of what happened in a run: calls, faults.

use std::collections::BTreeMap;

use super::scheduler;

/// The counters of a run by name.
pub type Counts = BTreeMap<String, u64>;

/// Counts one event. Names are of the form `group name`, for instance `fault kill`.
pub fn count(name: &str) {
    scheduler::with(|scheduler| add(&mut scheduler.counts, name, 1));
}

/// Adds to a counter.
pub fn add(counts: &mut Counts, name: &str, amount: u64) {
    match counts.get_mut(name) {
        Some(count) => *count += amount,
        None => drop(counts.insert(name.to_owned(), amount)),
    }
}
