//! Byte-range locks that clients take for the time of an access: what atomic mode is made of.
//!
//! Each lock is a holder of its own to the lock manager, so that two accesses of one client exclude each other like
//! those of two. A client's locks end with its connection.
//!
//! Those of copies ([`REPLICA_LOCK_BIT`]) are taken by who writes them. If one ends without that this is said to be done, the bytes
//! are [`DivergentReplicas`].

use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;

use pario_locks::{
    Grant, LockAction, LockCounters, LockExtent, LockManager, LockMode, LockRequest, LockTicket,
};
use pario_types::{ClientId, FileId};
use pario_wire::message::{ByteRange, MAX_LOCK_RANGES, REPLICA_LOCK_BIT, RangeLockCounters};

use crate::core::lock;
use crate::divergence_log::{DivergenceLog, ReplicaWrite};
use crate::divergent_replicas::{DivergentExtents, DivergentReplicas};
use crate::error::{Error, Result};

pub(crate) struct Locks(Mutex<Inner>);

struct Inner {
    manager: LockManager<u64>,
    next: u64,
    known: HashMap<u64, Known>,
    torn: DivergentReplicas,
    log: DivergenceLog,
}

struct Known {
    client: ClientId,
    file: FileId,
    granted: bool,
    /// Of copies that its client writes.
    writes: Vec<LockExtent>,
}

impl Locks {
    /// The locks of a server that keeps its data in this directory.
    pub fn open(directory: &Path) -> Locks {
        let (log, torn) = DivergenceLog::open(directory);
        Locks(Mutex::new(Inner { manager: LockManager::new(1), next: 1, known: HashMap::new(), torn, log }))
    }

    /// Asks for a lock; its number, by which to see whether it is granted.
    pub fn request(&self, client: ClientId, file: FileId, range: ByteRange, exclusive: bool) -> Result<u64> {
        let extent = extent(&range)?;
        let mut inner = lock(&self.0);
        let number = inner.number(client, file);
        let asked = inner.ask(number, file, extent, exclusive);
        if asked.is_err() {
            inner.end(number);
        }
        asked.map(|_| number)
    }

    /// Asks for one lock on several ranges, if all of them can be had at once.
    pub fn attempt(
        &self,
        client: ClientId,
        file: FileId,
        ranges: &[ByteRange],
        exclusive: bool,
    ) -> Result<u64> {
        let extents: Vec<LockExtent> = ranges.iter().map(extent).collect::<Result<_>>()?;
        let is_apart = extents.is_sorted_by(|a, b| a.end() <= b.start());
        if !(1..=MAX_LOCK_RANGES).contains(&extents.len()) || !is_apart {
            return Err(Error::BadRequest("ranges"));
        }
        let mut inner = lock(&self.0);
        let number = inner.number(client, file);
        for extent in &extents {
            match inner.ask(number, file, *extent, exclusive) {
                Ok(true) => {}
                refused => {
                    inner.end(number);
                    return refused.and(Err(Error::Locked));
                }
            }
        }
        if exclusive && file.0 & REPLICA_LOCK_BIT != 0 {
            // Before the client may write any of the replicas.
            let write = ReplicaWrite { file, client, extents: extents.clone() };
            if let Err(error) = inner.log.begin(number, write) {
                inner.end(number);
                return Err(Error::System("noting which replicas are written", error));
            }
            if let Some(known) = inner.known.get_mut(&number) {
                known.writes = extents;
            }
        }
        Ok(number)
    }

    /// Whether it is granted; an error if it is not there, because its file is gone.
    pub fn is_granted(&self, number: u64) -> Result<bool> {
        lock(&self.0).known.get(&number).map(|known| known.granted).ok_or(Error::NoLock)
    }

    /// A client has no more use for its lock.
    pub fn unlock(&self, client: ClientId, number: u64) -> Result<()> {
        let mut inner = lock(&self.0);
        let Inner { known, torn, log, .. } = &mut *inner;
        let known = known.get_mut(&number).filter(|known| known.client == client).ok_or(Error::NoLock)?;
        let writes = std::mem::take(&mut known.writes);
        if !writes.is_empty() {
            torn.repaired(known.file, &writes);
            log.done(number, torn);
        }
        inner.end(number);
        Ok(())
    }

    /// The same without having done what it was for.
    pub fn tear(&self, client: ClientId, number: u64) -> Result<()> {
        let mut inner = lock(&self.0);
        inner.known.get(&number).filter(|known| known.client == client).ok_or(Error::NoLock)?;
        inner.end(number);
        Ok(())
    }

    /// Of which copies the writers are gone.
    pub fn torn(&self, file: FileId) -> DivergentExtents {
        lock(&self.0).torn.of(file)
    }

    /// A file is removed.
    pub fn removed(&self, file: FileId) {
        let file = FileId(file.0 | REPLICA_LOCK_BIT);
        let mut inner = lock(&self.0);
        if inner.torn.of(file) != DivergentExtents::default() {
            inner.torn.forget(file);
            inner.log.removed(file);
        }
    }

    /// The clients that hold locks on the file of this one.
    pub fn in_the_way(&self, number: u64) -> Vec<ClientId> {
        let inner = lock(&self.0);
        let Some(file) = inner.known.get(&number).map(|known| known.file) else { return Vec::new() };
        let others = inner.known.iter().filter(|(_, known)| known.file == file && known.granted);
        let mut clients: Vec<ClientId> = others.map(|(_, known)| known.client).collect();
        clients.sort();
        clients.dedup();
        clients
    }

    /// Forgets a request that nobody waits for any more.
    pub fn cancel(&self, number: u64) {
        lock(&self.0).end(number);
    }

    pub fn status(&self) -> RangeLockCounters {
        let LockCounters { requests, grants, conflicts, waits, .. } = lock(&self.0).manager.counters();
        RangeLockCounters { requests, grants, conflicts, waits }
    }

    /// A client's connection has ended.
    pub fn left(&self, client: ClientId) {
        let mut inner = lock(&self.0);
        let locks: Vec<u64> = inner
            .known
            .iter()
            .filter(|(_, known)| known.client == client)
            .map(|(number, _)| *number)
            .collect();
        locks.into_iter().for_each(|number| inner.end(number));
    }
}

fn extent(range: &ByteRange) -> Result<LockExtent> {
    let end = range.at.checked_add(range.len);
    end.and_then(|end| LockExtent::new(range.at, end)).ok_or(Error::BadRequest("ranges"))
}

impl Inner {
    /// That of a new lock of a client, which covers nothing yet.
    fn number(&mut self, client: ClientId, file: FileId) -> u64 {
        let number = self.next;
        self.next += 1;
        self.known.insert(number, Known { client, file, granted: false, writes: Vec::new() });
        number
    }

    /// Asks for an extent more; whether the lock has it at once.
    fn ask(&mut self, number: u64, file: FileId, extent: LockExtent, exclusive: bool) -> Result<bool> {
        let mode = if exclusive { LockMode::Exclusive } else { LockMode::Shared };
        let ticket = LockTicket(number);
        let request = LockRequest { holder: number, ticket, file, extent, mode, grant: Grant::Exact };
        let actions = self.manager.request(request).map_err(Error::Locks)?;
        self.told(&actions);
        let is_mine = |action: &LockAction<u64>| matches!(action, LockAction::Granted { holder, .. } if *holder == number);
        Ok(actions.iter().any(is_mine))
    }

    fn end(&mut self, number: u64) {
        if let Some(known) = self.known.remove(&number) {
            if !known.writes.is_empty() {
                self.torn.add(known.file, known.client, &known.writes);
                self.log.left(number);
            }
            let actions = self.manager.holder_gone(number);
            self.told(&actions);
        }
    }

    fn told(&mut self, actions: &[LockAction<u64>]) {
        for action in actions {
            match action {
                LockAction::Granted { holder, .. } => {
                    if let Some(known) = self.known.get_mut(holder) {
                        known.granted = true;
                    }
                }
                LockAction::Refused { holder, .. } => {
                    self.known.remove(holder);
                }
                // Only what is cached is revoked, and nothing is.
                LockAction::Revoke { .. } => {}
            }
        }
    }
}
