//! The number of accesses in progress, and the wait until there are none.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

use crate::io_thread::wait_and_progress;

/// A counter of accesses in progress.
#[derive(Default)]
pub(crate) struct InFlight {
    count: Mutex<usize>,
    idle: Condvar,
}

/// One access in progress. Dropping it ends the count.
pub(crate) struct InFlightGuard(Arc<InFlight>);

impl InFlight {
    /// Counts one more access.
    pub fn begin(self: &Arc<InFlight>) -> InFlightGuard {
        *self.count.lock() += 1;
        InFlightGuard(self.clone())
    }

    /// Waits until no access is in progress. Only a thread inside an MPI call may call this.
    pub fn wait(&self) {
        let mut count = self.count.lock();
        while *count > 0 {
            wait_and_progress(&self.idle, &mut count);
        }
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let mut count = self.0.count.lock();
        *count -= 1;
        if *count == 0 {
            self.0.idle.notify_all();
        }
    }
}
