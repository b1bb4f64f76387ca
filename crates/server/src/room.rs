//! Room in the store for what the pool accepts: a full disk is an error of the write, and what was accepted can be stored.
//!
//! The pool lets a write count only if its slot has been granted room ([`pario_cache::Pool::set_plenty`]). There are two
//! ways to grant it.
//!
//! *Plenty*: the medium has room for every block of the pools of this host, so every slot has it and nothing is reserved.
//! What goes to the store is counted, and the medium is looked at again before as much has gone there as there was more
//! than that; also from time to time, since others use the medium as well.
//!
//! *Scarce*: room is reserved in the store, block by block, when a block is handed out to be written; a write that cannot
//! have it fails. When plenty ends, room is reserved for what is dirty or handed out at that moment, for which there is
//! enough by the definition of plenty.
//!
//! Others may use up the medium in one go, or a quota may be smaller than the medium. Then blocks cannot be stored although
//! they were accepted: they stay in the pool, syncs fail, and from then on room is reserved in any case.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pario_cache::Pin;
use pario_types::{ErrorKind, FileId};

use crate::core::lock;
use crate::error::{Error, Result};
use crate::status::Counters;
use crate::tier::Tier;

/// What a block may take on the medium besides its bytes: its checksum and the file system's own records.
const OVERHEAD: u64 = 8 << 10;

/// How often the medium is looked at, at least, while blocks are handed out or stored.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How often it is tried to store something while nothing can be stored and requests wait for it.
const PROBE_EVERY: Duration = Duration::from_millis(50);

/// Blocks that are left alone where room cannot be reserved but only counted: threads that count at the same time do not
/// see each other's.
const UNCOUNTED: u64 = 64;

pub(crate) struct Room {
    /// The directory of the store, for messages.
    directory: PathBuf,
    mode: Mutex<Mode>,
    /// Bytes that may go to the store before the medium is looked at again.
    credit: AtomicI64,
    /// When it is looked at again in any case: milliseconds since the start.
    due: AtomicU64,
    started: Instant,
    /// Servers that may use the same medium.
    sharers: AtomicU64,
    /// Whether something could not be stored for lack of room.
    is_short: AtomicBool,
    /// Why something could not be stored last.
    failure: Mutex<Option<pario_store::Error>>,
    /// When it may be tried again to see whether anything can be stored: milliseconds since the start.
    probe: AtomicU64,
}

struct Mode {
    plenty: bool,
    /// The medium was full though it seemed to have plenty of room, as under a quota.
    misleads: bool,
}

impl Room {
    pub fn new(directory: PathBuf) -> Room {
        Room {
            directory,
            // As the pool is at first.
            mode: Mutex::new(Mode { plenty: true, misleads: false }),
            credit: AtomicI64::new(0),
            due: AtomicU64::new(0),
            started: Instant::now(),
            sharers: AtomicU64::new(1),
            is_short: AtomicBool::new(false),
            failure: Mutex::default(),
            probe: AtomicU64::new(0),
        }
    }

    /// Why something could not be stored last, if that was so.
    pub fn failure(&self) -> Option<Error> {
        lock(&self.failure).clone().map(Error::Store)
    }

    /// Whether it is time to try again to store something that could not be stored.
    pub fn may_probe(&self) -> bool {
        let (now, probe) = (self.now(), self.probe.load(Ordering::Relaxed));
        let next = now.saturating_add(PROBE_EVERY.as_millis() as u64);
        now >= probe && self.probe.compare_exchange(probe, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Whether an error says that there is no room.
pub(crate) fn is_full(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NoSpace | ErrorKind::Quota)
}

impl Tier {
    /// So many servers may use the same medium.
    pub fn share_medium(&self, servers: u64, counters: &Counters) {
        self.room.sharers.store(servers.max(1), Ordering::Relaxed);
        self.look(counters);
    }

    /// Makes sure that a write to the block counts. What has to be reserved for that is reserved up to the block `upto` as
    /// far as there is room, and noted for the next call.
    pub fn assure(&self, pin: &Pin, upto: u64, reserved: &mut Range<u64>, counters: &Counters) -> Result<()> {
        self.look_if_due(counters);
        if pin.has_room() {
            return Ok(());
        }
        self.reserve(pin.file(), pin.block()..upto, reserved, counters)?;
        pin.grant_room();
        Ok(())
    }

    /// The same for a block that is not in the pool yet: whether room is reserved for it. If not, there is plenty.
    pub fn assure_new(
        &self,
        file: FileId,
        blocks: Range<u64>,
        reserved: &mut Range<u64>,
        counters: &Counters,
    ) -> Result<bool> {
        self.look_if_due(counters);
        if lock(&self.room.mode).plenty {
            return Ok(false);
        }
        self.reserve(file, blocks, reserved, counters).map(|()| true)
    }

    /// Whether blocks can be handed out without reserving room for them.
    pub fn has_plenty(&self) -> bool {
        lock(&self.room.mode).plenty
    }

    /// Reserves room for the first of these blocks, and for as many of the others as there is room for.
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
        let mut count = (blocks.end - blocks.start).clamp(1, crate::tier::BATCH as u64);
        loop {
            let wanted = blocks.start..blocks.start + count;
            match self.store.reserve(file, wanted.clone()) {
                Ok(()) => {
                    *reserved = wanted;
                    return Ok(());
                }
                Err(e) if e.errno() == libc::EOPNOTSUPP => {
                    *reserved = blocks.start..blocks.start + 1;
                    return self.count_room();
                }
                Err(e) if is_full(e.kind()) && count > 1 => count /= 2,
                Err(e) if is_full(e.kind()) => return Err(self.no_room(e.kind())),
                Err(e) => {
                    counters.store_failed(&e);
                    return Err(e.into());
                }
            }
        }
    }

    /// Whether there is room for one more block than has been granted room, where it cannot be reserved.
    fn count_room(&self) -> Result<()> {
        let blocks = u64::from(self.pool.granted()) + UNCOUNTED + 1;
        let needed = blocks.saturating_mul(u64::from(self.pool.geometry().block) + OVERHEAD);
        if self.store.room()?.free >= needed { Ok(()) } else { Err(self.no_room(ErrorKind::NoSpace)) }
    }

    fn no_room(&self, kind: ErrorKind) -> Error {
        self.room.is_short.store(true, Ordering::Relaxed);
        let free = self.store.room().map_or(0, |room| room.free);
        Error::NoRoom { directory: self.room.directory.clone(), free, kind }
    }

    /// So many blocks have gone to the store.
    pub fn note_stored(&self, blocks: usize, counters: &Counters) {
        let bytes = blocks as u64 * (u64::from(self.pool.geometry().block) + OVERHEAD);
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let before = self.room.credit.fetch_sub(bytes, Ordering::Relaxed);
        match before <= bytes {
            true => self.look(counters),
            false => self.look_if_due(counters),
        }
    }

    /// Something could not be stored.
    pub fn note_failure(&self, error: &pario_store::Error, counters: &Counters) {
        *lock(&self.room.failure) = Some(error.clone());
        if !is_full(error.kind()) {
            return;
        }
        self.room.is_short.store(true, Ordering::Relaxed);
        let mut mode = lock(&self.room.mode);
        if mode.plenty {
            let seems = self.store.room().is_ok_and(|room| room.free >= self.needed());
            mode.misleads |= seems;
            self.end_plenty(&mut mode, counters);
        }
    }

    /// Bytes have gone from the store: what could not be stored may be now.
    pub fn note_freed(&self, counters: &Counters) {
        if self.room.is_short.swap(false, Ordering::Relaxed) {
            self.look(counters);
            self.retry_failed();
        }
    }

    /// What all blocks of all pools that may share the medium can take. To reserve one may take two: a sync may come
    /// before the write, and the store does not write over what is synced.
    fn needed(&self) -> u64 {
        let geometry = self.pool.geometry();
        let each = 2 * u64::from(geometry.block) + OVERHEAD;
        u64::from(geometry.slots).saturating_mul(each).saturating_mul(self.sharers())
    }

    fn sharers(&self) -> u64 {
        self.room.sharers.load(Ordering::Relaxed)
    }

    fn look_if_due(&self, counters: &Counters) {
        if self.room.now() >= self.room.due.load(Ordering::Relaxed) {
            self.look(counters);
        }
    }

    /// Looks how much room the medium has.
    pub fn look(&self, counters: &Counters) {
        let mut mode = lock(&self.room.mode);
        let due = self.room.now().saturating_add(LOOK_EVERY.as_millis() as u64);
        self.room.due.store(due, Ordering::Relaxed);
        let needed = self.needed();
        // Not back and forth at the edge.
        let enough = if mode.plenty { needed } else { needed.saturating_add(needed / 8) };
        let free = match self.store.room() {
            Ok(room) => room.free,
            Err(e) => {
                counters.store_failed(&e);
                0
            }
        };
        if free < enough || mode.misleads {
            self.room.credit.store(i64::MAX, Ordering::Relaxed);
            return self.end_plenty(&mut mode, counters);
        }
        // Each server may store as much after its last look as another before its own.
        let credit = (free - needed) / (2 * self.sharers());
        self.room.credit.store(i64::try_from(credit).unwrap_or(i64::MAX), Ordering::Relaxed);
        if !mode.plenty {
            mode.plenty = true;
            self.pool.set_plenty(true);
            self.room.is_short.store(false, Ordering::Relaxed);
            self.retry_failed();
        }
    }

    /// From now on room is reserved, and at once for what has been accepted.
    fn end_plenty(&self, mode: &mut Mode, counters: &Counters) {
        if !std::mem::replace(&mut mode.plenty, false) {
            return;
        }
        for (file, block) in self.pool.set_plenty(false) {
            match self.store.reserve(file, block..block + 1) {
                Ok(()) => self.pool.grant_room(file, block),
                // It is counted, not reserved.
                Err(e) if e.errno() == libc::EOPNOTSUPP => self.pool.grant_room(file, block),
                Err(e) => counters.store_failed(&e),
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
    use pario_wire::message::ByteRange;

    const BLOCK: u64 = 4096;
    const SLOTS: u32 = 16;
    const FILE: FileId = FileId(7);

    struct Site {
        tier: Tier,
        counters: Counters,
        dir: PathBuf,
    }

    impl Site {
        fn new(name: &str, store: impl Store + 'static) -> Site {
            let dir = std::env::temp_dir().join(format!("pario-room-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&dir).unwrap();
            let geometry = Geometry { block: BLOCK as u32, slots: SLOTS, ledgers: 4 };
            let identity = PoolIdentity { partition: PartitionId(1), server: ServerId(0) };
            let pool = Pool::create(&dir.join("pool"), geometry, identity).unwrap();
            let site = Site { tier: Tier::new(pool, Box::new(store), &dir), counters: Counters::new(), dir };
            site.tier.look(&site.counters);
            site
        }

        /// Writes all of a block.
        fn write(&self, block: u64) -> Result<()> {
            let bytes = [(block as u8).wrapping_add(1); BLOCK as usize];
            let mut pieces = Pieces::listed(vec![ByteRange { at: block * BLOCK, len: BLOCK }]);
            let moved = self.tier.transfer(FILE, &mut pieces, Bytes::In(&bytes), &mut 0, &self.counters)?;
            assert_eq!(moved, Moved::All, "nobody is in the way");
            Ok(())
        }

        fn stored(&self, block: u64) -> u8 {
            let mut bytes = vec![0; BLOCK as usize];
            self.tier.store.read(FILE, block, &mut [&mut bytes]).unwrap();
            bytes[0]
        }
    }

    impl Drop for Site {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }

    fn kind<T: std::fmt::Debug>(outcome: Result<T>) -> ErrorKind {
        outcome.expect_err("there is no room").kind()
    }

    /// The medium seems to have plenty of room, and has not for this user.
    #[test]
    fn a_quota_is_like_a_full_disk_and_room_is_reserved_from_then_on() {
        let store = FaultyStore::new(MemoryStore::new(BLOCK as usize).unwrap());
        store.fail(Some(StoreCall::Write), 0, 1, libc::EDQUOT);
        store.fail(Some(StoreCall::Reserve), 1, 1, libc::EDQUOT);
        let site = Site::new("quota", store);
        assert!(site.tier.has_plenty());
        site.write(0).unwrap();
        assert_eq!(kind(site.tier.sync_now(FILE, &site.counters)), ErrorKind::Quota);
        site.tier.look(&site.counters);
        assert!(!site.tier.has_plenty(), "what the medium says is no longer believed");
        let error = site.write(1).expect_err("the quota is used up");
        assert_eq!((error.kind(), error.to_failure().errno), (ErrorKind::Quota, 122));
        assert!(error.to_string().contains(&*site.dir.to_string_lossy()), "{error}");
        // What was accepted stays, and is stored once that works.
        site.tier.sync_now(FILE, &site.counters).unwrap();
        assert_eq!((site.stored(0), site.stored(1)), (1, 0));
        site.write(1).and_then(|()| site.tier.sync_now(FILE, &site.counters)).unwrap();
        assert_eq!(site.stored(1), 2);
    }

    #[test]
    fn where_room_cannot_be_reserved_it_is_counted() {
        let each = BLOCK + OVERHEAD;
        let room = (UNCOUNTED + 5) * each;
        let store = FaultyStore::new(MemoryStore::with_capacity(BLOCK as usize, room).unwrap());
        store.fail(Some(StoreCall::Reserve), 0, u64::MAX, libc::EOPNOTSUPP);
        let site = Site::new("counted", store);
        // As if the pools of many servers were on the same medium.
        site.tier.share_medium(100, &site.counters);
        assert!(!site.tier.has_plenty());
        let accepted = (0..).find(|&block| site.write(block).is_err()).unwrap();
        assert_eq!(accepted, 5, "room for no more");
        assert_eq!(kind(site.write(accepted)), ErrorKind::NoSpace);
        site.tier.sync_now(FILE, &site.counters).unwrap();
        (0..accepted).for_each(|block| assert_eq!(site.stored(block), block as u8 + 1));
    }

    /// All slots are dirty, and the store takes nothing.
    #[test]
    fn a_full_store_is_not_tried_for_every_request() {
        let store = FaultyStore::new(MemoryStore::new(BLOCK as usize).unwrap());
        store.fail(Some(StoreCall::Write), 0, u64::MAX, libc::ENOSPC);
        let site = Site::new("stuck", store);
        (0..u64::from(SLOTS)).for_each(|block| site.write(block).unwrap());
        let begun = Instant::now();
        for block in 100..1100 {
            assert_eq!(kind(site.write(block)), ErrorKind::NoSpace);
        }
        let (tries, seconds) = (site.counters.flush_errors.get(), begun.elapsed().as_secs_f64());
        assert!((tries as f64) < 20.0 + 25.0 * seconds, "{tries} times in {seconds} s");
        let told = site.counters.last_errors();
        assert!(told.len() == 1 && told[0].contains("No space left"), "{told:?}");
        // What is stored can be read all the same.
        let mut out = [9; 8];
        let mut pieces = Pieces::listed(vec![ByteRange { at: 500 * BLOCK, len: 8 }]);
        let read = site.tier.transfer(FILE, &mut pieces, Bytes::Out(&mut out), &mut 0, &site.counters);
        assert_eq!((read.unwrap(), out), (Moved::All, [0; 8]));
    }
}
