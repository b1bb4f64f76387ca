//! The I/O thread: nonblocking and split accesses run here, so that the program can compute meanwhile.
//!
//! One thread per process, started by the first such access, asleep when there is nothing to do. It never
//! calls MPI (a program may have asked for MPI_THREAD_SINGLE); whoever waits is told through a [`Ticket`].
//! The queue is bounded: when it is full the caller waits for room, which needs nobody but this thread.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};

use pario_mpi_host::Pending;
use pario_units::ErrorKind;

use crate::error::{Error, Result};

/// Accesses waiting for the I/O thread, at most.
const QUEUE: usize = 256;

/// One piece of work: does the access and returns the bytes moved. It does not panic: see [`guarded`].
pub(crate) type Work = Box<dyn FnOnce() -> Result<u64> + Send>;

/// The receipt for one access under way.
pub struct Ticket {
    slot: Mutex<Slot>,
    done: Condvar,
}

enum Slot {
    Running,
    Done(Result<u64>),
    /// The outcome was taken; the bytes stay for a request that is asked again.
    Taken(u64),
}

impl Ticket {
    fn new() -> Arc<Ticket> {
        Arc::new(Ticket { slot: Mutex::new(Slot::Running), done: Condvar::new() })
    }

    /// A ticket for work that is done already.
    pub(crate) fn finished(outcome: Result<u64>) -> Arc<Ticket> {
        Arc::new(Ticket { slot: Mutex::new(Slot::Done(outcome)), done: Condvar::new() })
    }

    fn finish(&self, outcome: Result<u64>) {
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
            slot = self.done.wait(slot).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        slot
    }
}

impl Pending for Ticket {
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

struct Worker {
    queue: Mutex<VecDeque<(Work, Arc<Ticket>)>>,
    filled: Condvar,
    emptied: Condvar,
}

/// Hands `work` to the I/O thread. Where no thread can be started the work is done here and now.
pub(crate) fn submit(work: Work) -> Arc<Ticket> {
    let Some(worker) = worker() else {
        return Ticket::finished(work());
    };
    let ticket = Ticket::new();
    let mut queue = held(&worker.queue);
    while queue.len() >= QUEUE {
        queue = worker.emptied.wait(queue).unwrap_or_else(|poisoned| poisoned.into_inner());
    }
    queue.push_back((work, ticket.clone()));
    worker.filled.notify_one();
    ticket
}

fn worker() -> Option<&'static Worker> {
    static WORKER: OnceLock<Option<&'static Worker>> = OnceLock::new();
    *WORKER.get_or_init(|| {
        let worker: &'static Worker = Box::leak(Box::new(Worker {
            queue: Mutex::new(VecDeque::new()),
            filled: Condvar::new(),
            emptied: Condvar::new(),
        }));
        let spawned = std::thread::Builder::new().name("pario-io".into()).spawn(move || worker.run());
        spawned.is_ok().then_some(worker)
    })
}

impl Worker {
    fn run(&self) -> ! {
        loop {
            let mut queue = held(&self.queue);
            let (work, ticket) = loop {
                match queue.pop_front() {
                    Some(entry) => break entry,
                    None => {
                        queue = self.filled.wait(queue).unwrap_or_else(|poisoned| poisoned.into_inner());
                    }
                }
            };
            self.emptied.notify_one();
            drop(queue);
            ticket.finish(work());
        }
    }
}

/// Does `work`; a panic in it becomes an error, so that whoever waits is told and the I/O thread lives on.
pub(crate) fn guarded(work: impl FnOnce() -> Result<u64>) -> Result<u64> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Error::Usage(
        ErrorKind::Intern,
        "Pario's I/O thread met a bug in Pario; please report it with the message above",
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
        let panicked = submit(Box::new(|| guarded(|| panic!("injected"))));
        assert_eq!(panicked.take().unwrap_err().kind(), ErrorKind::Intern);
        assert_eq!(submit(Box::new(|| Ok(7))).take().unwrap(), 7);
    }
}
