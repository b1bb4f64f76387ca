//! The end of a server: everything acknowledged goes to storage, and nothing is acknowledged after that.
//!
//! One thread, the *closer*, drains the server, whoever asked for it: a `Shutdown` request, a signal, or both, several times. So
//! all of them wait for the same outcome, and no worker is blocked meanwhile. The steps:
//!
//! 1. New requests are refused. Requests under way go on, and most of what is dirty is stored.
//! 2. The *gate* closes: a worker passes it for each step of a request, so after closing it no step is under way, and a
//!    request that wants to go on is refused. What was acknowledged until then is dirty in the pool, in the store, or in the
//!    journal.
//! 3. The pool is closed to clients that have mapped it, and what is left is stored and synced.
//!
//! Nothing here waits for a client or for another server, so servers that are told to end at once do not wait for each other.
//! If something cannot be stored, a server that was asked by a request goes on serving and answers with the reason; one that
//! got a signal ends anyway and leaves its pool for a successor.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use pario_wire::message::Failure;

use crate::core::{Core, lock};
use crate::error::Result;

/// How long a drained server lets those who asked for the end read their answers.
const FAREWELL: Duration = Duration::from_secs(1);

/// Asks a server to end, from any thread: what a signal does.
#[derive(Clone)]
pub struct Ender(pub(crate) Arc<Ending>);

impl Ender {
    /// Has everything stored, and ends the server even if that fails: then the pool stays for a successor.
    pub fn end(&self) {
        let mut state = self.0.state();
        state.for_good = true;
        state.begin_round();
        self.0.changed.notify_all();
    }
}

#[derive(Default)]
pub(crate) struct Ending {
    state: Mutex<State>,
    changed: Condvar,
    /// New requests are refused.
    begun: AtomicBool,
    /// Whether no request may go on any more. A worker reads it for the time of a step.
    closed: RwLock<bool>,
}

#[derive(Default)]
struct State {
    phase: Phase,
    /// Drains so far, with the one under way.
    round: u64,
    /// What became of the last one that failed.
    failed: Option<(u64, Failure)>,
    /// The server ends even if not everything can be stored.
    for_good: bool,
    /// Sessions that wait for the outcome, or that have not sent it yet.
    askers: usize,
    /// The server ends without having been drained.
    stopped: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Serving,
    Asked,
    Draining,
    Drained,
}

impl State {
    /// Starts another drain, unless one is under way or done.
    fn begin_round(&mut self) {
        if self.phase == Phase::Serving {
            self.phase = Phase::Asked;
            self.round += 1;
        }
    }
}

/// How a server ended.
pub(crate) enum Outcome {
    /// All is stored.
    Drained,
    /// Not all could be stored: the pool has the rest.
    Failed(Failure),
    /// It was stopped without a drain.
    Stopped,
}

/// A `Shutdown` request that waits for the outcome. The closer does not end the server before this is dropped.
pub(crate) struct Asked {
    ending: Arc<Ending>,
    round: u64,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.ending.state().askers -= 1;
        self.ending.changed.notify_all();
    }
}

impl Asked {
    /// `None` while it is not decided.
    pub fn outcome(&self) -> Option<Result<(), Failure>> {
        let state = self.ending.state();
        match (&state.failed, state.phase) {
            (_, Phase::Drained) => Some(Ok(())),
            (Some((round, failure)), _) if *round >= self.round => Some(Err(failure.clone())),
            _ => None,
        }
    }
}

impl Ending {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// For a `Shutdown` request.
    pub fn ask(self: &Arc<Self>) -> Asked {
        let mut state = self.state();
        state.askers += 1;
        state.begin_round();
        self.changed.notify_all();
        Asked { ending: Arc::clone(self), round: state.round }
    }

    /// Ends the closer without a drain.
    pub fn stop(&self) {
        self.state().stopped = true;
        self.changed.notify_all();
    }

    /// Whether requests that come now are refused.
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// Lets a request take a step, as long as the result is held; `None` if it may not go on.
    pub fn pass(&self) -> Option<RwLockReadGuard<'_, bool>> {
        let closed = self.closed.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        (!*closed).then_some(closed)
    }

    /// Returns when no step is under way.
    fn set_closed(&self, closed: bool) {
        *self.closed.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = closed;
    }

    /// How it ended; for when the closer is gone.
    pub fn outcome(&self) -> Outcome {
        let state = self.state();
        match (state.phase, &state.failed) {
            (Phase::Drained, _) => Outcome::Drained,
            (_, Some((_, failure))) if state.for_good => Outcome::Failed(failure.clone()),
            _ => Outcome::Stopped,
        }
    }

    /// Waits until somebody asks for the end; `false` when there is nothing to wait for any more.
    fn is_asked(&self) -> bool {
        let mut state = self.state();
        loop {
            if state.stopped {
                return false;
            }
            if state.phase == Phase::Asked {
                state.phase = Phase::Draining;
                return true;
            }
            state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// Notes what became of a drain; whether the server ends now.
    fn settle(&self, outcome: Result<()>) -> bool {
        let mut state = self.state();
        match outcome {
            Ok(()) => state.phase = Phase::Drained,
            Err(error) => {
                state.failed = Some((state.round, error.to_failure()));
                state.phase = Phase::Serving;
            }
        }
        if state.phase == Phase::Serving && !state.for_good {
            return false;
        }
        let until = Instant::now() + FAREWELL;
        while state.askers > 0 && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
        true
    }
}

impl Core {
    /// The closer's life.
    pub fn run_closer(&self) {
        while self.ending.is_asked() {
            let outcome = self.drain();
            if let Err(error) = &outcome {
                self.counters.remember(format!("not everything could be stored: {error}"));
            }
            if self.ending.settle(outcome) {
                return self.ring();
            }
            self.ending.set_closed(false);
            self.ending.begun.store(false, Ordering::Release);
        }
    }

    fn drain(&self) -> Result<()> {
        self.ending.begun.store(true, Ordering::Release);
        // The bulk of it while requests can still be finished.
        self.tier.store_all(&self.counters)?;
        self.ending.set_closed(true);
        self.tier.retire(&self.counters)?;
        self.names.as_ref().map_or(Ok(()), |names| names.sync())
    }
}
