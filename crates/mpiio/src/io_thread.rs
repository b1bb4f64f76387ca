//! Threads for accesses in the background, so that the program can compute meanwhile.
//!
//! Independent accesses have one thread per process; collective ones, which wait for other ranks, have one
//! per open file, so that two files never wait for each other. A thread is started by the first such access,
//! asleep when there is nothing to do, and never calls MPI (a program may have asked for MPI_THREAD_SINGLE).
//! Whoever waits is told through a [`Completion`], and lets the host MPI do its work meanwhile: another rank may
//! need that to come to the access. The queue is bounded: when it is full the caller waits for room.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use pario_mpi_host::Pending;
use pario_types::ErrorKind;

use crate::error::{Error, Result};
use crate::file_group::make_progress;

/// Accesses waiting for the I/O thread, at most.
const QUEUE: usize = 256;

/// One piece of work: does the access and returns the bytes moved. It does not panic: see [`catch_panic`].
pub(crate) type Work = Box<dyn FnOnce() -> Result<u64> + Send>;

/// The receipt for one access under way.
pub struct Completion {
    slot: Mutex<Slot>,
    done: Condvar,
}

enum Slot {
    Running,
    Done(Result<u64>),
    /// The outcome was taken; the bytes stay for a request that is asked again.
    Taken(u64),
}

impl Completion {
    /// A ticket for work that is done already.
    pub(crate) fn finished(outcome: Result<u64>) -> Arc<Completion> {
        Arc::new(Completion { slot: Mutex::new(Slot::Done(outcome)), done: Condvar::new() })
    }

    /// A ticket for work that somebody else will finish.
    pub(crate) fn running() -> Arc<Completion> {
        Arc::new(Completion { slot: Mutex::new(Slot::Running), done: Condvar::new() })
    }

    pub(crate) fn finish(&self, outcome: Result<u64>) {
        *held(&self.slot) = Slot::Done(outcome);
        self.done.notify_all();
    }

    /// Waits for the end and takes the outcome.
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
        let mut slot = held(&self.slot);
        while matches!(*slot, Slot::Running) {
            slot = wait_and_progress(&self.done, slot);
        }
        slot
    }
}

/// Waits for a moment, or until told; then lets the host do its work. Only for threads inside an MPI call.
pub(crate) fn wait_and_progress<'a, T>(told: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    let (guard, over) = told.wait_timeout(guard, NAP).unwrap_or_else(|poisoned| poisoned.into_inner());
    if over.timed_out() {
        make_progress();
    }
    guard
}

const NAP: Duration = Duration::from_millis(1);

impl Pending for Completion {
    fn poll(&self) -> Option<u64> {
        let slot = held(&self.slot);
        (!matches!(*slot, Slot::Running)).then(|| bytes_of(&slot))
    }

    fn wait(&self) -> u64 {
        bytes_of(&self.until_done())
    }
}

/// A failed access has moved no byte that anybody may count on; its error is kept by the file.
fn bytes_of(slot: &Slot) -> u64 {
    match slot {
        Slot::Done(Ok(bytes)) | Slot::Taken(bytes) => *bytes,
        Slot::Done(Err(_)) | Slot::Running => 0,
    }
}

/// A thread and its queue. The thread ends when this is dropped, after what is queued.
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

/// Hands `work` to the thread for independent accesses. Where no thread can be started the work is done here
/// and now.
pub(crate) fn submit(work: Work) -> Arc<Completion> {
    static WORKER: OnceLock<Option<IoThread>> = OnceLock::new();
    match WORKER.get_or_init(|| IoThread::start("pario-io")) {
        Some(worker) => worker.submit(work),
        None => Completion::finished(work()),
    }
}

impl IoThread {
    /// Starts a thread; `None` where that is not possible.
    pub fn start(name: &str) -> Option<IoThread> {
        let queue = Arc::new(Queue::default());
        let theirs = queue.clone();
        let spawned = std::thread::Builder::new().name(name.into()).spawn(move || theirs.run());
        spawned.is_ok().then_some(IoThread(queue))
    }

    /// Queues `work`; waits for room first if need be.
    pub fn submit(&self, work: Work) -> Arc<Completion> {
        let ticket = Completion::running();
        let mut entries = held(&self.0.entries);
        while entries.waiting.len() >= QUEUE {
            entries = wait_and_progress(&self.0.emptied, entries);
        }
        entries.waiting.push_back((work, ticket.clone()));
        self.0.filled.notify_one();
        ticket
    }
}

impl Drop for IoThread {
    fn drop(&mut self) {
        held(&self.0.entries).closed = true;
        self.0.filled.notify_one();
    }
}

impl Queue {
    fn run(&self) {
        loop {
            let mut entries = held(&self.entries);
            let (work, ticket) = loop {
                match entries.waiting.pop_front() {
                    Some(entry) => break entry,
                    None if entries.closed => return,
                    None => {
                        entries = self.filled.wait(entries).unwrap_or_else(|poisoned| poisoned.into_inner());
                    }
                }
            };
            self.emptied.notify_one();
            drop(entries);
            ticket.finish(work());
        }
    }
}

/// Does `work`; a panic in it becomes an error, so that whoever waits is told and the I/O thread lives on.
pub(crate) fn catch_panic(work: impl FnOnce() -> Result<u64>) -> Result<u64> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Error::Usage(
        ErrorKind::Intern,
        "a background access met a bug in Pario; please report it with the message above",
    )))
}

/// Locks; a panic elsewhere while holding the lock does not make the data unusable here.
pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_runs_in_order_and_tickets_tell() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let tickets: Vec<_> = (0..1000u64)
            .map(|i| {
                let log = log.clone();
                submit(Box::new(move || {
                    held(&log).push(i);
                    Ok(i)
                }))
            })
            .collect();
        for (i, ticket) in tickets.iter().enumerate() {
            assert_eq!(ticket.wait(), i as u64);
            assert_eq!(ticket.poll(), Some(i as u64));
            assert_eq!(ticket.take().unwrap(), i as u64);
            assert_eq!(ticket.wait(), i as u64, "asked again after it was taken");
        }
        assert!(held(&log).iter().copied().eq(0..1000));
    }

    #[test]
    fn a_failure_or_a_panic_ends_that_work_only() {
        let failed = submit(Box::new(|| Err(Error::Usage(ErrorKind::Io, "injected"))));
        assert_eq!(failed.wait(), 0);
        assert_eq!(failed.take().unwrap_err().kind(), ErrorKind::Io);
        let panicked = submit(Box::new(|| catch_panic(|| panic!("injected"))));
        assert_eq!(panicked.take().unwrap_err().kind(), ErrorKind::Intern);
        assert_eq!(submit(Box::new(|| Ok(7))).take().unwrap(), 7);
    }
}
