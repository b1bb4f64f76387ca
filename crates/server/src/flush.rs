//! Dirty blocks on their way to the store: by the flusher between the watermarks, by who finds no clean slot, and
//! by sync.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pario_cache::{BlockFlush, DirtySweep, SweepStep};
use pario_types::FileId;

use crate::error::{Error, Result};
use crate::status::Counters;
use crate::tier::{BATCH, IDLE, Tier};

/// Dirty blocks go to the store after about this time, also below the high watermark.
const REST: Duration = Duration::from_secs(2);

/// After a failure the flusher waits this long, then twice as long, …
const PATIENCE: Duration = Duration::from_millis(250);
const MOST_PATIENCE: Duration = Duration::from_secs(15);

/// How long a server that ends waits for clients in the middle of a copy, before it refuses their writes.
const FAREWELL: Duration = Duration::from_secs(2);

/// Most bytes that one access of the store writes.
const MOST_BYTES: usize = 1 << 20;

thread_local! {
    /// Of each thread that flushes, used again and again: new memory costs more than the copy into it.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A sync under way: what was dirty when it began goes to the store.
pub(crate) struct Syncing {
    sweep: DirtySweep,
    failure: Option<Error>,
}

/// What became of blocks that were to be written.
struct WrittenOut {
    /// How many are in the store.
    stored: usize,
    /// The first failure.
    failure: Option<Error>,
}

/// How far something got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// To the end.
    Done,
    /// A step further, and it can go on at once.
    Some,
    /// Not at all: others are in the way.
    None,
}

impl Tier {
    /// Begins to write what is dirty now of one file, or of all (0).
    pub fn start_sync(&self, file: FileId) -> Syncing {
        let sweep = self.pool.sweep(Some(file).filter(|file| *file != FileId(0)));
        Syncing { sweep, failure: None }
    }

    /// Goes on with it for one batch. A block that cannot be stored stays dirty, and the first such failure is the
    /// result.
    pub fn sync(&self, syncing: &mut Syncing, counters: &Counters) -> Result<Progress> {
        match syncing.sweep.next(BATCH) {
            SweepStep::Flush(flushes) => {
                let outcome = self.write_out(flushes, counters);
                syncing.failure = syncing.failure.take().or(outcome.failure);
                Ok(Progress::Some)
            }
            SweepStep::Wait => Ok(Progress::None),
            SweepStep::Done => syncing.failure.take().map_or(Ok(Progress::Done), Err),
        }
    }

    /// The same for a thread that has nothing else to do.
    pub fn sync_now(&self, file: FileId, counters: &Counters) -> Result<()> {
        let mut syncing = self.start_sync(file);
        loop {
            match self.sync(&mut syncing, counters)? {
                Progress::Done => return Ok(()),
                Progress::Some => {}
                Progress::None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Writes everything that is dirty now; says how much of it cannot be stored.
    pub fn store_all(&self, counters: &Counters) -> Result<()> {
        self.sync_now(FileId(0), counters).map_err(|cause| {
            let bytes = u64::from(self.pool.dirty()) * u64::from(self.pool.geometry().block);
            Error::Unstored { bytes, cause: Box::new(cause) }
        })
    }

    /// Everything to the medium, and no more from clients that have mapped the pool. If it fails, all is as before.
    pub fn retire(&self, counters: &Counters) -> Result<()> {
        // The bulk of it while they can still work; then only what they did meanwhile.
        self.store_all(counters)?;
        let begun = Instant::now();
        while !self.pool.close() && begun.elapsed() < FAREWELL {
            std::thread::sleep(Duration::from_millis(1));
        }
        // A client that is stopped in the middle of a copy learns from here on that its write does not count.
        self.pool.retire();
        let outcome = self.store_all(counters).and_then(|()| Ok(self.store.sync_all()?));
        if outcome.is_err() {
            self.pool.reopen();
        }
        outcome
    }

    /// For a request that found no slot to use: whether there may be one now. If blocks are in the way that cannot be
    /// stored, and nothing else, that is the error: the store is asked again for one of them from time to time, not for
    /// every request.
    pub fn make_room(&self, counters: &Counters) -> Result<bool> {
        let mut flushes = self.pool.next_dirty(BATCH / 4);
        let is_stuck = flushes.is_empty() && self.pool.is_stuck();
        if is_stuck && self.room.may_probe() {
            self.pool.retry_failed(1);
            flushes = self.pool.next_dirty(1);
        }
        if flushes.is_empty() {
            return self.room.failure().filter(|_| is_stuck).map_or(Ok(false), Err);
        }
        let outcome = self.write_out(flushes, counters);
        if outcome.stored > 0 && is_stuck {
            self.retry_failed();
        }
        if outcome.stored > 0 { Ok(true) } else { outcome.failure.map_or(Ok(true), Err) }
    }

    /// Tries again at once what could not be stored.
    pub fn retry_failed(&self) {
        self.pool.retry_failed(usize::MAX);
        self.pool.wake();
    }

    /// The flusher's life.
    /// `each` is called whenever it looks for something to do.
    pub fn run_flusher(&self, stop: &AtomicBool, counters: &Counters, each: impl Fn()) {
        let mut bell = self.pool.flush_signal();
        let mut patience = PATIENCE;
        let mut since = None;
        while !stop.load(Ordering::Acquire) {
            each();
            let (high, low) = self.pool.watermarks();
            let dirty = self.pool.dirty();
            if dirty == 0 {
                since = None;
                bell.wait_for_work(IDLE);
                continue;
            }
            let rested = since.get_or_insert_with(Instant::now).elapsed();
            let target = match dirty >= high {
                true => low,
                false if rested >= REST => 0,
                false => {
                    bell.wait_for_work(REST - rested);
                    continue;
                }
            };
            since = None;
            match self.flush_down_to(target, stop, counters) {
                true => patience = PATIENCE,
                false => {
                    bell.rest(patience);
                    patience = (patience * 2).min(MOST_PATIENCE);
                }
            }
        }
    }

    /// Stores blocks until no more than so many are dirty; whether that worked. Blocks that cannot be stored rest, so
    /// those of other files come after them.
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

    /// Writes blocks, neighbours together. Goes on after a failure, so that one file's trouble does not keep the
    /// others from storage.
    fn write_out(&self, flushes: Vec<BlockFlush>, counters: &Counters) -> WrittenOut {
        let size = self.pool.geometry().block as usize;
        let mut outcome = WrittenOut { stored: 0, failure: None };
        let mut rest = flushes.into_iter().peekable();
        while let Some(first) = rest.next() {
            let mut group = vec![first];
            while group.len() * size < MOST_BYTES
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
        let written = SCRATCH.with_borrow_mut(|scratch| self.write_copies(&group, size, scratch));
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
    /// Copies come first: who writes into the pool meanwhile must not change what has a sum already.
    fn write_copies(
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
        scratch.truncate(MOST_BYTES);
        scratch.shrink_to(MOST_BYTES);
        outcome
    }
}
