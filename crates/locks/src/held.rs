//! The client's side: which extents it has from a manager, which it uses, and what it gives up.
//!
//! An operation [`begin`](Held::begin)s, uses its bytes, and [`end`](Held::end)s. If the extents held cover
//! it, it begins at once; else a request goes to the manager, and it begins when that is granted. What an
//! operation uses is not given up before it ends; what somebody has asked for is not used by a new operation.

use std::collections::{BTreeMap, BTreeSet};

use pario_types::FileId;

use crate::extent::{Extent, Runs, without};
use crate::message::{LockId, Mode, Release, Ticket};

/// What becomes of an operation that wants to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// It has begun; it is called this until it ends.
    Now(Ticket),
    /// Send a request for a lock ([`Grant::Largest`](crate::Grant::Largest)) with this ticket; the operation
    /// begins when it is granted.
    Ask(Ticket),
}

/// A client's cached locks of one manager.
#[derive(Clone, Debug)]
pub struct Held {
    unit: u64,
    last_ticket: u64,
    locks: BTreeMap<LockId, Lock>,
    /// What operations may use, by place; extents of one mode do not overlap.
    usable: BTreeMap<(FileId, Mode), BTreeMap<u64, (u64, LockId)>>,
    /// Locks of a file with something owed.
    indebted: BTreeMap<FileId, BTreeSet<LockId>>,
    /// Operations under way, and the bytes they use.
    running: BTreeMap<(FileId, Ticket), Extent>,
    files: BTreeMap<Ticket, FileId>,
    /// Operations that wait for a lock.
    asking: BTreeMap<Ticket, (FileId, Extent)>,
}

#[derive(Clone, Debug)]
struct Lock {
    file: FileId,
    mode: Mode,
    /// The operation that used it last.
    latest: Extent,
    usable: Runs,
    /// Asked for by somebody, but in use.
    owed: Runs,
}

impl Held {
    /// Holds nothing yet. The manager has the same `unit`, which is not 0.
    pub fn new(unit: u64) -> Held {
        assert!(unit > 0, "a lock unit of 0 bytes");
        Held {
            unit,
            last_ticket: 0,
            locks: BTreeMap::new(),
            usable: BTreeMap::new(),
            indebted: BTreeMap::new(),
            running: BTreeMap::new(),
            files: BTreeMap::new(),
            asking: BTreeMap::new(),
        }
    }

    /// Whether an operation on these bytes could begin without a message.
    pub fn covers(&self, file: FileId, extent: Extent, mode: Mode) -> bool {
        self.covering(file, extent, mode).is_some()
    }

    /// An operation wants to use these bytes.
    pub fn begin(&mut self, file: FileId, extent: Extent, mode: Mode) -> Begin {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        match self.covering(file, extent, mode) {
            Some(locks) => {
                for lock in locks {
                    self.locks.get_mut(&lock).expect("its extents are usable").latest = extent;
                }
                self.run(file, ticket, extent);
                Begin::Now(ticket)
            }
            None => {
                self.asking.insert(ticket, (file, extent));
                Begin::Ask(ticket)
            }
        }
    }

    /// The manager has granted a lock. True: the operation with this ticket has begun. False: it was given
    /// up; the lock stays for others.
    pub fn granted(
        &mut self,
        ticket: Ticket,
        file: FileId,
        lock: LockId,
        extent: Extent,
        mode: Mode,
    ) -> bool {
        self.replace(file, mode, extent);
        let asked = self.asking.remove(&ticket);
        let latest = asked.map_or(extent, |(_, asked)| asked);
        let mut usable = Runs::default();
        usable.insert(extent);
        self.locks.insert(lock, Lock { file, mode, latest, usable, owed: Runs::default() });
        self.index(lock, file, mode, extent);
        if asked.is_some() {
            self.run(file, ticket, latest);
        }
        asked.is_some()
    }

    /// An operation has ended, or no longer waits; then the manager is told to cancel its request. What
    /// others have asked for meanwhile is given up: flush it, then send the releases.
    pub fn end(&mut self, ticket: Ticket) -> Vec<Release> {
        self.asking.remove(&ticket);
        let Some(file) = self.files.remove(&ticket) else { return Vec::new() };
        let used = self.running.remove(&(file, ticket)).expect("it runs").widened(self.unit);
        let debtors = self.indebted.get(&file).cloned().unwrap_or_default();
        debtors.into_iter().filter_map(|lock| self.pay(lock, used)).collect()
    }

    /// The manager wants bytes of a lock back. Flush what the answer gives up, then send it. `None` if
    /// nothing of the lock is left: the manager knows or has been told.
    pub fn revoke(&mut self, id: LockId, wanted: Extent) -> Option<Release> {
        let wanted = wanted.widened(self.unit);
        let lock = self.locks.get(&id)?;
        let keep = kept(lock.latest.widened(self.unit), wanted);
        self.answer(id, wanted, |run| match keep {
            Some(keep) => run.minus(keep).collect(),
            None => vec![run],
        })
    }

    /// As [`revoke`](Held::revoke), by a holder that knows better than by its latest operation what it has no more use for: these
    /// bytes, with all that are wanted among them.
    pub fn cede(&mut self, id: LockId, gone: Extent) -> Option<Release> {
        let gone = gone.widened(self.unit);
        self.answer(id, gone, |run| run.and(gone).into_iter().collect())
    }

    /// Gives up what `given` says of each run of a lock; of what is wanted and in use, when it no longer is.
    fn answer(
        &mut self,
        id: LockId,
        wanted: Extent,
        given: impl Fn(Extent) -> Vec<Extent>,
    ) -> Option<Release> {
        let lock = self.locks.get(&id)?;
        let file = lock.file;
        let runs: Vec<Extent> = lock.usable.iter().collect();
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
        Some(Release { file, lock: id, gone, answer: true })
    }

    /// Gives up all of a file that is not in use: flush it, then send the releases. What is in use stays.
    pub fn give_up(&mut self, file: FileId) -> Vec<Release> {
        let locks =
            [Mode::Shared, Mode::Exclusive].into_iter().filter_map(|mode| self.usable.get(&(file, mode)));
        let ids: BTreeSet<LockId> = locks.flat_map(|runs| runs.values().map(|run| run.1)).collect();
        ids.into_iter().filter_map(|id| self.give_up_lock(id)).collect()
    }

    /// Gives up locks, the oldest first, until there are at most `most` or the others are in use.
    pub fn trim(&mut self, most: usize) -> Vec<Release> {
        let ids: Vec<LockId> = self.locks.keys().copied().collect();
        let mut releases = Vec::new();
        for id in ids {
            if self.locks.len() <= most {
                break;
            }
            let lock = &self.locks[&id];
            let in_use = self.in_use(lock.file);
            if lock.owed.is_empty() && !in_use.iter().any(|&used| lock.usable.overlaps(used)) {
                releases.extend(self.give_up_lock(id));
            }
        }
        releases
    }

    /// How many locks it has.
    pub fn locks(&self) -> usize {
        self.locks.len()
    }

    /// Operations that have begun and not ended.
    pub fn running(&self) -> impl Iterator<Item = (FileId, Ticket, Extent)> + '_ {
        self.running.iter().map(|(&(file, ticket), &extent)| (file, ticket, extent))
    }

    /// What a new operation may use without a message, in order of place.
    pub fn usable(&self, file: FileId, mode: Mode) -> Vec<(Extent, LockId)> {
        let runs = self.usable.get(&(file, mode)).into_iter().flatten();
        runs.filter_map(|(&start, &(end, lock))| Some((Extent::new(start, end)?, lock))).collect()
    }

    fn run(&mut self, file: FileId, ticket: Ticket, extent: Extent) {
        self.running.insert((file, ticket), extent);
        self.files.insert(ticket, file);
    }

    /// The locks that together allow all of this; `None` if they do not.
    fn covering(&self, file: FileId, extent: Extent, mode: Mode) -> Option<Vec<LockId>> {
        let mut locks = Vec::new();
        let mut at = extent.start();
        while at < extent.end() {
            let enough = [Mode::Exclusive, Mode::Shared].into_iter().filter(|&strong| strong >= mode);
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

    /// What operations on a file use, in whole units.
    fn in_use(&self, file: FileId) -> Vec<Extent> {
        let running = self.running.range((file, Ticket(0))..=(file, Ticket(u64::MAX)));
        running.map(|(_, extent)| extent.widened(self.unit)).collect()
    }

    /// A new lock stands for older ones that allow no more, as far as it reaches: the manager does the same.
    fn replace(&mut self, file: FileId, mode: Mode, extent: Extent) {
        let replaced = |lock: &Lock| lock.file == file && lock.mode <= mode;
        let mut old: BTreeSet<LockId> = self.indebted.get(&file).into_iter().flatten().copied().collect();
        for mode in [Mode::Shared, Mode::Exclusive] {
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

    fn give_up_lock(&mut self, id: LockId) -> Option<Release> {
        let lock = self.locks.get(&id)?;
        let file = lock.file;
        let in_use = self.in_use(file);
        let gone = in_use.into_iter().fold(lock.usable.iter().collect(), without);
        for &extent in &gone {
            self.cut_usable(id, extent);
        }
        self.drop_if_empty(id);
        (!gone.is_empty()).then_some(Release { file, lock: id, gone, answer: false })
    }

    /// Gives up what is owed of these bytes and no longer in use.
    fn pay(&mut self, id: LockId, used: Extent) -> Option<Release> {
        let lock = self.locks.get(&id)?;
        let file = lock.file;
        let owed = lock.owed.touching(used).filter_map(|run| run.and(used)).collect();
        let gone = self.in_use(file).into_iter().fold(owed, without);
        for &extent in &gone {
            self.cut_owed(id, extent);
        }
        self.drop_if_empty(id);
        (!gone.is_empty()).then_some(Release { file, lock: id, gone, answer: false })
    }

    fn owe(&mut self, id: LockId, extent: Extent) {
        let lock = self.locks.get_mut(&id).expect("it is being revoked");
        lock.owed.insert(extent);
        self.indebted.entry(lock.file).or_default().insert(id);
    }

    fn cut_owed(&mut self, id: LockId, hole: Extent) {
        let lock = self.locks.get_mut(&id).expect("a lock that is held");
        for run in lock.owed.touching(hole).collect::<Vec<_>>() {
            lock.owed.remove(run);
            run.minus(hole).for_each(|rest| lock.owed.insert(rest));
        }
        if lock.owed.is_empty()
            && let Some(indebted) = self.indebted.get_mut(&lock.file)
        {
            indebted.remove(&id);
            if indebted.is_empty() {
                self.indebted.remove(&lock.file);
            }
        }
    }

    fn cut_usable(&mut self, id: LockId, hole: Extent) {
        let lock = self.locks.get_mut(&id).expect("a lock that is held");
        let place = (lock.file, lock.mode);
        let touched: Vec<Extent> = lock.usable.touching(hole).collect();
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

    fn index(&mut self, id: LockId, file: FileId, mode: Mode, run: Extent) {
        self.usable.entry((file, mode)).or_default().insert(run.start(), (run.end(), id));
    }

    fn drop_if_empty(&mut self, id: LockId) {
        if self.locks.get(&id).is_some_and(|lock| lock.usable.is_empty() && lock.owed.is_empty()) {
            self.locks.remove(&id);
        }
    }
}

/// The parts of extents that lie within another.
fn within(extents: &[Extent], other: Extent) -> impl Iterator<Item = Extent> + use<> {
    let parts: Vec<Extent> = extents.iter().filter_map(|extent| extent.and(other)).collect();
    parts.into_iter()
}

/// What a holder keeps whose latest operation was on `latest`, when somebody wants `wanted`: everything up to
/// the end of its operation if the other one begins behind its start, everything from its start if the other
/// one ends before its end; in both cases without the bytes wanted. Nothing if the other one wants all of its
/// operation's bytes.
fn kept(latest: Extent, wanted: Extent) -> Option<Extent> {
    if wanted.start() > latest.start() {
        Extent::new(0, latest.end().min(wanted.start()))
    } else if wanted.end() < latest.end() {
        Extent::new(latest.start().max(wanted.end()), u64::MAX)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const F: FileId = FileId(1);

    fn x(start: u64, end: u64) -> Extent {
        Extent::new(start, end).expect("not empty")
    }

    /// A holder of the whole file after an operation on `latest`, which has ended.
    fn holder(latest: Extent) -> Held {
        let mut held = Held::new(1);
        assert_eq!(held.begin(F, latest, Mode::Exclusive), Begin::Ask(Ticket(1)));
        assert!(held.granted(Ticket(1), F, LockId(1), Extent::ALL, Mode::Exclusive));
        assert_eq!(held.end(Ticket(1)), []);
        held
    }

    fn answer(gone: Vec<Extent>) -> Option<Release> {
        Some(Release { file: F, lock: LockId(1), gone, answer: true })
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
        assert_eq!(given(x(40, 50)), answer(vec![Extent::ALL]));
        assert_eq!(given(x(0, 99)), answer(vec![Extent::ALL]));
    }

    #[test]
    fn who_cedes_names_what_goes() {
        let mut held = holder(x(40, 50));
        assert!(matches!(held.begin(F, x(60, 65), Mode::Exclusive), Begin::Now(_)));
        assert_eq!(held.cede(LockId(1), x(45, 70)), answer(vec![x(45, 60), x(65, 70)]));
        assert!(held.covers(F, x(0, 45), Mode::Exclusive) && held.covers(F, x(70, 99), Mode::Exclusive));
        assert!(!held.covers(F, x(60, 61), Mode::Exclusive));
        let paid = vec![Release { file: F, lock: LockId(1), gone: vec![x(60, 65)], answer: false }];
        assert_eq!(held.end(Ticket(2)), paid);
        assert_eq!(held.cede(LockId(1), Extent::ALL), answer(vec![x(0, 45), x(70, u64::MAX)]));
        assert_eq!(held.cede(LockId(1), Extent::ALL), None);
    }

    #[test]
    fn the_latest_operation_counts_not_the_first() {
        let mut held = holder(x(0, 10));
        assert_eq!(held.begin(F, x(40, 50), Mode::Shared), Begin::Now(Ticket(2)));
        assert_eq!(held.end(Ticket(2)), []);
        assert_eq!(held.revoke(LockId(1), x(60, 61)), answer(vec![x(50, u64::MAX)]));
        assert!(held.covers(F, x(0, 50), Mode::Exclusive));
        assert!(!held.covers(F, x(0, 51), Mode::Shared));
    }

    #[test]
    fn what_is_in_use_is_given_up_when_the_operations_end() {
        let mut held = holder(x(0, 10));
        for extent in [x(60, 80), x(90, 95), x(0, 10)] {
            assert!(matches!(held.begin(F, extent, Mode::Exclusive), Begin::Now(_)));
        }
        let gone = vec![x(10, 60), x(80, 90), x(95, u64::MAX)];
        assert_eq!(held.revoke(LockId(1), x(70, 100)), answer(gone));
        // Wanted by nobody, and in use: it stays. Owed: nothing new begins there.
        assert!(held.covers(F, x(60, 70), Mode::Exclusive));
        assert!(!held.covers(F, x(70, 71), Mode::Exclusive));
        let paid = |gone| vec![Release { file: F, lock: LockId(1), gone, answer: false }];
        assert_eq!(held.end(Ticket(3)), paid(vec![x(90, 95)]));
        assert_eq!(held.end(Ticket(2)), paid(vec![x(70, 80)]));
        assert_eq!(held.usable(F, Mode::Exclusive), [(x(0, 10), LockId(1)), (x(60, 70), LockId(1))]);
        assert_eq!(held.end(Ticket(4)), []);
    }

    #[test]
    fn a_new_lock_settles_what_was_owed() {
        let mut held = holder(x(0, 10));
        assert_eq!(held.begin(F, x(0, 10), Mode::Exclusive), Begin::Now(Ticket(2)));
        assert_eq!(held.revoke(LockId(1), x(0, 10)), answer(vec![x(10, u64::MAX)]));
        // Who wanted it is no more, so the next request gets all of it.
        assert_eq!(held.begin(F, x(5, 15), Mode::Exclusive), Begin::Ask(Ticket(3)));
        assert!(held.granted(Ticket(3), F, LockId(2), Extent::ALL, Mode::Exclusive));
        assert_eq!(held.end(Ticket(2)), []);
        assert_eq!(held.usable(F, Mode::Exclusive), [(Extent::ALL, LockId(2))]);
        assert_eq!(held.revoke(LockId(1), x(0, 10)), None);
    }

    #[test]
    fn units_are_given_up_whole() {
        let mut held = Held::new(10);
        assert_eq!(held.begin(F, x(12, 15), Mode::Exclusive), Begin::Ask(Ticket(1)));
        assert!(held.granted(Ticket(1), F, LockId(1), Extent::ALL, Mode::Exclusive));
        let gone = vec![x(20, u64::MAX)];
        assert_eq!(held.revoke(LockId(1), x(16, 25)), answer([vec![x(0, 10)], gone].concat()));
        let rest = vec![Release { file: F, lock: LockId(1), gone: vec![x(10, 20)], answer: false }];
        assert_eq!(held.end(Ticket(1)), rest);
        assert_eq!(held.locks(), 0);
        assert_eq!(held.revoke(LockId(1), x(0, 5)), None);
    }

    #[test]
    fn idle_locks_can_be_given_up_unasked() {
        let mut held = holder(x(0, 10));
        assert!(matches!(held.begin(F, x(20, 30), Mode::Shared), Begin::Now(_)));
        assert_eq!(held.trim(0), []);
        let gone = vec![x(0, 20), x(30, u64::MAX)];
        assert_eq!(held.give_up(F), [Release { file: F, lock: LockId(1), gone, answer: false }]);
        assert_eq!(held.end(Ticket(2)), []);
        assert_eq!(held.trim(0).len(), 1);
        assert_eq!(held.locks(), 0);
        assert!(matches!(held.begin(F, x(20, 30), Mode::Shared), Begin::Ask(_)));
    }
}
