//! The server's side: who has which locks, who waits, who has to give way.
//!
//! Two things hold between calls, and every call restores them:
//! 1. every waiting request conflicts with a lock or with a request that came before it;
//! 2. every cached lock in whose idle part somebody waits is being revoked.
//!
//! What a call can change is small: extents that became free, requests that no longer wait, locks that are
//! new or have answered. Only requests that overlap those are looked at again, in the order in which they
//! came.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use pario_types::FileId;

use crate::counters::Counters;
use crate::error::Error;
use crate::extent::{Extent, Runs};
use crate::message::{Action, Grant, LockId, Mode, Release, Request, Ticket};
use crate::table::{Claim, Table};

/// How much one holder may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests that wait at the same time.
    pub waiting: usize,
    /// Locks, waiting requests included.
    pub locks: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { waiting: 1024, locks: 1 << 20 }
    }
}

/// The lock manager of a server: locks of many files for many holders.
#[derive(Clone, Debug)]
pub struct Manager<H> {
    unit: u64,
    limits: Limits,
    last_lock: u64,
    last_seq: u64,
    locks: BTreeMap<LockId, Lock<H>>,
    files: BTreeMap<FileId, File<H>>,
    holders: BTreeMap<H, Holder>,
    total: Counters,
}

#[derive(Clone, Debug)]
struct Lock<H> {
    file: FileId,
    claim: Claim<H>,
    /// What may have to be revoked.
    idle: Runs,
    /// What the holder releases by itself as soon as its operations end.
    owed: Runs,
    /// The bytes named in the revocation that is not answered yet.
    asked: Option<Extent>,
}

#[derive(Clone, Debug)]
struct File<H> {
    granted: Table<H>,
    waiting: Table<H>,
    locks: BTreeSet<LockId>,
    /// Waiting requests by the order in which they came.
    queue: BTreeMap<u64, Request<H>>,
    counters: Counters,
}

impl<H> Default for File<H> {
    fn default() -> File<H> {
        let (granted, waiting) = (Table::default(), Table::default());
        let (locks, queue) = (BTreeSet::new(), BTreeMap::new());
        File { granted, waiting, locks, queue, counters: Counters::default() }
    }
}

#[derive(Clone, Debug, Default)]
struct Holder {
    locks: BTreeSet<LockId>,
    /// Extents of its cached locks, by place; those of one mode do not overlap.
    cached: BTreeMap<(FileId, Mode), BTreeMap<u64, (u64, LockId)>>,
    waiting: BTreeMap<Ticket, (FileId, u64)>,
}

/// What a call changed in a file, and so may let others go on.
#[derive(Debug, Default)]
struct Changes {
    /// Waiting requests to look at.
    requests: BTreeSet<u64>,
    /// Locks that may have to be revoked.
    locks: BTreeSet<LockId>,
}

impl<H: Copy + Ord> Manager<H> {
    /// Cached extents begin and end at multiples of `unit`, which is not 0.
    pub fn new(unit: u64) -> Manager<H> {
        Manager::with_limits(unit, Limits::default())
    }

    /// As [`new`](Manager::new), with other limits.
    pub fn with_limits(unit: u64, limits: Limits) -> Manager<H> {
        assert!(unit > 0, "a lock unit of 0 bytes");
        Manager {
            unit,
            limits,
            last_lock: 0,
            last_seq: 0,
            locks: BTreeMap::new(),
            files: BTreeMap::new(),
            holders: BTreeMap::new(),
            total: Counters::default(),
        }
    }

    /// A holder wants a lock: it is granted at once, or the request waits and locks in its way are revoked.
    pub fn request(&mut self, request: Request<H>) -> Result<Vec<Action<H>>, Error> {
        self.admit(request, false)
    }

    /// As [`request`](Manager::request), for bytes that the holder [has](Manager::covers) in cached locks: it waits for
    /// nobody who waits, since those wait for this very holder, which may have to use the bytes to be able to give them up.
    pub fn request_own(&mut self, request: Request<H>) -> Result<Vec<Action<H>>, Error> {
        let own = self.covers(request.holder, request.file, request.extent, request.mode);
        self.admit(request, own)
    }

    fn admit(&mut self, mut request: Request<H>, own: bool) -> Result<Vec<Action<H>>, Error> {
        if request.grant == Grant::Largest {
            request.extent = request.extent.widened(self.unit);
        }
        let Request { holder, ticket, file, extent, .. } = request;
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

    /// A holder has given up bytes of a lock. A lock that is no more is no error: the messages have crossed.
    pub fn release(&mut self, holder: H, release: &Release) -> Result<Vec<Action<H>>, Error> {
        let id = release.lock;
        let Some(lock) = self.locks.get_mut(&id) else { return Ok(Vec::new()) };
        if lock.claim.holder != holder {
            return Err(Error::NotYours { lock: id });
        }
        let (file, claim) = (lock.file, lock.claim);
        let asked = if release.answer { lock.asked.take() } else { None };
        let freed: Vec<Extent> = release.gone.iter().flat_map(|&gone| self.take(id, gone)).collect();
        if let Some(asked) = asked {
            self.owe(id, asked);
        }
        let mut changes = Changes::default();
        self.freed(file, claim, &freed, &mut changes);
        changes.locks.insert(id);
        Ok(self.settle(file, changes))
    }

    /// A holder has no more use for a lock. A lock that is no more is no error.
    pub fn unlock(&mut self, holder: H, lock: LockId) -> Result<Vec<Action<H>>, Error> {
        let Some(file) = self.locks.get(&lock).map(|lock| lock.file) else { return Ok(Vec::new()) };
        self.release(holder, &Release { file, lock, gone: vec![Extent::ALL], answer: false })
    }

    /// A holder no longer waits for a request. If it is granted already, nothing happens: the holder gets to
    /// know.
    pub fn cancel(&mut self, holder: H, ticket: Ticket) -> Vec<Action<H>> {
        let place = self.holders.get(&holder).and_then(|known| known.waiting.get(&ticket));
        let Some(&(file, seq)) = place else { return Vec::new() };
        let mut changes = Changes::default();
        self.stop_waiting(file, seq, &mut changes);
        self.settle(file, changes)
    }

    /// A holder has died: its locks are free, its requests are forgotten.
    pub fn holder_gone(&mut self, holder: H) -> Vec<Action<H>> {
        let Some(known) = self.holders.get(&holder) else { return Vec::new() };
        let (locks, waiting) = (known.locks.clone(), known.waiting.clone());
        let mut changes: BTreeMap<FileId, Changes> = BTreeMap::new();
        for (file, seq) in waiting.into_values() {
            self.stop_waiting(file, seq, changes.entry(file).or_default());
        }
        for id in locks {
            let (file, claim) = (self.locks[&id].file, self.locks[&id].claim);
            let freed = self.take(id, Extent::ALL);
            self.freed(file, claim, &freed, changes.entry(file).or_default());
        }
        changes.into_iter().flat_map(|(file, changes)| self.settle(file, changes)).collect()
    }

    /// A file is no more: its locks and counters are forgotten, who waits for it is told. Also called for a
    /// file that nobody uses any longer, so that it takes no room here.
    pub fn file_gone(&mut self, file: FileId) -> Vec<Action<H>> {
        let Some(gone) = self.files.remove(&file) else { return Vec::new() };
        for id in gone.locks {
            let lock = self.locks.remove(&id).expect("the file has it");
            let known = self.holders.get_mut(&lock.claim.holder).expect("it has a lock");
            known.locks.remove(&id);
            known.cached.remove(&(file, lock.claim.mode));
            self.forget_if_idle(lock.claim.holder);
        }
        let refuse = |request: Request<H>| {
            let Request { holder, ticket, .. } = request;
            self.holders.get_mut(&holder).expect("it waits").waiting.remove(&ticket);
            self.forget_if_idle(holder);
            Action::Refused { holder, ticket, file }
        };
        gone.queue.into_values().map(refuse).collect()
    }

    /// Lock traffic of all files since the start.
    pub fn counters(&self) -> Counters {
        self.total
    }

    /// Lock traffic of a file since its first request.
    pub fn file_counters(&self, file: FileId) -> Counters {
        self.files.get(&file).map(|known| known.counters).unwrap_or_default()
    }

    /// How many locks there are.
    pub fn locks(&self) -> usize {
        self.locks.len()
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.holders.values().map(|known| known.waiting.len()).sum()
    }

    /// What a holder's cached locks of a file cover in this mode, in order; what it still owes is included.
    pub fn cached(&self, holder: H, file: FileId, mode: Mode) -> Vec<(Extent, LockId)> {
        let runs = self.holders.get(&holder).and_then(|known| known.cached.get(&(file, mode)));
        let runs = runs.into_iter().flatten();
        runs.filter_map(|(&start, &(end, lock))| Some((Extent::new(start, end)?, lock))).collect()
    }

    /// Whether a holder has all these bytes in cached locks, of which some may be about to be revoked.
    pub fn covers(&self, holder: H, file: FileId, extent: Extent, mode: Mode) -> bool {
        let Some(known) = self.holders.get(&holder) else { return false };
        let mut modes = [Mode::Shared, Mode::Exclusive].into_iter().filter(|&least| least >= mode);
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

    /// Whether nobody has a lock of the file or waits for one.
    pub fn is_idle(&self, file: FileId) -> bool {
        self.files.get(&file).is_none_or(|known| known.locks.is_empty() && known.queue.is_empty())
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        let used = |file: &File<H>| !file.locks.is_empty() || !file.queue.is_empty();
        self.locks.is_empty() && self.holders.is_empty() && !self.files.values().any(used)
    }

    fn count(&mut self, file: FileId, change: impl Fn(&mut Counters)) {
        change(&mut self.total);
        change(&mut self.files.entry(file).or_default().counters);
    }

    fn grant(&mut self, request: Request<H>) -> Action<H> {
        let Request { holder, ticket, file, mode, .. } = request;
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
        let mut idle = Runs::default();
        idle.insert(extent);
        self.locks.insert(id, Lock { file, claim, idle, owed: Runs::default(), asked: None });
        self.holders.entry(holder).or_default().locks.insert(id);
        self.files.entry(file).or_default().locks.insert(id);
        self.index(id, file, claim, extent);
        Action::Granted { holder, ticket, file, lock: id, extent, mode }
    }

    /// The largest extent around a request that no lock and no waiting request of others excludes.
    fn largest(&self, request: &Request<H>) -> Extent {
        let (claim, extent) = (request.claim(), request.extent);
        let Some(known) = self.files.get(&request.file) else { return Extent::ALL };
        let (low, high) = known.granted.room(claim, extent);
        let (low_waiting, high_waiting) = known.waiting.room(claim, extent);
        let low = low.max(low_waiting).next_multiple_of(self.unit);
        let high = match high.min(high_waiting) {
            u64::MAX => u64::MAX,
            high => high / self.unit * self.unit,
        };
        Extent::new(low.min(extent.start()), high.max(extent.end()))
            .expect("not less than what was asked for")
    }

    /// A new cached lock stands for the holder's older ones that allow no more, as far as it reaches.
    fn replace(&mut self, holder: H, file: FileId, mode: Mode, extent: Extent) {
        let Some(known) = self.holders.get(&holder) else { return };
        let mut old = Vec::new();
        for weaker in [Mode::Shared, Mode::Exclusive].into_iter().filter(|&weaker| weaker <= mode) {
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

    /// Takes bytes from a lock; returns what it had of them. A lock without bytes is no more.
    fn take(&mut self, id: LockId, gone: Extent) -> Vec<Extent> {
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

    /// The holder has answered: what it did not give up of these bytes it uses, and releases when it is done.
    fn owe(&mut self, id: LockId, asked: Extent) {
        let used = self.cut(id, asked, |lock| &mut lock.idle);
        let Some(lock) = self.locks.get_mut(&id) else { return };
        let (file, claim) = (lock.file, lock.claim);
        for run in used {
            self.locks.get_mut(&id).expect("just seen").owed.insert(run);
            self.index(id, file, claim, run);
        }
    }

    /// Cuts bytes out of a lock's runs and of all indexes; returns what it had of them.
    fn cut(&mut self, id: LockId, hole: Extent, runs: fn(&mut Lock<H>) -> &mut Runs) -> Vec<Extent> {
        let Some(lock) = self.locks.get_mut(&id) else { return Vec::new() };
        let (file, claim) = (lock.file, lock.claim);
        let touched: Vec<Extent> = runs(lock).touching(hole).collect();
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

    fn index(&mut self, id: LockId, file: FileId, claim: Claim<H>, run: Extent) {
        self.files.entry(file).or_default().granted.insert(claim, run, id.0);
        if claim.grant == Grant::Largest {
            let known = self.holders.entry(claim.holder).or_default();
            known.cached.entry((file, claim.mode)).or_default().insert(run.start(), (run.end(), id));
        }
    }

    fn unindex(&mut self, id: LockId, file: FileId, claim: Claim<H>, run: Extent) {
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

    /// Takes a request out of the queue. Those behind it are to be looked at.
    fn stop_waiting(&mut self, file: FileId, seq: u64, changes: &mut Changes) -> Request<H> {
        let known = self.files.get_mut(&file).expect("somebody waits for it");
        let request = known.queue.remove(&seq).expect("it waits");
        known.waiting.remove(request.claim(), request.extent, seq);
        changes.requests.remove(&seq);
        changes.requests.extend(known.waiting.all_excluding(request.claim(), request.extent));
        self.holders.get_mut(&request.holder).expect("it waits").waiting.remove(&request.ticket);
        self.forget_if_idle(request.holder);
        request
    }

    /// Requests that wait for extents that have become free are to be looked at.
    fn freed(&self, file: FileId, claim: Claim<H>, freed: &[Extent], changes: &mut Changes) {
        let known = self.files.get(&file).expect("it had a lock");
        changes.requests.extend(freed.iter().flat_map(|&extent| known.waiting.all_excluding(claim, extent)));
    }

    /// Grants what can be granted, in the order of the requests, then revokes what stands in somebody's way.
    fn settle(&mut self, file: FileId, mut changes: Changes) -> Vec<Action<H>> {
        let mut actions = Vec::new();
        while let Some(seq) = changes.requests.pop_first() {
            let known = self.files.get(&file).expect("somebody waits for it");
            let Some(&request) = known.queue.get(&seq) else { continue };
            if known.is_excluded(&request) || known.is_behind(&request, seq) {
                continue;
            }
            self.stop_waiting(file, seq, &mut changes);
            let granted = self.grant(request);
            if let Action::Granted { lock, .. } = granted {
                changes.locks.insert(lock);
            }
            actions.push(granted);
        }
        actions.extend(changes.locks.into_iter().filter_map(|lock| self.revoke(lock)));
        actions
    }

    /// Revokes a cached lock, if somebody waits for what is idle of it and it is not being revoked. The
    /// oldest request counts.
    fn revoke(&mut self, id: LockId) -> Option<Action<H>> {
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
        Some(Action::Revoke { holder, file, lock: id, wanted })
    }
}

impl<H: Copy + Ord> File<H> {
    fn is_excluded(&self, request: &Request<H>) -> bool {
        let found = self.granted.excluding(request.claim(), request.extent, |_| ControlFlow::Break(()));
        found.is_some()
    }

    /// Whether a request has to wait for one that came before `seq`.
    fn is_behind(&self, request: &Request<H>, seq: u64) -> bool {
        let found = self.waiting.excluding(request.claim(), request.extent, |entry| match entry.id < seq {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
        found.is_some()
    }
}
