//! The MPI-IO call that each process of this host is in.
//!
//! A rank keeps a record of its calls in memory that other processes of the same user can read: the ranks of the same
//! file, to report which ranks a collective call waits for, and `pario status --ranks`. The record is a memory file
//! that has no name in any file system, so a process that ends for any reason leaves nothing behind. Readers find it
//! among the descriptors of the process in `/proc`. Recording a call takes a few stores and no lock.
//!
//! A record may change while it is read, so a snapshot can mix two calls of a process that is making calls. A process
//! that makes none has a consistent record.
#![forbid(unsafe_code)]

mod call_name;
mod layout;
mod record;
mod snapshot;
mod waiting_call;

pub use call_name::CallName;
pub use record::{ActivityRecord, CollectiveCall, FileRecord};
pub use snapshot::{FileSnapshot, ProcessSnapshot, parent_of, processes};
pub use waiting_call::{OPEN, RankSnapshot, WaitingCall, waiting_calls};

use std::time::Duration;

/// The time since the start of the host, which is the same for all its processes.
pub fn now() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
