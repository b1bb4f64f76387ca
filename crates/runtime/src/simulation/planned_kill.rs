//! Kills of processes at a scheduling point that is chosen in advance.
//!
//! A kill at a random time mostly hits a process that waits. A kill at a random point of a process hits each of its steps equally often, also
//! the few between two changes of a file.

use super::process::{self, SimulatedPid};
use super::scheduler::{is_active, with};

/// Kills a process when it has reached so many more scheduling points; one that ends before is not killed.
pub fn kill_after(process: SimulatedPid, points: u64) {
    with(|scheduler| scheduler.table.planned_kills.insert(process, points));
}

/// No process is killed any more as it was planned.
pub fn cancel_all() {
    with(|scheduler| scheduler.table.planned_kills.clear());
}

/// The running thread reaches a point.
pub(super) fn count_point() {
    let is_killed = is_active()
        && with(|scheduler| {
            if scheduler.table.planned_kills.is_empty() {
                return false;
            }
            let owner = scheduler.owner();
            let Some(left) = scheduler.table.planned_kills.get_mut(&owner) else { return false };
            *left = left.saturating_sub(1);
            *left == 0
        });
    if is_killed {
        with(|scheduler| {
            let owner = scheduler.owner();
            scheduler.table.planned_kills.remove(&owner);
            scheduler.log("is killed at this point");
        });
        process::abort();
    }
}
