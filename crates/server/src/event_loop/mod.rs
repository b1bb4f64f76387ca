//! The workers: each waits for a session that can continue, and runs a step of it.
//!
//! When all workers are busy, the first that becomes free collects all sessions that can continue and runs the one that the
//! [`FairQueue`] selects. While another worker sleeps, a worker runs sessions as their events arrive, since none has to wait.

pub(crate) mod fair_queue;
pub(crate) mod timers;
pub(crate) mod worker_probe;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pario_runtime::sync::{Mutex, MutexGuard};
use pario_runtime::time::Instant;
use pario_transport::Listener;

use crate::core::Core;
use crate::error::{Error, Result};
use crate::sessions::session::{Session, SessionWait};
use crate::sys::{EVENTS, Events, Interest, Poll, Wakeup};
use fair_queue::{FairQueue, Program, QueuedSession};
use timers::Timers;
use worker_probe::WorkerProbe;

// The numbers of events. Listeners are numbered from `FIRST_LISTENER` on, sessions from `FIRST_SESSION` on.
const WAKEUP: u64 = 0;
const FIRST_LISTENER: u64 = 1;
const PROBE: u64 = 14;
pub(crate) const LEASE_CHECK: u64 = 15;
pub(crate) const FIRST_SESSION: u64 = 16;

/// The program of connections that have not completed the handshake.
pub(crate) const NO_PROGRAM: Program = 0;

/// The largest number of connections that a worker accepts before other sessions run.
const ACCEPT_BATCH: usize = 64;

/// How long the server accepts no connection after it ran out of descriptors.
const DESCRIPTOR_PAUSE: Duration = Duration::from_millis(100);

/// The state that the workers share.
pub(crate) struct EventLoop {
    poll: Poll,
    pub wakeup: Arc<Wakeup>,
    pub probe: WorkerProbe,
    listeners: Vec<Listener>,
    /// Sessions that wait for a worker.
    queue: Mutex<FairQueue>,
    /// Workers that wait for an event; changed while `queue` is locked.
    sleeping: AtomicUsize,
    pub timers: Arc<Timers>,
}

/// The last step of a worker: the program that it served, and the bytes that it moved.
type Served = (Program, u64);

impl EventLoop {
    pub fn new(listeners: Vec<Listener>) -> Result<EventLoop> {
        let poll = Poll::new().map_err(|e| Error::System("epoll", e))?;
        let wakeup = Arc::new(Wakeup::new().map_err(|e| Error::System("eventfd", e))?);
        let watch = |fd: BorrowedFd<'_>, number| {
            poll.add(fd, number, Interest::Read).map_err(|e| Error::System("epoll", e))
        };
        watch(wakeup.as_fd(), WAKEUP)?;
        for (number, listener) in (FIRST_LISTENER..).zip(&listeners) {
            watch(listener.as_fd(), number)?;
        }
        let timers = Arc::new(Timers::default());
        Ok(EventLoop {
            poll,
            probe: WorkerProbe::new(Arc::clone(&timers), Arc::clone(&wakeup)),
            wakeup,
            listeners,
            queue: Mutex::default(),
            sleeping: AtomicUsize::new(0),
            timers,
        })
    }

    /// Whether a session that can continue may have to wait. A sleeping worker is woken for it otherwise.
    pub fn is_busy(&self) -> bool {
        self.sleeping.load(Ordering::Relaxed) == 0
    }

    /// No worker begins anything while the guard is held.
    pub fn pause_workers(&self) -> MutexGuard<'_, FairQueue> {
        self.queue.lock()
    }

    /// Reports events of a new session.
    pub fn watch(&self, session: &Session, number: u64) -> io::Result<()> {
        self.poll.add(session.stream.as_fd(), number, Interest::Read)
    }
}

impl Core {
    /// The main function of a worker.
    pub fn run_worker(&self) {
        let mut served = None;
        while !self.stop.load(Ordering::Acquire) {
            self.config.panic_if_requested("worker");
            match self.next_session(served.take()) {
                Ok(Some(QueuedSession { session: number, .. })) if number < FIRST_SESSION => {
                    self.accept_connections(number);
                }
                Ok(Some(QueuedSession { session: number, program })) => {
                    served = Some((program, self.step_session(number)));
                }
                Ok(None) => {}
                // A successor that adopts the pool serves better than this process with fewer workers.
                Err(e) => panic!("waiting for sessions: {e}"),
            }
        }
        // Wakes the next worker, which also ends.
        self.event_loop.wakeup.wake();
    }

    /// The session that runs next; waits for one if there is none. `None`: the caller tries again.
    fn next_session(&self, served: Option<Served>) -> io::Result<Option<QueuedSession>> {
        let events = &self.event_loop;
        while let Some(number) = events.timers.due() {
            match number {
                LEASE_CHECK => self.disconnect_cut_off(),
                PROBE => events.probe.answer(),
                session => self.enqueue(&mut events.queue.lock(), session),
            }
        }
        let mut queue = events.queue.lock();
        if let Some((program, bytes)) = served {
            queue.charge(program, bytes);
        }
        let mut buffer = Events::default();
        while events.is_busy() {
            let ready = events.poll.wait(&mut buffer, EVENTS, 0)?;
            ready.iter().for_each(|event| self.enqueue(&mut queue, event.u64));
            if ready.len() < EVENTS {
                break;
            }
        }
        if let Some(next) = queue.next() {
            return Ok(Some(next));
        }
        events.sleeping.fetch_add(1, Ordering::Relaxed);
        drop(queue);
        let ready = events.poll.wait(&mut buffer, 1, events.timers.wait_ms());
        let mut queue = events.queue.lock();
        events.sleeping.fetch_sub(1, Ordering::Relaxed);
        ready?.iter().for_each(|event| self.enqueue(&mut queue, event.u64));
        Ok(queue.next())
    }

    /// Queues a session, or a listener, that can continue.
    fn enqueue(&self, queue: &mut FairQueue, number: u64) {
        if number == WAKEUP {
            let wakeup = &self.event_loop.wakeup;
            wakeup.clear();
            // This worker may have checked `stop` before it was set, and sleeps next: the wakeup of a server that ends stays for it.
            if self.stop.load(Ordering::Acquire) {
                wakeup.wake();
            }
            return self.watch_again(wakeup.as_fd(), WAKEUP, Interest::Read);
        }
        let program = if self.config.fair { self.sessions.program(number) } else { NO_PROGRAM };
        queue.wait(program, number);
    }

    fn accept_connections(&self, number: u64) {
        let listener = &self.event_loop.listeners[(number - FIRST_LISTENER) as usize];
        for _ in 0..ACCEPT_BATCH {
            match listener.accept() {
                Ok(Some(stream)) => self.add_session(stream),
                Ok(None) => break,
                Err(e) => {
                    self.counters.record_error(format!("accepting a connection: {e}"));
                    // Waiting connections keep the listener ready. A worker that watched it at once would do nothing else.
                    self.disconnect_oldest_ungreeted();
                    return self.event_loop.timers.set(Instant::now() + DESCRIPTOR_PAUSE, number);
                }
            }
        }
        self.watch_again(listener.as_fd(), number, Interest::Read);
    }

    /// Runs a step of a session; how many bytes it moved.
    pub fn step_session(&self, number: u64) -> u64 {
        let Some(session) = self.sessions.get(number) else { return 0 };
        let mut session = session.lock();
        let wait = session.step(self, number);
        let moved = session.take_moved();
        match wait {
            SessionWait::Readable => self.watch_again(session.stream.as_fd(), number, Interest::Read),
            SessionWait::Writable => self.watch_again(session.stream.as_fd(), number, Interest::Write),
            SessionWait::Forwarded => {}
            SessionWait::At(when) => self.wake_at(&mut session, when, number),
            SessionWait::AtOrHangUp(when) => {
                self.watch_again(session.stream.as_fd(), number, Interest::HangUp);
                self.wake_at(&mut session, when, number);
            }
            SessionWait::Ended => {
                let ended = session.close();
                drop(session);
                self.sessions.remove(number);
                self.release_client(number, ended);
            }
        }
        moved
    }

    /// Runs a session at this time, unless it will run before.
    fn wake_at(&self, session: &mut Session, when: Instant, number: u64) {
        let pending = session.alarm.filter(|alarm| *alarm > Instant::now());
        if pending.is_none_or(|alarm| when < alarm) {
            session.alarm = Some(when);
            self.event_loop.timers.set(when, number);
        }
    }

    fn watch_again(&self, fd: BorrowedFd<'_>, number: u64, interest: Interest) {
        if let Err(e) = self.event_loop.poll.rearm(fd, number, interest) {
            self.counters.record_error(format!("epoll: {e}"));
        }
    }
}
