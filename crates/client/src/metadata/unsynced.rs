//! Writes of a file that no sync or close has covered yet.
//!
//! Each handle records its own writes, so the handle that wrote is the one that reports their loss. A handle that is dropped without a
//! close cannot report anything: it leaves its record to the next sync or close of the file by this process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use pario_runtime::sync::{Mutex, MutexGuard};
use pario_types::{FileId, ServerId};

/// The record of a server that has lost writes for certain.
const LOST: u64 = u64::MAX;

/// Most files whose dropped handles leave a record.
const MOST_FILES: usize = 4096;

/// The record of one server: 0 if nothing was written since the last sync, [`LOST`], or the number of losses of the server's cache at
/// the first write, plus 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteRecord(u64);

impl WriteRecord {
    /// Writes that are gone for certain.
    pub const LOST: WriteRecord = WriteRecord(LOST);

    /// A write to a server whose cache was lost so often before.
    #[inline]
    pub fn at(losses: u64) -> WriteRecord {
        WriteRecord(losses.saturating_add(1).min(LOST - 1))
    }

    /// Whether there are any writes.
    pub fn is_set(self) -> bool {
        self.0 != 0
    }

    /// Whether the server, whose cache was lost so often by now, has lost writes of this record.
    pub fn is_lost(self, losses: u64) -> bool {
        self.is_set() && self != WriteRecord::at(losses)
    }

    /// The record of the writes of both. A cache's losses only grow, so the older record shows a loss that the newer one does not.
    fn and(self, other: WriteRecord) -> WriteRecord {
        match (self.0, other.0) {
            (0, _) => other,
            (_, 0) => self,
            (LOST, _) | (_, LOST) => WriteRecord(LOST),
            (one, other) => WriteRecord(one.min(other)),
        }
    }
}

/// The records of a handle, one for each holder of the file.
#[derive(Debug, Default)]
pub(crate) struct UnsyncedWrites {
    records: Box<[AtomicU64]>,
    /// Held during a sync: another one must not return before it, because it has taken the records.
    sync: Mutex<()>,
}

impl UnsyncedWrites {
    pub fn new(holders: u16) -> UnsyncedWrites {
        UnsyncedWrites { records: (0..holders).map(|_| AtomicU64::new(0)).collect(), sync: Mutex::new(()) }
    }

    /// Waits for a sync of another thread.
    pub fn begin_sync(&self) -> MutexGuard<'_, ()> {
        self.sync.lock()
    }

    /// Before and after a write to the holder at this place.
    #[inline]
    pub fn note(&self, place: u16, record: WriteRecord) {
        let word = &self.records[usize::from(place)];
        if word.load(Ordering::Relaxed) == 0 {
            let _ = word.compare_exchange(0, record.0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Adds a record of writes that may be older than those that are recorded.
    pub fn add(&self, place: u16, record: WriteRecord) {
        let sum = |word| Some(WriteRecord(word).and(record).0);
        let _ = self.records[usize::from(place)].fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
    }

    /// Takes the record of a place; there is none afterwards.
    pub fn take(&self, place: u16) -> WriteRecord {
        WriteRecord(self.records[usize::from(place)].swap(0, Ordering::Relaxed))
    }
}

/// The records that dropped handles left, by file and server.
#[derive(Debug, Default)]
pub(crate) struct AbandonedWrites(Mutex<BTreeMap<FileId, Vec<(ServerId, WriteRecord)>>>);

impl AbandonedWrites {
    /// Keeps records for the next sync of the file. Returns `false` if there are too many files already.
    pub fn add(&self, file: FileId, records: impl IntoIterator<Item = (ServerId, WriteRecord)>) -> bool {
        let mut records = records.into_iter().filter(|(_, record)| record.is_set()).peekable();
        if records.peek().is_none() {
            return true;
        }
        let mut files = self.0.lock();
        if files.len() >= MOST_FILES && !files.contains_key(&file) {
            return false;
        }
        let kept = files.entry(file).or_default();
        for (server, record) in records {
            match kept.iter_mut().find(|(one, _)| *one == server) {
                Some((_, other)) => *other = other.and(record),
                None => kept.push((server, record)),
            }
        }
        true
    }

    /// Takes the records of a file.
    pub fn take(&self, file: FileId) -> Vec<(ServerId, WriteRecord)> {
        self.0.lock().remove(&file).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_shows_in_the_record_of_all_writes_since_the_last_sync() {
        assert!(!WriteRecord::at(0).is_lost(0));
        assert!(WriteRecord::at(0).is_lost(1));
        let records = UnsyncedWrites::new(2);
        records.note(1, WriteRecord::at(3));
        records.note(1, WriteRecord::at(4));
        assert_eq!(records.take(1), WriteRecord::at(3));
        assert!(!records.take(1).is_set(), "a record is taken once");
        assert!(!records.take(0).is_set());
    }

    #[test]
    fn a_record_that_comes_back_after_a_failed_sync_is_not_hidden_by_a_newer_write() {
        let records = UnsyncedWrites::new(1);
        records.note(0, WriteRecord::at(0));
        let taken = records.take(0);
        // The server loses its cache, the sync fails, and another thread writes before the record is put back.
        records.note(0, WriteRecord::at(1));
        records.add(0, taken);
        assert!(records.take(0).is_lost(1));
    }

    #[test]
    fn records_of_dropped_handles_are_combined_and_taken_once() {
        let (file, server) = (FileId(7), ServerId(1));
        let abandoned = AbandonedWrites::default();
        assert!(abandoned.add(file, [(server, WriteRecord::at(5)), (ServerId(0), WriteRecord(0))]));
        assert!(abandoned.add(file, [(server, WriteRecord::at(2))]));
        assert_eq!(abandoned.take(file), [(server, WriteRecord::at(2))]);
        assert!(abandoned.take(file).is_empty());
        assert!(
            abandoned.add(file, [(server, WriteRecord::LOST)])
                && abandoned.add(file, [(server, WriteRecord::at(2))])
        );
        assert!(abandoned.take(file)[0].1.is_lost(2), "what is lost stays lost");
    }

    #[test]
    fn abandoned_records_are_bounded() {
        let abandoned = AbandonedWrites::default();
        let record = [(ServerId(0), WriteRecord::at(0))];
        assert!((0..MOST_FILES as u64).all(|file| abandoned.add(FileId(file), record)));
        assert!(!abandoned.add(FileId(1 << 40), record));
        assert!(abandoned.add(FileId(3), record), "a file that is known already");
    }
}
