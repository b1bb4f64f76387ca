//! The memory of the program. Only this crate reads and writes it.
//!
//! A [`UserBuffer`] is an address and a pattern, as the arguments of an MPI call describe them. It copies
//! bytes between that memory and contiguous buffers (pack, unpack) or a window of a file (scatter, gather)
//! in one pass, from any position, by loops over strided runs. [`convert`] does the same with a conversion
//! to or from external32.

pub mod convert;
mod device;
mod error;
mod float80;
mod kernel;
mod lend;
mod run_zip;
mod user;

pub use device::{BounceBuffer, DeviceError};
pub use lend::lend;
pub use user::{IoVec, UserBuffer};
