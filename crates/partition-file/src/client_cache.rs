//! Tier 1: the blocks of a partition's file that this rank caches in its own memory for all ranks of the file.
//!
//! Aggregator `b mod n` caches block `b`, and only that aggregator accesses the block in collective calls. Independent
//! accesses and other programs go to the servers, which recall cached blocks first. The servers may not know how far
//! the ranks have written, so this module records it.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pario_client::{self as client, Result, TierFile, TierOptions};
use pario_file_backend::CloseCounts;

/// The tier 1 cache of this rank for one open file.
pub struct ClientCache {
    /// The team that owns the leases. It is equal on all ranks. A later open of the file uses the same team only if
    /// the same processes cache the same blocks.
    team: u128,
    options: TierOptions,
    /// Opened at the first access of this rank.
    opened: Mutex<Option<Arc<TierFile>>>,
    /// The end of the furthest byte that any rank has written in a collective call.
    reach: AtomicU64,
}

impl ClientCache {
    /// The cache of a team. It opens at the first access of this rank.
    pub fn new(team: u128, options: TierOptions) -> ClientCache {
        ClientCache { team, options, opened: Mutex::default(), reach: AtomicU64::new(0) }
    }

    fn opened(&self) -> Option<Arc<TierFile>> {
        self.opened.lock().clone()
    }

    /// Opens the cache of this rank at its first access.
    fn open_cache(&self, partition: &client::Partition, file: &client::File) -> Result<Arc<TierFile>> {
        let mut opened = self.opened.lock();
        if let Some(opened) = &*opened {
            return Ok(opened.clone());
        }
        let tier = Arc::new(partition.tier1().open(file, self.team, &self.options)?);
        Ok(opened.insert(tier).clone())
    }

    /// Reads the parts of a window, up to the end of the file. The ranks may have written beyond the end that the
    /// servers know; bytes between the two ends read as zeros.
    pub fn read(
        &self,
        partition: &client::Partition,
        file: &client::File,
        parts: &mut [(u64, &mut [u8])],
    ) -> Result<usize> {
        let mut got = self.open_cache(partition, file)?.read_vectored_at(parts)?;
        let mut done = 0;
        for (at, to) in parts {
            let known = got.min(to.len());
            got -= known;
            let there = self.known_end(*at, known as u64, to.len() as u64) as usize;
            to[known..there].fill(0);
            done += there;
            if there < to.len() {
                break;
            }
        }
        Ok(done)
    }

    /// Writes the parts of a window.
    pub fn write(
        &self,
        partition: &client::Partition,
        file: &client::File,
        parts: &[(u64, &[u8])],
    ) -> Result<()> {
        self.open_cache(partition, file)?.write_vectored_at(parts)
    }

    /// Notes that the ranks have written up to `end`.
    pub fn extend_written_end(&self, end: u64) {
        self.reach.fetch_max(end, Ordering::AcqRel);
    }

    /// The end of what the ranks have written.
    pub fn reach(&self) -> u64 {
        self.reach.load(Ordering::Acquire)
    }

    /// The number of bytes that the file has of `len` bytes at `at`, if the servers know of `got` of them.
    pub fn known_end(&self, at: u64, got: u64, len: u64) -> u64 {
        self.reach().saturating_sub(at).clamp(got, len)
    }

    /// Writes all dirty blocks to the servers.
    pub fn flush(&self) -> Result<()> {
        self.opened().map_or(Ok(()), |opened| opened.flush())
    }

    /// Drops blocks beyond the new size. All dirty blocks have been flushed.
    pub fn resize(&self, size: u64) {
        if let Some(opened) = self.opened() {
            opened.cut(size);
        }
        self.reach.store(0, Ordering::Release);
    }

    /// Closes the cache. Clean blocks stay for a later open unless the file is deleted.
    pub fn close(&self, stays: bool) -> (CloseCounts, Result<()>) {
        let Some(opened) = self.opened.lock().take() else { return (CloseCounts::default(), Ok(())) };
        let flushed = opened.flush();
        let (staged_bytes, recalls) = opened.staged_and_recalled();
        let closed = Arc::try_unwrap(opened).map_or(Ok(()), |opened| opened.close(stays));
        (CloseCounts { staged_bytes, recalls }, closed.and(flushed))
    }
}
