//! Ranges that clients will read soon: a thread loads their blocks and keeps them in the pool until they are wanted.
//!
//! A range is taken as a whole or refused: all of them together have at most a quarter of the pool, those of one
//! client at most half of that, so that neither is short of room for what is in use now. A block is kept by a pin:
//! until its client comes for it (from then on it is one that was used just now), forgets it or goes, or its file is
//! cut. What cannot be loaded is not told here; who reads it hears of it.

use std::collections::{BTreeMap, HashMap};
use std::ops;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex};

use pario_cache::{Lookup, Pin};
use pario_types::{ClientId, FileId};
use pario_wire::message::{self, ByteRange};

use crate::core::lock;
use crate::status::{Count, Counters};
use crate::tier::Tier;

/// What was prefetched, and what is to be.
#[derive(Default)]
pub(crate) struct Prefetches {
    inner: Mutex<Inner>,
    work: Condvar,
    /// Blocks of all ranges: 0 lets requests pass without a look.
    blocks: AtomicU32,
    taken: Count,
    refused: Count,
    released: Count,
    loaded: Count,
    hits: Count,
}

#[derive(Default)]
struct Inner {
    ranges: HashMap<ClientId, Vec<Kept>>,
    /// Whose ranges are to be loaded, in this order.
    waiting: BTreeMap<u64, ClientId>,
    next: u64,
}

/// A range that was taken.
struct Kept {
    number: u64,
    file: FileId,
    range: ByteRange,
    /// Its blocks that the client has not come for, pinned once they are loaded.
    blocks: BTreeMap<u64, Option<Pin>>,
}

/// Blocks to load.
struct Load {
    client: ClientId,
    number: u64,
    file: FileId,
    blocks: ops::Range<u64>,
}

/// How many blocks may be kept, and how many for one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    all: u32,
    one: u32,
}

impl Share {
    fn of(slots: u32) -> Share {
        let all = (slots / 4).max(1);
        Share { all, one: (all / 2).max(1) }
    }
}

impl Prefetches {
    fn take(&self, client: ClientId, file: FileId, ranges: &[ByteRange], block: u64, share: Share) -> u32 {
        let mut inner = lock(&self.inner);
        let mine: usize = inner.ranges.get(&client).into_iter().flatten().map(|kept| kept.blocks.len()).sum();
        let all = u64::from(self.blocks.load(Ordering::Relaxed));
        let room =
            u64::from(share.all).saturating_sub(all).min(u64::from(share.one).saturating_sub(mine as u64));
        let (mut taken, mut used) = (0, 0);
        for range in ranges {
            let blocks = covered(range, block);
            let count = blocks.end - blocks.start;
            if count > room - used {
                break;
            }
            used += count;
            taken += 1;
            if count > 0 {
                let number = inner.next;
                inner.next += 1;
                let blocks = blocks.map(|block| (block, None)).collect();
                inner.ranges.entry(client).or_default().push(Kept { number, file, range: *range, blocks });
                inner.waiting.insert(number, client);
            }
        }
        self.blocks.fetch_add(used as u32, Ordering::Relaxed);
        self.taken.add(u64::from(taken));
        self.refused.add(ranges.len() as u64 - u64::from(taken));
        self.work.notify_one();
        taken
    }

    /// These ranges are not wanted any more, as far as they are kept.
    pub fn forget(&self, client: ClientId, file: FileId, ranges: &[ByteRange]) {
        if self.is_empty() {
            return;
        }
        let mut inner = lock(&self.inner);
        for range in ranges {
            let mut found = false;
            // The same range may have been asked for twice.
            inner.release(self, client, |kept| {
                let this = !found && kept.file == file && kept.range == *range;
                found |= this;
                this
            });
        }
    }

    /// A client has gone.
    pub fn left(&self, client: ClientId) {
        lock(&self.inner).release(self, client, |_| true);
    }

    /// A file's blocks are about to go.
    pub fn let_go(&self, file: FileId) {
        if self.is_empty() {
            return;
        }
        let mut inner = lock(&self.inner);
        let clients: Vec<ClientId> = inner.ranges.keys().copied().collect();
        clients.into_iter().for_each(|client| inner.release(self, client, |kept| kept.file == file));
    }

    /// At the server's end.
    pub fn stop(&self) {
        // Under the lock, or it could come between a look at the sign to stop and the wait.
        let _inner = lock(&self.inner);
        self.work.notify_all();
    }

    /// A client comes for blocks of a file: those that are ready, which stay as long as these live.
    pub fn meet(
        &self,
        client: ClientId,
        file: FileId,
        wanted: impl Iterator<Item = ops::Range<u64>>,
    ) -> Vec<Pin> {
        let mut ready = Vec::new();
        if self.is_empty() {
            return ready;
        }
        let mut inner = lock(&self.inner);
        let Some(mine) = inner.ranges.get_mut(&client) else { return ready };
        for wanted in wanted {
            for kept in mine.iter_mut().filter(|kept| kept.file == file) {
                let here: Vec<u64> = kept.blocks.range(wanted.clone()).map(|(block, _)| *block).collect();
                self.blocks.fetch_sub(here.len() as u32, Ordering::Relaxed);
                ready.extend(here.iter().filter_map(|block| kept.blocks.remove(block).flatten()));
            }
        }
        self.hits.add(ready.len() as u64);
        inner.release(self, client, |kept| kept.blocks.is_empty());
        ready
    }

    pub fn counts(&self) -> message::PrefetchCounters {
        message::PrefetchCounters {
            taken: self.taken.get(),
            refused: self.refused.get(),
            released: self.released.get(),
            loaded_blocks: self.loaded.get(),
            hits: self.hits.get(),
            kept_blocks: self.blocks.load(Ordering::Relaxed),
        }
    }

    fn is_empty(&self) -> bool {
        self.blocks.load(Ordering::Relaxed) == 0
    }

    /// The next range to load; waits for one until the server ends.
    fn next(&self, stop: &AtomicBool) -> Option<Load> {
        let mut inner = lock(&self.inner);
        while !stop.load(Ordering::Acquire) {
            let Some((number, client)) = inner.waiting.pop_first() else {
                inner = self.work.wait(inner).unwrap_or_else(|poisoned| poisoned.into_inner());
                continue;
            };
            if let Some(kept) = inner.find(client, number)
                && let (Some(first), Some(last)) = (kept.blocks.keys().next(), kept.blocks.keys().next_back())
            {
                return Some(Load { client, number, file: kept.file, blocks: *first..*last + 1 });
            }
        }
        None
    }

    /// Keeps a block that is loaded; whether its range is still wanted.
    fn keep(&self, load: &Load, pin: Pin) -> bool {
        let mut inner = lock(&self.inner);
        let Some(kept) = inner.find(load.client, load.number) else { return false };
        if let Some(place) = kept.blocks.get_mut(&pin.block()) {
            *place = Some(pin);
        }
        true
    }
}

impl Inner {
    fn find(&mut self, client: ClientId, number: u64) -> Option<&mut Kept> {
        self.ranges.get_mut(&client)?.iter_mut().find(|kept| kept.number == number)
    }

    /// Lets those ranges of a client go that `goes` names.
    fn release(&mut self, of: &Prefetches, client: ClientId, mut goes: impl FnMut(&Kept) -> bool) {
        let Some(mine) = self.ranges.get_mut(&client) else { return };
        mine.retain(|kept| {
            let gone = goes(kept);
            if gone {
                self.waiting.remove(&kept.number);
                of.blocks.fetch_sub(kept.blocks.len() as u32, Ordering::Relaxed);
                of.released.add(1);
            }
            !gone
        });
        if mine.is_empty() {
            self.ranges.remove(&client);
        }
    }
}

/// The blocks that a range touches.
fn covered(range: &ByteRange, block: u64) -> ops::Range<u64> {
    match range.len {
        0 => 0..0,
        len => range.at / block..(range.at + len - 1) / block + 1,
    }
}

impl Tier {
    /// Takes ranges of a local part to be loaded; how many of them, from the first on.
    pub fn prefetch(&self, client: ClientId, file: FileId, ranges: &[ByteRange]) -> u32 {
        let geometry = self.pool.geometry();
        self.prefetches.take(client, file, ranges, geometry.block.into(), Share::of(geometry.slots))
    }

    /// A client comes for ranges of a local part.
    pub fn meet(&self, client: ClientId, file: FileId, ranges: &[ByteRange]) -> Vec<Pin> {
        let block = self.pool.geometry().block.into();
        self.prefetches.meet(client, file, ranges.iter().map(|range| covered(range, block)))
    }

    /// The prefetcher's life.
    pub fn run_prefetcher(&self, stop: &AtomicBool, counters: &Counters) {
        while let Some(load) = self.prefetches.next(stop) {
            self.load(&load, counters);
        }
    }

    /// Loads blocks as far as there is room, and none beyond the end.
    fn load(&self, load: &Load, counters: &Counters) {
        let Ok(end) = self.end(load.file) else { return };
        let end = end.div_ceil(self.pool.geometry().block.into()).min(load.blocks.end);
        for block in load.blocks.start..end {
            let pin = match self.pool.get(load.file, block) {
                Lookup::Hit(pin) => pin,
                Lookup::Fill(first) => {
                    let fills = self.more_fills(load.file, first, block, end - block);
                    let count = fills.len() as u64;
                    match self
                        .fill(load.file, block, fills, counters)
                        .map(|()| self.pool.get(load.file, block))
                    {
                        Ok(Lookup::Hit(pin)) => {
                            self.prefetches.loaded.add(count);
                            pin
                        }
                        _ => return,
                    }
                }
                // Another brings it, or it goes.
                Lookup::Busy => continue,
                Lookup::Full => return,
            };
            if !self.prefetches.keep(load, pin) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pieces::Pieces;
    use crate::tier::{Bytes, Moved};
    use pario_cache::{Geometry, Pool, PoolIdentity};
    use pario_store::{FaultyStore, MemoryStore, Store, StoreCall};
    use pario_types::{PartitionId, ServerId};
    use std::sync::Arc;

    const BLOCK: u64 = 4096;
    const SLOTS: u32 = 64;
    const FILE: FileId = FileId(5);
    const ONE: ClientId = ClientId(1);
    const TWO: ClientId = ClientId(2);

    /// A tier over a store from which only so many reads succeed, with `blocks` blocks of a file stored; and the pool's
    /// directory.
    struct Site {
        tier: Tier,
        counters: Counters,
        dir: std::path::PathBuf,
    }

    impl Site {
        fn new(name: &str, blocks: u64, reads: u64) -> Site {
            let store = FaultyStore::new(MemoryStore::new(BLOCK as usize).unwrap());
            for block in 0..blocks {
                let bytes = vec![block as u8 + 1; BLOCK as usize];
                store.write(FILE, block, &[&bytes], (block + 1) * BLOCK).unwrap();
            }
            store.fail(Some(StoreCall::Read), reads, u64::MAX, libc::EIO);
            let dir = std::env::temp_dir().join(format!("pario-prefetch-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&dir).unwrap();
            let geometry = Geometry { block: BLOCK as u32, slots: SLOTS, ledgers: 4 };
            let identity = PoolIdentity { partition: PartitionId(1), server: ServerId(0) };
            let pool = Pool::create(&dir.join("pool"), geometry, identity).unwrap();
            Site { tier: Tier::new(pool, Box::new(store), &dir), counters: Counters::new(), dir }
        }

        /// Loads everything that waits.
        fn load(&self) {
            while !lock(&self.tier.prefetches.inner).waiting.is_empty() {
                let load = self.tier.prefetches.next(&AtomicBool::new(false)).unwrap();
                self.tier.load(&load, &self.counters);
            }
        }

        fn counts(&self) -> message::PrefetchCounters {
            self.tier.prefetches.counts()
        }

        fn read(&self, client: ClientId, block: u64) -> crate::error::Result<u8> {
            let mut out = [0; 1];
            let _ready = self.tier.meet(client, FILE, &[range(block..block + 1)]);
            let mut pieces = Pieces::listed(vec![ByteRange { at: block * BLOCK, len: 1 }]);
            // The prefetcher may be at it.
            loop {
                let to = Bytes::Out(&mut out);
                match self.tier.transfer(FILE, &mut pieces, to, &mut 0, &self.counters)? {
                    Moved::All => return Ok(out[0]),
                    _ => std::thread::yield_now(),
                }
            }
        }
    }

    impl Drop for Site {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }

    fn range(blocks: ops::Range<u64>) -> ByteRange {
        ByteRange { at: blocks.start * BLOCK, len: (blocks.end - blocks.start) * BLOCK }
    }

    #[test]
    fn what_is_ready_needs_no_store_and_is_let_go_when_it_is_read() {
        let site = Site::new("ready", 100, 2);
        assert_eq!(
            site.tier.prefetch(ONE, FILE, &[range(3..6), ByteRange { at: 50 * BLOCK + 7, len: 2 }]),
            2
        );
        assert_eq!(site.counts().kept_blocks, 4);
        site.load();
        // One read of the store each, and no more are possible.
        assert_eq!(site.counts().loaded_blocks, 4);
        assert_eq!(site.counters.store_read_bytes.get(), 4 * BLOCK);
        for block in [4, 50, 3, 5] {
            assert_eq!(site.read(ONE, block).unwrap(), block as u8 + 1);
        }
        assert!(site.read(ONE, 60).is_err());
        let counts = site.counts();
        assert_eq!((counts.taken, counts.released, counts.hits, counts.kept_blocks), (2, 2, 4, 0));
        assert_eq!(site.tier.pool.counters().pinned, 0);
    }

    #[test]
    fn past_the_shares_of_client_and_server_ranges_are_refused() {
        let site = Site::new("limits", 100, u64::MAX);
        let eights: Vec<ByteRange> = (0..4).map(|i| range(8 * i..8 * i + 8)).collect();
        // A quarter of 64 blocks is for all, half of that for one.
        assert_eq!(site.tier.prefetch(ONE, FILE, &eights), 1);
        assert_eq!(site.tier.prefetch(ONE, FILE, &[range(70..71)]), 0);
        assert_eq!(site.tier.prefetch(TWO, FILE, &[range(0..3), range(9..12), range(20..23)]), 2);
        assert_eq!(site.tier.prefetch(ClientId(3), FILE, &[range(0..3)]), 0);
        assert_eq!((site.counts().taken, site.counts().refused, site.counts().kept_blocks), (3, 6, 14));
        // What was refused was not kept, and what is forgotten makes room; as it was asked for, and once.
        site.tier.prefetches.forget(ONE, FILE, &[range(0..7), range(70..71)]);
        assert_eq!(site.counts().released, 0);
        site.tier.prefetches.forget(ONE, FILE, &[eights[0], eights[0]]);
        assert_eq!((site.counts().released, site.counts().kept_blocks), (1, 6));
        assert_eq!(site.tier.prefetch(ONE, FILE, &[range(70..78), range(80..81)]), 1);
        site.load();
        site.tier.prefetches.left(ONE);
        site.tier.prefetches.left(TWO);
        assert_eq!((site.counts().released, site.counts().kept_blocks), (4, 0));
        assert_eq!(site.tier.pool.counters().pinned, 0);
    }

    #[test]
    fn what_is_kept_survives_others_and_what_was_forgotten_does_not() {
        let site = Site::new("kept", 200, u64::MAX);
        site.tier.prefetch(ONE, FILE, &[range(0..4)]);
        site.tier.prefetch(TWO, FILE, &[range(4..8)]);
        site.load();
        site.tier.prefetches.forget(TWO, FILE, &[range(4..8)]);
        for block in 20..180 {
            site.read(TWO, block).unwrap();
        }
        let before = site.counters.store_read_bytes.get();
        (0..4).for_each(|block| assert_eq!(site.read(ONE, block).unwrap(), block as u8 + 1));
        assert_eq!(site.counters.store_read_bytes.get(), before);
        (4..8).for_each(|block| assert_eq!(site.read(TWO, block).unwrap(), block as u8 + 1));
        assert_eq!(site.counters.store_read_bytes.get(), before + 4 * BLOCK);
        assert_eq!(site.counts().hits, 4);
    }

    #[test]
    fn a_cut_does_not_wait_for_what_was_prefetched() {
        let site = Site::new("cut", 20, u64::MAX);
        site.tier.prefetch(ONE, FILE, &[range(0..8)]);
        site.load();
        assert!(site.tier.truncate(FILE, BLOCK, pario_types::TruncationId(0), &mut None).unwrap());
        assert_eq!((site.counts().released, site.counts().kept_blocks), (1, 0));
        // Nothing beyond the end is loaded.
        let loaded = site.counts().loaded_blocks;
        assert_eq!(site.tier.prefetch(ONE, FILE, &[range(1..4), range(500..504)]), 2);
        site.load();
        assert_eq!(site.counts().loaded_blocks, loaded);
    }

    #[test]
    fn a_store_that_fails_is_told_to_who_reads() {
        let site = Site::new("fails", 20, 0);
        assert_eq!(site.tier.prefetch(ONE, FILE, &[range(0..4)]), 1);
        site.load();
        assert_eq!((site.counts().loaded_blocks, site.counts().kept_blocks), (0, 4));
        assert!(site.read(ONE, 0).is_err());
        assert_eq!((site.counts().hits, site.counts().kept_blocks), (0, 3));
    }

    #[test]
    fn threads_load_read_and_forget_at_once() {
        let site = Site::new("threads", 100, u64::MAX);
        let stop = Arc::new(AtomicBool::new(false));
        std::thread::scope(|scope| {
            let prefetcher = scope.spawn(|| site.tier.run_prefetcher(&stop, &site.counters));
            let clients: Vec<_> = (0..3u64)
                .map(|client| {
                    let site = &site;
                    scope.spawn(move || {
                        let id = ClientId(u128::from(client));
                        for turn in 0..200u64 {
                            let at = (turn * 7 + client * 31) % 90;
                            let ranges = [range(at..at + 2), range(at + 1..at + 3)];
                            let taken = site.tier.prefetch(id, FILE, &ranges) as usize;
                            assert_eq!(site.read(id, at).unwrap(), at as u8 + 1);
                            site.tier.prefetches.forget(id, FILE, &ranges[..taken]);
                        }
                        site.tier.prefetches.left(id);
                    })
                })
                .collect();
            clients.into_iter().for_each(|client| client.join().unwrap());
            stop.store(true, Ordering::Release);
            site.tier.prefetches.stop();
            prefetcher.join().unwrap();
        });
        let counts = site.counts();
        assert_eq!((counts.taken, counts.kept_blocks), (counts.released, 0));
        assert_eq!(site.tier.pool.counters().pinned, 0);
        assert!(lock(&site.tier.prefetches.inner).waiting.is_empty());
    }
}
