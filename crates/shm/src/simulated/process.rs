//! A simulated process. Its number is never used again.

use pario_runtime::simulation::process::{self, SimulatedPid};

/// A process, identified by its number and start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// The process number.
    pub pid: u32,
    /// The start time.
    pub start: u64,
}

impl ProcessIdentity {
    /// The running process with this number.
    pub fn of(pid: u32) -> Option<ProcessIdentity> {
        is_alive(pid).then_some(ProcessIdentity { pid, start: u64::from(pid) })
    }

    /// Whether the process has provably ended.
    pub fn is_gone(&self) -> bool {
        pario_runtime::point();
        self.start != u64::from(self.pid) || !process::is_alive(SimulatedPid(self.pid))
    }
}

/// Whether a process with this number exists.
pub fn is_alive(pid: u32) -> bool {
    pario_runtime::point();
    process::is_alive(SimulatedPid(pid))
}
