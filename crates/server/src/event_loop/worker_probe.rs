//! A probe that shows whether the workers of a server still work.
//!
//! A probe waits for a worker like a session that can continue. So its answer proves more than that the process exists, and it needs
//! no connection, of which there may be too many.

use std::sync::Arc;

use pario_runtime::sync::Mutex;
use pario_runtime::time::Instant;

use super::PROBE;
use super::timers::Timers;
use crate::sys::Wakeup;

/// Shows whether the workers of a server still work.
#[derive(Clone)]
pub struct WorkerProbe(Arc<Inner>);

struct Inner {
    timers: Arc<Timers>,
    wakeup: Arc<Wakeup>,
    answers: Mutex<Vec<Answer>>,
}

type Answer = Box<dyn FnOnce() + Send>;

impl WorkerProbe {
    pub(crate) fn new(timers: Arc<Timers>, wakeup: Arc<Wakeup>) -> WorkerProbe {
        WorkerProbe(Arc::new(Inner { timers, wakeup, answers: Mutex::default() }))
    }

    /// Calls this function, which must be short, on the next worker that is free.
    pub fn send(&self, answer: impl FnOnce() + Send + 'static) {
        self.0.answers.lock().push(Box::new(answer));
        self.0.timers.set(Instant::now(), PROBE);
        self.0.wakeup.wake();
    }

    /// A worker answers.
    pub(super) fn answer(&self) {
        let answers = std::mem::take(&mut *self.0.answers.lock());
        answers.into_iter().for_each(|answer| answer());
    }
}
