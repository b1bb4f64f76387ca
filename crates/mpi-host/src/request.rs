//! Requests: operations that continue after the call that started them, as generalized requests.
//!
//! The program completes them with the host's own Test and Wait functions, together with its messages. The hosts differ
//! in how they poll an operation:
//! - MPICH has polled generalized requests: it calls a poll function from Test and a wait function from
//!   Wait (a missing one crashes it).
//! - Open MPI calls registered progress functions from every blocking or testing call. The progress function of this
//!   module polls all pending operations.
//! - The standard ABI defines neither. There the start of the operation waits for its end, and the program gets a request
//!   that is complete from the beginning.
//!
//! All of this happens in a thread of the program that is inside an MPI call. A request cannot report a failure (an
//! error from a query function aborts the program), so an operation reports only bytes.

use crate::abi::AbiFamily;
use crate::callback::catch_panic;
use crate::error::HostError;
use crate::handles::{Host, host};
use parking_lot::Mutex;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// An operation in progress.
pub trait Pending: Send + Sync {
    /// The number of bytes moved, once the operation has ended. It is called often, so it must be cheap and never
    /// block.
    fn poll(&self) -> Option<u64>;
    /// Blocks until the operation has ended. It must drive everything that the operation depends on.
    fn wait(&self) -> u64;
}

/// The extra state of a generalized request.
struct Request {
    host: &'static Host,
    op: Arc<dyn Pending>,
    /// The request handle, set before the host can call back.
    handle: AtomicUsize,
    completed: AtomicBool,
    /// Whether the program has freed the pending request (MPICH).
    abandoned: AtomicBool,
    bytes: AtomicU64,
}

impl Request {
    /// Completes the request if its operation has ended.
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

    /// Completes the request at the host, once.
    fn complete(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
        if !self.completed.swap(true, Ordering::AcqRel) {
            // SAFETY: a request handle by value; the host started it and it has not been completed.
            unsafe { (self.host.f.grequest_complete)(self.handle.load(Ordering::Relaxed)) };
        }
    }
}

impl Host {
    /// Creates a request for an operation and writes it to a C out-argument.
    ///
    /// # Safety
    ///
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
            (AbiFamily::Mpich | AbiFamily::Standard, Some(start)) => {
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
            (AbiFamily::Mpich | AbiFamily::Standard, _) if polled.is_some() => progress::add_pending(request),
            (AbiFamily::OpenMpi, Some(register)) if progress::register_progress(register) => {
                progress::add_pending(request)
            }
            _ => request.wait(),
        }
        Ok(())
    }

    /// Polls all pending operations. Only MPICH's `MPI_Request_get_status` needs it: it does not call the poll
    /// function, so a program that calls it in a loop would never see its request complete.
    pub fn poll_requests(&self) {
        progress::poll();
    }
}

/// The pending operations, for code that polls all of them: Open MPI's progress engine, and [`Host::poll_requests`].
mod progress {
    use super::*;
    use crate::functions::Progress;
    use std::collections::BTreeMap;

    /// Keyed by address, for removal.
    static PENDING: Mutex<BTreeMap<usize, Arc<Request>>> = Mutex::new(BTreeMap::new());
    /// The number of requests in the table or being polled, so that the idle path is one load.
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    /// The number of requests in the table that the program has freed.
    static ABANDONED: AtomicUsize = AtomicUsize::new(0);
    /// Whether a thread is polling. An operation that calls MPI enters this module again.
    static BUSY: AtomicBool = AtomicBool::new(false);

    /// Registers the progress function at the first use. It stays registered: unregistering from inside the engine is
    /// not safe, and an idle call costs one load.
    pub(super) fn register_progress(register: unsafe extern "C" fn(Progress) -> c_int) -> bool {
        static REGISTERED: OnceLock<bool> = OnceLock::new();
        // SAFETY: the function has the signature of a progress callback and is never unloaded.
        *REGISTERED.get_or_init(|| unsafe { register(progress) } == 0)
    }

    pub(super) fn add_pending(request: Arc<Request>) {
        COUNT.fetch_add(1, Ordering::Release);
        table().insert(Arc::as_ptr(&request) as usize, request);
    }

    /// Removes a request that was completed by its own poll or wait function.
    pub(super) fn remove_pending(request: &Arc<Request>) {
        if table().remove(&(Arc::as_ptr(request) as usize)).is_some() {
            COUNT.fetch_sub(1, Ordering::Release);
        }
    }

    /// Notes that the program has freed a pending request. It stays in the table until its operation has ended.
    pub(super) fn abandon(request: &Request) {
        request.abandoned.store(true, Ordering::Release);
        ABANDONED.fetch_add(1, Ordering::Release);
    }

    /// Completes abandoned requests whose operation has ended.
    pub(super) fn sweep() {
        if ABANDONED.load(Ordering::Acquire) > 0 {
            poll();
        }
    }

    fn table() -> parking_lot::MutexGuard<'static, BTreeMap<usize, Arc<Request>>> {
        PENDING.lock()
    }

    /// Called by Open MPI; returns the number of completed requests.
    unsafe extern "C" fn progress() -> c_int {
        poll()
    }

    pub(super) fn poll() -> c_int {
        if COUNT.load(Ordering::Acquire) == 0 || BUSY.swap(true, Ordering::Acquire) {
            return 0;
        }
        let completed = catch_panic(0, poll_all);
        BUSY.store(false, Ordering::Release);
        completed
    }

    /// Polls every request outside the lock, because completing one may run code of the program.
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
    catch_panic(intern(), || {
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
    catch_panic(intern(), || {
        // SAFETY: the host's count of the Arc ends here.
        let request = unsafe { Arc::from_raw(state.cast_const().cast::<Request>()) };
        if request.completed.load(Ordering::Acquire) {
            progress::remove_pending(&request);
        } else {
            // MPI_Request_free on a pending request. Open MPI calls this function after completion. MPICH calls it at
            // once, under a lock that forbids completing the request here, and never polls the request again.
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
    catch_panic(intern(), || {
        // SAFETY: the host passes what it was given.
        unsafe { request(state) }.poll();
        0
    })
}

/// MPICH: called from Wait functions.
unsafe extern "C" fn wait(count: c_int, states: *mut *mut c_void, _: f64, _: *mut c_void) -> c_int {
    catch_panic(intern(), || {
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
