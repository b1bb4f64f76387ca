//! The locks of a file, or its waiting requests, by place: which of them exclude a claim?

use std::ops::ControlFlow;

use crate::extent::Extent;
use crate::intervals::{Entry, Intervals};
use crate::message::{Grant, Mode, Request};

/// Whose lock it is or is to be, and of which sort: all that decides whether two that overlap exclude each
/// other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim<H> {
    pub holder: H,
    pub mode: Mode,
    pub grant: Grant,
}

impl<H: Copy> Request<H> {
    pub(crate) fn claim(&self) -> Claim<H> {
        Claim { holder: self.holder, mode: self.mode, grant: self.grant }
    }
}

/// One index per way and mode.
#[derive(Clone, Debug)]
pub(crate) struct Table<H> {
    exact: [Intervals<H>; 2],
    largest: [Intervals<H>; 2],
}

impl<H> Default for Table<H> {
    fn default() -> Table<H> {
        let two = || [Intervals::default(), Intervals::default()];
        Table { exact: two(), largest: two() }
    }
}

impl<H: Copy + Ord> Table<H> {
    pub fn insert(&mut self, claim: Claim<H>, extent: Extent, id: u64) {
        self.index(claim).insert(Entry { extent, id, holder: claim.holder });
    }

    pub fn remove(&mut self, claim: Claim<H>, extent: Extent, id: u64) {
        self.index(claim).remove(extent.start(), id);
    }

    /// Visits what overlaps the extent and excludes the claim.
    pub fn excluding<B>(
        &self,
        claim: Claim<H>,
        extent: Extent,
        mut visit: impl FnMut(&Entry<H>) -> ControlFlow<B>,
    ) -> Option<B> {
        for (index, except) in self.opposed(claim) {
            if let ControlFlow::Break(found) = index.overlapping(extent, except, &mut visit) {
                return Some(found);
            }
        }
        None
    }

    /// The ids of all that overlaps the extent and excludes the claim, in order, each once.
    pub fn all_excluding(&self, claim: Claim<H>, extent: Extent) -> Vec<u64> {
        let mut ids = Vec::new();
        self.excluding::<()>(claim, extent, |entry| {
            ids.push(entry.id);
            ControlFlow::Continue(())
        });
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// How far the extent can grow downwards and upwards until it meets something that excludes the claim.
    pub fn room(&self, claim: Claim<H>, extent: Extent) -> (u64, u64) {
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

    /// Where to look for what excludes a claim, and whom to leave out there.
    fn opposed(&self, claim: Claim<H>) -> impl Iterator<Item = (&Intervals<H>, Option<H>)> {
        let own = Some(claim.holder);
        let in_exact = if claim.grant == Grant::Exact { None } else { own };
        let exact = self.exact.iter().map(move |index| (index, in_exact));
        let largest = self.largest.iter().map(move |index| (index, own));
        let modes = [Mode::Shared, Mode::Exclusive].into_iter().cycle();
        let all = modes.zip(exact.chain(largest));
        all.filter(move |(mode, _)| mode.excludes(claim.mode)).map(|(_, place)| place)
    }

    fn index(&mut self, claim: Claim<H>) -> &mut Intervals<H> {
        let indexes = match claim.grant {
            Grant::Exact => &mut self.exact,
            Grant::Largest => &mut self.largest,
        };
        &mut indexes[claim.mode as usize]
    }
}
