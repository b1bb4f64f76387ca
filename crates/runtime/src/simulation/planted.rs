//! Bugs that are switched on one at a time, to see whether the simulation finds them.

use std::sync::OnceLock;

static PLANTED: OnceLock<String> = OnceLock::new();

/// Every planted bug and what it does wrong. The name stands in the code that it spoils.
pub const BUGS: &[(&str, &str)] = &[
    ("flush-forgets-concurrent-write", "a block that was written while it was stored counts as clean"),
    ("pin-without-check", "a client uses a slot without checking that it still has the block"),
    ("retired-write-accepted", "a write to a pool that the server gives up counts"),
    ("adopt-forgets-flushing", "a successor takes a block for clean whose flush a kill interrupted"),
    ("dead-writer-forgotten", "a block that a dead client was writing counts as clean"),
    ("end-shrinks", "a write moves the end of a block back"),
    ("sync-without-flush", "a sync returns before dirty blocks are stored"),
    ("shutdown-without-store", "a server that ends removes its pool without storing it"),
    ("stale-truncate", "a truncation is applied although a later one was applied or fenced"),
    ("truncate-forgets-pool", "a truncation leaves the removed blocks in the pool"),
    ("failed-truncate-forgotten", "a client writes although its failed truncation may still be applied"),
    ("journal-skips-record", "a change of names is acknowledged without a journal record"),
    ("recall-skipped", "an access does not wait until other teams gave up their leases"),
    ("dropped-writes-forgotten", "a close does not cover the writes of dropped handles"),
    ("close-without-flush", "a close does not pass data to the storage"),
    ("loss-not-noticed", "a client does not notice that a server lost its pool"),
];

/// Switches a bug on, once per program.
pub fn plant(bug: &str) {
    PLANTED.set(bug.to_owned()).expect("one bug per program");
}

/// Whether this bug is switched on.
pub fn is_planted(bug: &str) -> bool {
    debug_assert!(BUGS.iter().any(|(name, _)| *name == bug), "unknown bug {bug}");
    PLANTED.get().is_some_and(|planted| planted == bug)
}
