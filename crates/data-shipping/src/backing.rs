//! The file operations that agents and shippers need. [`PlainFile`] implements them here; the implementation for files
//! on a partition is elsewhere.

use std::ops::Range;

use pario_buffer::UserBuffer;
use pario_posix::{OwnedRangeGuard, PlainFile, PlainOpenOptions};
use pario_types::{AccessTuning, PrefetchLimits};
use pario_types::{ErrorKind, Offset, Pos};
use pario_view::View;

/// A file as one rank has it open. Any number of threads may use it at once.
pub trait Backing: Send + Sync {
    /// Reads `len` bytes of the view from `at` into the memory's data bytes from `buf_at`. Returns how many there
    /// were: fewer only at the end of the file.
    fn read(
        &self,
        view: &View,
        at: Pos,
        buf: &UserBuffer,
        buf_at: u64,
        len: u64,
        tune: &AccessTuning,
    ) -> Result<u64, BackingError>;

    /// Writes `len` bytes of the memory's data from `buf_at` to the view from `at`: all of them, or an error.
    fn write(
        &self,
        view: &View,
        at: Pos,
        buf: &UserBuffer,
        buf_at: u64,
        len: u64,
        tune: &AccessTuning,
    ) -> Result<u64, BackingError>;

    /// Reads ranges of positions, in ascending order, into the memory's data bytes, where they lie one after the
    /// other from the first on; prefetches as far as the limits say. Returns how many bytes there were: fewer only
    /// at the end of the file.
    fn read_parts(
        &self,
        view: &View,
        parts: &[Range<Pos>],
        buf: &UserBuffer,
        tune: &AccessTuning,
        prefetch: PrefetchLimits,
    ) -> Result<u64, BackingError>;

    /// Locks the whole file, future bytes included. Other agents may hold the same lock; processes that lock ranges are
    /// excluded. `None` if such a process holds a lock now.
    fn lock_whole_file(&self) -> Result<Option<Box<dyn WholeFileLock>>, BackingError>;
}

/// The lock of file-partitioning mode. Dropping it releases the lock without a report.
pub trait WholeFileLock: Send + Sync {
    /// Releases the lock; an error if it was lost or cannot be released.
    fn release(self: Box<Self>) -> Result<(), BackingError>;
}

/// A failed operation on a file of any kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct BackingError {
    /// What kind of failure.
    pub kind: ErrorKind,
    /// The system's error number, where there is one.
    pub errno: Option<i32>,
    /// Where in the file, if that is known.
    pub at: Option<Offset>,
    /// A description in one line.
    pub text: String,
}

impl From<pario_posix::Error> for BackingError {
    fn from(error: pario_posix::Error) -> BackingError {
        BackingError { kind: error.kind(), errno: error.errno(), at: error.at(), text: error.to_string() }
    }
}

impl Backing for PlainFile {
    fn read(
        &self,
        view: &View,
        at: Pos,
        buf: &UserBuffer,
        buf_at: u64,
        len: u64,
        tune: &AccessTuning,
    ) -> Result<u64, BackingError> {
        Ok(PlainFile::read(self, view, at, buf, buf_at, len, tune)?)
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
        Ok(PlainFile::write(self, view, at, buf, buf_at, len, tune)?)
    }

    fn read_parts(
        &self,
        view: &View,
        parts: &[Range<Pos>],
        buf: &UserBuffer,
        tune: &AccessTuning,
        prefetch: PrefetchLimits,
    ) -> Result<u64, BackingError> {
        Ok(self.read_guided(view, parts, buf, 0, tune, prefetch)?)
    }

    fn lock_whole_file(&self) -> Result<Option<Box<dyn WholeFileLock>>, BackingError> {
        // Through a second open: in the first one the lock would conflict with the accesses.
        let own = PlainFile::open(self.path(), &PlainOpenOptions::default())?;
        let range = own.try_lock_owned(Offset(0)..Offset(u64::MAX), false)?;
        Ok(range.map(|range| -> Box<dyn WholeFileLock> { Box::new(range) }))
    }
}

impl WholeFileLock for OwnedRangeGuard {
    fn release(self: Box<Self>) -> Result<(), BackingError> {
        Ok(OwnedRangeGuard::release(*self)?)
    }
}
