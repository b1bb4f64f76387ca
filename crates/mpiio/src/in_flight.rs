//! How many accesses are under way, and waiting until there are none.

use std::sync::{Arc, Condvar, Mutex};

use crate::io_thread::{held, wait_and_progress};

/// A count of accesses under way.
#[derive(Default)]
pub(crate) struct InFlight {
    count: Mutex<usize>,
    idle: Condvar,
}

/// One access under way, until it is dropped.
pub(crate) struct InFlightGuard(Arc<InFlight>);

impl InFlight {
    /// Counts one more.
    pub fn begin(self: &Arc<InFlight>) -> InFlightGuard {
        *held(&self.count) += 1;
        InFlightGuard(self.clone())
    }

    /// Waits until none is under way. For threads inside an MPI call.
    pub fn wait(&self) {
        let mut count = held(&self.count);
        while *count > 0 {
            count = wait_and_progress(&self.idle, count);
        }
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let mut count = held(&self.0.count);
        *count -= 1;
        if *count == 0 {
            self.0.idle.notify_all();
        }
    }
}
