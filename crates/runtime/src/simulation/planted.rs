//! Bugs that are switched on one at a time, to see whether the simulation finds them.

use std::sync::OnceLock;

static PLANTED: OnceLock<String> = OnceLock::new();

/// Every planted bug and what it does wrong. The name stands in the code that it spoils.
pub const BUGS: &[(&str, &str)] = &[
    ("flush-forgets-concurrent-write", "a block that was written while it was stored counts as clean"),
    ("pin-without-check", "a client uses a slot without checking that it still has the block"),
    ("retired-write-accepted", "a write to a pool that the server gives up counts"),
    ("adopt-forgets-flushing", "a successor takes a block for clean whose flush a kill interrupted"),
    (
        "server-copies-first",
        "a server copies bytes into a block before it raises the end of the block and makes it dirty",
    ),
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
    ("lease-log-skipped", "the successor of a killed server knows no leases"),
    ("yield-before-staging", "a process gives up a lease before it has stored its bytes"),
    ("expired-lease-used", "a process uses leases although the server may have taken them"),
    ("fetch-overwrites-newer", "a block that was fetched replaces newer bytes in tier 1"),
    ("rename-without-journal", "a rename is acknowledged without a journal record"),
    ("request-done-twice", "a repeated request about names is executed again"),
    ("removed-while-open", "the bytes of a removed file go although a client has it open"),
    ("adopt-wrong-block", "a successor takes a slot for another block"),
    ("pin-cleared-early", "a client ends its pin before it has copied"),
    ("fill-not-dirty", "a block that a client filled counts as stored"),
    ("lock-granted-twice", "exclusive locks do not exclude each other"),
    ("lock-outlives-client", "the locks of a client that is gone stay"),
    ("lost-lock-not-told", "a client is not told that it lost a lock"),
    ("size-from-open", "a client takes the size at the open for the present one"),
    ("divergence-not-repaired", "an open does not repair divergent replicas"),
    ("unequal-replicas-read", "a client reads replicas of a server that lost its pool"),
    ("wrong-view", "a server uses another view than the one that a request names"),
    ("sync-without-blocks", "a sync does not bring the blocks of a part to the disk"),
    ("sync-without-names", "a sync does not bring the names of a part's files to the disk"),
    ("sync-without-checksums", "a sync does not bring the checksums of a part to the disk"),
    ("failed-sync-believed", "a sync after a failed one believes that the data is on the disk"),
    ("durable-block-overwritten", "a synced block is overwritten before its next version is on the disk"),
    ("checksum-not-compared", "a read does not compare blocks with their checksums"),
    ("journal-not-synced", "a sync does not bring the journal of names to the disk"),
    ("full-disk-ignored", "a block that found no room on the disk counts as stored"),
    ("own-name-not-synced", "the directory of a server may vanish with a loss of power"),
    ("loss-not-noticed", "a client does not notice that a server lost its pool"),
    ("down-forgets-pool", "`down` leaves the pool of a killed server as it is"),
    ("down-trusts-silence", "`down` takes a server that does not answer for one that has ended"),
    ("down-ignores-successor", "`down` does not notice that a supervisor has started another server"),
    ("registry-written-in-place", "the registry is written in place instead of being replaced"),
    ("partition-lock-dropped", "`up` and `down` do not exclude each other"),
    ("late-server-removes-successor", "a server that ends late removes the run directory of its successor"),
    ("served-before-registered", "servers are told to serve before the registry has them"),
    ("copy-resumes-after-gap", "a resumed copy leaves out what was not copied before the last byte"),
    ("copy-ignores-close", "a copy counts although the file could not be stored"),
    ("free-slot-stays-valid", "a slot of the pool that is freed still looks valid to a successor"),
    ("truncation-number-reused", "two truncations get the same number"),
    ("opens-without-journal", "an open for writing is acknowledged without a journal record"),
    ("check-lists-names-first", "`check --repair` takes the parts of new files for orphans"),
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
