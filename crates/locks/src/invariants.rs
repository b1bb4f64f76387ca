//! The invariants of a lock manager, which hold between two calls. Tests and simulations check it.

use std::fmt::Debug;
use std::ops::ControlFlow;

use pario_types::FileId;

use crate::extent::LockExtent;
use crate::manager::{FileLocks, GrantedLock, LockManager};
use crate::message::{Grant, LockId, LockMode};

impl<H: Copy + Ord + Debug> LockManager<H> {
    /// Checks that no two locks exclude each other, that requests wait only for a reason, and that all indexes agree.
    pub fn check_invariants(&self) -> Result<(), String> {
        self.locks.iter().try_for_each(|(id, lock)| self.check_lock(*id, lock))?;
        self.files.iter().try_for_each(|(file, known)| self.check_queue(*file, known))?;
        self.check_holders()
    }

    /// The holders that have locks or wait for some: for checks.
    pub fn holders(&self) -> impl Iterator<Item = H> {
        self.holders.keys().copied()
    }

    /// The holders that have cached locks, each with the file: for checks.
    pub fn cached_files(&self) -> impl Iterator<Item = (H, FileId)> {
        self.holders.iter().flat_map(|(holder, known)| known.cached.keys().map(|(file, _)| (*holder, *file)))
    }

    fn check_lock(&self, id: LockId, lock: &GrantedLock<H>) -> Result<(), String> {
        let wrong = |why: &str| Err(format!("{id:?} {why}: {lock:?}"));
        let Some(known) = self.files.get(&lock.file).filter(|known| known.locks.contains(&id)) else {
            return wrong("is not among the locks of its file");
        };
        if !self.holders.get(&lock.claim.holder).is_some_and(|holder| holder.locks.contains(&id)) {
            return wrong("is not among the locks of its holder");
        }
        if lock.idle.is_empty() && lock.owed.is_empty() {
            return wrong("has no bytes");
        }
        for run in lock.idle.iter().chain(lock.owed.iter()) {
            let rival = known.granted.excluding(lock.claim, run, |entry| match entry.id == id.0 {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(LockId(entry.id)),
            });
            if let Some(rival) = rival {
                return wrong(&format!("excludes {rival:?} {:?}", self.locks.get(&rival)));
            }
        }
        let is_wanted =
            |run: LockExtent| known.waiting.excluding(lock.claim, run, |_| ControlFlow::Break(())).is_some();
        if lock.claim.grant == Grant::Largest && lock.asked.is_none() && lock.idle.iter().any(is_wanted) {
            return wrong("keeps a request waiting and is not revoked");
        }
        Ok(())
    }

    fn check_queue(&self, file: FileId, known: &FileLocks<H>) -> Result<(), String> {
        if let Some(id) = known.locks.iter().find(|id| !self.locks.contains_key(id)) {
            return Err(format!("{file:?} has {id:?}, which does not exist"));
        }
        for (seq, request) in &known.queue {
            let wrong = |why: &str| Err(format!("request {seq} {why}: {request:?}"));
            let holder = self.holders.get(&request.holder);
            if holder.and_then(|holder| holder.waiting.get(&request.ticket)) != Some(&(file, *seq)) {
                return wrong("is not among those of its holder");
            }
            if !known.is_excluded(request) && !known.is_behind(request, *seq) {
                return wrong("waits for nothing");
            }
        }
        Ok(())
    }

    fn check_holders(&self) -> Result<(), String> {
        let queued: usize = self.files.values().map(|known| known.queue.len()).sum();
        if queued != self.waiting() {
            return Err(format!("{queued} requests are queued, but holders wait for {}", self.waiting()));
        }
        for (name, holder) in &self.holders {
            if holder.locks.is_empty() && holder.waiting.is_empty() {
                return Err(format!("{name:?} has no lock and waits for none"));
            }
            if let Some(id) = holder.locks.iter().find(|id| !self.locks.contains_key(id)) {
                return Err(format!("{name:?} has {id:?}, which does not exist"));
            }
            for ((file, mode), runs) in &holder.cached {
                let mut last = 0;
                for (start, (end, id)) in runs {
                    if *start < last || end <= start || !self.is_cached(*id, *file, *mode, *start..*end) {
                        return Err(format!(
                            "{name:?} has cached {runs:?} of {file:?}, not as its locks say"
                        ));
                    }
                    last = *end;
                }
            }
        }
        Ok(())
    }

    fn is_cached(&self, id: LockId, file: FileId, mode: LockMode, run: std::ops::Range<u64>) -> bool {
        self.locks.get(&id).is_some_and(|lock| {
            let is_run = |one: LockExtent| one.start() == run.start && one.end() == run.end;
            let has_run = lock.idle.iter().chain(lock.owed.iter()).any(is_run);
            (lock.file, lock.claim.mode, lock.claim.grant) == (file, mode, Grant::Largest) && has_run
        })
    }
}
