//! Tier 1, the client cache: this process caches blocks of files in its own memory and writes them back later.
//!
//! An aggregator of an MPI program writes into blocks here ([`file`]) at the speed of memory. A *staging thread* ([`stage`])
//! writes dirty blocks back to the servers in the background. Leases ([`lease`]) protect the cached blocks: another client
//! that accesses them makes the server recall the lease first ([`mailbox`]), so it reads what was written last. All files of a
//! partition share one memory budget ([`memory_budget`]). [`state`] holds the whole state of the cache.
//!
//! The processes of one program are a *team*. Leases belong to the team, and the team agrees which of its processes uses which
//! block, so its processes do not have to talk to each other.
//!
//! Threads start at the first use and sleep when idle: the staging thread, and one thread for each server at which a team has
//! leases. They do not keep the process from ending.

mod fetch;
mod file;
#[cfg(any(test, pario_simulation))]
mod invariants;
mod lease;
mod mailbox;
mod memory_budget;
mod ranges;
mod server_io;
mod stage;
mod state;
mod team_io;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pario_runtime::sync::{Condvar, Mutex, MutexGuard};
use pario_runtime::time::Instant;
use pario_types::FileId;

use crate::error::{Error, Result};
use crate::file::File;

use server_io::ServerIo;
use state::{CachedFile, Key, State};
use team_io::{TeamConnections, TeamIo};

pub use file::TierFile;
pub use lease::Hold;

/// The options of tier 1. Memory, watermarks and the staging delay are those of the process: of memory the maximum over all
/// open files is used, of the others the last setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierOptions {
    /// Memory for blocks of all files: 64 MiB. At least two blocks.
    pub bytes: u64,
    /// Bytes of a block: whole stripes, or a stripe in equal parts. 0: the file's stripe.
    pub block: u64,
    /// Staging begins when more than this percentage of the memory is dirty: 50.
    pub high: u8,
    /// And ends at this one: 25.
    pub low: u8,
    /// A dirty block that was not modified for this time is staged in any case: 20 ms.
    pub settle: Duration,
}

impl Default for TierOptions {
    fn default() -> TierOptions {
        TierOptions { bytes: 64 << 20, block: 0, high: 50, low: 25, settle: Duration::from_millis(20) }
    }
}

/// Counters of tier 1 of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierCounters {
    /// Pieces of blocks that were accessed and cached (or, to be written, had memory).
    pub hits: u64,
    /// Pieces that were not cached.
    pub misses: u64,
    /// Pieces that were accessed at the servers, because others requested the block all the time; or read there, because
    /// the servers' caches are in memory of this host.
    pub direct: u64,
    /// Blocks written to servers.
    pub staged_blocks: u64,
    /// Bytes of them that were dirty.
    pub staged_bytes: u64,
    /// Blocks read from servers.
    pub fetched_blocks: u64,
    /// Requests for leases.
    pub leases: u64,
    /// Recalls of leases.
    pub recalls: u64,
    /// Nanoseconds in which writers waited for memory.
    pub waited_ns: u64,
    /// The peak memory of blocks.
    pub peak_bytes: u64,
}

/// Tier 1 of this process, for one partition.
pub struct Tier1 {
    shared: Arc<Shared>,
    teams: Mutex<BTreeMap<u128, Weak<TeamConnections>>>,
}

pub(super) struct Shared {
    state: Mutex<State>,
    /// Notified when anything changed for which a thread may wait.
    changed: Condvar,
    /// Notified when there may be blocks to stage.
    work: Condvar,
}

type Guard<'a> = MutexGuard<'a, State>;

impl Tier1 {
    pub(crate) fn new() -> Tier1 {
        Tier1 { shared: Shared::new(), teams: Mutex::default() }
    }

    /// Opens a file, which has to stay open until the result is dropped, in tier 1 of this process as a member of a team.
    pub fn open(&self, file: &File, team: u128, options: &TierOptions) -> Result<TierFile> {
        if file.layout().table().is_some() {
            return Err(Error::Options("a file that a plan places is not kept in tier 1"));
        }
        if !file.open().core.target().access.tier1 {
            return Err(Error::Options("its partition has tier 1 switched off"));
        }
        let members = {
            let mut teams = self.teams.lock();
            teams.retain(|_, team| team.strong_count() > 0);
            match teams.get(&team).and_then(Weak::upgrade) {
                Some(members) => members,
                None => {
                    let members = Arc::new(TeamConnections::new(&file.open().core, team)?);
                    teams.insert(team, Arc::downgrade(&members));
                    members
                }
            }
        };
        self.shared.open((team, file.id()), Arc::new(TeamIo::new(file, members)), options)
    }

    /// The team whose blocks of a file stayed after it was closed.
    pub fn retained(&self, file: FileId) -> Option<u128> {
        let state = self.shared.lock();
        let mut found = state.files.iter().filter(|((_, id), kept)| *id == file && kept.servers.is_none());
        found.next().map(|((team, _), _)| *team)
    }

    /// The counters so far.
    pub fn counters(&self) -> TierCounters {
        self.shared.lock().counters
    }
}

impl Drop for Tier1 {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.work.notify_all();
    }
}

impl std::fmt::Debug for Tier1 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tier1").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

impl Shared {
    pub fn new() -> Arc<Shared> {
        let state = Mutex::new(State::new(TierOptions::default()));
        let shared = Arc::new(Shared { state, changed: Condvar::new(), work: Condvar::new() });
        #[cfg(pario_simulation)]
        invariants::watch(&shared);
        shared
    }

    pub fn open(
        self: &Arc<Shared>,
        key: Key,
        servers: Arc<dyn ServerIo>,
        options: &TierOptions,
    ) -> Result<TierFile> {
        let stripe = servers.striping().stripe();
        let block = if options.block == 0 { stripe } else { options.block };
        if !block.is_multiple_of(stripe) && !stripe.is_multiple_of(block) {
            return Err(Error::Options("blocks of tier 1 are whole stripes, or a stripe in equal parts"));
        }
        if options.bytes / 2 < block {
            return Err(Error::Options("the memory of tier 1 has to hold two blocks"));
        }
        if options.low > options.high || options.high > 100 {
            return Err(Error::Options(
                "watermarks of tier 1 are percentages, the low one below the high one",
            ));
        }
        let mut state = self.lock();
        let known = state.files.get(&key);
        if known.is_some_and(|file| file.servers.is_some()) {
            return Err(Error::Options("this team has it open in tier 1 of this process already"));
        }
        // Blocks of another size were left by an earlier use, and are clean.
        if known.is_some_and(|file| file.block != block) {
            state.forget(key);
        }
        let is_used = state.files.values().any(|file| file.servers.is_some());
        let most = if is_used { state.limits.bytes } else { 0 };
        state.limits = TierOptions { bytes: options.bytes.max(most), block, ..*options };
        state.shrink();
        let file = state.files.entry(key).or_insert_with(|| CachedFile::new(&*servers, block));
        file.servers = Some(Arc::clone(&servers));
        (file.end, file.error, file.lost, file.paused) = (0, None, None, false);
        (file.staged, file.recalled) = (0, 0);
        if !state.has_staging_thread {
            let shared = Arc::clone(self);
            let run = move || stage::run(&shared);
            pario_runtime::thread::Builder::new()
                .name("pario-staging".into())
                .spawn(run)
                .map_err(Error::Thread)?;
            state.has_staging_thread = true;
        }
        Ok(TierFile::new(Arc::clone(self), key, block, servers))
    }

    pub fn lock(&self) -> Guard<'_> {
        self.state.lock()
    }

    /// Waits for a change, or for that time.
    fn wait<'a>(&'a self, state: Guard<'a>, most: Duration) -> Guard<'a> {
        let mut state = state;
        self.changed.wait_for(&mut state, most);
        state
    }

    /// Waits for a change that is certain: a thread that waits for a server returns.
    fn wait_for_ever<'a>(&'a self, state: Guard<'a>) -> Guard<'a> {
        let mut state = state;
        self.changed.wait(&mut state);
        state
    }

    /// Waits for a change; an error after the deadline.
    fn wait_until<'a>(
        &'a self,
        state: Guard<'a>,
        since: Instant,
        patience: Duration,
        key: Key,
    ) -> Result<Guard<'a>> {
        let waited = since.elapsed();
        if waited >= patience {
            return Err(Error::Contended { file: key.1, waited });
        }
        Ok(self.wait(state, patience - waited))
    }
}
