//! The record of this process, which it alone writes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use pario_shm::Segment;
use parking_lot::Mutex;

use crate::call_name::{CallName, WORDS};
use crate::layout::*;

/// The calls of this process.
#[derive(Debug)]
pub struct ActivityRecord {
    segment: Segment,
    used: Mutex<[bool; SLOTS]>,
}

/// The collective calls of this process on the files of one group of ranks. Dropping it frees its slot.
#[derive(Debug)]
pub struct FileRecord {
    record: Arc<ActivityRecord>,
    index: usize,
}

/// One collective call: its number among the collective calls of its group, counted from 1, and its name. All ranks
/// of the group give the same number to the same call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveCall {
    /// The number.
    pub number: u64,
    /// The function.
    pub name: CallName,
}

impl ActivityRecord {
    /// Creates the record of a process with this rank in a job of this name.
    pub fn create(rank: u32, ranks: u32, job: &str) -> io::Result<Arc<ActivityRecord>> {
        let segment = Segment::create_labelled(LABEL, SIZE)?;
        segment.word(WORLD).store(u64::from(rank) | u64::from(ranks) << 32, Relaxed);
        segment.write_from(JOB, cut(job.as_bytes(), JOB_SIZE));
        segment.word(0).store(MAGIC, Relaxed);
        Ok(Arc::new(ActivityRecord { segment, used: Mutex::new([false; SLOTS]) }))
    }

    /// Records that a call has begun.
    #[inline]
    pub fn begin_call(&self, name: CallName, file: Option<&FileRecord>) {
        self.store_name(CALL, name);
        self.segment.word(CALL_FILE).store(file.map_or(0, |file| file.index as u64 + 1), Relaxed);
        self.segment.word(BEGUN).fetch_add(1, Relaxed);
    }

    /// Records that a call has ended.
    #[inline]
    pub fn end_call(&self) {
        self.segment.word(ENDED).fetch_add(1, Relaxed);
    }

    /// Reserves a slot for a group. `None` if there is none left.
    pub fn add_group(self: &Arc<ActivityRecord>, group: u64, rank: u32, ranks: u32) -> Option<FileRecord> {
        let mut used = self.used.lock();
        let index = used.iter().position(|used| !used)?;
        used[index] = true;
        drop(used);
        let at = slot(index);
        self.segment.zero(at, SLOT);
        self.segment.word(at + RANK).store(u64::from(rank) | u64::from(ranks) << 32, Relaxed);
        self.segment.word(at + GROUP).store(group, Relaxed);
        Some(FileRecord { record: self.clone(), index })
    }

    fn store_name(&self, at: usize, name: CallName) {
        for (i, word) in name.0.iter().enumerate() {
            self.segment.word(at + 8 * i).store(*word, Relaxed);
        }
    }
}

impl FileRecord {
    fn word(&self, at: usize) -> &std::sync::atomic::AtomicU64 {
        self.record.segment.word(slot(self.index) + at)
    }

    /// The name of the file that the group has open; empty if it has none.
    pub fn set_path(&self, path: &[u8]) {
        let at = slot(self.index) + PATH;
        self.record.segment.zero(at, PATH_SIZE);
        self.record.segment.write_from(at, cut(path, PATH_SIZE));
    }

    /// Records that this rank has begun a collective call.
    pub fn begin_collective(&self, name: CallName) {
        self.word(BYTES).store(0, Relaxed);
        self.record.store_name(slot(self.index) + COLLECTIVE, name);
        self.word(COLLECTIVES).fetch_add(1, Relaxed);
    }

    /// Records how many bytes the collective call is about on this rank.
    pub fn set_bytes(&self, bytes: u64) {
        self.word(BYTES).store(bytes.saturating_add(1), Relaxed);
    }

    /// The collective call that was begun last.
    pub fn last_collective(&self) -> CollectiveCall {
        let name: [u64; WORDS] = std::array::from_fn(|i| self.word(COLLECTIVE + 8 * i).load(Relaxed));
        CollectiveCall { number: self.word(COLLECTIVES).load(Relaxed), name: CallName(name) }
    }

    /// Records since when a collective call waits for other ranks.
    pub fn begin_wait(&self, since: Duration) {
        self.word(WAITING).store(since.as_nanos() as u64, Relaxed);
    }

    /// Records the end of the wait that began at this time.
    pub fn end_wait(&self, since: Duration) {
        let _ = self.word(WAITING).compare_exchange(since.as_nanos() as u64, 0, Relaxed, Relaxed);
    }
}

impl Drop for FileRecord {
    fn drop(&mut self) {
        self.word(GROUP).store(0, Relaxed);
        self.record.used.lock()[self.index] = false;
    }
}

/// The text, cut off if it is too long: of a path the end says more.
fn cut(text: &[u8], size: usize) -> &[u8] {
    &text[text.len().saturating_sub(size)..]
}
