//! Requests: operations that go on after the call that started them, as generalized requests.
//!
//! The program completes them with the host's own Test and Wait functions, mixed with its messages. What
//! differs is who looks whether an operation is done:
//! - MPICH has polled generalized requests: it calls a poll function from Test and a wait function from
//!   Wait (a missing one crashes it).
//! - Open MPI calls registered progress functions from inside every blocking or testing call; ours looks
//!   at all pending operations.
//! - Elsewhere (the standard ABI defines neither) the operation is waited for when it is started. The
//!   program sees a request that is complete from the beginning.
//!
//! All of this happens in a thread of the program that is inside an MPI call. A failure cannot be told
//! through a request (an error from a query function ends the program), so an operation reports bytes only.

use crate::abi::Family;
use crate::callback::guarded;
use crate::error::HostError;
use crate::handles::{Host, host};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// An operation under way.
pub trait Pending: Send + Sync {
    /// The bytes moved, once it is done. Called often: cheap, and never blocks.
    fn poll(&self) -> Option<u64>;
    /// Blocks until it is done. It must drive whatever the operation depends on.
    fn wait(&self) -> u64;
}

/// The extra state of a generalized request.
struct Request {
    host: &'static Host,
    op: Arc<dyn Pending>,
    /// The request handle; set before the host can call us.
    handle: AtomicUsize,
    completed: AtomicBool,
    /// Freed by the program while pending (MPICH).
    abandoned: AtomicBool,
    bytes: AtomicU64,
}

impl Request {
    /// Completes the request if its operation is done.
    fn poll(&self) -> bool {
        if self.completed.load(Ordering::Acquire) {
            return true;
        }
        let Some(bytes) = self.op.poll() else { return false };
        self.complete(bytes);
        true
    }

    fn wait(&self) {
        if !self.completed.load(Ordering::Acquire) {
            self.complete(self.op.wait());
        }
    }

    /// Tells the host, once.
    fn complete(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
        if !self.completed.swap(true, Ordering::AcqRel) {
            // SAFETY: a request handle by value; the host started it and it has not been completed.
            unsafe { (self.host.f.grequest_complete)(self.handle.load(Ordering::Relaxed)) };
        }
    }
}

impl Host {
    /// Makes a request of an operation and writes it to a C out-argument.
    ///
    /// # Safety
    /// `out` points to an `MPI_Request`, and the caller is inside an MPI call of the program.
    pub unsafe fn start_request(
        &'static self,
        op: Arc<dyn Pending>,
        out: *mut c_void,
    ) -> Result<(), HostError> {
        let request = Arc::new(Request {
            host: self,
            op,
            handle: AtomicUsize::new(0),
            completed: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            bytes: AtomicU64::new(0),
        });
        let polled = self.f.grequest_start_polled.or(self.f.grequest_start_polled_x);
        let mut raw = 0usize;
        let state = Arc::into_raw(request.clone()).cast_mut().cast::<c_void>();
        let result = match (self.family(), polled) {
            (Family::Mpich, Some(start)) => {
                // SAFETY: the callbacks have the signatures that MPICH prescribes; `freed` takes `state`
                // back; writes one handle into a zeroed word.
                let code = unsafe { start(query, freed, cancel, poll, wait, state, &mut raw) };
                self.check("MPIX_Grequest_start", code)
            }
            _ => {
                // SAFETY: likewise, with the signatures of the standard.
                let code = unsafe { (self.f.grequest_start)(query, freed, cancel, state, &mut raw) };
                self.check("MPI_Grequest_start", code)
            }
        };
        if let Err(error) = result {
            // SAFETY: the host did not take the pointer.
            drop(unsafe { Arc::from_raw(state.cast_const().cast::<Request>()) });
            return Err(error);
        }
        let handle = self.handle(raw);
        request.handle.store(handle, Ordering::Relaxed);
        // SAFETY: the caller's.
        unsafe { self.store(out, handle) };
        progress::sweep();
        if request.poll() {
            return Ok(());
        }
        match (self.family(), self.f.progress_register) {
            (Family::Mpich, _) if polled.is_some() => progress::watch(request),
            (Family::OpenMpi, Some(register)) if progress::hooked(register) => progress::watch(request),
            _ => request.wait(),
        }
        Ok(())
    }

    /// Looks at all pending operations. Only MPICH's `MPI_Request_get_status` needs it: it does not call
    /// the poll function, so a program that loops over it would never see its request complete.
    pub fn poll_requests(&self) {
        progress::poll();
    }
}

/// The pending operations, for those who look at all of them: Open MPI's progress engine, and
/// [`Host::poll_requests`].
mod progress {
    use super::*;
    use crate::functions::Progress;
    use std::collections::BTreeMap;

    /// Keyed by address, so that one can be taken out.
    static WATCHED: Mutex<BTreeMap<usize, Arc<Request>>> = Mutex::new(BTreeMap::new());
    /// Requests in the table or being polled, so that the idle path is one load.
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    /// Requests in the table that the program has freed.
    static ABANDONED: AtomicUsize = AtomicUsize::new(0);
    /// Somebody is polling; an operation that calls MPI comes back here.
    static BUSY: AtomicBool = AtomicBool::new(false);

    /// Registers the progress function at the first use. It stays registered: unregistering from inside
    /// the engine is not safe, and an idle call costs a load.
    pub(super) fn hooked(register: unsafe extern "C" fn(Progress) -> c_int) -> bool {
        static REGISTERED: OnceLock<bool> = OnceLock::new();
        // SAFETY: the function has the signature of a progress callback and is never unloaded.
        *REGISTERED.get_or_init(|| unsafe { register(progress) } == 0)
    }

    pub(super) fn watch(request: Arc<Request>) {
        COUNT.fetch_add(1, Ordering::Release);
        table().insert(Arc::as_ptr(&request) as usize, request);
    }

    /// Takes out a request that was completed by its own poll or wait function.
    pub(super) fn forget(request: &Arc<Request>) {
        if table().remove(&(Arc::as_ptr(request) as usize)).is_some() {
            COUNT.fetch_sub(1, Ordering::Release);
        }
    }

    /// A pending request was freed by the program; it stays in the table until it is done.
    pub(super) fn abandon(request: &Request) {
        request.abandoned.store(true, Ordering::Release);
        ABANDONED.fetch_add(1, Ordering::Release);
    }

    /// Completes abandoned requests whose operation is done.
    pub(super) fn sweep() {
        if ABANDONED.load(Ordering::Acquire) > 0 {
            poll();
        }
    }

    fn table() -> std::sync::MutexGuard<'static, BTreeMap<usize, Arc<Request>>> {
        WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called by Open MPI; returns how many requests completed.
    unsafe extern "C" fn progress() -> c_int {
        poll()
    }

    pub(super) fn poll() -> c_int {
        if COUNT.load(Ordering::Acquire) == 0 || BUSY.swap(true, Ordering::Acquire) {
            return 0;
        }
        let completed = guarded(0, poll_all);
        BUSY.store(false, Ordering::Release);
        completed
    }

    /// Polls every request outside the lock: completing one may run code of the program.
    fn poll_all() -> c_int {
        let mut requests = std::mem::take(&mut *table());
        let before = requests.len();
        let mut given_up = 0;
        requests.retain(|_, request| {
            let done = request.poll();
            given_up += usize::from(done && request.abandoned.load(Ordering::Acquire));
            !done
        });
        let completed = before - requests.len();
        ABANDONED.fetch_sub(given_up, Ordering::Release);
        COUNT.fetch_sub(completed, Ordering::Release);
        table().append(&mut requests);
        completed as c_int
    }
}

/// The request behind an extra state.
///
/// # Safety
/// `state` came from `start_request` and `freed` has not run for it.
unsafe fn request<'a>(state: *mut c_void) -> &'a Request {
    // SAFETY: the host holds a count of the Arc until it calls `freed`.
    unsafe { &*state.cast_const().cast::<Request>() }
}

/// The error class for a failed callback.
fn intern() -> c_int {
    host().map_or(1, |h| h.constants.error.intern)
}

unsafe extern "C" fn query(state: *mut c_void, status: *mut c_void) -> c_int {
    guarded(intern(), || {
        // SAFETY: the host passes what it was given.
        let request = unsafe { request(state) };
        let bytes = request.bytes.load(Ordering::Relaxed);
        // SAFETY: the host passes a status of its own or MPI_STATUS_IGNORE.
        match unsafe { request.host.set_status(status, bytes) } {
            Ok(()) => request.host.constants.error.success,
            Err(_) => request.host.constants.error.intern,
        }
    })
}

unsafe extern "C" fn freed(state: *mut c_void) -> c_int {
    guarded(intern(), || {
        // SAFETY: the host's count of the Arc ends here.
        let request = unsafe { Arc::from_raw(state.cast_const().cast::<Request>()) };
        if request.completed.load(Ordering::Acquire) {
            progress::forget(&request);
        } else {
            // MPI_Request_free on a pending request. Open MPI calls us later, when it is complete; MPICH
            // at once, under a lock that forbids completing it here, and never looks at it again.
            progress::abandon(&request);
        }
        request.host.constants.error.success
    })
}

/// Operations cannot be cancelled; `MPI_Cancel` succeeds and the operation completes.
unsafe extern "C" fn cancel(_: *mut c_void, _: c_int) -> c_int {
    0
}

/// MPICH: called from Test functions.
unsafe extern "C" fn poll(state: *mut c_void, _: *mut c_void) -> c_int {
    guarded(intern(), || {
        // SAFETY: the host passes what it was given.
        unsafe { request(state) }.poll();
        0
    })
}

/// MPICH: called from Wait functions.
unsafe extern "C" fn wait(count: c_int, states: *mut *mut c_void, _: f64, _: *mut c_void) -> c_int {
    guarded(intern(), || {
        // SAFETY: the host passes `count` extra states.
        let states = unsafe { std::slice::from_raw_parts(states, count.max(0) as usize) };
        // SAFETY: each is one the host was given.
        let requests = || states.iter().map(|&state| unsafe { request(state) });
        for request in requests() {
            request.poll();
        }
        requests().for_each(Request::wait);
        0
    })
}
