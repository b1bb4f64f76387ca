//! Counts of the operations and faults so far, for progress messages.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard};

use super::fault::FaultKind;

/// Counters that all sessions share.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    sessions: u64,
    rounds: u64,
    calls: u64,
    bytes: u64,
    deaths: u64,
    refused: u64,
    faults: BTreeMap<String, u64>,
}

impl Tally {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A session begins.
    pub fn session(&self) {
        self.counts().sessions += 1;
    }

    /// A round was right.
    pub fn round(&self) {
        self.counts().rounds += 1;
    }

    /// Calls and bytes were right.
    pub fn judged(&self, calls: u64, bytes: u64) {
        let mut counts = self.counts();
        counts.calls += calls;
        counts.bytes += bytes;
    }

    /// A worker was killed.
    pub fn died(&self) {
        self.counts().deaths += 1;
    }

    /// `pario down` failed, and said why.
    pub fn refused(&self) {
        self.counts().refused += 1;
    }

    /// A fault happened.
    pub fn fault(&self, kind: FaultKind) {
        *self.counts().faults.entry(kind.to_string()).or_default() += 1;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.counts();
        let Counts { sessions, rounds, calls, bytes, deaths, refused, faults } = &*counts;
        let mib = bytes >> 20;
        write!(
            f,
            "{sessions} sessions, {rounds} rounds, {calls} calls and {mib} MiB judged; {deaths} clients killed"
        )?;
        faults.iter().try_for_each(|(kind, count)| write!(f, ", {kind} {count}"))?;
        write!(f, "; {refused} downs refused")
    }
}
