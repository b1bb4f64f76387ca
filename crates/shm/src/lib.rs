//! Memory that the processes of one node share, and futexes in it.
//!
//! A [`Segment`] has no name in any file system. Its creator holds a descriptor, and other processes of the
//! node open that descriptor through `/proc` by a [`SegmentHandle`]. A process that ends for any reason
//! therefore leaves nothing behind, and no limit of `/dev/shm` applies. Pages use memory only when they are
//! accessed. If processes may not access each other in `/proc`, the segment has a name in `/dev/shm` until
//! all have opened it. Memory that must outlive its creator is a named file ([`Segment::create_file`]).
//!
//! Every access is bounds-checked. Memory that several processes may access at the same time is either an
//! atomic word or bytes for which the protocol of the caller excludes concurrent writes.
#![warn(missing_docs)]

mod exclusive_lock;
#[cfg_attr(pario_simulation, path = "simulated/futex.rs")]
mod futex;
#[cfg_attr(pario_simulation, path = "simulated/memory_file.rs")]
mod memory_file;
#[cfg_attr(pario_simulation, path = "simulated/pid_scope.rs")]
mod pid_scope;
#[cfg_attr(pario_simulation, path = "simulated/process.rs")]
mod process;
mod segment;

pub use exclusive_lock::ExclusiveLock;
pub use futex::{FutexWait, futex_wait, futex_wake_all};
pub use pid_scope::PidScope;
pub use process::{ProcessIdentity, is_alive};
pub use segment::{FAULT_AROUND, LARGE_PAGE, Segment, SegmentHandle};

/// The number of online processors.
pub fn cores() -> usize {
    // SAFETY: no memory involved.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(online).unwrap_or(1).max(1)
}
