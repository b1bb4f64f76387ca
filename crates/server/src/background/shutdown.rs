//! The shutdown of a server: everything acknowledged goes to storage, and nothing is acknowledged after that.
//!
//! One thread, the *closer*, drains the server, whether a `Shutdown` request, a signal, or both ask for it, once or several times. So all
//! of them wait for the same outcome, and no worker is blocked meanwhile. The steps:
//!
//! 1. The server refuses new requests. Requests under way continue, and the closer stores most of the dirty blocks.
//! 2. The closer stops the requests under way: a worker holds a permit for each step of a request, and after this no step is under way.
//!    A request that could continue is refused. What was acknowledged until then is dirty in the pool, in the store, or in the journal.
//! 3. The closer closes the pool to clients that have mapped it, and stores and syncs the rest.
//!
//! The closer waits neither for a client nor for another server, so servers that shut down at the same time do not wait for each other.
//! If something cannot be stored after a `Shutdown` request, the server continues to serve and replies with the reason. After a signal
//! the server ends in any case and leaves its pool for a successor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pario_runtime::sync::{Condvar, Mutex, RwLock, RwLockReadGuard};
use pario_runtime::time::Instant;
use pario_wire::message::Failure;

use crate::core::Core;
use crate::error::Result;

/// How long a drained server waits until its clients have read the replies to `Shutdown`.
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);

/// Shuts a server down from any thread, as a signal does.
#[derive(Clone)]
pub struct ShutdownHandle(pub(crate) Arc<ShutdownState>);

impl ShutdownHandle {
    /// Stores everything and ends the server. If something cannot be stored, the server ends all the same and leaves its pool for a
    /// successor.
    pub fn shut_down(&self) {
        let mut progress = self.0.progress.lock();
        progress.must_end = true;
        progress.begin_round();
        self.0.changed.notify_all();
    }
}

#[derive(Default)]
pub(crate) struct ShutdownState {
    progress: Mutex<Progress>,
    changed: Condvar,
    /// The server refuses new requests.
    begun: AtomicBool,
    /// Whether no request may continue. A worker holds a read lock during each step of a request.
    closed: RwLock<bool>,
}

#[derive(Default)]
struct Progress {
    phase: Phase,
    /// The number of drains, with the one under way.
    round: u64,
    /// The round and the error of the last drain that failed.
    failed: Option<(u64, Failure)>,
    /// The server ends even if not everything can be stored.
    must_end: bool,
    /// The number of sessions that wait for the outcome, or that have not sent it yet.
    requests: usize,
    /// The server ends without a drain.
    stopped: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Serving,
    Requested,
    Draining,
    Drained,
}

impl Progress {
    /// Starts another drain, unless one is under way or done.
    fn begin_round(&mut self) {
        if self.phase == Phase::Serving {
            self.phase = Phase::Requested;
            self.round += 1;
        }
    }
}

/// How a server ended.
pub(crate) enum Outcome {
    /// Everything is stored.
    Drained,
    /// Something could not be stored: it is in the pool.
    Failed(Failure),
    /// The server was stopped without a drain.
    Stopped,
}

/// A `Shutdown` request that waits for the outcome. The closer does not end the server before this is dropped.
pub(crate) struct ShutdownRequest {
    state: Arc<ShutdownState>,
    round: u64,
}

impl Drop for ShutdownRequest {
    fn drop(&mut self) {
        self.state.progress.lock().requests -= 1;
        self.state.changed.notify_all();
    }
}

impl ShutdownRequest {
    /// `None` while the drain is under way.
    pub fn outcome(&self) -> Option<Result<(), Failure>> {
        let progress = self.state.progress.lock();
        match (&progress.failed, progress.phase) {
            (_, Phase::Drained) => Some(Ok(())),
            (Some((round, failure)), _) if *round >= self.round => Some(Err(failure.clone())),
            _ => None,
        }
    }
}

impl ShutdownState {
    /// Starts a drain for a `Shutdown` request.
    pub fn request(self: &Arc<Self>) -> ShutdownRequest {
        let mut progress = self.progress.lock();
        progress.requests += 1;
        progress.begin_round();
        self.changed.notify_all();
        ShutdownRequest { state: Arc::clone(self), round: progress.round }
    }

    /// Ends the closer without a drain.
    pub fn stop(&self) {
        self.progress.lock().stopped = true;
        self.changed.notify_all();
    }

    /// Whether the server refuses new requests.
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// The permit for a step of a request; `None` if no request may continue.
    pub fn begin_step(&self) -> Option<RwLockReadGuard<'_, bool>> {
        let closed = self.closed.read();
        (!*closed).then_some(closed)
    }

    /// Returns when no step is under way.
    fn set_closed(&self, closed: bool) {
        *self.closed.write() = closed;
    }

    /// How the server ended, after the closer has ended.
    pub fn outcome(&self) -> Outcome {
        let progress = self.progress.lock();
        match (progress.phase, &progress.failed) {
            (Phase::Drained, _) => Outcome::Drained,
            (_, Some((_, failure))) if progress.must_end => Outcome::Failed(failure.clone()),
            _ => Outcome::Stopped,
        }
    }

    /// Waits until a shutdown is requested; `false` if the server was stopped.
    fn wait_for_request(&self) -> bool {
        let mut progress = self.progress.lock();
        loop {
            if progress.stopped {
                return false;
            }
            if progress.phase == Phase::Requested {
                progress.phase = Phase::Draining;
                return true;
            }
            self.changed.wait(&mut progress);
        }
    }

    /// Whether the server ends even if not everything can be stored.
    fn must_end(&self) -> bool {
        self.progress.lock().must_end
    }

    /// Records the outcome of a drain; whether the server ends now.
    fn finish_round(&self, outcome: Result<()>) -> bool {
        let mut progress = self.progress.lock();
        match outcome {
            Ok(()) => progress.phase = Phase::Drained,
            Err(error) => {
                progress.failed = Some((progress.round, error.to_failure()));
                progress.phase = Phase::Serving;
            }
        }
        if progress.phase == Phase::Serving && !progress.must_end {
            return false;
        }
        let until = Instant::now() + REPLY_TIMEOUT;
        while progress.requests > 0 && !self.changed.wait_until(&mut progress, until).timed_out() {}
        true
    }
}

impl Core {
    /// The main function of the closer.
    pub fn run_closer(&self) {
        while self.shutdown.wait_for_request() {
            let outcome = self.drain();
            if let Err(error) = &outcome {
                self.counters.record_error(format!("not everything could be stored: {error}"));
            }
            if outcome.is_err() && !self.shutdown.must_end() {
                // Before the outcome is known: a client that has read it is served.
                self.shutdown.set_closed(false);
                self.shutdown.begun.store(false, Ordering::Release);
            }
            if self.shutdown.finish_round(outcome) {
                return self.stop_threads();
            }
        }
    }

    fn drain(&self) -> Result<()> {
        self.shutdown.begun.store(true, Ordering::Release);
        // Most blocks are stored while requests can still complete.
        self.tier.store_all(&self.counters)?;
        self.shutdown.set_closed(true);
        self.tier.retire(&self.counters)?;
        self.metadata.as_ref().map_or(Ok(()), |metadata| metadata.sync())
    }
}
