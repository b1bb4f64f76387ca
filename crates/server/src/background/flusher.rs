//! Writes dirty blocks to the store: the flusher thread does so between the watermarks, a request that finds no clean slot for that
//! slot, and a sync for a file.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pario_cache::{BlockFlush, DirtySweep, SweepStep};
use pario_runtime::time::Instant;
use pario_types::FileId;

use crate::counters::Counters;
use crate::error::{Error, Result};
use crate::pool::{BATCH, IDLE, PoolTier};

/// The flusher stores dirty blocks after about this time, also below the high watermark.
const MAX_DIRTY_TIME: Duration = Duration::from_secs(2);

/// After a failure the flusher waits this long, then twice as long, and so on.
const BACKOFF: Duration = Duration::from_millis(250);
const MAX_BACKOFF: Duration = Duration::from_secs(15);

/// How long a server that shuts down waits for clients in the middle of a copy, before it refuses their writes.
const COPY_TIMEOUT: Duration = Duration::from_secs(2);

/// The largest number of bytes that one access of the store writes.
const MAX_BYTES: usize = 1 << 20;

pario_runtime::thread_local! {
    /// A buffer of each thread that flushes, which it keeps: new memory costs more than the copy into it.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A sync under way: it stores the blocks that were dirty when it began.
pub(crate) struct SyncSweep {
    sweep: DirtySweep,
    failure: Option<Error>,
}

/// The result of writing blocks.
struct WriteResult {
    /// How many blocks are in the store.
    stored: usize,
    /// The first error.
    failure: Option<Error>,
}

/// How far a sync is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncProgress {
    Done,
    /// It has stored blocks and can continue at once.
    Advanced,
    /// It has to wait for a block that is being changed or stored.
    Blocked,
}

impl PoolTier {
    /// Begins a sync of one file, or of all (0).
    pub fn start_sync(&self, file: FileId) -> SyncSweep {
        let sweep = self.pool.sweep(Some(file).filter(|file| *file != FileId(0)));
        SyncSweep { sweep, failure: None }
    }

    /// Stores one batch. A block that cannot be stored stays dirty, and the first such error is the result.
    pub fn sync(&self, sync: &mut SyncSweep, counters: &Counters) -> Result<SyncProgress> {
        match sync.sweep.next(BATCH) {
            SweepStep::Flush(flushes) => {
                let outcome = self.write_out(flushes, counters);
                sync.failure = sync.failure.take().or(outcome.failure);
                Ok(SyncProgress::Advanced)
            }
            SweepStep::Wait => Ok(SyncProgress::Blocked),
            SweepStep::Done => sync.failure.take().map_or(Ok(SyncProgress::Done), Err),
        }
    }

    /// Runs a sync to its end, on a thread that may wait.
    pub fn sync_now(&self, file: FileId, counters: &Counters) -> Result<()> {
        let mut sync = self.start_sync(file);
        loop {
            match self.sync(&mut sync, counters)? {
                SyncProgress::Done => return Ok(()),
                SyncProgress::Advanced => {}
                SyncProgress::Blocked => pario_runtime::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Stores everything that is dirty now. The error says how much cannot be stored.
    pub fn store_all(&self, counters: &Counters) -> Result<()> {
        if pario_runtime::is_planted("shutdown-without-store") {
            return Ok(());
        }
        self.sync_now(FileId(0), counters).map_err(|cause| {
            let bytes = u64::from(self.pool.dirty()) * u64::from(self.pool.geometry().block);
            Error::Unstored { bytes, cause: Box::new(cause) }
        })
    }

    /// Stores everything on the medium and closes the pool to clients that have mapped it. If that fails, the pool stays open.
    pub fn retire(&self, counters: &Counters) -> Result<()> {
        // Most blocks are stored while clients can still write; then only the blocks that they wrote meanwhile.
        self.store_all(counters)?;
        let begun = Instant::now();
        while !self.pool.close() && begun.elapsed() < COPY_TIMEOUT {
            pario_runtime::thread::sleep(Duration::from_millis(1));
        }
        // From here on, a client that was stopped in the middle of a copy learns that its write does not count.
        self.pool.retire();
        let outcome = self.store_all(counters).and_then(|()| Ok(self.store.sync_all()?));
        if outcome.is_err() {
            self.pool.reopen();
        }
        outcome
    }

    /// Stores blocks for a request that found no free slot; whether there may be one now. If all dirty blocks are ones that could not
    /// be stored, the result is that error: the store is tried again for one of them from time to time, not for every request.
    pub fn free_slots(&self, counters: &Counters) -> Result<bool> {
        let mut flushes = self.pool.next_dirty(BATCH / 4);
        let is_stuck = flushes.is_empty() && self.pool.is_stuck();
        if is_stuck && self.space.may_probe() {
            self.pool.retry_failed(1);
            flushes = self.pool.next_dirty(1);
        }
        if flushes.is_empty() {
            return self.space.failure().filter(|_| is_stuck).map_or(Ok(false), Err);
        }
        let outcome = self.write_out(flushes, counters);
        if outcome.stored > 0 && is_stuck {
            self.retry_failed();
        }
        if outcome.stored > 0 { Ok(true) } else { outcome.failure.map_or(Ok(true), Err) }
    }

    /// Stores again, at once, the blocks that could not be stored.
    pub fn retry_failed(&self) {
        self.pool.retry_failed(usize::MAX);
        self.pool.wake();
    }

    /// The main function of the flusher. It calls `each` whenever it looks for work.
    pub fn run_flusher(&self, stop: &AtomicBool, counters: &Counters, each: impl Fn()) {
        let mut signal = self.pool.flush_signal();
        let mut backoff = BACKOFF;
        let mut since = None;
        while !stop.load(Ordering::Acquire) {
            each();
            let (high, low) = self.pool.watermarks();
            let dirty = self.pool.dirty();
            if dirty == 0 {
                since = None;
                signal.wait_for_work(IDLE);
                continue;
            }
            let rested = since.get_or_insert_with(Instant::now).elapsed();
            let target = if dirty >= high {
                low
            } else if rested >= MAX_DIRTY_TIME {
                0
            } else {
                signal.wait_for_work(MAX_DIRTY_TIME - rested);
                continue;
            };
            since = None;
            if self.flush_down_to(target, stop, counters) {
                backoff = BACKOFF;
            } else {
                signal.rest(backoff);
                backoff = (backoff * 2).min(MAX_BACKOFF);
            }
        }
    }

    /// Stores blocks until no more than `target` are dirty; whether that succeeded. Blocks that cannot be stored are left out for a
    /// while, so blocks of other files are stored.
    fn flush_down_to(&self, target: u32, stop: &AtomicBool, counters: &Counters) -> bool {
        while self.pool.dirty() > target && !stop.load(Ordering::Acquire) {
            let flushes = self.pool.next_dirty(BATCH);
            if flushes.is_empty() {
                return !self.pool.is_stuck();
            }
            if self.write_out(flushes, counters).stored == 0 {
                return false;
            }
        }
        true
    }

    /// Writes blocks, consecutive ones together. It continues after an error, so an error of one file does not affect others.
    fn write_out(&self, flushes: Vec<BlockFlush>, counters: &Counters) -> WriteResult {
        let size = self.pool.geometry().block as usize;
        let mut outcome = WriteResult { stored: 0, failure: None };
        let mut rest = flushes.into_iter().peekable();
        while let Some(first) = rest.next() {
            let mut group = vec![first];
            while group.len() * size < MAX_BYTES
                && let Some(next) = rest.next_if(|next| {
                    let last = &group[group.len() - 1];
                    (next.file(), next.block()) == (last.file(), last.block() + 1)
                })
            {
                group.push(next);
            }
            let blocks = group.len();
            match self.write_group(group, size, counters) {
                Ok(()) => outcome.stored += blocks,
                Err(e) => outcome.failure = outcome.failure.or(Some(e)),
            }
        }
        outcome
    }

    fn write_group(&self, group: Vec<BlockFlush>, size: usize, counters: &Counters) -> Result<()> {
        let written = SCRATCH.with_borrow_mut(|scratch| self.copy_and_write(&group, size, scratch));
        // A planted bug takes a full disk for success.
        let written = written.or_else(|e| match pario_runtime::is_planted("full-disk-ignored") {
            true if e.errno() == libc::ENOSPC => Ok(()),
            _ => Err(e),
        });
        match written {
            Ok(()) => {
                counters.flushed_blocks.add(group.len() as u64);
                counters.store_written_bytes.add((group.len() * size) as u64);
                self.note_stored(group.len(), counters);
                group.into_iter().for_each(BlockFlush::clean);
                Ok(())
            }
            Err(e) => {
                counters.flush_errors.add(1);
                counters.store_failed(&e);
                group.into_iter().for_each(BlockFlush::failed);
                self.note_failure(&e, counters);
                Err(e.into())
            }
        }
    }

    /// Copies the blocks first: clients may change the pool after the store has computed a checksum.
    fn copy_and_write(
        &self,
        group: &[BlockFlush],
        size: usize,
        scratch: &mut Vec<u8>,
    ) -> pario_store::Result<()> {
        let len = group.len() * size;
        if scratch.len() < len {
            scratch.resize(len, 0);
        }
        let mut end = 0;
        for (flush, bytes) in group.iter().zip(scratch.chunks_mut(size)) {
            let (filled, rest) = bytes.split_at_mut(flush.end() as usize);
            flush.copy_to(filled);
            rest.fill(0);
            end = end.max(flush.block() * size as u64 + filled.len() as u64);
        }
        let blocks: Vec<&[u8]> = scratch[..len].chunks(size).collect();
        let outcome = self.store.write(group[0].file(), group[0].block(), &blocks, end);
        scratch.truncate(MAX_BYTES);
        scratch.shrink_to(MAX_BYTES);
        outcome
    }
}
