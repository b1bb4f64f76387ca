//! What a partition's client keeps under leases, and what it gives up of them; and the way of its accesses past the lock manager.
//!
//! A recall takes the blocks that are wanted, and all below them and all above if nothing is kept there: as
//! tier 1 of a partition's clients does.

use std::collections::{BTreeSet, VecDeque};

use pario_locks::{Grant, LockAction, LockExtent, LockMode, LockRequest, LockTicket};
use pario_types::FileId;

use super::Run;
use crate::setup::{Callback, Protocol};

/// A block at a manager: whose, of which file, which.
type Block = (u32, FileId, u64);

/// Blocks in a client's memory, clean or dirty.
#[derive(Debug)]
pub struct Kept {
    unit: u64,
    blocks: BTreeSet<Block>,
    /// The same in the order in which they came.
    order: VecDeque<Block>,
}

impl Kept {
    pub fn new(unit: u64) -> Kept {
        Kept { unit, blocks: BTreeSet::new(), order: VecDeque::new() }
    }

    /// One more, in memory for so many bytes: the oldest make room.
    fn add(&mut self, keeper: u32, file: FileId, at: u64, room: u64) {
        let block = (keeper, file, at / self.unit);
        if self.blocks.insert(block) {
            self.order.push_back(block);
        }
        while self.order.len() as u64 * self.unit > room.max(2 * self.unit)
            && let Some(oldest) = self.order.pop_front()
        {
            self.blocks.remove(&oldest);
        }
    }

    /// Somebody else wants these bytes: what goes with them. Their blocks are kept no more.
    pub fn leave(&mut self, keeper: u32, file: FileId, wanted: LockExtent) -> LockExtent {
        let (first, end) = (wanted.start() / self.unit, wanted.end().div_ceil(self.unit));
        let below = self.blocks.range((keeper, file, 0)..(keeper, file, first)).next().is_some();
        let above = self.blocks.range((keeper, file, end)..=(keeper, file, u64::MAX)).next().is_some();
        let gone: Vec<Block> =
            self.blocks.range((keeper, file, first)..(keeper, file, end)).copied().collect();
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
    /// A client has a block in its memory.
    pub fn keep(&mut self, number: u32, keeper: u32, file: FileId, at: u64) {
        if self.setup.callback() == Callback::Kept {
            let room = self.setup.machine.aggregator_cache;
            self.clients[number as usize].kept.add(keeper, file, at, room);
        }
    }

    /// An access to bytes of a server that are leased passes its lock manager: for its time nobody else gets them. It is the
    /// holder's own, so it waits for nobody.
    pub fn pass(&mut self, number: u32, server: u16, file: FileId, local: u64, len: u64) {
        if self.setup.protocol != Protocol::Lease {
            return;
        }
        let holder = (number, self.clients[number as usize].turns[usize::from(server)]);
        let extent = LockExtent::new(local, local + len).expect("an access has bytes");
        let (ticket, mode, grant) = (LockTicket(u64::MAX), LockMode::Shared, Grant::Exact);
        let request = LockRequest { holder, ticket, file, extent, mode, grant };
        let manager = &mut self.keepers[usize::from(server)].manager;
        let done = manager.request_own(request).expect("clients keep to the protocol");
        let [LockAction::Granted { lock, .. }] = done[..] else { unreachable!("it has the lease") };
        let none = manager.unlock(holder, lock).expect("its own");
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

    fn kept(blocks: &[u64]) -> Kept {
        let mut kept = Kept::new(10);
        blocks.iter().for_each(|block| kept.add(0, F, block * 10 + 3, 1000));
        kept
    }

    #[test]
    fn what_nobody_uses_goes_with_what_is_wanted() {
        assert_eq!(kept(&[]).leave(0, F, x(20, 30)), LockExtent::ALL);
        assert_eq!(kept(&[2]).leave(0, F, x(20, 30)), LockExtent::ALL);
        assert_eq!(kept(&[1]).leave(0, F, x(20, 30)), x(20, u64::MAX));
        assert_eq!(kept(&[3]).leave(0, F, x(25, 26)), x(0, 30));
        assert_eq!(kept(&[0, 9]).leave(0, F, x(20, 40)), x(20, 40));
        assert_eq!(kept(&[0, 9]).leave(1, F, x(20, 40)), LockExtent::ALL, "at another server");
        let mut some = kept(&[1, 2, 3]);
        assert_eq!(some.leave(0, F, x(30, 40)), x(30, u64::MAX));
        assert_eq!(some.leave(0, F, x(10, 20)), x(0, 20));
        assert_eq!(some.leave(0, F, x(20, 30)), LockExtent::ALL);
    }

    #[test]
    fn the_oldest_make_room() {
        let mut kept = Kept::new(10);
        (0..5).for_each(|block| kept.add(0, F, block * 10, 30));
        assert_eq!(kept.blocks, [2, 3, 4].map(|block| (0, F, block)).into());
        assert_eq!(kept.leave(0, F, x(0, 10)), x(0, 10));
        assert_eq!(kept.order.len(), 3);
    }
}
