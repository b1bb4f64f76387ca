//! A file on a partition, for data shipping.

use std::collections::VecDeque;
use std::ops::Range;

use pario_buffer::UserBuffer;
use pario_client as client;
use pario_data_shipping::{Backing, BackingError, WholeFileLock};
use pario_posix::{Foresight, read_guided};
use pario_types::Pos;
use pario_types::{AccessTuning, PrefetchLimits};
use pario_view::View;

use crate::error::Error;
use crate::storage::with_atomic_lock;

/// The file of one rank.
pub(crate) struct PartitionBacking(pub client::File);

/// The range of all bytes that a file can have.
const ALL: Range<u64> = 0..i64::MAX as u64;

fn to_fault<T>(outcome: Result<T, Error>) -> Result<T, BackingError> {
    outcome.map_err(|error: Error| BackingError {
        kind: error.kind(),
        errno: Some(error.errno()).filter(|errno| *errno != 0),
        at: None,
        text: error.to_string(),
    })
}

impl Backing for PartitionBacking {
    fn read(
        &self,
        view: &View,
        at: Pos,
        buf: &UserBuffer,
        buf_at: u64,
        len: u64,
        tune: &AccessTuning,
    ) -> Result<u64, BackingError> {
        let access = || Ok(self.0.read_user_buffer(view, at, buf, buf_at, len)?);
        to_fault(with_atomic_lock(&self.0, view, at, len, false, tune, access))
    }

    fn write(
        &self,
        view: &View,
        at: Pos,
        buf: &UserBuffer,
        buf_at: u64,
        len: u64,
        tune: &AccessTuning,
    ) -> Result<u64, BackingError> {
        let access = || Ok(self.0.write_user_buffer(view, at, buf, buf_at, len).map(|()| len)?);
        to_fault(with_atomic_lock(&self.0, view, at, len, true, tune, access))
    }

    fn read_parts(
        &self,
        view: &View,
        parts: &[Range<Pos>],
        buf: &UserBuffer,
        tune: &AccessTuning,
        prefetch: PrefetchLimits,
    ) -> Result<u64, BackingError> {
        read_guided(
            &mut PrefetchingReader { file: self, tune, asked: VecDeque::new() },
            view,
            parts,
            buf,
            0,
            prefetch,
        )
    }

    fn lock_whole_file(&self) -> Result<Option<Box<dyn WholeFileLock>>, BackingError> {
        let lock = to_fault(self.0.try_lock(ALL, false).map_err(Error::from))?;
        Ok(lock.map(|lock| -> Box<dyn WholeFileLock> { Box::new(PartitionFileLock(lock)) }))
    }
}

/// The lock of file-partitioning mode, at the file's first server.
struct PartitionFileLock(client::Lock);

impl WholeFileLock for PartitionFileLock {
    fn release(self: Box<Self>) -> Result<(), BackingError> {
        to_fault(self.0.unlock().map_err(Error::from))
    }
}

/// A reader that prefetches. A failed prefetch is ignored: the read that follows reports the error.
struct PrefetchingReader<'a> {
    file: &'a PartitionBacking,
    tune: &'a AccessTuning,
    /// For each prefetched range, in order: whether the servers were asked for it. Ranges that are cached already are
    /// not.
    asked: VecDeque<bool>,
}

impl Foresight for PrefetchingReader<'_> {
    type Error = BackingError;

    fn read(
        &mut self,
        view: &View,
        at: Pos,
        buf: &UserBuffer,
        buf_at: u64,
        len: u64,
    ) -> Result<u64, BackingError> {
        self.file.read(view, at, buf, buf_at, len, self.tune)
    }

    fn prefetch(&mut self, ranges: &[Range<u64>]) -> usize {
        let file = &self.file.0;
        let missing = |range: &Range<u64>| !file.is_at_hand(range.clone());
        let flags: Vec<bool> = ranges.iter().map(missing).collect();
        let ask: Vec<_> =
            ranges.iter().zip(&flags).filter(|(_, ask)| **ask).map(|(range, _)| range.clone()).collect();
        let mut left = if ask.is_empty() { 0 } else { file.prefetch(&ask).unwrap_or(0) };
        // Counts the ranges before the first refused one.
        let taken = flags.iter().take_while(|asked| {
            let refused = **asked && left == 0;
            left -= usize::from(**asked && !refused);
            !refused
        });
        let before = self.asked.len();
        self.asked.extend(taken);
        self.asked.len() - before
    }

    fn release(&mut self, ranges: &[Range<u64>]) {
        let asked = ranges.iter().filter(|_| self.asked.pop_front() == Some(true));
        let asked: Vec<_> = asked.cloned().collect();
        if !asked.is_empty() {
            let _ = self.file.0.forget(&asked);
        }
    }
}
