//! Space in the store for the blocks that the pool accepts: a full disk is an error of the write, and accepted blocks can be stored.
//!
//! The pool accepts a write only if its slot has been granted space ([`pario_cache::Pool::set_plenty`]). There are two modes.
//!
//! *Plenty*: the medium has space for every block of the pools of this host, so every slot has it and nothing is reserved. The server
//! counts the bytes that it stores and checks the medium again before they exceed the surplus; also from time to time, since other
//! programs use the medium as well.
//!
//! *Scarce*: the server reserves space in the store, block by block, when it hands out a block for writing. A write without space
//! fails. When plenty ends, the server reserves space for the blocks that are dirty or handed out at that moment, for which there is
//! enough by the definition of plenty.
//!
//! Other programs may use up the medium at once, or a quota may be smaller than the medium. Then accepted blocks cannot be stored: they
//! stay in the pool, syncs fail, and from then on the server always reserves space.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use pario_cache::Pin;
use pario_runtime::sync::Mutex;
use pario_runtime::time::Instant;
use pario_types::{ErrorKind, FileId};

use super::{BATCH, PoolTier};
use crate::counters::Counters;
use crate::error::{Error, Result};

/// The bytes of a block on the medium besides its data: its checksum and the file system's own records.
const OVERHEAD: u64 = 8 << 10;

/// How often the medium is checked, at least, while blocks are handed out or stored.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// How often the server tries to store a block while nothing can be stored and requests wait for it.
const PROBE_INTERVAL: Duration = Duration::from_millis(50);

/// Blocks that stay free where space cannot be reserved but only counted: threads that count at the same time do not see each
/// other's blocks.
const SAFETY_BLOCKS: u64 = 64;

pub(crate) struct SpaceReservation {
    /// The directory of the store, for messages.
    directory: PathBuf,
    mode: Mutex<Mode>,
    /// Bytes that may be stored before the medium is checked again.
    credit: AtomicI64,
    /// When the medium is checked again in any case: milliseconds since the start.
    due: AtomicU64,
    clock: Clock,
    /// The number of servers that may use the same medium.
    sharers: AtomicU64,
    /// Whether a block could not be stored for lack of space.
    is_short: AtomicBool,
    /// The last error of storing a block.
    failure: Mutex<Option<pario_store::Error>>,
    /// When the server may try again to store a block: milliseconds since the start.
    probe: AtomicU64,
}

/// Where the time comes from.
enum Clock {
    System(Instant),
    /// Set by a test.
    #[cfg(test)]
    Manual(AtomicU64),
}

struct Mode {
    plenty: bool,
    /// The medium was full although it reported plenty of space, as under a quota.
    is_misreported: bool,
}

impl SpaceReservation {
    pub fn new(directory: PathBuf) -> SpaceReservation {
        SpaceReservation {
            directory,
            // The initial state of the pool.
            mode: Mutex::new(Mode { plenty: true, is_misreported: false }),
            credit: AtomicI64::new(0),
            due: AtomicU64::new(0),
            clock: Clock::System(Instant::now()),
            sharers: AtomicU64::new(1),
            is_short: AtomicBool::new(false),
            failure: Mutex::default(),
            probe: AtomicU64::new(0),
        }
    }

    /// The last error of storing a block.
    pub fn failure(&self) -> Option<Error> {
        self.failure.lock().clone().map(Error::Store)
    }

    /// Whether it is time to try again to store a block that could not be stored.
    pub fn may_probe(&self) -> bool {
        let (now, probe) = (self.now(), self.probe.load(Ordering::Relaxed));
        let next = now.saturating_add(PROBE_INTERVAL.as_millis() as u64);
        now >= probe && self.probe.compare_exchange(probe, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    #[cfg(test)]
    fn set_time(&self, milliseconds: u64) {
        if let Clock::Manual(now) = &self.clock {
            now.store(milliseconds, Ordering::Relaxed);
        }
    }

    fn now(&self) -> u64 {
        match &self.clock {
            Clock::System(started) => u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            #[cfg(test)]
            Clock::Manual(milliseconds) => milliseconds.load(Ordering::Relaxed),
        }
    }
}

/// Whether an error means that there is no space.
pub(crate) fn is_full(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NoSpace | ErrorKind::Quota)
}

impl PoolTier {
    /// Sets the number of servers that may use the same medium.
    pub fn share_medium(&self, servers: u64, counters: &Counters) {
        self.space.sharers.store(servers.max(1), Ordering::Relaxed);
        self.check_medium(counters);
    }

    /// Ensures that there is space for the block. If space has to be reserved, this reserves it up to the block `upto` as far as
    /// possible, and notes that in `reserved` for the next call.
    pub fn ensure_space(
        &self,
        pin: &Pin,
        upto: u64,
        reserved: &mut Range<u64>,
        counters: &Counters,
    ) -> Result<()> {
        self.check_if_due(counters);
        if pin.has_room() {
            return Ok(());
        }
        self.reserve(pin.file(), pin.block()..upto, reserved, counters)?;
        pin.grant_room();
        Ok(())
    }

    /// The same for a block that is not in the pool yet; whether space is reserved for it. If not, there is plenty.
    pub fn ensure_space_for_new(
        &self,
        file: FileId,
        blocks: Range<u64>,
        reserved: &mut Range<u64>,
        counters: &Counters,
    ) -> Result<bool> {
        self.check_if_due(counters);
        if self.space.mode.lock().plenty {
            return Ok(false);
        }
        self.reserve(file, blocks, reserved, counters).map(|()| true)
    }

    /// Whether blocks can be handed out without reserving space for them.
    pub fn has_plenty(&self) -> bool {
        self.space.mode.lock().plenty
    }

    /// Reserves space for the first of these blocks, and for as many of the others as possible.
    fn reserve(
        &self,
        file: FileId,
        blocks: Range<u64>,
        reserved: &mut Range<u64>,
        counters: &Counters,
    ) -> Result<()> {
        if reserved.contains(&blocks.start) {
            return Ok(());
        }
        let mut count = (blocks.end - blocks.start).clamp(1, BATCH as u64);
        loop {
            let wanted = blocks.start..blocks.start + count;
            match self.store.reserve(file, wanted.clone()) {
                Ok(()) => {
                    *reserved = wanted;
                    return Ok(());
                }
                Err(e) if e.errno() == libc::EOPNOTSUPP => {
                    *reserved = blocks.start..blocks.start + 1;
                    return self.count_space();
                }
                Err(e) if is_full(e.kind()) && count > 1 => count /= 2,
                Err(e) if is_full(e.kind()) => return Err(self.no_space(e.kind())),
                Err(e) => {
                    counters.store_failed(&e);
                    return Err(e.into());
                }
            }
        }
    }

    /// Whether there is space for one more block than has been granted space, where it cannot be reserved.
    fn count_space(&self) -> Result<()> {
        let blocks = u64::from(self.pool.granted()) + SAFETY_BLOCKS + 1;
        let needed = blocks.saturating_mul(u64::from(self.pool.geometry().block) + OVERHEAD);
        if self.store.room()?.free >= needed { Ok(()) } else { Err(self.no_space(ErrorKind::NoSpace)) }
    }

    fn no_space(&self, kind: ErrorKind) -> Error {
        self.space.is_short.store(true, Ordering::Relaxed);
        let free = self.store.room().map_or(0, |room| room.free);
        Error::NoSpace { directory: self.space.directory.clone(), free, kind }
    }

    /// Notes that so many blocks were stored.
    pub fn note_stored(&self, blocks: usize, counters: &Counters) {
        let bytes = blocks as u64 * (u64::from(self.pool.geometry().block) + OVERHEAD);
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let before = self.space.credit.fetch_sub(bytes, Ordering::Relaxed);
        if before <= bytes {
            self.check_medium(counters);
        } else {
            self.check_if_due(counters);
        }
    }

    /// Notes that a block could not be stored.
    pub fn note_failure(&self, error: &pario_store::Error, counters: &Counters) {
        *self.space.failure.lock() = Some(error.clone());
        if !is_full(error.kind()) {
            return;
        }
        self.space.is_short.store(true, Ordering::Relaxed);
        let mut mode = self.space.mode.lock();
        if mode.plenty {
            let seems = self.store.room().is_ok_and(|room| room.free >= self.needed());
            mode.is_misreported |= seems;
            self.end_plenty(&mut mode, counters);
        }
    }

    /// Notes that space was freed: blocks that could not be stored are tried again.
    pub fn note_freed(&self, counters: &Counters) {
        if self.space.is_short.swap(false, Ordering::Relaxed) {
            self.check_medium(counters);
            self.retry_failed();
        }
    }

    /// The bytes that all blocks of all pools on the medium can use. A reserved block may use two: a sync may come before the write,
    /// and the store does not overwrite a synced block.
    fn needed(&self) -> u64 {
        let geometry = self.pool.geometry();
        let each = 2 * u64::from(geometry.block) + OVERHEAD;
        u64::from(geometry.slots).saturating_mul(each).saturating_mul(self.sharers())
    }

    fn sharers(&self) -> u64 {
        self.space.sharers.load(Ordering::Relaxed)
    }

    fn check_if_due(&self, counters: &Counters) {
        if self.space.now() >= self.space.due.load(Ordering::Relaxed) {
            self.check_medium(counters);
        }
    }

    /// Checks how much space the medium has.
    pub fn check_medium(&self, counters: &Counters) {
        let mut mode = self.space.mode.lock();
        let due = self.space.now().saturating_add(CHECK_INTERVAL.as_millis() as u64);
        self.space.due.store(due, Ordering::Relaxed);
        let needed = self.needed();
        // Avoids changing back and forth at the limit.
        let enough = if mode.plenty { needed } else { needed.saturating_add(needed / 8) };
        let free = match self.store.room() {
            Ok(room) => room.free,
            Err(e) => {
                counters.store_failed(&e);
                0
            }
        };
        if free < enough || mode.is_misreported {
            self.space.credit.store(i64::MAX, Ordering::Relaxed);
            return self.end_plenty(&mut mode, counters);
        }
        // Each server may store as much after its last check as another before its own.
        let credit = (free - needed) / (2 * self.sharers());
        self.space.credit.store(i64::try_from(credit).unwrap_or(i64::MAX), Ordering::Relaxed);
        if !mode.plenty {
            mode.plenty = true;
            self.pool.set_plenty(true);
            self.space.is_short.store(false, Ordering::Relaxed);
            self.retry_failed();
        }
    }

    /// From now on the server reserves space, and at once for accepted blocks.
    fn end_plenty(&self, mode: &mut Mode, counters: &Counters) {
        if !std::mem::replace(&mut mode.plenty, false) {
            return;
        }
        for (file, block) in self.pool.set_plenty(false) {
            match self.store.reserve(file, block..block + 1) {
                Ok(()) => self.pool.grant_room(file, block),
                // Space is counted, not reserved.
                Err(e) if e.errno() == libc::EOPNOTSUPP => self.pool.grant_room(file, block),
                Err(e) => counters.store_failed(&e),
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
    use pario_wire::message::ByteRange;

    const BLOCK: u64 = 4096;
    const SLOTS: u32 = 16;
    const FILE: FileId = FileId(7);

    struct TestTier {
        tier: PoolTier,
        counters: Counters,
        dir: PathBuf,
    }

    impl TestTier {
        fn new(name: &str, store: impl Store + 'static) -> TestTier {
            let dir = std::env::temp_dir().join(format!("pario-room-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&dir).unwrap();
            let geometry = Geometry { block: BLOCK as u32, slots: SLOTS, ledgers: 4 };
            let identity = PoolIdentity { partition: PartitionId(1), server: ServerId(0) };
            let pool = Pool::create(&dir.join("pool"), geometry, identity).unwrap();
            let test =
                TestTier { tier: PoolTier::new(pool, Box::new(store), &dir), counters: Counters::new(), dir };
            test.tier.check_medium(&test.counters);
            test
        }

        /// Writes all of a block.
        fn write(&self, block: u64) -> Result<()> {
            let bytes = [(block as u8).wrapping_add(1); BLOCK as usize];
            let mut pieces = Pieces::listed(vec![ByteRange { at: block * BLOCK, len: BLOCK }]);
            let moved =
                self.tier.transfer(FILE, &mut pieces, TransferBuffer::In(&bytes), &mut 0, &self.counters)?;
            assert_eq!(moved, TransferStep::Complete, "no other access");
            Ok(())
        }

        fn stored(&self, block: u64) -> u8 {
            let mut bytes = vec![0; BLOCK as usize];
            self.tier.store.read(FILE, block, &mut [&mut bytes]).unwrap();
            bytes[0]
        }
    }

    impl Drop for TestTier {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }

    fn kind<T: std::fmt::Debug>(outcome: Result<T>) -> ErrorKind {
        outcome.expect_err("there is no space").kind()
    }

    /// The medium reports plenty of space, but this user has a quota.
    #[test]
    fn after_a_quota_error_space_is_always_reserved() {
        let store = FaultyStore::new(MemoryStore::new(BLOCK as usize).unwrap());
        store.fail(Some(StoreCall::Write), 0, 1, libc::EDQUOT);
        store.fail(Some(StoreCall::Reserve), 1, 1, libc::EDQUOT);
        let test = TestTier::new("quota", store);
        assert!(test.tier.has_plenty());
        test.write(0).unwrap();
        assert_eq!(kind(test.tier.sync_now(FILE, &test.counters)), ErrorKind::Quota);
        test.tier.check_medium(&test.counters);
        assert!(!test.tier.has_plenty(), "the server no longer trusts the reported space");
        let error = test.write(1).expect_err("the quota is used up");
        assert_eq!((error.kind(), error.to_failure().errno), (ErrorKind::Quota, 122));
        assert!(error.to_string().contains(&*test.dir.to_string_lossy()), "{error}");
        // Accepted blocks stay, and are stored as soon as possible.
        test.tier.sync_now(FILE, &test.counters).unwrap();
        assert_eq!((test.stored(0), test.stored(1)), (1, 0));
        test.write(1).and_then(|()| test.tier.sync_now(FILE, &test.counters)).unwrap();
        assert_eq!(test.stored(1), 2);
    }

    #[test]
    fn space_that_cannot_be_reserved_is_counted() {
        let each = BLOCK + OVERHEAD;
        let capacity = (SAFETY_BLOCKS + 5) * each;
        let store = FaultyStore::new(MemoryStore::with_capacity(BLOCK as usize, capacity).unwrap());
        store.fail(Some(StoreCall::Reserve), 0, u64::MAX, libc::EOPNOTSUPP);
        let test = TestTier::new("counted", store);
        // As if the pools of many servers were on the same medium.
        test.tier.share_medium(100, &test.counters);
        assert!(!test.tier.has_plenty());
        let accepted = (0..).find(|&block| test.write(block).is_err()).unwrap();
        assert_eq!(accepted, 5, "there is space for no more");
        assert_eq!(kind(test.write(accepted)), ErrorKind::NoSpace);
        test.tier.sync_now(FILE, &test.counters).unwrap();
        (0..accepted).for_each(|block| assert_eq!(test.stored(block), block as u8 + 1));
    }

    /// All slots are dirty, and the store accepts nothing.
    #[test]
    fn a_full_store_is_not_tried_for_every_request() {
        let store = FaultyStore::new(MemoryStore::new(BLOCK as usize).unwrap());
        store.fail(Some(StoreCall::Write), 0, u64::MAX, libc::ENOSPC);
        let mut test = TestTier::new("stuck", store);
        test.tier.space.clock = Clock::Manual(AtomicU64::new(0));
        let test = test;
        (0..u64::from(SLOTS)).for_each(|block| test.write(block).unwrap());
        let time = |milliseconds| test.tier.space.set_time(milliseconds);
        let refuse = |blocks: Range<u64>| {
            blocks.for_each(|block| assert_eq!(kind(test.write(block)), ErrorKind::NoSpace));
            test.counters.flush_errors.get()
        };
        let tries = refuse(100..110);
        assert_eq!(refuse(110..1100), tries, "no time has passed");
        for round in 1..5 {
            time(round * PROBE_INTERVAL.as_millis() as u64);
            assert_eq!(refuse(100..200), tries + round, "one try in each interval");
        }
        let told = test.counters.last_errors();
        assert!(told.len() == 1 && told[0].contains("No space left"), "{told:?}");
        // Stored blocks can still be read.
        let mut out = [9; 8];
        let mut pieces = Pieces::listed(vec![ByteRange { at: 500 * BLOCK, len: 8 }]);
        let read =
            test.tier.transfer(FILE, &mut pieces, TransferBuffer::Out(&mut out), &mut 0, &test.counters);
        assert_eq!((read.unwrap(), out), (TransferStep::Complete, [0; 8]));
    }
}
