//! Truncations and removals of local parts.
//!
//! A truncation changes the store and the pool. Its steps are those of [`PoolTruncation`]: nobody uses the blocks beyond the new end;
//! the pool records the truncation; the store is cut, and remembers the truncation's id; the blocks leave the pool.
//! So every byte is an old or a truncated one, whatever fails:
//!
//! - If the store fails (a cut within a synced block takes room, and storage may be full), dirty blocks stay in the pool.
//!   An older version that the store has of them never becomes visible.
//! - If the server is killed, its successor finds the record and asks the store for the last id: if the store was cut, the
//!   pool is cut before anybody uses it.

use pario_cache::PoolTruncation;
use pario_types::{FileId, TruncationId};

use crate::core::lock;
use crate::error::Result;
use crate::tier::Tier;

impl Tier {
    /// Makes the local part end here, as soon as nobody uses what goes. Returns whether it is done. Does nothing if this
    /// truncation or a later one was applied or fenced before.
    pub fn truncate(
        &self,
        file: FileId,
        end: u64,
        truncation: TruncationId,
        under_way: &mut Option<PoolTruncation>,
    ) -> Result<bool> {
        if under_way.is_none() {
            // Nobody fences it from here on until it is under way.
            let _order = lock(&self.truncating);
            if truncation.0 != 0 && self.is_applied(file, truncation)? {
                return Ok(true);
            }
            self.begin_pool_truncation(file, end, under_way);
        }
        let Some(mut cut) = under_way.take_if(|cut| cut.ready() && cut.record(truncation)) else {
            return Ok(false);
        };
        let outcome = self.store.set_end(file, end, truncation.0);
        // A store that fails may be cut all the same: the last of its steps may have failed.
        if outcome.is_ok() || truncation.0 != 0 && self.is_applied(file, truncation).unwrap_or(false) {
            cut.finish();
        } else {
            cut.roll_back();
        }
        outcome?;
        Ok(true)
    }

    /// From now on this truncation and every earlier one does nothing here. Returns whether it is done: one that is under
    /// way is waited for.
    pub fn fence(&self, file: FileId, truncation: TruncationId) -> Result<bool> {
        let _order = lock(&self.truncating);
        // As long as this lives, no truncation of the file begins, and none is under way.
        let Some(_none_under_way) = self.pool.begin_truncation(file, u64::MAX) else { return Ok(false) };
        self.store.fence(file, truncation.0)?;
        Ok(true)
    }

    /// Forgets the local part, as soon as nobody uses it. Returns whether it is done. Nobody reads the file any more, so the
    /// pool comes first: a successor has nothing of it to store.
    pub fn remove(&self, file: FileId, under_way: &mut Option<PoolTruncation>) -> Result<bool> {
        if under_way.is_none() {
            self.begin_pool_truncation(file, 0, under_way);
        }
        if !under_way.as_mut().is_some_and(PoolTruncation::ready) {
            return Ok(false);
        }
        under_way.as_mut().into_iter().for_each(PoolTruncation::finish);
        let outcome = self.store.remove(file);
        *under_way = None;
        outcome?;
        Ok(true)
    }

    /// Completes or rolls back the truncations that a killed predecessor had begun in the store.
    pub fn resolve_interrupted_truncations(&self) {
        for mut cut in self.pool.interrupted_truncations() {
            // If the store cannot tell, the part is lost: what is in the pool is all that there is.
            let is_applied =
                cut.truncation().is_some_and(|id| self.is_applied(cut.file(), id).unwrap_or(false));
            if is_applied {
                cut.finish();
            } else {
                cut.roll_back();
            }
        }
    }

    /// Whether the store has seen this truncation, or a later one.
    fn is_applied(&self, file: FileId, truncation: TruncationId) -> Result<bool> {
        Ok(self.store.last_truncation(file)? >= truncation.0)
    }

    fn begin_pool_truncation(&self, file: FileId, end: u64, under_way: &mut Option<PoolTruncation>) {
        // Prefetched blocks are not waited for.
        self.prefetches.let_go(file);
        *under_way = self.pool.begin_truncation(file, end);
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use pario_cache::{Geometry, Pool, PoolIdentity};
    use pario_medium::{InjectedFault, SimulatedMedium};
    use pario_store::FileStore;
    use pario_types::{PartitionId, ServerId};
    use pario_wire::message::ByteRange;

    use super::*;
    use crate::pieces::Pieces;
    use crate::status::Counters;
    use crate::tier::{Bytes, Moved};

    const BLOCK: u64 = 4096;
    const BLOCKS: u64 = 4;
    const LEN: u64 = BLOCKS * BLOCK;
    const FILE: FileId = FileId(7);
    const FIRST: TruncationId = TruncationId(1);
    const OLD: u8 = 1;
    const NEW: u8 = 2;
    /// Within a block, at its end, and nothing.
    const ENDS: [u64; 3] = [BLOCK + 100, 2 * BLOCK, 0];

    /// A server's tier over a medium that fails.
    struct Site {
        tier: Tier,
        counters: Counters,
        medium: SimulatedMedium,
        dir: PathBuf,
    }

    impl Site {
        fn new(name: &str) -> Site {
            let dir = std::env::temp_dir().join(format!("pario-truncate-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&dir).unwrap();
            let medium = SimulatedMedium::new(1);
            let geometry = Geometry { block: BLOCK as u32, slots: 16, ledgers: 4 };
            let pool = Pool::create(&dir.join("pool"), geometry, identity()).unwrap();
            let tier = Tier::new(pool, Box::new(store(&medium)), &dir);
            let site = Site { tier, counters: Counters::new(), medium, dir };
            site.fill();
            site
        }

        /// An old version is on the medium; a new one is stored of block 2, and of the others in the pool alone.
        fn fill(&self) {
            (0..BLOCKS).for_each(|block| self.write(block, OLD));
            self.tier.sync_now(FILE, &self.counters).unwrap();
            self.tier.store.sync(FILE).unwrap();
            self.write(2, NEW);
            self.tier.sync_now(FILE, &self.counters).unwrap();
            [0, 1, 3].into_iter().for_each(|block| self.write(block, NEW));
        }

        fn write(&self, block: u64, byte: u8) {
            self.transfer(block * BLOCK, BLOCK, Bytes::In(&[byte; BLOCK as usize]));
        }

        fn read(&self) -> Vec<u8> {
            let mut bytes = vec![0; LEN as usize];
            self.transfer(0, LEN, Bytes::Out(&mut bytes));
            bytes
        }

        fn transfer(&self, at: u64, len: u64, bytes: Bytes<'_>) {
            let mut pieces = Pieces::listed(vec![ByteRange { at, len }]);
            let moved = self.tier.transfer(FILE, &mut pieces, bytes, &mut 0, &self.counters);
            assert_eq!(moved.unwrap(), Moved::All, "nobody is in the way");
        }

        /// All bytes before the end are new, and each after it is new or truncated; which of them are.
        fn check(&self, end: u64, what: &str) -> Vec<bool> {
            let bytes = self.read();
            let (before, after) = bytes.split_at(end as usize);
            assert!(before.iter().all(|byte| *byte == NEW), "{what}: bytes before the end");
            assert!(after.iter().all(|byte| [NEW, 0].contains(byte)), "{what}: an older version");
            after.iter().map(|byte| *byte == 0).collect()
        }

        /// The same, and it stays so when the pool is stored and emptied.
        fn check_twice(&self, end: u64, what: &str) -> Vec<bool> {
            let found = self.check(end, what);
            self.tier.sync_now(FILE, &self.counters).unwrap();
            self.tier.store.sync(FILE).unwrap();
            let mut cut = self.tier.pool.begin_truncation(FILE, 0).unwrap();
            assert!(cut.ready());
            cut.roll_back();
            drop(cut);
            assert_eq!(self.check(end, what), found, "{what}: it changes by itself");
            found
        }
    }

    impl Drop for Site {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }

    fn identity() -> PoolIdentity {
        PoolIdentity { partition: PartitionId(1), server: ServerId(0) }
    }

    fn store(medium: &SimulatedMedium) -> FileStore {
        let identity = pario_store::StoreIdentity { partition: PartitionId(1), server: ServerId(0) };
        FileStore::open_on(Arc::new(medium.clone()), Path::new("/store"), BLOCK as usize, identity).unwrap()
    }

    #[test]
    fn a_truncation_that_fails_at_any_step_shows_no_older_version() {
        for (end, errno) in ENDS.into_iter().flat_map(|end| [(end, libc::EIO), (end, libc::ENOSPC)]) {
            let mut failures = 0;
            for step in 0.. {
                let site = Site::new("fails");
                site.medium.plan(step, InjectedFault::Fail(errno));
                let outcome = site.tier.truncate(FILE, end, FIRST, &mut None);
                let came = site.medium.clear_faults();
                let what = format!("to {end}, error {errno} at step {step}: {outcome:?}");
                let truncated = site.check_twice(end, &what);
                failures += u32::from(outcome.is_err());
                assert!(outcome.is_err() || truncated.iter().all(|byte| *byte), "{what}");
                // What is written afterwards stays, whatever comes of the truncation.
                assert!(site.tier.fence(FILE, FIRST).unwrap());
                site.write(3, NEW);
                assert!(site.tier.truncate(FILE, end, FIRST, &mut None).unwrap());
                assert!(site.read()[3 * BLOCK as usize..].iter().all(|byte| *byte == NEW), "{what}");
                if !came {
                    break;
                }
            }
            assert!(failures > 1, "some steps failed");
        }
    }

    #[test]
    fn a_truncation_of_a_server_that_is_killed_at_any_step_is_done_once_it_is_repeated() {
        for end in ENDS {
            for step in 0.. {
                let mut site = Site::new("killed");
                let mut cut = site.tier.pool.begin_truncation(FILE, end).unwrap();
                assert!(cut.ready() && cut.record(FIRST));
                let left = site.dir.join("left");
                std::fs::copy(site.dir.join("pool"), &left).unwrap();
                site.medium.plan(step, InjectedFault::Kill);
                let outcome = site.tier.store.set_end(FILE, end, FIRST.0);
                let what = format!("to {end}, killed at step {step}: {outcome:?}");
                drop(cut);
                let is_over = !site.medium.is_dead();
                site.medium.kill();
                let unused = pario_store::MemoryStore::new(BLOCK as usize).unwrap();
                drop(std::mem::replace(&mut site.tier.store, Box::new(unused)));
                site.medium.restart();
                let (pool, _) = Pool::adopt(&left, identity()).unwrap();
                site.tier = Tier::new(pool, Box::new(store(&site.medium)), &site.dir);
                site.tier.resolve_interrupted_truncations();
                site.check(end, &what);
                assert!(site.tier.truncate(FILE, end, FIRST, &mut None).unwrap());
                assert!(site.check_twice(end, &what).iter().all(|byte| *byte), "{what}: bytes came back");
                if is_over {
                    break;
                }
            }
        }
    }
}
