//! The blocks that a partition's client caches under leases, and the part of a lease that it releases when it is recalled.
//!
//! A recall takes the requested blocks. It also takes all bytes below them if no block is cached there, and likewise all
//! bytes above, as tier 1 of a partition's clients does.

use std::collections::{BTreeSet, VecDeque};

use pario_locks::{Grant, LockAction, LockExtent, LockMode, LockRequest, LockTicket};
use pario_types::FileId;

use super::Run;
use crate::setup::{Callback, Protocol};

/// A block: its manager, its file, its number.
type Block = (u32, FileId, u64);

/// Blocks in a client's memory, clean or dirty.
#[derive(Debug)]
pub struct LeaseCache {
    unit: u64,
    blocks: BTreeSet<Block>,
    /// The same blocks in the order in which they were added.
    order: VecDeque<Block>,
}

impl LeaseCache {
    pub fn new(unit: u64) -> LeaseCache {
        LeaseCache { unit, blocks: BTreeSet::new(), order: VecDeque::new() }
    }

    /// Adds a block to a cache of `room` bytes, and evicts the oldest.
    fn add(&mut self, manager: u32, file: FileId, at: u64, room: u64) {
        let block = (manager, file, at / self.unit);
        if self.blocks.insert(block) {
            self.order.push_back(block);
        }
        while self.order.len() as u64 * self.unit > room.max(2 * self.unit)
            && let Some(oldest) = self.order.pop_front()
        {
            self.blocks.remove(&oldest);
        }
    }

    /// Another client requests these bytes: returns the extent to release, and drops its blocks.
    pub fn recall(&mut self, manager: u32, file: FileId, wanted: LockExtent) -> LockExtent {
        let (first, end) = (wanted.start() / self.unit, wanted.end().div_ceil(self.unit));
        let below = self.blocks.range((manager, file, 0)..(manager, file, first)).next().is_some();
        let above = self.blocks.range((manager, file, end)..=(manager, file, u64::MAX)).next().is_some();
        let gone: Vec<Block> =
            self.blocks.range((manager, file, first)..(manager, file, end)).copied().collect();
        gone.iter().for_each(|block| {
            self.blocks.remove(block);
        });
        self.order.retain(|block| self.blocks.contains(block));
        let start = if below { first * self.unit } else { 0 };
        LockExtent::new(start, if above { end * self.unit } else { u64::MAX })
            .expect("it holds what is wanted")
    }
}

impl Run<'_> {
    /// Adds a block to the cache of a client.
    pub fn cache_block(&mut self, number: u32, manager: u32, file: FileId, at: u64) {
        if self.setup.callback() == Callback::Kept {
            let room = self.setup.machine.aggregator_cache;
            self.clients[number as usize].cache.add(manager, file, at, room);
        }
    }

    /// An access to leased bytes of a server passes its lock manager: no other client gets them meanwhile. The client holds
    /// the lease itself, so the access never waits.
    pub fn access_under_lease(&mut self, number: u32, server: u16, file: FileId, local: u64, len: u64) {
        if self.setup.protocol != Protocol::Lease {
            return;
        }
        let holder = (number, self.clients[number as usize].generations[usize::from(server)]);
        let extent = LockExtent::new(local, local + len).expect("an access has bytes");
        let (ticket, mode, grant) = (LockTicket(u64::MAX), LockMode::Shared, Grant::Exact);
        let request = LockRequest { holder, ticket, file, extent, mode, grant };
        let locks = &mut self.managers[usize::from(server)].locks;
        let done = locks.request_own(request).expect("clients keep to the protocol");
        let [LockAction::Granted { lock, .. }] = done[..] else { unreachable!("it has the lease") };
        let none = locks.unlock(holder, lock).expect("its own");
        assert_eq!(none, [], "nobody waits for an access");
        self.seen.requests += 1;
        self.seen.grants += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const F: FileId = FileId(1);

    fn x(start: u64, end: u64) -> LockExtent {
        LockExtent::new(start, end).expect("not empty")
    }

    fn cache_with(blocks: &[u64]) -> LeaseCache {
        let mut cache = LeaseCache::new(10);
        blocks.iter().for_each(|block| cache.add(0, F, block * 10 + 3, 1000));
        cache
    }

    #[test]
    fn a_recall_also_releases_uncached_sides() {
        assert_eq!(cache_with(&[]).recall(0, F, x(20, 30)), LockExtent::ALL);
        assert_eq!(cache_with(&[2]).recall(0, F, x(20, 30)), LockExtent::ALL);
        assert_eq!(cache_with(&[1]).recall(0, F, x(20, 30)), x(20, u64::MAX));
        assert_eq!(cache_with(&[3]).recall(0, F, x(25, 26)), x(0, 30));
        assert_eq!(cache_with(&[0, 9]).recall(0, F, x(20, 40)), x(20, 40));
        assert_eq!(cache_with(&[0, 9]).recall(1, F, x(20, 40)), LockExtent::ALL, "at another server");
        let mut some = cache_with(&[1, 2, 3]);
        assert_eq!(some.recall(0, F, x(30, 40)), x(30, u64::MAX));
        assert_eq!(some.recall(0, F, x(10, 20)), x(0, 20));
        assert_eq!(some.recall(0, F, x(20, 30)), LockExtent::ALL);
    }

    #[test]
    fn the_oldest_blocks_are_evicted() {
        let mut cache = LeaseCache::new(10);
        (0..5).for_each(|block| cache.add(0, F, block * 10, 30));
        assert_eq!(cache.blocks, [2, 3, 4].map(|block| (0, F, block)).into());
        assert_eq!(cache.recall(0, F, x(0, 10)), x(0, 10));
        assert_eq!(cache.order.len(), 3);
    }
}
