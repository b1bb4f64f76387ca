//! When sessions are to be looked at, though nothing comes from their sockets.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Mutex;
use std::time::Instant;

use crate::core::lock;

#[derive(Default)]
pub(crate) struct Timers(Mutex<BinaryHeap<Reverse<(Instant, u64)>>>);

impl Timers {
    /// A worker looks at this one then; at once if it is the worker's own doing.
    pub fn set(&self, when: Instant, number: u64) {
        lock(&self.0).push(Reverse((when, number)));
    }

    /// One whose time has come.
    pub fn due(&self) -> Option<u64> {
        let mut timers = lock(&self.0);
        timers.peek().filter(|next| next.0.0 <= Instant::now())?;
        timers.pop().map(|next| next.0.1)
    }

    /// How long to wait for an event in milliseconds; -1 if there is nothing else to do.
    pub fn patience_ms(&self) -> i32 {
        match lock(&self.0).peek() {
            None => -1,
            Some(Reverse((when, _))) => {
                let left = when.saturating_duration_since(Instant::now());
                // Rounded up, or the last millisecond would be spent spinning.
                i32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
            }
        }
    }
}
