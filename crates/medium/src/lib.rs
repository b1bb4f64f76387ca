//! The file system below everything that a server keeps: as it is ([`HostFileSystem`]), and simulated with all that storage can do
//! wrong ([`SimulatedMedium`]).
//!
//! Code that stores something takes a [`Medium`] and does all its file operations through it. In production that is a
//! [`HostFileSystem`], where every operation is one system call. In tests it is a [`SimulatedMedium`] medium, which fails, lies, is killed
//! between any two operations, or loses power: then any subset of what was not synced survives.
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
    /// Makes a directory with mode 700; one that is there already is no error.
    fn make_directory(&self, path: &Path) -> io::Result<()>;
    /// The names in a directory.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// The length of a file and the bytes that it takes on the medium.
    fn inspect(&self, path: &Path) -> io::Result<FileStats>;
    /// Gives a file another name, in one step, in place of whatever has that name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a name.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// A number of the time since the machine was started; 0 if the system does not tell.
    fn boot(&self) -> u64;
}

/// An open file. Its operations may come from any thread.
pub trait MediumFile: Send + Sync {
    /// Its length and the bytes that it takes on the medium.
    fn stats(&self) -> io::Result<FileStats>;
    /// One read at this offset; 0 bytes only at the end.
    fn read_at(&self, to: &mut [IoSliceMut<'_>], at: u64) -> io::Result<usize>;
    /// One write at this offset; how many bytes were taken.
    fn write_at(&self, from: &[IoSlice<'_>], at: u64) -> io::Result<usize>;
    /// Makes it this long.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Takes room for these bytes, also beyond the end, which stays where it is.
    fn allocate(&self, at: u64, len: u64) -> io::Result<()>;
    /// Makes these bytes zeros that take no room; `false` where the file system has no such call.
    fn punch(&self, at: u64, len: u64) -> io::Result<bool>;
    /// The first byte at or after `at` that is not in a hole; `None` if there is none.
    fn next_data(&self, at: u64) -> io::Result<Option<u64>>;
    /// Contents and length as they are now survive a loss of power.
    fn sync(&self) -> io::Result<()>;
}

/// An open directory.
pub trait MediumDirectory: Send + Sync {
    /// Takes it for this process alone, as long as this lives; `false` if somebody else has it.
    fn lock(&self) -> io::Result<bool>;
    /// The names in it as they are now survive a loss of power.
    fn sync(&self) -> io::Result<()>;
    /// Everything on its file system survives a loss of power.
    fn sync_file_system(&self) -> io::Result<()>;
    /// Room on its file system.
    fn space(&self) -> io::Result<SpaceUsage>;
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// To be read.
    Read,
    /// To be read and written.
    Write,
    /// To be read and written, made with mode 600 if it is not there.
    Create,
    /// To be read and written, empty, in place of one that is there.
    New,
}

/// How much of a file there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStats {
    /// Its length.
    pub len: u64,
    /// The bytes that it takes on the medium.
    pub used: u64,
}

/// Room on a file system, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceUsage {
    /// All.
    pub total: u64,
    /// What an ordinary user may still take.
    pub free: u64,
}
