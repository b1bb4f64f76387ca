//! When sessions run although no event arrives from their sockets.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pario_runtime::sync::Mutex;
use pario_runtime::time::Instant;

#[derive(Default)]
pub(crate) struct Timers(Mutex<BinaryHeap<Reverse<(Instant, u64)>>>);

impl Timers {
    /// A worker runs the session with this number at that time. A worker that sleeps does not notice a new timer before it wakes up.
    pub fn set(&self, when: Instant, number: u64) {
        self.0.lock().push(Reverse((when, number)));
    }

    /// Removes and returns a number whose time has come.
    pub fn due(&self) -> Option<u64> {
        let mut timers = self.0.lock();
        timers.peek().filter(|next| next.0.0 <= Instant::now())?;
        timers.pop().map(|next| next.0.1)
    }

    /// How long to wait for an event, in milliseconds; -1 if there is no timer.
    pub fn wait_ms(&self) -> i32 {
        match self.0.lock().peek() {
            None => -1,
            Some(Reverse((when, _))) => {
                let left = when.saturating_duration_since(Instant::now());
                // Rounded up: otherwise the worker would spin for the last millisecond.
                i32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
            }
        }
    }
}
