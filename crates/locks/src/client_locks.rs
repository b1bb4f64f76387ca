//! The client's side: the cached locks of one manager, their use by operations, and their release.
//!
//! An operation [`begin`](ClientLocks::begin)s, uses its bytes, and [`end`](ClientLocks::end)s. If the cached locks cover
//! it, it begins at once; otherwise a request goes to the manager, and the operation begins when it is granted. Bytes in
//! use are not released before the operation ends; a new operation does not use bytes that the manager has revoked.

use std::collections::{BTreeMap, BTreeSet};

use pario_types::FileId;

use crate::extent::{ExtentSet, LockExtent, without};
use crate::message::{LockId, LockMode, LockRelease, LockTicket};

/// The result of beginning an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeginOutcome {
    /// It has begun; the ticket identifies it until it ends.
    Now(LockTicket),
    /// Send a request for a lock ([`Grant::Largest`](crate::Grant::Largest)) with this ticket; the operation
    /// begins when it is granted.
    Ask(LockTicket),
}

/// A client's cached locks of one manager.
#[derive(Clone, Debug)]
pub struct ClientLocks {
    unit: u64,
    last_ticket: u64,
    locks: BTreeMap<LockId, CachedLock>,
    /// Extents that operations may use, by start; extents of one mode do not overlap.
    usable: BTreeMap<(FileId, LockMode), BTreeMap<u64, (u64, LockId)>>,
    /// The locks of each file with owed bytes.
    owing: BTreeMap<FileId, BTreeSet<LockId>>,
    /// Operations in progress, and the bytes they use.
    running: BTreeMap<(FileId, LockTicket), LockExtent>,
    files: BTreeMap<LockTicket, FileId>,
    /// Operations that wait for a lock.
    asking: BTreeMap<LockTicket, (FileId, LockExtent)>,
}

#[derive(Clone, Debug)]
struct CachedLock {
    file: FileId,
    mode: LockMode,
    /// The bytes of the latest operation.
    latest: LockExtent,
    usable: ExtentSet,
    /// Revoked, but still in use.
    owed: ExtentSet,
}

impl ClientLocks {
    /// Holds nothing yet. The manager has the same `unit`, which is not 0.
    pub fn new(unit: u64) -> ClientLocks {
        assert!(unit > 0, "a lock unit of 0 bytes");
        ClientLocks {
            unit,
            last_ticket: 0,
            locks: BTreeMap::new(),
            usable: BTreeMap::new(),
            owing: BTreeMap::new(),
            running: BTreeMap::new(),
            files: BTreeMap::new(),
            asking: BTreeMap::new(),
        }
    }

    /// Whether an operation on these bytes could begin without a message.
    pub fn covers(&self, file: FileId, extent: LockExtent, mode: LockMode) -> bool {
        self.covering(file, extent, mode).is_some()
    }

    /// Begins an operation on these bytes.
    pub fn begin(&mut self, file: FileId, extent: LockExtent, mode: LockMode) -> BeginOutcome {
        self.last_ticket += 1;
        let ticket = LockTicket(self.last_ticket);
        match self.covering(file, extent, mode) {
            Some(locks) => {
                for lock in locks {
                    self.locks.get_mut(&lock).expect("its extents are usable").latest = extent;
                }
                self.run(file, ticket, extent);
                BeginOutcome::Now(ticket)
            }
            None => {
                self.asking.insert(ticket, (file, extent));
                BeginOutcome::Ask(ticket)
            }
        }
    }

    /// Handles a grant. True: the operation with this ticket has begun. False: the operation was cancelled; the lock stays
    /// for other operations.
    pub fn granted(
        &mut self,
        ticket: LockTicket,
        file: FileId,
        lock: LockId,
        extent: LockExtent,
        mode: LockMode,
    ) -> bool {
        self.replace(file, mode, extent);
        let asked = self.asking.remove(&ticket);
        let latest = asked.map_or(extent, |(_, asked)| asked);
        let mut usable = ExtentSet::default();
        usable.insert(extent);
        self.locks.insert(lock, CachedLock { file, mode, latest, usable, owed: ExtentSet::default() });
        self.index(lock, file, mode, extent);
        if asked.is_some() {
            self.run(file, ticket, latest);
        }
        asked.is_some()
    }

    /// Ends an operation, or cancels a waiting one; for the latter the caller also tells the manager. Returns the releases
    /// of owed bytes: flush these bytes, then send the releases.
    pub fn end(&mut self, ticket: LockTicket) -> Vec<LockRelease> {
        self.asking.remove(&ticket);
        let Some(file) = self.files.remove(&ticket) else { return Vec::new() };
        let used = self.running.remove(&(file, ticket)).expect("it runs").widened(self.unit);
        let owing = self.owing.get(&file).cloned().unwrap_or_default();
        owing.into_iter().filter_map(|lock| self.release_owed(lock, used)).collect()
    }

    /// Handles a revocation. Flush the bytes that the answer releases, then send it. `None` if nothing of the lock is left:
    /// the manager knows that, or a release is on its way.
    pub fn revoke(&mut self, id: LockId, wanted: LockExtent) -> Option<LockRelease> {
        let wanted = wanted.widened(self.unit);
        let lock = self.locks.get(&id)?;
        let keep = kept(lock.latest.widened(self.unit), wanted);
        self.answer(id, wanted, |run| match keep {
            Some(keep) => run.minus(keep).collect(),
            None => vec![run],
        })
    }

    /// As [`revoke`](ClientLocks::revoke), but the holder itself chooses the bytes to release; they include all wanted ones.
    pub fn release_range(&mut self, id: LockId, gone: LockExtent) -> Option<LockRelease> {
        let gone = gone.widened(self.unit);
        self.answer(id, gone, |run| run.and(gone).into_iter().collect())
    }

    /// Releases the part of each extent of a lock that `given` returns. Wanted bytes in use become owed.
    fn answer(
        &mut self,
        id: LockId,
        wanted: LockExtent,
        given: impl Fn(LockExtent) -> Vec<LockExtent>,
    ) -> Option<LockRelease> {
        let lock = self.locks.get(&id)?;
        let file = lock.file;
        let runs: Vec<LockExtent> = lock.usable.iter().collect();
        let in_use = self.in_use(file);
        let mut gone = Vec::new();
        for run in runs {
            let mut free = given(run);
            for &used in &in_use {
                for owed in within(&free, used).filter_map(|part| part.and(wanted)) {
                    self.cut_usable(id, owed);
                    self.owe(id, owed);
                }
                free = without(free, used);
            }
            gone.extend(free);
        }
        for &extent in &gone {
            self.cut_usable(id, extent);
        }
        self.drop_if_empty(id);
        Some(LockRelease { file, lock: id, gone, answer: true })
    }

    /// Releases all bytes of a file that are not in use: flush them, then send the releases.
    pub fn release_unused(&mut self, file: FileId) -> Vec<LockRelease> {
        let locks = [LockMode::Shared, LockMode::Exclusive]
            .into_iter()
            .filter_map(|mode| self.usable.get(&(file, mode)));
        let ids: BTreeSet<LockId> = locks.flat_map(|runs| runs.values().map(|run| run.1)).collect();
        ids.into_iter().filter_map(|id| self.release_lock(id)).collect()
    }

    /// Releases locks, the oldest first, until at most `most` are left or the others are in use.
    pub fn trim(&mut self, most: usize) -> Vec<LockRelease> {
        let ids: Vec<LockId> = self.locks.keys().copied().collect();
        let mut releases = Vec::new();
        for id in ids {
            if self.locks.len() <= most {
                break;
            }
            let lock = &self.locks[&id];
            let in_use = self.in_use(lock.file);
            if lock.owed.is_empty() && !in_use.iter().any(|&used| lock.usable.overlaps(used)) {
                releases.extend(self.release_lock(id));
            }
        }
        releases
    }

    /// The number of locks.
    pub fn locks(&self) -> usize {
        self.locks.len()
    }

    /// Operations that have begun and not ended.
    pub fn running(&self) -> impl Iterator<Item = (FileId, LockTicket, LockExtent)> + '_ {
        self.running.iter().map(|(&(file, ticket), &extent)| (file, ticket, extent))
    }

    /// The extents that a new operation may use without a message, in order.
    pub fn usable(&self, file: FileId, mode: LockMode) -> Vec<(LockExtent, LockId)> {
        let runs = self.usable.get(&(file, mode)).into_iter().flatten();
        runs.filter_map(|(&start, &(end, lock))| Some((LockExtent::new(start, end)?, lock))).collect()
    }

    fn run(&mut self, file: FileId, ticket: LockTicket, extent: LockExtent) {
        self.running.insert((file, ticket), extent);
        self.files.insert(ticket, file);
    }

    /// The locks that together cover an operation; `None` if they do not.
    fn covering(&self, file: FileId, extent: LockExtent, mode: LockMode) -> Option<Vec<LockId>> {
        let mut locks = Vec::new();
        let mut at = extent.start();
        while at < extent.end() {
            let enough = [LockMode::Exclusive, LockMode::Shared].into_iter().filter(|&strong| strong >= mode);
            let here = enough.filter_map(|mode| {
                let run = self.usable.get(&(file, mode))?.range(..=at).next_back()?.1;
                (run.0 > at).then_some(*run)
            });
            let (end, lock) = here.max_by_key(|&(end, _)| end)?;
            locks.push(lock);
            at = end;
        }
        Some(locks)
    }

    /// The bytes in use by operations on a file, in whole units.
    fn in_use(&self, file: FileId) -> Vec<LockExtent> {
        let running = self.running.range((file, LockTicket(0))..=(file, LockTicket(u64::MAX)));
        running.map(|(_, extent)| extent.widened(self.unit)).collect()
    }

    /// Replaces, within the extent of a new lock, older locks of the same or a weaker mode, as the manager does.
    fn replace(&mut self, file: FileId, mode: LockMode, extent: LockExtent) {
        let replaced = |lock: &CachedLock| lock.file == file && lock.mode <= mode;
        let mut old: BTreeSet<LockId> = self.owing.get(&file).into_iter().flatten().copied().collect();
        for mode in [LockMode::Shared, LockMode::Exclusive] {
            let Some(runs) = self.usable.get(&(file, mode)) else { continue };
            let before = runs.range(..extent.start()).next_back();
            old.extend(
                before.into_iter().chain(runs.range(extent.start()..extent.end())).map(|(_, run)| run.1),
            );
        }
        for id in old.into_iter().filter(|id| replaced(&self.locks[id])).collect::<Vec<_>>() {
            self.cut_usable(id, extent);
            self.cut_owed(id, extent);
            self.drop_if_empty(id);
        }
    }

    fn release_lock(&mut self, id: LockId) -> Option<LockRelease> {
        let lock = self.locks.get(&id)?;
        let file = lock.file;
        let in_use = self.in_use(file);
        let gone = in_use.into_iter().fold(lock.usable.iter().collect(), without);
        for &extent in &gone {
            self.cut_usable(id, extent);
        }
        self.drop_if_empty(id);
        (!gone.is_empty()).then_some(LockRelease { file, lock: id, gone, answer: false })
    }

    /// Releases those of these bytes that are owed and no longer in use.
    fn release_owed(&mut self, id: LockId, used: LockExtent) -> Option<LockRelease> {
        let lock = self.locks.get(&id)?;
        let file = lock.file;
        let owed = lock.owed.touching(used).filter_map(|run| run.and(used)).collect();
        let gone = self.in_use(file).into_iter().fold(owed, without);
        for &extent in &gone {
            self.cut_owed(id, extent);
        }
        self.drop_if_empty(id);
        (!gone.is_empty()).then_some(LockRelease { file, lock: id, gone, answer: false })
    }

    fn owe(&mut self, id: LockId, extent: LockExtent) {
        let lock = self.locks.get_mut(&id).expect("it is being revoked");
        lock.owed.insert(extent);
        self.owing.entry(lock.file).or_default().insert(id);
    }

    fn cut_owed(&mut self, id: LockId, hole: LockExtent) {
        let lock = self.locks.get_mut(&id).expect("a lock that is held");
        for run in lock.owed.touching(hole).collect::<Vec<_>>() {
            lock.owed.remove(run);
            run.minus(hole).for_each(|rest| lock.owed.insert(rest));
        }
        if lock.owed.is_empty()
            && let Some(owing) = self.owing.get_mut(&lock.file)
        {
            owing.remove(&id);
            if owing.is_empty() {
                self.owing.remove(&lock.file);
            }
        }
    }

    fn cut_usable(&mut self, id: LockId, hole: LockExtent) {
        let lock = self.locks.get_mut(&id).expect("a lock that is held");
        let place = (lock.file, lock.mode);
        let touched: Vec<LockExtent> = lock.usable.touching(hole).collect();
        for run in touched {
            let lock = self.locks.get_mut(&id).expect("just seen");
            lock.usable.remove(run);
            run.minus(hole).for_each(|rest| lock.usable.insert(rest));
            let runs = self.usable.get_mut(&place).expect("it has usable extents");
            runs.remove(&run.start());
            if runs.is_empty() {
                self.usable.remove(&place);
            }
            for rest in run.minus(hole) {
                self.index(id, place.0, place.1, rest);
            }
        }
    }

    fn index(&mut self, id: LockId, file: FileId, mode: LockMode, run: LockExtent) {
        self.usable.entry((file, mode)).or_default().insert(run.start(), (run.end(), id));
    }

    fn drop_if_empty(&mut self, id: LockId) {
        if self.locks.get(&id).is_some_and(|lock| lock.usable.is_empty() && lock.owed.is_empty()) {
            self.locks.remove(&id);
        }
    }
}

/// The parts of extents that lie within another.
fn within(extents: &[LockExtent], other: LockExtent) -> impl Iterator<Item = LockExtent> + use<> {
    let parts: Vec<LockExtent> = extents.iter().filter_map(|extent| extent.and(other)).collect();
    parts.into_iter()
}

/// The bytes that a holder keeps at a revocation of `wanted`, when its latest operation was on `latest`: everything up to
/// the end of that operation if `wanted` begins after its start; everything from its start if `wanted` ends before its
/// end; in both cases without the wanted bytes. Nothing if `wanted` covers the whole operation.
fn kept(latest: LockExtent, wanted: LockExtent) -> Option<LockExtent> {
    if wanted.start() > latest.start() {
        LockExtent::new(0, latest.end().min(wanted.start()))
    } else if wanted.end() < latest.end() {
        LockExtent::new(latest.start().max(wanted.end()), u64::MAX)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const F: FileId = FileId(1);

    fn x(start: u64, end: u64) -> LockExtent {
        LockExtent::new(start, end).expect("not empty")
    }

    /// A holder of the whole file after an operation on `latest`, which has ended.
    fn holder(latest: LockExtent) -> ClientLocks {
        let mut held = ClientLocks::new(1);
        assert_eq!(held.begin(F, latest, LockMode::Exclusive), BeginOutcome::Ask(LockTicket(1)));
        assert!(held.granted(LockTicket(1), F, LockId(1), LockExtent::ALL, LockMode::Exclusive));
        assert_eq!(held.end(LockTicket(1)), []);
        held
    }

    fn answer(gone: Vec<LockExtent>) -> Option<LockRelease> {
        Some(LockRelease { file: F, lock: LockId(1), gone, answer: true })
    }

    #[test]
    fn it_gives_up_what_lies_beyond_its_operation_on_the_other_ones_side() {
        let given = |wanted| holder(x(40, 50)).revoke(LockId(1), wanted);
        assert_eq!(given(x(60, 70)), answer(vec![x(50, u64::MAX)]));
        assert_eq!(given(x(50, 51)), answer(vec![x(50, u64::MAX)]));
        assert_eq!(given(x(10, 20)), answer(vec![x(0, 40)]));
        assert_eq!(given(x(39, 40)), answer(vec![x(0, 40)]));
        assert_eq!(given(x(45, 60)), answer(vec![x(45, u64::MAX)]));
        assert_eq!(given(x(45, 47)), answer(vec![x(45, u64::MAX)]));
        assert_eq!(given(x(30, 45)), answer(vec![x(0, 45)]));
        assert_eq!(given(x(40, 50)), answer(vec![LockExtent::ALL]));
        assert_eq!(given(x(0, 99)), answer(vec![LockExtent::ALL]));
    }

    #[test]
    fn a_release_names_the_released_extents() {
        let mut held = holder(x(40, 50));
        assert!(matches!(held.begin(F, x(60, 65), LockMode::Exclusive), BeginOutcome::Now(_)));
        assert_eq!(held.release_range(LockId(1), x(45, 70)), answer(vec![x(45, 60), x(65, 70)]));
        assert!(
            held.covers(F, x(0, 45), LockMode::Exclusive) && held.covers(F, x(70, 99), LockMode::Exclusive)
        );
        assert!(!held.covers(F, x(60, 61), LockMode::Exclusive));
        let paid = vec![LockRelease { file: F, lock: LockId(1), gone: vec![x(60, 65)], answer: false }];
        assert_eq!(held.end(LockTicket(2)), paid);
        assert_eq!(held.release_range(LockId(1), LockExtent::ALL), answer(vec![x(0, 45), x(70, u64::MAX)]));
        assert_eq!(held.release_range(LockId(1), LockExtent::ALL), None);
    }

    #[test]
    fn the_latest_operation_counts_not_the_first() {
        let mut held = holder(x(0, 10));
        assert_eq!(held.begin(F, x(40, 50), LockMode::Shared), BeginOutcome::Now(LockTicket(2)));
        assert_eq!(held.end(LockTicket(2)), []);
        assert_eq!(held.revoke(LockId(1), x(60, 61)), answer(vec![x(50, u64::MAX)]));
        assert!(held.covers(F, x(0, 50), LockMode::Exclusive));
        assert!(!held.covers(F, x(0, 51), LockMode::Shared));
    }

    #[test]
    fn extents_in_use_are_released_when_the_operations_end() {
        let mut held = holder(x(0, 10));
        for extent in [x(60, 80), x(90, 95), x(0, 10)] {
            assert!(matches!(held.begin(F, extent, LockMode::Exclusive), BeginOutcome::Now(_)));
        }
        let gone = vec![x(10, 60), x(80, 90), x(95, u64::MAX)];
        assert_eq!(held.revoke(LockId(1), x(70, 100)), answer(gone));
        // In use and not revoked: it stays. Due for release: no new operation begins there.
        assert!(held.covers(F, x(60, 70), LockMode::Exclusive));
        assert!(!held.covers(F, x(70, 71), LockMode::Exclusive));
        let paid = |gone| vec![LockRelease { file: F, lock: LockId(1), gone, answer: false }];
        assert_eq!(held.end(LockTicket(3)), paid(vec![x(90, 95)]));
        assert_eq!(held.end(LockTicket(2)), paid(vec![x(70, 80)]));
        assert_eq!(held.usable(F, LockMode::Exclusive), [(x(0, 10), LockId(1)), (x(60, 70), LockId(1))]);
        assert_eq!(held.end(LockTicket(4)), []);
    }

    #[test]
    fn a_new_lock_covers_pending_releases() {
        let mut held = holder(x(0, 10));
        assert_eq!(held.begin(F, x(0, 10), LockMode::Exclusive), BeginOutcome::Now(LockTicket(2)));
        assert_eq!(held.revoke(LockId(1), x(0, 10)), answer(vec![x(10, u64::MAX)]));
        // The request that revoked it is gone, so the next request gets all of it.
        assert_eq!(held.begin(F, x(5, 15), LockMode::Exclusive), BeginOutcome::Ask(LockTicket(3)));
        assert!(held.granted(LockTicket(3), F, LockId(2), LockExtent::ALL, LockMode::Exclusive));
        assert_eq!(held.end(LockTicket(2)), []);
        assert_eq!(held.usable(F, LockMode::Exclusive), [(LockExtent::ALL, LockId(2))]);
        assert_eq!(held.revoke(LockId(1), x(0, 10)), None);
    }

    #[test]
    fn units_are_given_up_whole() {
        let mut held = ClientLocks::new(10);
        assert_eq!(held.begin(F, x(12, 15), LockMode::Exclusive), BeginOutcome::Ask(LockTicket(1)));
        assert!(held.granted(LockTicket(1), F, LockId(1), LockExtent::ALL, LockMode::Exclusive));
        let gone = vec![x(20, u64::MAX)];
        assert_eq!(held.revoke(LockId(1), x(16, 25)), answer([vec![x(0, 10)], gone].concat()));
        let rest = vec![LockRelease { file: F, lock: LockId(1), gone: vec![x(10, 20)], answer: false }];
        assert_eq!(held.end(LockTicket(1)), rest);
        assert_eq!(held.locks(), 0);
        assert_eq!(held.revoke(LockId(1), x(0, 5)), None);
    }

    #[test]
    fn idle_locks_can_be_given_up_unasked() {
        let mut held = holder(x(0, 10));
        assert!(matches!(held.begin(F, x(20, 30), LockMode::Shared), BeginOutcome::Now(_)));
        assert_eq!(held.trim(0), []);
        let gone = vec![x(0, 20), x(30, u64::MAX)];
        assert_eq!(held.release_unused(F), [LockRelease { file: F, lock: LockId(1), gone, answer: false }]);
        assert_eq!(held.end(LockTicket(2)), []);
        assert_eq!(held.trim(0).len(), 1);
        assert_eq!(held.locks(), 0);
        assert!(matches!(held.begin(F, x(20, 30), LockMode::Shared), BeginOutcome::Ask(_)));
    }
}
