//! A sign of life: somebody asks, and a worker answers.
//!
//! The question takes the way of a session that can go on: it waits for a worker. So the answer says more than that the
//! process is there, and it takes no connection, of which there may be too many.

use std::sync::{Arc, Mutex};
use std::time::Instant;

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
    answers: Mutex<Vec<Answer>>,
}

type Answer = Box<dyn FnOnce() + Send>;

impl Pulse {
    pub(crate) fn new(timers: Arc<Timers>, bell: Arc<Bell>) -> Pulse {
        Pulse(Arc::new(Inner { timers, bell, answers: Mutex::default() }))
    }

    /// Has a worker do this, which must not take long, as soon as one comes to it.
    pub fn ask(&self, answer: impl FnOnce() + Send + 'static) {
        lock(&self.0.answers).push(Box::new(answer));
        self.0.timers.set(Instant::now(), BEAT);
        self.0.bell.ring();
    }

    /// A worker answers.
    pub(crate) fn beat(&self) {
        let answers = std::mem::take(&mut *lock(&self.0.answers));
        answers.into_iter().for_each(|answer| answer());
    }
}
