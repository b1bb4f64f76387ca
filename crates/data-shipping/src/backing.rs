//! What agents and shippers need of a file, whatever it is: a plain one is one ([`PlainFile`]), one on a partition
//! is another, made by whoever knows partitions.

use std::fmt;
use std::ops::Range;

use pario_buffer::UserBuffer;
use pario_posix::{How, OwnedRange, PlainFile, PrefetchLimits, Tuning};
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
        tune: &Tuning,
    ) -> Result<u64, Fault>;

    /// Writes `len` bytes of the memory's data from `buf_at` to the view from `at`: all of them, or an error.
    fn write(
        &self,
        view: &View,
        at: Pos,
        buf: &UserBuffer,
        buf_at: u64,
        len: u64,
        tune: &Tuning,
    ) -> Result<u64, Fault>;

    /// Reads ranges of positions, in ascending order, into the memory's data bytes, where they lie one after the
    /// other from the first on; prefetches as far as the limits say. Returns how many bytes there were: fewer only
    /// at the end of the file.
    fn read_parts(
        &self,
        view: &View,
        parts: &[Range<Pos>],
        buf: &UserBuffer,
        tune: &Tuning,
        prefetch: PrefetchLimits,
    ) -> Result<u64, Fault>;

    /// Locks the whole file, bytes to come included, beside other agents and against everybody who locks for
    /// himself. `None` if somebody of those holds a lock now.
    fn hold(&self) -> Result<Option<Box<dyn Hold>>, Fault>;
}

/// The lock of file-partitioning mode. Dropping it lets go, too, without a word.
pub trait Hold: Send + Sync {
    /// Lets go; an error if it was lost meanwhile, or cannot be let go.
    fn release(self: Box<Self>) -> Result<(), Fault>;
}

/// A file's failure, whatever file it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What kind of failure.
    pub kind: ErrorKind,
    /// The system's error number, where there is one.
    pub errno: Option<i32>,
    /// Where in the file, if that is known.
    pub at: Option<Offset>,
    /// What and where, in one line.
    pub text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Fault {}

impl From<pario_posix::Error> for Fault {
    fn from(error: pario_posix::Error) -> Fault {
        Fault { kind: error.kind(), errno: error.errno(), at: error.at(), text: error.to_string() }
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
        tune: &Tuning,
    ) -> Result<u64, Fault> {
        Ok(PlainFile::read(self, view, at, buf, buf_at, len, tune)?)
    }

    fn write(
        &self,
        view: &View,
        at: Pos,
        buf: &UserBuffer,
        buf_at: u64,
        len: u64,
        tune: &Tuning,
    ) -> Result<u64, Fault> {
        Ok(PlainFile::write(self, view, at, buf, buf_at, len, tune)?)
    }

    fn read_parts(
        &self,
        view: &View,
        parts: &[Range<Pos>],
        buf: &UserBuffer,
        tune: &Tuning,
        prefetch: PrefetchLimits,
    ) -> Result<u64, Fault> {
        Ok(self.read_guided(view, parts, buf, 0, tune, prefetch)?)
    }

    fn hold(&self) -> Result<Option<Box<dyn Hold>>, Fault> {
        // Through an open of its own: in that of the accesses it would be in their way.
        let own = PlainFile::open(self.path(), &How::default())?;
        let range = own.try_lock_owned(Offset(0)..Offset(u64::MAX), false)?;
        Ok(range.map(|range| -> Box<dyn Hold> { Box::new(range) }))
    }
}

impl Hold for OwnedRange {
    fn release(self: Box<Self>) -> Result<(), Fault> {
        Ok(OwnedRange::release(*self)?)
    }
}
