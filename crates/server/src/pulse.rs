//! A sign of life: somebody asks, and a worker answers.
//!
//! The question takes the way of a session that can go on: it waits for a worker. So the answer says more than that the
//! process is there, and it takes no connection, of which there may be too many.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::core::lock;
use crate::sys::Bell;
use crate::timers::Timers;

/// The number of the question among those of sessions.
pub(crate) const BEAT: u64 = 14;

/// Shows whether the workers of a server still do their work.
#[derive(Clone)]
pub struct Pulse(Arc<Inner>);

struct Inner {
    timers: Arc<Timers>,
    bell: Arc<Bell>,
    beats: Mutex<u64>,
    more: Condvar,
}

impl Pulse {
    pub(crate) fn new(timers: Arc<Timers>, bell: Arc<Bell>) -> Pulse {
        Pulse(Arc::new(Inner { timers, bell, beats: Mutex::new(0), more: Condvar::new() }))
    }

    /// A worker answers.
    pub(crate) fn beat(&self) {
        *lock(&self.0.beats) += 1;
        self.0.more.notify_all();
    }

    /// Whether a worker answers within this time.
    pub fn is_felt(&self, patience: Duration) -> bool {
        let beats = lock(&self.0.beats);
        let before = *beats;
        self.0.timers.set(Instant::now(), BEAT);
        self.0.bell.ring();
        let waited = self.0.more.wait_timeout_while(beats, patience, |beats| *beats == before);
        !waited.unwrap_or_else(|poisoned| poisoned.into_inner()).1.timed_out()
    }
}
