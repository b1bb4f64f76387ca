//! The server's side: granted locks, waiting requests and revocations.
//!
//! Two invariants hold between calls:
//! 1. every waiting request conflicts with a lock or with an earlier request;
//! 2. every cached lock for whose idle part a request waits is being revoked.
//!
//! A call changes little: extents that became free, requests that no longer wait, locks that are new or have answered.
//! Only requests that overlap those are examined again, in order of arrival.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use pario_types::FileId;

use crate::conflict_index::{ConflictIndex, LockClaim};
use crate::counters::LockCounters;
use crate::error::Error;
use crate::extent::{ExtentSet, LockExtent};
use crate::message::{Grant, LockAction, LockId, LockMode, LockRelease, LockRequest, LockTicket};

/// The limits of one holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockLimits {
    /// Requests that wait at the same time.
    pub waiting: usize,
    /// Locks, waiting requests included.
    pub locks: usize,
}

impl Default for LockLimits {
    fn default() -> LockLimits {
        LockLimits { waiting: 1024, locks: 1 << 20 }
    }
}

/// The lock manager of a server: locks of many files for many holders.
#[derive(Clone, Debug)]
pub struct LockManager<H> {
    unit: u64,
    limits: LockLimits,
    last_lock: u64,
    last_seq: u64,
    pub(crate) locks: BTreeMap<LockId, GrantedLock<H>>,
    pub(crate) files: BTreeMap<FileId, FileLocks<H>>,
    pub(crate) holders: BTreeMap<H, HolderState>,
    total: LockCounters,
}

#[derive(Clone, Debug)]
pub(crate) struct GrantedLock<H> {
    pub(crate) file: FileId,
    pub(crate) claim: LockClaim<H>,
    /// Bytes that can be revoked.
    pub(crate) idle: ExtentSet,
    /// Bytes that the holder releases without a further message when its operations end.
    pub(crate) owed: ExtentSet,
    /// The bytes named in the revocation that is not answered yet.
    pub(crate) asked: Option<LockExtent>,
}

#[derive(Clone, Debug)]
pub(crate) struct FileLocks<H> {
    pub(crate) granted: ConflictIndex<H>,
    pub(crate) waiting: ConflictIndex<H>,
    pub(crate) locks: BTreeSet<LockId>,
    /// Waiting requests in order of arrival.
    pub(crate) queue: BTreeMap<u64, LockRequest<H>>,
    counters: LockCounters,
}

impl<H> Default for FileLocks<H> {
    fn default() -> FileLocks<H> {
        let (granted, waiting) = (ConflictIndex::default(), ConflictIndex::default());
        let (locks, queue) = (BTreeSet::new(), BTreeMap::new());
        FileLocks { granted, waiting, locks, queue, counters: LockCounters::default() }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct HolderState {
    pub(crate) locks: BTreeSet<LockId>,
    /// Extents of its cached locks by start; those of one mode do not overlap.
    pub(crate) cached: BTreeMap<(FileId, LockMode), BTreeMap<u64, (u64, LockId)>>,
    pub(crate) waiting: BTreeMap<LockTicket, (FileId, u64)>,
}

/// The changes of a call in one file, which may allow waiting requests to proceed.
#[derive(Debug, Default)]
struct Changes {
    /// Waiting requests to examine.
    requests: BTreeSet<u64>,
    /// Locks that may have to be revoked.
    locks: BTreeSet<LockId>,
}

impl<H: Copy + Ord> LockManager<H> {
    /// Cached extents begin and end at multiples of `unit`, which is not 0.
    pub fn new(unit: u64) -> LockManager<H> {
        LockManager::with_limits(unit, LockLimits::default())
    }

    /// As [`new`](LockManager::new), with other limits.
    pub fn with_limits(unit: u64, limits: LockLimits) -> LockManager<H> {
        assert!(unit > 0, "a lock unit of 0 bytes");
        LockManager {
            unit,
            limits,
            last_lock: 0,
            last_seq: 0,
            locks: BTreeMap::new(),
            files: BTreeMap::new(),
            holders: BTreeMap::new(),
            total: LockCounters::default(),
        }
    }

    /// Handles a request: it is granted at once, or it waits and conflicting cached locks are revoked.
    pub fn request(&mut self, request: LockRequest<H>) -> Result<Vec<LockAction<H>>, Error> {
        self.handle_request(request, false)
    }

    /// As [`request`](LockManager::request), for bytes that the holder [has](LockManager::covers) in cached locks. It does
    /// not wait for waiting requests: those wait for this holder, which may have to use the bytes before it can release
    /// them.
    pub fn request_own(&mut self, request: LockRequest<H>) -> Result<Vec<LockAction<H>>, Error> {
        let own = self.covers(request.holder, request.file, request.extent, request.mode);
        self.handle_request(request, own)
    }

    fn handle_request(
        &mut self,
        mut request: LockRequest<H>,
        own: bool,
    ) -> Result<Vec<LockAction<H>>, Error> {
        if request.grant == Grant::Largest {
            request.extent = request.extent.widened(self.unit);
        }
        let LockRequest { holder, ticket, file, extent, .. } = request;
        let claim = request.claim();
        let (locks, waiting) = match self.holders.get(&holder) {
            Some(known) if known.waiting.contains_key(&ticket) => return Err(Error::TicketInUse { ticket }),
            Some(known) => (known.locks.len(), known.waiting.len()),
            None => (0, 0),
        };
        if locks + waiting >= self.limits.locks {
            return Err(Error::TooManyLocks { file, most: self.limits.locks });
        }
        let (in_the_way, behind) = match self.files.get(&file) {
            Some(known) => {
                (known.granted.all_excluding(claim, extent), !own && known.is_behind(&request, u64::MAX))
            }
            None => (Vec::new(), false),
        };
        let blocked = behind || !in_the_way.is_empty();
        if blocked && waiting >= self.limits.waiting {
            return Err(Error::TooManyWaiting { file, most: self.limits.waiting });
        }
        self.count(file, |counters| {
            counters.requests += 1;
            counters.conflicts += in_the_way.len() as u64;
            counters.waits += u64::from(blocked);
        });
        if !blocked {
            return Ok(vec![self.grant(request)]);
        }
        self.last_seq += 1;
        let known = self.files.entry(file).or_default();
        known.queue.insert(self.last_seq, request);
        known.waiting.insert(claim, extent, self.last_seq);
        self.holders.entry(holder).or_default().waiting.insert(ticket, (file, self.last_seq));
        Ok(in_the_way.into_iter().filter_map(|lock| self.revoke(LockId(lock))).collect())
    }

    /// Handles a release. A lock that no longer exists is no error: the messages have crossed.
    pub fn release(&mut self, holder: H, release: &LockRelease) -> Result<Vec<LockAction<H>>, Error> {
        let id = release.lock;
        let Some(lock) = self.locks.get_mut(&id) else { return Ok(Vec::new()) };
        if lock.claim.holder != holder {
            return Err(Error::NotYours { lock: id });
        }
        let (file, claim) = (lock.file, lock.claim);
        let asked = if release.answer { lock.asked.take() } else { None };
        let freed: Vec<LockExtent> = release.gone.iter().flat_map(|&gone| self.take(id, gone)).collect();
        if let Some(asked) = asked {
            self.owe(id, asked);
        }
        let mut changes = Changes::default();
        self.freed(file, claim, &freed, &mut changes);
        changes.locks.insert(id);
        Ok(self.process_changes(file, changes))
    }

    /// Releases a whole lock. A lock that no longer exists is no error.
    pub fn unlock(&mut self, holder: H, lock: LockId) -> Result<Vec<LockAction<H>>, Error> {
        let Some(file) = self.locks.get(&lock).map(|lock| lock.file) else { return Ok(Vec::new()) };
        self.release(holder, &LockRelease { file, lock, gone: vec![LockExtent::ALL], answer: false })
    }

    /// Cancels a waiting request. If it is granted already, nothing happens: the holder receives the grant.
    pub fn cancel(&mut self, holder: H, ticket: LockTicket) -> Vec<LockAction<H>> {
        let place = self.holders.get(&holder).and_then(|known| known.waiting.get(&ticket));
        let Some(&(file, seq)) = place else { return Vec::new() };
        let mut changes = Changes::default();
        self.stop_waiting(file, seq, &mut changes);
        self.process_changes(file, changes)
    }

    /// Removes a holder that has died, with its locks and requests.
    pub fn holder_gone(&mut self, holder: H) -> Vec<LockAction<H>> {
        let Some(known) = self.holders.get(&holder) else { return Vec::new() };
        let (locks, waiting) = (known.locks.clone(), known.waiting.clone());
        let mut changes: BTreeMap<FileId, Changes> = BTreeMap::new();
        for (file, seq) in waiting.into_values() {
            self.stop_waiting(file, seq, changes.entry(file).or_default());
        }
        for id in locks {
            let (file, claim) = (self.locks[&id].file, self.locks[&id].claim);
            let freed = self.take(id, LockExtent::ALL);
            self.freed(file, claim, &freed, changes.entry(file).or_default());
        }
        changes.into_iter().flat_map(|(file, changes)| self.process_changes(file, changes)).collect()
    }

    /// Removes a file that no longer exists, with its locks and counters, and refuses its waiting requests. Also called for
    /// a file that is no longer used, to free memory.
    pub fn file_gone(&mut self, file: FileId) -> Vec<LockAction<H>> {
        let Some(gone) = self.files.remove(&file) else { return Vec::new() };
        for id in gone.locks {
            let lock = self.locks.remove(&id).expect("the file has it");
            let known = self.holders.get_mut(&lock.claim.holder).expect("it has a lock");
            known.locks.remove(&id);
            known.cached.remove(&(file, lock.claim.mode));
            self.forget_if_idle(lock.claim.holder);
        }
        let refuse = |request: LockRequest<H>| {
            let LockRequest { holder, ticket, .. } = request;
            self.holders.get_mut(&holder).expect("it waits").waiting.remove(&ticket);
            self.forget_if_idle(holder);
            LockAction::Refused { holder, ticket, file }
        };
        gone.queue.into_values().map(refuse).collect()
    }

    /// Lock traffic of all files since the start.
    pub fn counters(&self) -> LockCounters {
        self.total
    }

    /// Lock traffic of a file since its first request.
    pub fn file_counters(&self, file: FileId) -> LockCounters {
        self.files.get(&file).map(|known| known.counters).unwrap_or_default()
    }

    /// The number of locks.
    pub fn locks(&self) -> usize {
        self.locks.len()
    }

    /// The number of waiting requests.
    pub fn waiting(&self) -> usize {
        self.holders.values().map(|known| known.waiting.len()).sum()
    }

    /// The extents of a holder's cached locks of a file in this mode, in order, including those that it owes.
    pub fn cached(&self, holder: H, file: FileId, mode: LockMode) -> Vec<(LockExtent, LockId)> {
        let runs = self.holders.get(&holder).and_then(|known| known.cached.get(&(file, mode)));
        let runs = runs.into_iter().flatten();
        runs.filter_map(|(&start, &(end, lock))| Some((LockExtent::new(start, end)?, lock))).collect()
    }

    /// Whether a holder has all these bytes in cached locks, including locks that are being revoked.
    pub fn covers(&self, holder: H, file: FileId, extent: LockExtent, mode: LockMode) -> bool {
        let Some(known) = self.holders.get(&holder) else { return false };
        let mut modes = [LockMode::Shared, LockMode::Exclusive].into_iter().filter(|&least| least >= mode);
        modes.any(|mode| {
            let Some(runs) = known.cached.get(&(file, mode)) else { return false };
            let mut from = extent.start();
            while from < extent.end() {
                match runs.range(..=from).next_back() {
                    Some((_, &(end, _))) if end > from => from = end,
                    _ => return false,
                }
            }
            true
        })
    }

    /// Whether the file has no lock and no waiting request.
    pub fn is_idle(&self, file: FileId) -> bool {
        self.files.get(&file).is_none_or(|known| known.locks.is_empty() && known.queue.is_empty())
    }

    /// Whether no lock, no holder and no waiting request is recorded.
    pub fn is_empty(&self) -> bool {
        let used = |file: &FileLocks<H>| !file.locks.is_empty() || !file.queue.is_empty();
        self.locks.is_empty() && self.holders.is_empty() && !self.files.values().any(used)
    }

    fn count(&mut self, file: FileId, change: impl Fn(&mut LockCounters)) {
        change(&mut self.total);
        change(&mut self.files.entry(file).or_default().counters);
    }

    fn grant(&mut self, request: LockRequest<H>) -> LockAction<H> {
        let LockRequest { holder, ticket, file, mode, .. } = request;
        let claim = request.claim();
        let extent = match request.grant {
            Grant::Exact => request.extent,
            Grant::Largest => self.largest(&request),
        };
        if request.grant == Grant::Largest {
            self.replace(holder, file, mode, extent);
        }
        self.count(file, |counters| counters.grants += 1);
        self.last_lock += 1;
        let id = LockId(self.last_lock);
        let mut idle = ExtentSet::default();
        idle.insert(extent);
        self.locks.insert(id, GrantedLock { file, claim, idle, owed: ExtentSet::default(), asked: None });
        self.holders.entry(holder).or_default().locks.insert(id);
        self.files.entry(file).or_default().locks.insert(id);
        self.index(id, file, claim, extent);
        LockAction::Granted { holder, ticket, file, lock: id, extent, mode }
    }

    /// The largest extent around a request that no lock and no waiting request of another holder excludes.
    fn largest(&self, request: &LockRequest<H>) -> LockExtent {
        let (claim, extent) = (request.claim(), request.extent);
        let Some(known) = self.files.get(&request.file) else { return LockExtent::ALL };
        let (low, high) = known.granted.room(claim, extent);
        let (low_waiting, high_waiting) = known.waiting.room(claim, extent);
        let low = low.max(low_waiting).next_multiple_of(self.unit);
        let high = match high.min(high_waiting) {
            u64::MAX => u64::MAX,
            high => high / self.unit * self.unit,
        };
        LockExtent::new(low.min(extent.start()), high.max(extent.end()))
            .expect("not less than what was asked for")
    }

    /// Replaces, within the extent of a new cached lock, the holder's older cached locks of the same or a weaker mode.
    fn replace(&mut self, holder: H, file: FileId, mode: LockMode, extent: LockExtent) {
        let Some(known) = self.holders.get(&holder) else { return };
        let mut old = Vec::new();
        for weaker in [LockMode::Shared, LockMode::Exclusive].into_iter().filter(|&weaker| weaker <= mode) {
            let Some(runs) = known.cached.get(&(file, weaker)) else { continue };
            let before =
                runs.range(..extent.start()).next_back().filter(|&(_, &(end, _))| end > extent.start());
            old.extend(
                before.into_iter().chain(runs.range(extent.start()..extent.end())).map(|(_, run)| run.1),
            );
        }
        for lock in old {
            self.take(lock, extent);
        }
    }

    /// Removes bytes from a lock; returns those that it had. A lock without bytes is removed.
    fn take(&mut self, id: LockId, gone: LockExtent) -> Vec<LockExtent> {
        let mut taken = self.cut(id, gone, |lock| &mut lock.idle);
        taken.extend(self.cut(id, gone, |lock| &mut lock.owed));
        let Some(lock) = self.locks.get(&id) else { return taken };
        if lock.idle.is_empty() && lock.owed.is_empty() {
            let (file, holder) = (lock.file, lock.claim.holder);
            self.locks.remove(&id);
            self.files.get_mut(&file).expect("it had a lock").locks.remove(&id);
            self.holders.get_mut(&holder).expect("it had a lock").locks.remove(&id);
            self.forget_if_idle(holder);
        }
        taken
    }

    /// After an answer: marks those of the wanted bytes that the holder did not release as owed.
    fn owe(&mut self, id: LockId, asked: LockExtent) {
        let used = self.cut(id, asked, |lock| &mut lock.idle);
        let Some(lock) = self.locks.get_mut(&id) else { return };
        let (file, claim) = (lock.file, lock.claim);
        for run in used {
            self.locks.get_mut(&id).expect("just seen").owed.insert(run);
            self.index(id, file, claim, run);
        }
    }

    /// Cuts bytes out of a lock's runs and of all indexes; returns what it had of them.
    fn cut(
        &mut self,
        id: LockId,
        hole: LockExtent,
        runs: fn(&mut GrantedLock<H>) -> &mut ExtentSet,
    ) -> Vec<LockExtent> {
        let Some(lock) = self.locks.get_mut(&id) else { return Vec::new() };
        let (file, claim) = (lock.file, lock.claim);
        let touched: Vec<LockExtent> = runs(lock).touching(hole).collect();
        for &run in &touched {
            self.unindex(id, file, claim, run);
            let lock = self.locks.get_mut(&id).expect("just seen");
            runs(lock).remove(run);
            for rest in run.minus(hole) {
                runs(self.locks.get_mut(&id).expect("just seen")).insert(rest);
                self.index(id, file, claim, rest);
            }
        }
        touched.into_iter().filter_map(|run| run.and(hole)).collect()
    }

    fn index(&mut self, id: LockId, file: FileId, claim: LockClaim<H>, run: LockExtent) {
        self.files.entry(file).or_default().granted.insert(claim, run, id.0);
        if claim.grant == Grant::Largest {
            let known = self.holders.entry(claim.holder).or_default();
            known.cached.entry((file, claim.mode)).or_default().insert(run.start(), (run.end(), id));
        }
    }

    fn unindex(&mut self, id: LockId, file: FileId, claim: LockClaim<H>, run: LockExtent) {
        self.files.get_mut(&file).expect("it has a lock").granted.remove(claim, run, id.0);
        if claim.grant == Grant::Largest {
            let known = self.holders.get_mut(&claim.holder).expect("it has a lock");
            let runs = known.cached.get_mut(&(file, claim.mode)).expect("it has a cached lock");
            runs.remove(&run.start());
            if runs.is_empty() {
                known.cached.remove(&(file, claim.mode));
            }
        }
    }

    fn forget_if_idle(&mut self, holder: H) {
        if self.holders.get(&holder).is_some_and(|known| known.locks.is_empty() && known.waiting.is_empty()) {
            self.holders.remove(&holder);
        }
    }

    /// Removes a request from the queue and marks the requests that waited for it for examination.
    fn stop_waiting(&mut self, file: FileId, seq: u64, changes: &mut Changes) -> LockRequest<H> {
        let known = self.files.get_mut(&file).expect("somebody waits for it");
        let request = known.queue.remove(&seq).expect("it waits");
        known.waiting.remove(request.claim(), request.extent, seq);
        changes.requests.remove(&seq);
        changes.requests.extend(known.waiting.all_excluding(request.claim(), request.extent));
        self.holders.get_mut(&request.holder).expect("it waits").waiting.remove(&request.ticket);
        self.forget_if_idle(request.holder);
        request
    }

    /// Marks the requests that wait for freed extents for examination.
    fn freed(&self, file: FileId, claim: LockClaim<H>, freed: &[LockExtent], changes: &mut Changes) {
        let known = self.files.get(&file).expect("it had a lock");
        changes.requests.extend(freed.iter().flat_map(|&extent| known.waiting.all_excluding(claim, extent)));
    }

    /// Grants requests that can be granted, in order of arrival, then revokes cached locks that block others.
    fn process_changes(&mut self, file: FileId, mut changes: Changes) -> Vec<LockAction<H>> {
        let mut actions = Vec::new();
        while let Some(seq) = changes.requests.pop_first() {
            let known = self.files.get(&file).expect("somebody waits for it");
            let Some(&request) = known.queue.get(&seq) else { continue };
            if known.is_excluded(&request) || known.is_behind(&request, seq) {
                continue;
            }
            self.stop_waiting(file, seq, &mut changes);
            let granted = self.grant(request);
            if let LockAction::Granted { lock, .. } = granted {
                changes.locks.insert(lock);
            }
            actions.push(granted);
        }
        actions.extend(changes.locks.into_iter().filter_map(|lock| self.revoke(lock)));
        actions
    }

    /// Revokes a cached lock if a request waits for an idle part of it and no revocation is outstanding. The oldest such
    /// request determines the wanted bytes.
    fn revoke(&mut self, id: LockId) -> Option<LockAction<H>> {
        let lock = self.locks.get(&id)?;
        if lock.asked.is_some() || lock.claim.grant == Grant::Exact {
            return None;
        }
        let known = &self.files[&lock.file];
        let mut first = u64::MAX;
        for run in lock.idle.iter() {
            known.waiting.excluding::<()>(lock.claim, run, |entry| {
                first = first.min(entry.id);
                ControlFlow::Continue(())
            });
        }
        let wanted = known.queue.get(&first)?.extent;
        let (file, holder) = (lock.file, lock.claim.holder);
        self.locks.get_mut(&id)?.asked = Some(wanted.widened(self.unit));
        self.count(file, |counters| counters.revocations += 1);
        Some(LockAction::Revoke { holder, file, lock: id, wanted })
    }
}

impl<H: Copy + Ord> FileLocks<H> {
    pub(crate) fn is_excluded(&self, request: &LockRequest<H>) -> bool {
        let found = self.granted.excluding(request.claim(), request.extent, |_| ControlFlow::Break(()));
        found.is_some()
    }

    /// Whether a request has to wait for one that arrived before `seq`.
    pub(crate) fn is_behind(&self, request: &LockRequest<H>, seq: u64) -> bool {
        let found = self.waiting.excluding(request.claim(), request.extent, |entry| match entry.id < seq {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
        found.is_some()
    }
}
