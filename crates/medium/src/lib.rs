//! The file system below all data of a server: the real one ([`HostFileSystem`]), and a simulation with all faults of
//! storage ([`SimulatedMedium`]).
//!
//! Code that stores data takes a [`Medium`] and does all its file operations through it. In production that is a
//! [`HostFileSystem`], where every operation is one system call. In tests it is a [`SimulatedMedium`], which fails, reports
//! false success, is killed between any two operations, or loses power: then any subset of the unsynced data survives.
#![forbid(unsafe_code)]

mod disk;
mod simulated;
mod whole;

pub use disk::HostFileSystem;
pub use simulated::{InjectedFault, SimulatedMedium};
pub use whole::{clear, fill, put};

use std::io::{self, IoSlice, IoSliceMut};
use std::path::Path;

/// A file system.
pub trait Medium: Send + Sync {
    /// Opens a file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn MediumFile>>;
    /// Opens a directory.
    fn open_directory(&self, path: &Path) -> io::Result<Box<dyn MediumDirectory>>;
    /// Creates a directory with mode 700; an existing one is no error.
    fn make_directory(&self, path: &Path) -> io::Result<()>;
    /// The names in a directory.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// The length of a file and the bytes that it takes on the medium.
    fn inspect(&self, path: &Path) -> io::Result<FileStats>;
    /// Renames a file atomically, and replaces any file of the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a name.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The id of the machine's boot; 0 if the system does not report it.
    fn boot(&self) -> u64;
}

/// An open file. Its operations may come from any thread.
pub trait MediumFile: Send + Sync {
    /// Its length and the bytes that it takes on the medium.
    fn stats(&self) -> io::Result<FileStats>;
    /// Reads once at this offset; returns 0 bytes only at the end.
    fn read_at(&self, to: &mut [IoSliceMut<'_>], at: u64) -> io::Result<usize>;
    /// Writes once at this offset; returns the number of bytes written.
    fn write_at(&self, from: &[IoSlice<'_>], at: u64) -> io::Result<usize>;
    /// Sets its length.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Allocates space for these bytes, also beyond the end, which does not move.
    fn allocate(&self, at: u64, len: u64) -> io::Result<()>;
    /// Replaces these bytes by a hole; `false` where the file system has no such call.
    fn punch(&self, at: u64, len: u64) -> io::Result<bool>;
    /// The first byte at or after `at` that is not in a hole; `None` if there is none.
    fn next_data(&self, at: u64) -> io::Result<Option<u64>>;
    /// Makes the present contents and length survive a loss of power.
    fn sync(&self) -> io::Result<()>;
}

/// An open directory.
pub trait MediumDirectory: Send + Sync {
    /// Locks it for this process, as long as this value exists; `false` if another process has locked it.
    fn lock(&self) -> io::Result<bool>;
    /// Makes the present names in it survive a loss of power.
    fn sync(&self) -> io::Result<()>;
    /// Makes everything on its file system survive a loss of power.
    fn sync_file_system(&self) -> io::Result<()>;
    /// The space on its file system.
    fn space(&self) -> io::Result<SpaceUsage>;
}

/// The mode of an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// For reading.
    Read,
    /// For reading and writing.
    Write,
    /// For reading and writing, created with mode 600 if it does not exist.
    Create,
    /// For reading and writing, empty, in place of an existing one.
    New,
}

/// The extent of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStats {
    /// Its length.
    pub len: u64,
    /// The bytes that it takes on the medium.
    pub used: u64,
}

/// Space on a file system, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceUsage {
    /// The total.
    pub total: u64,
    /// The space that an ordinary user may still allocate.
    pub free: u64,
}
