//! Byte-range locks that clients hold during an access; atomic mode uses them.
//!
//! Each lock is a holder of its own in the lock manager, so that two accesses of one client exclude each other like those of two
//! clients. A client's locks end with its connection.
//!
//! A client that writes replicas holds a lock on them ([`REPLICA_LOCK_BIT`]). If the lock ends before the client reports that it has
//! written all of them, the replicas are [divergent](DivergentReplicas).

mod divergence_log;
pub(crate) mod divergent_replicas;
pub(crate) mod memory_losses;

use std::collections::HashMap;
use std::path::Path;

use pario_locks::{
    Grant, LockAction, LockCounters, LockExtent, LockManager, LockMode, LockRequest, LockTicket,
};
use pario_runtime::sync::Mutex;
use pario_types::{ClientId, FileId};
use pario_wire::message::{ByteRange, MAX_LOCK_RANGES, REPLICA_LOCK_BIT, RangeLockCounters};

use crate::error::{Error, Result};
use divergence_log::{DivergenceLog, ReplicaWrite};
use divergent_replicas::{DivergentExtents, DivergentReplicas};
use memory_losses::{FileLosses, MemoryLosses};

pub(crate) struct RangeLocks(Mutex<LockTable>);

struct LockTable {
    manager: LockManager<u64>,
    next: u64,
    locks: HashMap<u64, ClientLock>,
    divergent: DivergentReplicas,
    log: DivergenceLog,
    losses: MemoryLosses,
}

struct ClientLock {
    client: ClientId,
    file: FileId,
    granted: bool,
    /// The extents of replicas that the client writes under this lock.
    writes: Vec<LockExtent>,
}

impl RangeLocks {
    /// The locks of a server that keeps its data in this directory, and has lost its pool so often.
    pub fn open(directory: &Path, losses: MemoryLosses) -> RangeLocks {
        let (log, divergent) = DivergenceLog::open(directory);
        let (manager, locks) = (LockManager::new(1), HashMap::new());
        RangeLocks(Mutex::new(LockTable { manager, next: 1, locks, divergent, log, losses }))
    }

    /// Requests a lock and returns its number. [`RangeLocks::is_granted`] says when the client has it.
    pub fn request(&self, client: ClientId, file: FileId, range: ByteRange, exclusive: bool) -> Result<u64> {
        let extent = extent(&range)?;
        let mut table = self.0.lock();
        let number = table.add_lock(client, file);
        let requested = table.request_extent(number, file, extent, exclusive);
        if requested.is_err() {
            table.end(number);
        }
        requested.map(|_| number)
    }

    /// Takes one lock on several ranges, if all of them are free.
    pub fn try_lock(
        &self,
        client: ClientId,
        file: FileId,
        ranges: &[ByteRange],
        exclusive: bool,
    ) -> Result<u64> {
        let extents: Vec<LockExtent> = ranges.iter().map(extent).collect::<Result<_>>()?;
        let is_sorted = extents.is_sorted_by(|a, b| a.end() <= b.start());
        if !(1..=MAX_LOCK_RANGES).contains(&extents.len()) || !is_sorted {
            return Err(Error::BadRequest("ranges"));
        }
        let mut table = self.0.lock();
        let number = table.add_lock(client, file);
        for extent in &extents {
            match table.request_extent(number, file, *extent, exclusive) {
                Ok(true) => {}
                refused => {
                    table.end(number);
                    return refused.and(Err(Error::Locked));
                }
            }
        }
        if exclusive && file.0 & REPLICA_LOCK_BIT != 0 {
            // Before the client may write any of the replicas.
            let write = ReplicaWrite { file, client, extents: extents.clone() };
            if let Err(error) = table.log.begin(number, write) {
                table.end(number);
                return Err(Error::System("noting which replicas are written", error));
            }
            if let Some(lock) = table.locks.get_mut(&number) {
                lock.writes = extents;
            }
        }
        Ok(number)
    }

    /// Whether a lock is granted; an error if it does not exist any more.
    pub fn is_granted(&self, number: u64) -> Result<bool> {
        self.0.lock().locks.get(&number).map(|lock| lock.granted).ok_or(Error::NoLock)
    }

    /// Ends a client's lock. If it was on replicas, the client has written all of them.
    pub fn unlock(&self, client: ClientId, number: u64) -> Result<()> {
        let mut table = self.0.lock();
        let LockTable { locks, divergent, log, .. } = &mut *table;
        if pario_runtime::is_planted("lost-lock-not-told") && !locks.contains_key(&number) {
            return Ok(());
        }
        let lock = locks.get_mut(&number).filter(|lock| lock.client == client).ok_or(Error::NoLock)?;
        let writes = std::mem::take(&mut lock.writes);
        if !writes.is_empty() {
            divergent.repaired(lock.file, &writes);
            log.done(number, divergent);
        }
        table.end(number);
        Ok(())
    }

    /// Ends a lock of a client that could not write all replicas.
    pub fn mark_divergent(&self, client: ClientId, number: u64) -> Result<()> {
        let mut table = self.0.lock();
        table.locks.get(&number).filter(|lock| lock.client == client).ok_or(Error::NoLock)?;
        table.end(number);
        Ok(())
    }

    /// The extents of a file whose replicas may differ.
    pub fn divergent(&self, file: FileId) -> DivergentExtents {
        self.0.lock().divergent.of(file)
    }

    /// The losses of this server since which the replicas of a file were not compared.
    pub fn losses(&self, file: FileId) -> FileLosses {
        self.0.lock().losses.of(file)
    }

    /// A client has compared and equalised all replicas of a file after this loss.
    pub fn mark_equal(&self, file: FileId, losses: u64) {
        self.0.lock().losses.mark_equal(file, losses);
    }

    /// Forgets divergent replicas of a removed file.
    pub fn file_removed(&self, file: FileId) {
        let file = FileId(file.0 | REPLICA_LOCK_BIT);
        let mut table = self.0.lock();
        table.losses.forget(file);
        if table.divergent.of(file) != DivergentExtents::default() {
            table.divergent.forget(file);
            table.log.removed(file);
        }
    }

    /// The clients that hold locks on the file of this lock.
    pub fn holders_on_file_of(&self, number: u64) -> Vec<ClientId> {
        let table = self.0.lock();
        let Some(file) = table.locks.get(&number).map(|lock| lock.file) else { return Vec::new() };
        let others = table.locks.values().filter(|lock| lock.file == file && lock.granted);
        let mut clients: Vec<ClientId> = others.map(|lock| lock.client).collect();
        clients.sort();
        clients.dedup();
        clients
    }

    /// Cancels a request for a lock.
    pub fn cancel(&self, number: u64) {
        self.0.lock().end(number);
    }

    pub fn status(&self) -> RangeLockCounters {
        let LockCounters { requests, grants, conflicts, waits, .. } = self.0.lock().manager.counters();
        RangeLockCounters { requests, grants, conflicts, waits }
    }

    /// Ends the locks of a client whose connection has ended.
    pub fn client_left(&self, client: ClientId) {
        let mut table = self.0.lock();
        let own = |(number, lock): (&u64, &ClientLock)| (lock.client == client).then_some(*number);
        let numbers: Vec<u64> = table.locks.iter().filter_map(own).collect();
        if pario_runtime::is_planted("lock-outlives-client") {
            return;
        }
        numbers.into_iter().for_each(|number| table.end(number));
    }
}

#[cfg(pario_simulation)]
impl RangeLocks {
    /// Every holder in the lock manager is a lock of a client here.
    pub fn check_invariants(
        &self,
        depth: pario_runtime::simulation::invariants::Depth,
    ) -> Result<(), String> {
        let is_idle = depth == pario_runtime::simulation::invariants::Depth::Idle;
        let check = |table: &LockTable| {
            table.manager.check_invariants()?;
            if let Some(number) = table.manager.holders().find(|number| !table.locks.contains_key(number)) {
                return Err(format!("lock {number} holds bytes and does not exist"));
            }
            match table.locks.iter().next().filter(|_| is_idle) {
                None => Ok(()),
                Some((number, lock)) => Err(format!("lock {number} of {:?} outlives it", lock.client)),
            }
        };
        self.0.inspect(check).unwrap_or(Ok(()))
    }
}

fn extent(range: &ByteRange) -> Result<LockExtent> {
    let end = range.at.checked_add(range.len);
    end.and_then(|end| LockExtent::new(range.at, end)).ok_or(Error::BadRequest("ranges"))
}

impl LockTable {
    /// Adds a lock of a client, which covers nothing yet; its number.
    fn add_lock(&mut self, client: ClientId, file: FileId) -> u64 {
        let number = self.next;
        self.next += 1;
        self.locks.insert(number, ClientLock { client, file, granted: false, writes: Vec::new() });
        number
    }

    /// Requests another extent for a lock; whether it is granted at once.
    fn request_extent(
        &mut self,
        number: u64,
        file: FileId,
        extent: LockExtent,
        exclusive: bool,
    ) -> Result<bool> {
        let exclusive = exclusive && !pario_runtime::is_planted("lock-granted-twice");
        let mode = if exclusive { LockMode::Exclusive } else { LockMode::Shared };
        let ticket = LockTicket(number);
        let request = LockRequest { holder: number, ticket, file, extent, mode, grant: Grant::Exact };
        let actions = self.manager.request(request)?;
        self.apply(&actions);
        let is_own = |action: &LockAction<u64>| matches!(action, LockAction::Granted { holder, .. } if *holder == number);
        Ok(actions.iter().any(is_own))
    }

    /// Ends a lock. Replicas that were being written under it are divergent.
    fn end(&mut self, number: u64) {
        if let Some(lock) = self.locks.remove(&number) {
            if !lock.writes.is_empty() {
                self.divergent.add(lock.file, lock.client, &lock.writes);
                self.log.left(number);
            }
            let actions = self.manager.holder_gone(number);
            self.apply(&actions);
        }
    }

    fn apply(&mut self, actions: &[LockAction<u64>]) {
        for action in actions {
            match action {
                LockAction::Granted { holder, .. } => {
                    if let Some(lock) = self.locks.get_mut(holder) {
                        lock.granted = true;
                    }
                }
                LockAction::Refused { holder, .. } => {
                    self.locks.remove(holder);
                }
                // Only cached locks are revoked, and these are not cached.
                LockAction::Revoke { .. } => {}
            }
        }
    }
}
