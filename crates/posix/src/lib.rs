//! Independent access to one plain file, contiguous or not, correct first and then fast.
//!
//! A [`PlainFile`] moves bytes between a view of the file and the program's memory. Where the view has gaps,
//! it either moves each piece by a call of its own or *sieves*: reads a window with the gaps in it, and for
//! a write puts it back changed. Which is cheaper is decided gap by gap from prices that follow measured
//! times (`cost`, `segments`). The lock protocol that keeps sieving from losing anybody's bytes stands in
//! `write`. System calls go through [`Syscalls`], so that faults can be put in where they happen.
#![warn(missing_docs)]

mod cost;
pub mod counter;
mod error;
mod file;
mod filesystem;
mod guided;
mod locks;
mod lustre;
mod meter;
pub mod node;
mod open;
mod read;
mod read_guided;
mod request;
mod scratch;
mod segments;
pub mod socket;
mod striping;
mod sys;
mod transfer;
mod tuning;
mod window;
mod write;

pub use counter::{CounterError, SharedCounter};
pub use error::{Action, Error};
pub use file::PlainFile;
pub use filesystem::{FileSystem, FsKind};
pub use guided::Limits as PrefetchLimits;
pub use locks::{OwnedRange, RangeGuard};
pub use open::{How, delete};
pub use read_guided::{Foresight, read_guided};
pub use striping::{Striping, StripingOutcome, StripingRequest};
pub use sys::{Advice, Errno, Linux, LockOp, MOST_PER_CALL, Syscalls};
pub use tuning::{Toggle, Tuning};
