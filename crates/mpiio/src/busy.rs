//! How many accesses are under way, and waiting until there are none.

use std::sync::{Arc, Condvar, Mutex};

use crate::worker::{held, nap};

/// A count of accesses under way.
#[derive(Default)]
pub(crate) struct Busy {
    count: Mutex<usize>,
    idle: Condvar,
}

/// One access under way, until it is dropped.
pub(crate) struct UnderWay(Arc<Busy>);

impl Busy {
    /// Counts one more.
    pub fn begin(self: &Arc<Busy>) -> UnderWay {
        *held(&self.count) += 1;
        UnderWay(self.clone())
    }

    /// Waits until none is under way. For threads inside an MPI call.
    pub fn wait(&self) {
        let mut count = held(&self.count);
        while *count > 0 {
            count = nap(&self.idle, count);
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut count = held(&self.0.count);
        *count -= 1;
        if *count == 0 {
            self.0.idle.notify_all();
        }
    }
}
