//! An index of the locks of a file, or of its waiting requests, by extent: finds those that exclude a lock.

use std::ops::ControlFlow;

use crate::extent::LockExtent;
use crate::intervals::{Entry, IntervalIndex};
use crate::message::{Grant, LockMode, LockRequest};

/// The holder and the kind of a lock or request: all that decides whether two that overlap exclude each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockClaim<H> {
    pub holder: H,
    pub mode: LockMode,
    pub grant: Grant,
}

impl<H: Copy> LockRequest<H> {
    pub(crate) fn claim(&self) -> LockClaim<H> {
        LockClaim { holder: self.holder, mode: self.mode, grant: self.grant }
    }
}

/// One interval index per grant and mode.
#[derive(Clone, Debug)]
pub(crate) struct ConflictIndex<H> {
    exact: [IntervalIndex<H>; 2],
    largest: [IntervalIndex<H>; 2],
}

impl<H> Default for ConflictIndex<H> {
    fn default() -> ConflictIndex<H> {
        let two = || [IntervalIndex::default(), IntervalIndex::default()];
        ConflictIndex { exact: two(), largest: two() }
    }
}

impl<H: Copy + Ord> ConflictIndex<H> {
    pub fn insert(&mut self, claim: LockClaim<H>, extent: LockExtent, id: u64) {
        self.index(claim).insert(Entry { extent, id, holder: claim.holder });
    }

    pub fn remove(&mut self, claim: LockClaim<H>, extent: LockExtent, id: u64) {
        self.index(claim).remove(extent.start(), id);
    }

    /// Visits the entries that overlap the extent and exclude the lock.
    pub fn excluding<B>(
        &self,
        claim: LockClaim<H>,
        extent: LockExtent,
        mut visit: impl FnMut(&Entry<H>) -> ControlFlow<B>,
    ) -> Option<B> {
        for (index, except) in self.opposed(claim) {
            if let ControlFlow::Break(found) = index.overlapping(extent, except, &mut visit) {
                return Some(found);
            }
        }
        None
    }

    /// The ids of the entries that overlap the extent and exclude the lock, ascending and without duplicates.
    pub fn all_excluding(&self, claim: LockClaim<H>, extent: LockExtent) -> Vec<u64> {
        let mut ids = Vec::new();
        self.excluding::<()>(claim, extent, |entry| {
            ids.push(entry.id);
            ControlFlow::Continue(())
        });
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// The bounds to which the extent can grow downwards and upwards before it meets an entry that excludes the lock.
    pub fn room(&self, claim: LockClaim<H>, extent: LockExtent) -> (u64, u64) {
        let (mut low, mut high) = (0, u64::MAX);
        for (index, except) in self.opposed(claim) {
            let below = index.reach_before(extent.start(), except).unwrap_or(0);
            low = low.max(below.min(extent.start()));
            let within = index.reach_before(extent.end(), except).is_some_and(|end| end > extent.end());
            let above = index.next_start(extent.end(), except).unwrap_or(u64::MAX);
            high = high.min(if within { extent.end() } else { above });
        }
        (low, high)
    }

    /// The indexes whose entries exclude a lock, each with the holder whose entries do not count.
    fn opposed(&self, claim: LockClaim<H>) -> impl Iterator<Item = (&IntervalIndex<H>, Option<H>)> {
        let own = Some(claim.holder);
        let in_exact = if claim.grant == Grant::Exact { None } else { own };
        let exact = self.exact.iter().map(move |index| (index, in_exact));
        let largest = self.largest.iter().map(move |index| (index, own));
        let modes = [LockMode::Shared, LockMode::Exclusive].into_iter().cycle();
        let all = modes.zip(exact.chain(largest));
        all.filter(move |(mode, _)| mode.excludes(claim.mode)).map(|(_, place)| place)
    }

    fn index(&mut self, claim: LockClaim<H>) -> &mut IntervalIndex<H> {
        let indexes = match claim.grant {
            Grant::Exact => &mut self.exact,
            Grant::Largest => &mut self.largest,
        };
        &mut indexes[claim.mode as usize]
    }
}
