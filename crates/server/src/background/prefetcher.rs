//! The prefetcher, a thread that loads blocks which clients will read soon and holds them in the pool.
//!
//! A range is taken as a whole or refused: all ranges together use at most a quarter of the pool, those of one client at most half of
//! that, so that blocks in use have enough slots. A pin holds a block until its client reads it (then it counts as recently used),
//! cancels the prefetch or disconnects, or until the file is truncated. An error of the store is not reported here but to the client
//! that reads the block.

use std::collections::{BTreeMap, HashMap};
use std::ops;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use pario_cache::{Lookup, Pin};
use pario_runtime::sync::{Condvar, Mutex};
use pario_types::{ClientId, FileId};
use pario_wire::message::{ByteRange, PrefetchCounters};

use crate::counters::{Count, Counters};
use crate::pool::PoolTier;

/// The prefetched ranges, and those that are to be loaded.
#[derive(Default)]
pub(crate) struct Prefetches {
    inner: Mutex<Inner>,
    /// Wakes the prefetcher.
    changed: Condvar,
    /// The blocks of all ranges. While it is 0, requests need not lock `inner`.
    blocks: AtomicU32,
    taken: Count,
    refused: Count,
    released: Count,
    loaded: Count,
    hits: Count,
}

#[derive(Default)]
struct Inner {
    ranges: HashMap<ClientId, Vec<HeldRange>>,
    /// The ranges to load, in this order, and their clients.
    waiting: BTreeMap<u64, ClientId>,
    next: u64,
}

/// A range that was taken.
struct HeldRange {
    number: u64,
    file: FileId,
    range: ByteRange,
    /// The blocks that the client has not read; pinned after they are loaded.
    blocks: BTreeMap<u64, Option<Pin>>,
}

/// Blocks to load.
struct LoadJob {
    client: ClientId,
    number: u64,
    file: FileId,
    blocks: ops::Range<u64>,
}

/// The largest number of blocks, for all clients and for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    all: u32,
    one: u32,
}

impl Limits {
    fn of(slots: u32) -> Limits {
        let all = (slots / 4).max(1);
        Limits { all, one: (all / 2).max(1) }
    }
}

impl Prefetches {
    fn take(&self, client: ClientId, file: FileId, ranges: &[ByteRange], block: u64, limits: Limits) -> u32 {
        let mut inner = self.inner.lock();
        let mine: usize = inner.ranges.get(&client).into_iter().flatten().map(|held| held.blocks.len()).sum();
        let all = u64::from(self.blocks.load(Ordering::Relaxed));
        let free =
            u64::from(limits.all).saturating_sub(all).min(u64::from(limits.one).saturating_sub(mine as u64));
        let (mut taken, mut used) = (0, 0);
        for range in ranges {
            let blocks = covered(range, block);
            let count = blocks.end - blocks.start;
            if count > free - used {
                break;
            }
            used += count;
            taken += 1;
            if count > 0 {
                let number = inner.next;
                inner.next += 1;
                let blocks = blocks.map(|block| (block, None)).collect();
                inner.ranges.entry(client).or_default().push(HeldRange {
                    number,
                    file,
                    range: *range,
                    blocks,
                });
                inner.waiting.insert(number, client);
            }
        }
        self.blocks.fetch_add(used as u32, Ordering::Relaxed);
        self.taken.add(u64::from(taken));
        self.refused.add(ranges.len() as u64 - u64::from(taken));
        self.changed.notify_one();
        taken
    }

    /// Releases these ranges, as far as they are held.
    pub fn cancel(&self, client: ClientId, file: FileId, ranges: &[ByteRange]) {
        if self.is_empty() {
            return;
        }
        let mut inner = self.inner.lock();
        for range in ranges {
            let mut found = false;
            // The same range may have been prefetched twice.
            inner.release(self, client, |held| {
                let this = !found && held.file == file && held.range == *range;
                found |= this;
                this
            });
        }
    }

    /// Releases all ranges of a client that has disconnected.
    pub fn client_left(&self, client: ClientId) {
        self.inner.lock().release(self, client, |_| true);
    }

    /// Releases all ranges of a file.
    pub fn release_file(&self, file: FileId) {
        if self.is_empty() {
            return;
        }
        let mut inner = self.inner.lock();
        let clients: Vec<ClientId> = inner.ranges.keys().copied().collect();
        clients.into_iter().for_each(|client| inner.release(self, client, |held| held.file == file));
    }

    /// Wakes the prefetcher, so that it notices the end of the server.
    pub fn wake(&self) {
        // Under the lock: otherwise this could happen between the prefetcher's check and its wait.
        let _inner = self.inner.lock();
        self.changed.notify_all();
    }

    /// A client reads blocks of a file: returns the pins of those that are loaded.
    pub fn take_loaded(
        &self,
        client: ClientId,
        file: FileId,
        requested: impl Iterator<Item = ops::Range<u64>>,
    ) -> Vec<Pin> {
        let mut loaded = Vec::new();
        if self.is_empty() {
            return loaded;
        }
        let mut inner = self.inner.lock();
        let Some(mine) = inner.ranges.get_mut(&client) else { return loaded };
        for requested in requested {
            for held in mine.iter_mut().filter(|held| held.file == file) {
                let here: Vec<u64> = held.blocks.range(requested.clone()).map(|(block, _)| *block).collect();
                self.blocks.fetch_sub(here.len() as u32, Ordering::Relaxed);
                loaded.extend(here.iter().filter_map(|block| held.blocks.remove(block).flatten()));
            }
        }
        self.hits.add(loaded.len() as u64);
        inner.release(self, client, |held| held.blocks.is_empty());
        loaded
    }

    pub fn counts(&self) -> PrefetchCounters {
        PrefetchCounters {
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

    /// Waits for the next range to load. `None` when the server ends.
    fn next(&self, stop: &AtomicBool) -> Option<LoadJob> {
        let mut inner = self.inner.lock();
        while !stop.load(Ordering::Acquire) {
            let Some((number, client)) = inner.waiting.pop_first() else {
                self.changed.wait(&mut inner);
                continue;
            };
            if let Some(held) = inner.find(client, number)
                && let (Some(first), Some(last)) = (held.blocks.keys().next(), held.blocks.keys().next_back())
            {
                return Some(LoadJob { client, number, file: held.file, blocks: *first..*last + 1 });
            }
        }
        None
    }

    /// Holds a loaded block; whether its range is still held.
    fn hold(&self, load: &LoadJob, pin: Pin) -> bool {
        let mut inner = self.inner.lock();
        let Some(held) = inner.find(load.client, load.number) else { return false };
        if let Some(place) = held.blocks.get_mut(&pin.block()) {
            *place = Some(pin);
        }
        true
    }
}

impl Inner {
    fn find(&mut self, client: ClientId, number: u64) -> Option<&mut HeldRange> {
        self.ranges.get_mut(&client)?.iter_mut().find(|held| held.number == number)
    }

    /// Releases the ranges of a client that `is_released` selects.
    fn release(
        &mut self,
        of: &Prefetches,
        client: ClientId,
        mut is_released: impl FnMut(&HeldRange) -> bool,
    ) {
        let Some(mine) = self.ranges.get_mut(&client) else { return };
        mine.retain(|held| {
            let gone = is_released(held);
            if gone {
                self.waiting.remove(&held.number);
                of.blocks.fetch_sub(held.blocks.len() as u32, Ordering::Relaxed);
                of.released.add(1);
            }
            !gone
        });
        if mine.is_empty() {
            self.ranges.remove(&client);
        }
    }
}

/// The blocks of a range.
fn covered(range: &ByteRange, block: u64) -> ops::Range<u64> {
    match range.len {
        0 => 0..0,
        len => range.at / block..(range.at + len - 1) / block + 1,
    }
}

impl PoolTier {
    /// Takes ranges of a local part to load; how many of them, from the first on.
    pub fn prefetch(&self, client: ClientId, file: FileId, ranges: &[ByteRange]) -> u32 {
        let geometry = self.pool.geometry();
        self.prefetches.take(client, file, ranges, geometry.block.into(), Limits::of(geometry.slots))
    }

    /// A client reads ranges of a local part: returns the pins of prefetched blocks.
    pub fn take_prefetched(&self, client: ClientId, file: FileId, ranges: &[ByteRange]) -> Vec<Pin> {
        let block = self.pool.geometry().block.into();
        self.prefetches.take_loaded(client, file, ranges.iter().map(|range| covered(range, block)))
    }

    /// The main function of the prefetcher.
    pub fn run_prefetcher(&self, stop: &AtomicBool, counters: &Counters) {
        while let Some(load) = self.prefetches.next(stop) {
            self.load(&load, counters);
        }
    }

    /// Loads blocks as far as there are free slots, and none beyond the end.
    fn load(&self, load: &LoadJob, counters: &Counters) {
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
                // Another thread loads or removes it.
                Lookup::Busy => continue,
                Lookup::Full => return,
            };
            if !self.prefetches.hold(load, pin) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::pieces::Pieces;
    use crate::pool::{TransferBuffer, TransferStep};
    use pario_cache::{Geometry, Pool, PoolIdentity};
    use pario_store::{FaultyStore, MemoryStore, Store, StoreCall};
    use pario_types::{PartitionId, ServerId};
    use std::sync::Arc;

    const BLOCK: u64 = 4096;
    const SLOTS: u32 = 64;
    const FILE: FileId = FileId(5);
    const ONE: ClientId = ClientId(1);
    const TWO: ClientId = ClientId(2);

    /// A tier over a store that has `blocks` blocks of a file and fails after `reads` reads.
    struct TestTier {
        tier: PoolTier,
        counters: Counters,
        dir: std::path::PathBuf,
    }

    impl TestTier {
        fn new(name: &str, blocks: u64, reads: u64) -> TestTier {
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
            TestTier { tier: PoolTier::new(pool, Box::new(store), &dir), counters: Counters::new(), dir }
        }

        /// Loads all waiting ranges.
        fn load(&self) {
            while !self.tier.prefetches.inner.lock().waiting.is_empty() {
                let load = self.tier.prefetches.next(&AtomicBool::new(false)).unwrap();
                self.tier.load(&load, &self.counters);
            }
        }

        fn counts(&self) -> PrefetchCounters {
            self.tier.prefetches.counts()
        }

        fn read(&self, client: ClientId, block: u64) -> crate::error::Result<u8> {
            let mut out = [0; 1];
            let _ready = self.tier.take_prefetched(client, FILE, &[range(block..block + 1)]);
            let mut pieces = Pieces::listed(vec![ByteRange { at: block * BLOCK, len: 1 }]);
            // The prefetcher may be loading the block.
            loop {
                let to = TransferBuffer::Out(&mut out);
                match self.tier.transfer(FILE, &mut pieces, to, &mut 0, &self.counters)? {
                    TransferStep::Complete => return Ok(out[0]),
                    _ => std::thread::yield_now(),
                }
            }
        }
    }

    impl Drop for TestTier {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }

    fn range(blocks: ops::Range<u64>) -> ByteRange {
        ByteRange { at: blocks.start * BLOCK, len: (blocks.end - blocks.start) * BLOCK }
    }

    #[test]
    fn a_loaded_block_is_read_without_the_store_and_then_released() {
        let test = TestTier::new("ready", 100, 2);
        assert_eq!(
            test.tier.prefetch(ONE, FILE, &[range(3..6), ByteRange { at: 50 * BLOCK + 7, len: 2 }]),
            2
        );
        assert_eq!(test.counts().kept_blocks, 4);
        test.load();
        // One read of the store for each range, and no more are possible.
        assert_eq!(test.counts().loaded_blocks, 4);
        assert_eq!(test.counters.store_read_bytes.get(), 4 * BLOCK);
        for block in [4, 50, 3, 5] {
            assert_eq!(test.read(ONE, block).unwrap(), block as u8 + 1);
        }
        assert!(test.read(ONE, 60).is_err());
        let counts = test.counts();
        assert_eq!((counts.taken, counts.released, counts.hits, counts.kept_blocks), (2, 2, 4, 0));
        assert_eq!(test.tier.pool.counters().pinned, 0);
    }

    #[test]
    fn ranges_beyond_the_limits_of_client_and_server_are_refused() {
        let test = TestTier::new("limits", 100, u64::MAX);
        let eights: Vec<ByteRange> = (0..4).map(|i| range(8 * i..8 * i + 8)).collect();
        // The limit for all clients is a quarter of 64 blocks, that for one client half of it.
        assert_eq!(test.tier.prefetch(ONE, FILE, &eights), 1);
        assert_eq!(test.tier.prefetch(ONE, FILE, &[range(70..71)]), 0);
        assert_eq!(test.tier.prefetch(TWO, FILE, &[range(0..3), range(9..12), range(20..23)]), 2);
        assert_eq!(test.tier.prefetch(ClientId(3), FILE, &[range(0..3)]), 0);
        assert_eq!((test.counts().taken, test.counts().refused, test.counts().kept_blocks), (3, 6, 14));
        // Refused ranges are not held. Only exactly the prefetched range can be cancelled, and once.
        test.tier.prefetches.cancel(ONE, FILE, &[range(0..7), range(70..71)]);
        assert_eq!(test.counts().released, 0);
        test.tier.prefetches.cancel(ONE, FILE, &[eights[0], eights[0]]);
        assert_eq!((test.counts().released, test.counts().kept_blocks), (1, 6));
        assert_eq!(test.tier.prefetch(ONE, FILE, &[range(70..78), range(80..81)]), 1);
        test.load();
        test.tier.prefetches.client_left(ONE);
        test.tier.prefetches.client_left(TWO);
        assert_eq!((test.counts().released, test.counts().kept_blocks), (4, 0));
        assert_eq!(test.tier.pool.counters().pinned, 0);
    }

    #[test]
    fn held_blocks_are_not_evicted_and_cancelled_ones_are() {
        let test = TestTier::new("held", 200, u64::MAX);
        test.tier.prefetch(ONE, FILE, &[range(0..4)]);
        test.tier.prefetch(TWO, FILE, &[range(4..8)]);
        test.load();
        test.tier.prefetches.cancel(TWO, FILE, &[range(4..8)]);
        for block in 20..180 {
            test.read(TWO, block).unwrap();
        }
        let before = test.counters.store_read_bytes.get();
        (0..4).for_each(|block| assert_eq!(test.read(ONE, block).unwrap(), block as u8 + 1));
        assert_eq!(test.counters.store_read_bytes.get(), before);
        (4..8).for_each(|block| assert_eq!(test.read(TWO, block).unwrap(), block as u8 + 1));
        assert_eq!(test.counters.store_read_bytes.get(), before + 4 * BLOCK);
        assert_eq!(test.counts().hits, 4);
    }

    #[test]
    fn a_truncation_does_not_wait_for_prefetched_blocks() {
        let test = TestTier::new("cut", 20, u64::MAX);
        test.tier.prefetch(ONE, FILE, &[range(0..8)]);
        test.load();
        assert!(test.tier.truncate(FILE, BLOCK, pario_types::TruncationId(0), &mut None).unwrap());
        assert_eq!((test.counts().released, test.counts().kept_blocks), (1, 0));
        // No block beyond the end is loaded.
        let loaded = test.counts().loaded_blocks;
        assert_eq!(test.tier.prefetch(ONE, FILE, &[range(1..4), range(500..504)]), 2);
        test.load();
        assert_eq!(test.counts().loaded_blocks, loaded);
    }

    #[test]
    fn an_error_of_the_store_is_reported_to_the_reader() {
        let test = TestTier::new("fails", 20, 0);
        assert_eq!(test.tier.prefetch(ONE, FILE, &[range(0..4)]), 1);
        test.load();
        assert_eq!((test.counts().loaded_blocks, test.counts().kept_blocks), (0, 4));
        assert!(test.read(ONE, 0).is_err());
        assert_eq!((test.counts().hits, test.counts().kept_blocks), (0, 3));
    }

    #[test]
    fn threads_load_read_and_cancel_at_the_same_time() {
        let test = TestTier::new("threads", 100, u64::MAX);
        let stop = Arc::new(AtomicBool::new(false));
        std::thread::scope(|scope| {
            let prefetcher = scope.spawn(|| test.tier.run_prefetcher(&stop, &test.counters));
            let clients: Vec<_> = (0..3u64)
                .map(|client| {
                    let test = &test;
                    scope.spawn(move || {
                        let id = ClientId(u128::from(client));
                        for turn in 0..200u64 {
                            let at = (turn * 7 + client * 31) % 90;
                            let ranges = [range(at..at + 2), range(at + 1..at + 3)];
                            let taken = test.tier.prefetch(id, FILE, &ranges) as usize;
                            assert_eq!(test.read(id, at).unwrap(), at as u8 + 1);
                            test.tier.prefetches.cancel(id, FILE, &ranges[..taken]);
                        }
                        test.tier.prefetches.client_left(id);
                    })
                })
                .collect();
            clients.into_iter().for_each(|client| client.join().unwrap());
            stop.store(true, Ordering::Release);
            test.tier.prefetches.wake();
            prefetcher.join().unwrap();
        });
        let counts = test.counts();
        assert_eq!((counts.taken, counts.kept_blocks), (counts.released, 0));
        assert_eq!(test.tier.pool.counters().pinned, 0);
        assert!(test.tier.prefetches.inner.lock().waiting.is_empty());
    }
}
