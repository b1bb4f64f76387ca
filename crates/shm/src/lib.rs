//! Memory that the processes of one node share, and sleeping on it.
//!
//! A [`Segment`] is memory without a name in any file system: whoever makes it holds a descriptor, and the
//! others of the node open that descriptor through `/proc` by a [`SegmentHandle`]. So nothing is left behind however
//! a process ends, and no limit of `/dev/shm` applies. Pages cost memory only when touched. Where processes
//! may not look at each other in `/proc`, a name in `/dev/shm` serves until all have opened it. Memory that
//! has to outlive its maker is a file that the maker names ([`Segment::create_file`]).
//!
//! Every access is bounds-checked. What several processes may touch at the same time is either an atomic
//! word or bytes that the protocol above deals out so that nobody reads what another writes.
#![warn(missing_docs)]

mod claim;
mod futex;
mod origin;
mod process;
mod segment;

pub use claim::Claim;
pub use futex::{Woken, sleep, wake_all};
pub use origin::Origin;
pub use process::Process;
pub use segment::{LARGE_PAGE, NEIGHBOURHOOD, Segment, SegmentHandle};

/// Whether a process is there at all (it may be a zombie of somebody who waits for it).
pub fn is_alive(pid: u32) -> bool {
    let Ok(pid) = libc::pid_t::try_from(pid) else { return false };
    // SAFETY: signal 0 sends nothing; no memory involved.
    unsafe { libc::kill(pid, 0) == 0 || *libc::__errno_location() != libc::ESRCH }
}

/// Processors of this machine that are in use.
pub fn cores() -> usize {
    // SAFETY: no memory involved.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(online).unwrap_or(1).max(1)
}
