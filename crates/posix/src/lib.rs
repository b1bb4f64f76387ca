//! Independent access to one plain file, contiguous or noncontiguous.
//!
//! A [`PlainFile`] moves bytes between a view of the file and the program's memory. Where the view has gaps, it either
//! makes one call for each piece or uses data sieving: it reads a window that contains the gaps, and for a write it
//! writes the modified window back. A cost model of the file system decides gap by gap which is cheaper (`cost`,
//! `segments`). `write` documents the lock protocol that protects the bytes of other writers from sieving. System calls
//! go through [`Syscalls`], so that tests can inject faults there.
#![warn(missing_docs)]

mod backend;
mod cost;
mod error;
mod file;
mod filesystem;
mod hinted_ranges;
mod lock_wait;
mod locks;
mod lustre;
mod meter;
mod open;
mod read;
mod request;
mod scratch;
mod segments;
mod striping;
mod sys;
mod transfer;
mod window;
mod write;

pub use error::{Error, FileOperation};
pub use file::PlainFile;
pub use filesystem::{FileSystem, FsKind};
pub use locks::{OwnedRangeGuard, RangeGuard, with_exclusive_lock};
pub use open::{PlainOpenOptions, delete};
pub use striping::{FsStriping, StripingOutcome, StripingRequest};
pub use sys::{AccessAdvice, Errno, Linux, LockOp, MOST_PER_CALL, Syscalls};
