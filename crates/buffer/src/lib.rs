//! The program's memory: the only room that reads and writes it.
//!
//! A [`UserBuffer`] is an address and a pattern, as an MPI call gives them. It moves bytes between that
//! memory and contiguous buffers (pack, unpack) or the window of a file (scatter, gather) in one pass, from
//! any position, by loops over strided runs. [`convert`] does the same through the external32 representation.

pub mod convert;
mod error;
mod float80;
mod kernel;
mod lend;
mod side;
mod user;

pub use lend::lend;
pub use user::{Segment, UserBuffer};
