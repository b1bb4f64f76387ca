//! Threads that do accesses in the background while the program computes.
//!
//! One thread per process does independent accesses. Collective accesses wait for other ranks, so each open file has a
//! thread of its own for them, and two files never wait for each other. The first background access starts the thread.
//! The thread sleeps while its queue is empty. It never calls MPI, because the program may run with MPI_THREAD_SINGLE.
//!
//! The caller waits on a [`Completion`]. While it waits it lets the host MPI make progress, because another rank may
//! need that progress to reach the same access. The queue is bounded: a caller waits while it is full.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pario_mpi_host::Pending;
use pario_types::ErrorKind;

use crate::error::{Error, Result};
use crate::file_group::make_progress;

/// The largest number of accesses in the queue of an I/O thread.
const QUEUE_CAPACITY: usize = 256;

/// One access. It returns the number of bytes that it moved, and does not panic (see [`catch_panic`]).
pub(crate) type Work = Box<dyn FnOnce() -> Result<u64> + Send>;

/// The completion of one access in progress.
pub struct Completion {
    slot: Mutex<Slot>,
    done: Condvar,
}

enum Slot {
    Running,
    Done(Result<u64>),
    /// The outcome was taken. The byte count stays for later polls of the same request.
    Taken(u64),
}

impl Completion {
    /// The completion of an access that has ended.
    pub(crate) fn finished(outcome: Result<u64>) -> Arc<Completion> {
        Arc::new(Completion { slot: Mutex::new(Slot::Done(outcome)), done: Condvar::new() })
    }

    /// The completion of an access that [`Completion::finish`] ends later.
    pub(crate) fn running() -> Arc<Completion> {
        Arc::new(Completion { slot: Mutex::new(Slot::Running), done: Condvar::new() })
    }

    pub(crate) fn finish(&self, outcome: Result<u64>) {
        *self.slot.lock() = Slot::Done(outcome);
        self.done.notify_all();
    }

    /// Waits for the end of the access and takes its outcome.
    pub(crate) fn take(&self) -> Result<u64> {
        let mut slot = self.until_done();
        let bytes = bytes_of(&slot);
        match std::mem::replace(&mut *slot, Slot::Taken(bytes)) {
            Slot::Done(outcome) => outcome,
            Slot::Taken(bytes) => Ok(bytes),
            Slot::Running => unreachable!("waited for the end"),
        }
    }

    fn until_done(&self) -> MutexGuard<'_, Slot> {
        let mut slot = self.slot.lock();
        while matches!(*slot, Slot::Running) {
            wait_and_progress(&self.done, &mut slot);
        }
        slot
    }
}

/// Waits for a notification, for at most [`PROGRESS_INTERVAL`]; after a timeout the host MPI makes progress. Only a thread
/// inside an MPI call may call this.
pub(crate) fn wait_and_progress<T>(condition: &Condvar, guard: &mut MutexGuard<'_, T>) {
    if condition.wait_for(guard, PROGRESS_INTERVAL).timed_out() {
        make_progress();
    }
}

const PROGRESS_INTERVAL: Duration = Duration::from_millis(1);

impl Pending for Completion {
    fn poll(&self) -> Option<u64> {
        let slot = self.slot.lock();
        (!matches!(*slot, Slot::Running)).then(|| bytes_of(&slot))
    }

    fn wait(&self) -> u64 {
        bytes_of(&self.until_done())
    }
}

/// A failed access counts as zero bytes; the file records its error.
fn bytes_of(slot: &Slot) -> u64 {
    match slot {
        Slot::Done(Ok(bytes)) | Slot::Taken(bytes) => *bytes,
        Slot::Done(Err(_)) | Slot::Running => 0,
    }
}

/// A thread and its queue. Dropping it ends the thread after the queued accesses.
pub(crate) struct IoThread(Arc<Queue>);

#[derive(Default)]
struct Queue {
    entries: Mutex<Entries>,
    filled: Condvar,
    emptied: Condvar,
}

#[derive(Default)]
struct Entries {
    waiting: VecDeque<(Work, Arc<Completion>)>,
    closed: bool,
}

/// Queues `work` on the thread for independent accesses. If no thread can be started, the caller does the work itself.
pub(crate) fn submit(work: Work) -> Arc<Completion> {
    static WORKER: OnceLock<Option<IoThread>> = OnceLock::new();
    match WORKER.get_or_init(|| IoThread::start("pario-io")) {
        Some(worker) => worker.submit(work),
        None => Completion::finished(work()),
    }
}

impl IoThread {
    /// Starts a thread; `None` if that fails.
    pub fn start(name: &str) -> Option<IoThread> {
        let queue = Arc::new(Queue::default());
        let shared = queue.clone();
        let spawned = std::thread::Builder::new().name(name.into()).spawn(move || shared.run());
        spawned.is_ok().then_some(IoThread(queue))
    }

    /// Queues `work`; waits while the queue is full.
    pub fn submit(&self, work: Work) -> Arc<Completion> {
        let completion = Completion::running();
        let mut entries = self.0.entries.lock();
        while entries.waiting.len() >= QUEUE_CAPACITY {
            wait_and_progress(&self.0.emptied, &mut entries);
        }
        entries.waiting.push_back((work, completion.clone()));
        self.0.filled.notify_one();
        completion
    }
}

impl Drop for IoThread {
    fn drop(&mut self) {
        self.0.entries.lock().closed = true;
        self.0.filled.notify_one();
    }
}

impl Queue {
    fn run(&self) {
        loop {
            let mut entries = self.entries.lock();
            let (work, completion) = loop {
                match entries.waiting.pop_front() {
                    Some(entry) => break entry,
                    None if entries.closed => return,
                    None => self.filled.wait(&mut entries),
                }
            };
            self.emptied.notify_one();
            drop(entries);
            completion.finish(work());
        }
    }
}

/// Does `work` and turns a panic into an error, so that the waiting caller gets an outcome and the I/O thread survives.
pub(crate) fn catch_panic(work: impl FnOnce() -> Result<u64>) -> Result<u64> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Error::Usage(
        ErrorKind::Intern,
        "a background access met a bug in Pario; please report it with the message above",
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_run_in_order_and_completions_return_their_bytes() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let completions: Vec<_> = (0..1000u64)
            .map(|i| {
                let log = log.clone();
                submit(Box::new(move || {
                    log.lock().push(i);
                    Ok(i)
                }))
            })
            .collect();
        for (i, completion) in completions.iter().enumerate() {
            assert_eq!(completion.wait(), i as u64);
            assert_eq!(completion.poll(), Some(i as u64));
            assert_eq!(completion.take().unwrap(), i as u64);
            assert_eq!(completion.wait(), i as u64, "waited again after the outcome was taken");
        }
        assert!(log.lock().iter().copied().eq(0..1000));
    }

    #[test]
    fn a_failure_or_a_panic_ends_only_that_access() {
        let failed = submit(Box::new(|| Err(Error::Usage(ErrorKind::Io, "injected"))));
        assert_eq!(failed.wait(), 0);
        assert_eq!(failed.take().unwrap_err().kind(), ErrorKind::Io);
        let panicked = submit(Box::new(|| catch_panic(|| panic!("injected"))));
        assert_eq!(panicked.take().unwrap_err().kind(), ErrorKind::Intern);
        assert_eq!(submit(Box::new(|| Ok(7))).take().unwrap(), 7);
    }
}
