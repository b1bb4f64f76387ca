//! Truncations and removals of local parts.
//!
//! A truncation changes the store and the pool. Its steps are those of [`PoolTruncation`]: it waits until the blocks beyond the new end
//! are not in use; the pool records the truncation; the store truncates the part and records the truncation's id; the blocks leave the
//! pool. So every byte is an old or a truncated one, whatever fails:
//!
//! - If the store fails (a truncation within a synced block needs space, and storage may be full), dirty blocks stay in the pool. An
//!   older version of them in the store never becomes visible.
//! - If the server is killed, its successor finds the record and asks the store for the last id. If the store was truncated, the
//!   successor truncates the pool before it is used.

use pario_cache::PoolTruncation;
use pario_types::{FileId, TruncationId};

use super::PoolTier;
use crate::error::Result;

impl PoolTier {
    /// Truncates or extends the local part, as soon as the removed blocks are not in use. Returns whether it is done. Does nothing if
    /// this truncation or a later one was applied or fenced before.
    pub fn truncate(
        &self,
        file: FileId,
        end: u64,
        truncation: TruncationId,
        under_way: &mut Option<PoolTruncation>,
    ) -> Result<bool> {
        if under_way.is_none() {
            // The truncation cannot be fenced between this check and its beginning.
            let _order = self.truncating.lock();
            let is_stale = truncation.0 != 0 && self.is_applied(file, truncation)?;
            if is_stale && !pario_runtime::is_planted("stale-truncate") {
                return Ok(true);
            }
            self.begin_pool_truncation(file, end, under_way);
        }
        let Some(mut cut) = under_way.take_if(|cut| cut.ready() && cut.record(truncation)) else {
            return Ok(false);
        };
        let outcome = self.store.set_end(file, end, truncation.0);
        // A store that fails may have truncated the part all the same: the last of its steps may have failed.
        if outcome.is_ok() || truncation.0 != 0 && self.is_applied(file, truncation).unwrap_or(false) {
            match pario_runtime::is_planted("truncate-forgets-pool") {
                true => cut.roll_back(),
                false => cut.finish(),
            }
        } else {
            cut.roll_back();
        }
        outcome?;
        Ok(true)
    }

    /// Fences this truncation and every earlier one: they do nothing from now on. Returns whether it is done; a truncation under way
    /// completes first.
    pub fn fence(&self, file: FileId, truncation: TruncationId) -> Result<bool> {
        let _order = self.truncating.lock();
        // While this exists, no truncation of the file begins, and none is under way.
        let Some(_none_under_way) = self.pool.begin_truncation(file, u64::MAX) else { return Ok(false) };
        self.store.fence(file, truncation.0)?;
        Ok(true)
    }

    /// Removes the local part, as soon as it is not in use. Returns whether it is done. No client reads the file any more, so the pool
    /// is cleared first: a successor has nothing of it to store.
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
            // If the store cannot tell, the part is lost, and only the pool has its bytes.
            let is_applied =
                cut.truncation().is_some_and(|id| self.is_applied(cut.file(), id).unwrap_or(false));
            if is_applied {
                cut.finish();
            } else {
                cut.roll_back();
            }
        }
    }

    /// Whether the store has applied or fenced this truncation, or a later one.
    fn is_applied(&self, file: FileId, truncation: TruncationId) -> Result<bool> {
        Ok(self.store.last_truncation(file)? >= truncation.0)
    }

    fn begin_pool_truncation(&self, file: FileId, end: u64, under_way: &mut Option<PoolTruncation>) {
        // The truncation does not wait for prefetched blocks.
        self.prefetches.release_file(file);
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
    use crate::counters::Counters;
    use crate::pool::pieces::Pieces;
    use crate::pool::{TransferBuffer, TransferStep};

    const BLOCK: u64 = 4096;
    const BLOCKS: u64 = 4;
    const LEN: u64 = BLOCKS * BLOCK;
    const FILE: FileId = FileId(7);
    const FIRST: TruncationId = TruncationId(1);
    const OLD: u8 = 1;
    const NEW: u8 = 2;
    /// Ends within a block, at the end of a block, and 0.
    const ENDS: [u64; 3] = [BLOCK + 100, 2 * BLOCK, 0];

    /// A tier over a medium that fails.
    struct TestTier {
        tier: PoolTier,
        counters: Counters,
        medium: SimulatedMedium,
        dir: PathBuf,
    }

    impl TestTier {
        fn new(name: &str) -> TestTier {
            let dir = std::env::temp_dir().join(format!("pario-truncate-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&dir).unwrap();
            let medium = SimulatedMedium::new(1);
            let geometry = Geometry { block: BLOCK as u32, slots: 16, ledgers: 4 };
            let pool = Pool::create(&dir.join("pool"), geometry, identity()).unwrap();
            let tier = PoolTier::new(pool, Box::new(store(&medium)), &dir);
            let test = TestTier { tier, counters: Counters::new(), medium, dir };
            test.fill();
            test
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
            self.transfer(block * BLOCK, BLOCK, TransferBuffer::In(&[byte; BLOCK as usize]));
        }

        fn read(&self) -> Vec<u8> {
            let mut bytes = vec![0; LEN as usize];
            self.transfer(0, LEN, TransferBuffer::Out(&mut bytes));
            bytes
        }

        fn transfer(&self, at: u64, len: u64, bytes: TransferBuffer<'_>) {
            let mut pieces = Pieces::listed(vec![ByteRange { at, len }]);
            let moved = self.tier.transfer(FILE, &mut pieces, bytes, &mut 0, &self.counters);
            assert_eq!(moved.unwrap(), TransferStep::Complete, "no other access");
        }

        /// Checks that all bytes before the end are new, and each after it is new or truncated; which of them are truncated.
        fn check(&self, end: u64, what: &str) -> Vec<bool> {
            let bytes = self.read();
            let (before, after) = bytes.split_at(end as usize);
            assert!(before.iter().all(|byte| *byte == NEW), "{what}: bytes before the end");
            assert!(after.iter().all(|byte| [NEW, 0].contains(byte)), "{what}: an older version");
            after.iter().map(|byte| *byte == 0).collect()
        }

        /// The same, also after the pool is stored and emptied.
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

    impl Drop for TestTier {
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
                let test = TestTier::new("fails");
                test.medium.plan(step, InjectedFault::Fail(errno));
                let outcome = test.tier.truncate(FILE, end, FIRST, &mut None);
                let came = test.medium.clear_faults();
                let what = format!("to {end}, error {errno} at step {step}: {outcome:?}");
                let truncated = test.check_twice(end, &what);
                failures += u32::from(outcome.is_err());
                assert!(outcome.is_err() || truncated.iter().all(|byte| *byte), "{what}");
                // Bytes that are written afterwards stay, whatever the outcome of the truncation.
                assert!(test.tier.fence(FILE, FIRST).unwrap());
                test.write(3, NEW);
                assert!(test.tier.truncate(FILE, end, FIRST, &mut None).unwrap());
                assert!(test.read()[3 * BLOCK as usize..].iter().all(|byte| *byte == NEW), "{what}");
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
                let mut test = TestTier::new("killed");
                let mut cut = test.tier.pool.begin_truncation(FILE, end).unwrap();
                assert!(cut.ready() && cut.record(FIRST));
                let left = test.dir.join("left");
                std::fs::copy(test.dir.join("pool"), &left).unwrap();
                test.medium.plan(step, InjectedFault::Kill);
                let outcome = test.tier.store.set_end(FILE, end, FIRST.0);
                let what = format!("to {end}, killed at step {step}: {outcome:?}");
                drop(cut);
                let is_over = !test.medium.is_dead();
                test.medium.kill();
                let unused = pario_store::MemoryStore::new(BLOCK as usize).unwrap();
                drop(std::mem::replace(&mut test.tier.store, Box::new(unused)));
                test.medium.restart();
                let (pool, _) = Pool::adopt(&left, identity()).unwrap();
                test.tier = PoolTier::new(pool, Box::new(store(&test.medium)), &test.dir);
                test.tier.resolve_interrupted_truncations();
                test.check(end, &what);
                assert!(test.tier.truncate(FILE, end, FIRST, &mut None).unwrap());
                assert!(test.check_twice(end, &what).iter().all(|byte| *byte), "{what}: bytes came back");
                if is_over {
                    break;
                }
            }
        }
    }
}
