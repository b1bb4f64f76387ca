//! The interface to an open file.

use std::ops::Range;

use pario_buffer::{UserBuffer, lend};
use pario_types::{AccessTuning, Offset, Pos, PrefetchLimits};
use pario_view::View;

use crate::error::BackendError;
use crate::facts::StorageFacts;
use crate::read_ranges::read_ranges;

/// A lock on a range of a file. Dropping it releases the lock without a report.
pub trait RangeLock: Send + Sync {
    /// Releases the lock. Returns an error if the lock was lost or cannot be released.
    fn release(self: Box<Self>) -> Result<(), BackendError>;
}

/// The outcome of an attempt to lock a range.
pub enum LockAttempt {
    /// The range is locked.
    Locked(Box<dyn RangeLock>),
    /// The file has no locks, or needs none.
    NotNeeded,
    /// Another process holds a conflicting lock.
    Busy,
}

/// Counts that a backend reports when it is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CloseCounts {
    /// Bytes that were written back from a client cache.
    pub staged_bytes: u64,
    /// Leases of a client cache that servers recalled.
    pub recalls: u64,
}

/// Requests that a thread has sent to servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerTraffic {
    /// The number of requests.
    pub requests: u64,
    /// The bytes in them.
    pub bytes: u64,
}

impl ServerTraffic {
    /// The difference to an earlier count of the same thread.
    pub fn since(self, before: ServerTraffic) -> ServerTraffic {
        ServerTraffic { requests: self.requests - before.requests, bytes: self.bytes - before.bytes }
    }
}

/// An open file of one rank. Any number of threads may use it at once.
pub trait FileBackend: Send + Sync {
    /// Reads `len` bytes of the view from `at` on into the data bytes of the buffer from `buf_at` on. Returns the
    /// number of bytes read, which is less than `len` only at the end of the file.
    fn read(
        &self,
        view: &View,
        at: Pos,
        buf: &UserBuffer,
        buf_at: u64,
        len: u64,
        tuning: &AccessTuning,
    ) -> Result<u64, BackendError>;

    /// Writes `len` data bytes of the buffer from `buf_at` on to the view from `at` on. Returns the number of bytes
    /// written, which is `len`.
    fn write(
        &self,
        view: &View,
        at: Pos,
        buf: &UserBuffer,
        buf_at: u64,
        len: u64,
        tuning: &AccessTuning,
    ) -> Result<u64, BackendError>;

    /// Reads ranges of positions in ascending order into consecutive data bytes of the buffer, and prefetches within
    /// the limits. Returns the number of bytes read, which is less than requested only at the end of the file.
    fn read_ranges(
        &self,
        view: &View,
        ranges: &[Range<Pos>],
        buf: &UserBuffer,
        tuning: &AccessTuning,
        limits: PrefetchLimits,
    ) -> Result<u64, BackendError> {
        read_ranges(self, view, ranges, buf, 0, tuning, limits)
    }

    /// Whether a range of the file is in a cache that makes prefetching useless.
    fn is_cached(&self, _range: &Range<u64>) -> bool {
        false
    }

    /// Prefetches ranges of the file. Returns how many are accepted, from the first on. The others are refused.
    fn prefetch(&self, _ranges: &[Range<u64>]) -> usize {
        0
    }

    /// Releases ranges that [`prefetch`](FileBackend::prefetch) accepted, each one once.
    fn release(&self, _ranges: &[Range<u64>]) {}

    /// Prefetches ranges that the program announced by a hint. Returns how many are accepted, from the first on.
    fn prefetch_hinted(&self, ranges: &[Range<u64>]) -> usize {
        self.prefetch(ranges)
    }

    /// Releases ranges that the program announced by a hint and does not need any more.
    fn release_hinted(&self, ranges: &[Range<u64>]) {
        self.release(ranges);
    }

    /// Reads the parts of a window in ascending order. Returns the number of bytes before the end of the file.
    /// `exclusive` says that no other rank accesses the window in collective calls, so it may be cached.
    fn read_window(&self, parts: &mut [(u64, &mut [u8])], _exclusive: bool) -> Result<usize, BackendError> {
        let mut done = 0;
        for (at, to) in parts {
            let (view, len) = (View::contiguous(Offset(*at)), to.len());
            let tuning = AccessTuning::default();
            let got = lend(to, |buf| self.read(&view, Pos(0), buf, 0, len as u64, &tuning))? as usize;
            done += got;
            if got < len {
                break;
            }
        }
        Ok(done)
    }

    /// Writes the parts of a window in ascending order. `locked` says that some rank holds a lock of
    /// [`try_lock`](FileBackend::try_lock) on them. `exclusive` is as in
    /// [`read_window`](FileBackend::read_window).
    fn write_window(
        &self,
        parts: &[(u64, &[u8])],
        locked: bool,
        exclusive: bool,
        tuning: &AccessTuning,
    ) -> Result<(), BackendError>;

    /// Whether a range is known to read as zeros because nothing was ever written to it.
    fn is_hole(&self, _range: Range<u64>) -> Result<bool, BackendError> {
        Ok(false)
    }

    /// Tries to lock a range against writers of other opens of the file, for a read-modify-write of a window.
    fn try_lock(&self, _range: Range<u64>) -> Result<LockAttempt, BackendError> {
        Ok(LockAttempt::NotNeeded)
    }

    /// Locks the whole file, including bytes beyond its end. Other I/O agents may hold the same lock. Processes that
    /// lock ranges are excluded. Returns `None` if such a process holds a lock.
    fn lock_whole_file(&self) -> Result<Option<Box<dyn RangeLock>>, BackendError>;

    /// The size of the file.
    fn size(&self) -> Result<u64, BackendError>;

    /// Truncates or extends the file.
    fn set_size(&self, size: u64) -> Result<(), BackendError>;

    /// Makes sure that the file has at least this size, and reserves storage if the backend can.
    fn preallocate(&self, size: u64) -> Result<(), BackendError> {
        if self.size()? < size { self.set_size(size) } else { Ok(()) }
    }

    /// Prepares a change of the size on all ranks, before one of them changes it.
    fn prepare_resize(&self, _size: u64) -> Result<(), BackendError> {
        Ok(())
    }

    /// Forces everything that this rank wrote to storage.
    fn sync(&self) -> Result<(), BackendError>;

    /// Stores what this rank wrote before the file is closed. `wrote` says that the rank may have written, `stays` that
    /// the file is not deleted next.
    fn close(&self, _wrote: bool, _stays: bool) -> (CloseCounts, Result<(), BackendError>) {
        (CloseCounts::default(), Ok(()))
    }

    /// Records that the ranks have written windows up to `end`.
    fn extend_written_end(&self, _end: u64) {}

    /// The properties of the storage.
    fn facts(&self) -> StorageFacts;

    /// The requests that the calling thread has sent to servers so far. It is 0 if the file has no servers of Pario.
    fn requests_of_this_thread(&self) -> ServerTraffic {
        ServerTraffic::default()
    }

    /// Whether this process reaches the cached bytes of the file by shared memory.
    fn is_near(&self) -> bool {
        true
    }

    /// Whether a write can read, modify and write back a range. That needs permission to read, and locks.
    fn can_sieve_writes(&self) -> bool {
        true
    }

    /// A line about striping that was requested and could not be set.
    fn striping_complaint(&self) -> Option<String> {
        None
    }
}
