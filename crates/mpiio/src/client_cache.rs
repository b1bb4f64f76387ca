//! CacheSettings 1: the blocks of a partition's file that this rank keeps in its own memory for all ranks of the file.
//!
//! Block `b` is opened by aggregator `b mod n`, which alone accesses it in collective calls: exchange has a window of
//! such blocks accessed by nobody else. What others do (independent accesses, other programs) goes to the servers,
//! which then call blocks back. So all that has to be known here besides is how far the ranks have written: the
//! servers may not have heard of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pario_client::{self as client, TierFile, TierOptions};

use pario_trace::FileStats;

use crate::error::Result;
use crate::io_thread::held;
use crate::settings::CacheSettings;

/// This rank's part of it, for one open file.
pub(crate) struct ClientCache {
    /// Who keeps blocks together; equal on all ranks, and for another open of the file only if the same processes
    /// open_cache the same blocks.
    team: u128,
    options: TierOptions,
    /// Opened when this rank first keeps something.
    opened: Mutex<Option<Arc<TierFile>>>,
    /// The furthest byte that any rank has written in a collective call.
    reach: AtomicU64,
}

impl ClientCache {
    pub fn new(team: u128, tier: &CacheSettings) -> ClientCache {
        let CacheSettings { bytes, block, high, low } = *tier;
        let options = TierOptions { bytes, block, high, low, ..TierOptions::default() };
        ClientCache { team, options, opened: Mutex::default(), reach: AtomicU64::new(0) }
    }

    fn opened(&self) -> Option<Arc<TierFile>> {
        held(&self.opened).clone()
    }

    /// What this rank keeps of a file, from now on.
    fn open_cache(&self, partition: &client::Partition, file: &client::File) -> Result<Arc<TierFile>> {
        let mut opened = held(&self.opened);
        if let Some(opened) = &*opened {
            return Ok(opened.clone());
        }
        let tier = Arc::new(partition.tier1().open(file, self.team, &self.options)?);
        Ok(opened.insert(tier).clone())
    }

    /// Reads the parts of a window; as far as the file reaches, of which the servers may know less than the ranks.
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

    pub fn write(
        &self,
        partition: &client::Partition,
        file: &client::File,
        parts: &[(u64, &[u8])],
    ) -> Result<()> {
        Ok(self.open_cache(partition, file)?.write_vectored_at(parts)?)
    }

    /// All ranks have written up to here.
    pub fn extend_written_end(&self, end: u64) {
        self.reach.fetch_max(end, Ordering::AcqRel);
    }

    /// How far the ranks have written.
    pub fn reach(&self) -> u64 {
        self.reach.load(Ordering::Acquire)
    }

    /// Of `len` bytes at `at`, of which the servers warn that `got` are there: how many the file has.
    pub fn known_end(&self, at: u64, got: u64, len: u64) -> u64 {
        self.reach().saturating_sub(at).clamp(got, len)
    }

    /// Everything written is at the servers.
    pub fn flush(&self) -> Result<()> {
        match self.opened() {
            Some(opened) => Ok(opened.flush()?),
            None => Ok(()),
        }
    }

    /// The file is about to be cut or extended; everything has been flushed.
    pub fn resize(&self, size: u64) {
        if let Some(opened) = self.opened() {
            opened.cut(size);
        }
        self.reach.store(0, Ordering::Release);
    }

    /// At close. What is clean may stay for a later open, unless the file goes.
    pub fn close(&self, stays: bool, stats: &FileStats) -> Result<()> {
        let Some(opened) = held(&self.opened).take() else { return Ok(()) };
        let flushed = opened.flush();
        let (staged, recalled) = opened.staged_and_recalled();
        stats.staged_bytes.add(staged);
        stats.recalls.add(recalled);
        if let Ok(opened) = Arc::try_unwrap(opened) {
            opened.close(stays)?;
        }
        Ok(flushed?)
    }
}
