//! What all threads of a server share, and its workers: each waits for a session that can go on, and lets it.
//!
//! When all workers are busy, the first to be free asks for all sessions that can go on and lets the one begin whose
//! turn it is ([`FairQueue`]); while another one sleeps, it takes what comes, since nobody has to wait then.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use pario_cache::LedgerId;
use pario_shm::ProcessIdentity;
use pario_transport::{HandshakeConfig, Listener, ServerHandshake, Stream, fresh_nonce};
use pario_types::{ClientId, FileId};
use pario_wire::greeting::{Hello, RETIRED_POOLS, Role, Welcome};

use crate::admission::{Admission, Admissions, Kind};
use crate::config::Config;
use crate::ending::Ending;
use crate::error::{Error, Result};
use crate::fair_queue::{FairQueue, Program, QueuedSession};
use crate::leases::{GRACE, Leases, Past};
use crate::locks::Locks;
use crate::names::Names;
use crate::peers::Peers;
use crate::pulse::{BEAT, Pulse};
use crate::session::{GREETING, Next, Session, Who};
use crate::shared_counters::SharedCounters;
use crate::status::Counters;
use crate::sys::{self, Bell, EVENTS, Events, Interest, Poll};
use crate::tier::Tier;
use crate::timers::Timers;
use crate::views::Views;

/// The bell's number; listeners follow, then sessions.
const BELL: u64 = 0;
const LISTENERS: u64 = 1;
const SESSIONS: u64 = 16;

/// Whom those belong to who have not greeted yet.
const NOBODY: Program = 0;

/// Connections that are taken at a time, before others have their turn.
const AT_A_TIME: usize = 64;

/// How long no connection is taken when there is no descriptor for one.
const NO_DESCRIPTOR: Duration = Duration::from_millis(100);

pub(crate) struct Core {
    pub config: Config,
    pub tier: Tier,
    pub names: Option<Names>,
    pub peers: Peers,
    pub counters: Counters,
    pub locks: Locks,
    pub leases: Arc<Leases>,
    pub views: Views,
    pub shared_counters: SharedCounters,
    handshake_config: Arc<HandshakeConfig>,
    poll: Poll,
    bell: Arc<Bell>,
    pub pulse: Pulse,
    listeners: Vec<Listener>,
    sessions: Mutex<HashMap<u64, Seat>>,
    admissions: Mutex<Admissions>,
    /// Sessions that wait for a worker.
    waiting: Mutex<FairQueue>,
    /// Workers that wait for an event; counted while the above is held.
    asleep: AtomicUsize,
    /// The session of each client.
    clients: Mutex<HashMap<ClientId, u64>>,
    /// The last caches before this one of which everything was stored.
    retired: [u64; RETIRED_POOLS],
    timers: Arc<Timers>,
    next: AtomicU64,
    pub ending: Arc<Ending>,
    pub stop: AtomicBool,
}

/// A session, and which program's.
struct Seat {
    program: Program,
    session: Arc<Mutex<Session>>,
}

/// What a worker did last: at whose expense, and how many bytes it moved.
type Served = (Program, u64);

impl Core {
    pub fn new(
        config: Config,
        tier: Tier,
        names: Option<Names>,
        listeners: Vec<Listener>,
        retired: [u64; RETIRED_POOLS],
        past: Past,
    ) -> Result<Core> {
        let poll = Poll::new().map_err(|e| Error::System("epoll", e))?;
        let bell = Arc::new(Bell::new().map_err(|e| Error::System("eventfd", e))?);
        let watch = |fd: BorrowedFd<'_>, number| {
            poll.add(fd, number, Interest::Read).map_err(|e| Error::System("epoll", e))
        };
        watch(bell.as_fd(), BELL)?;
        for (number, listener) in (LISTENERS..).zip(&listeners) {
            watch(listener.as_fd(), number)?;
        }
        let timers = Arc::new(Timers::default());
        let block = u64::from(tier.pool.geometry().block);
        let notes = (&*config.run_directory, tier.pool.mark());
        let locks = Locks::open(&config.directory);
        Ok(Core {
            leases: Leases::new(block, config.grace, Arc::clone(&timers), past, notes),
            peers: Peers::new(&config)?,
            handshake_config: Arc::new(config.handshake_config()),
            views: Views::new(config.views, config.view_bytes),
            shared_counters: SharedCounters::default(),
            config,
            tier,
            names,
            counters: Counters::new(),
            locks,
            poll,
            pulse: Pulse::new(Arc::clone(&timers), Arc::clone(&bell)),
            bell,
            listeners,
            sessions: Mutex::default(),
            admissions: Mutex::new(Admissions::new(sys::raise_descriptor_limit())),
            waiting: Mutex::default(),
            asleep: AtomicUsize::new(0),
            clients: Mutex::default(),
            retired,
            timers,
            next: AtomicU64::new(SESSIONS),
            ending: Arc::default(),
            stop: AtomicBool::new(false),
        })
    }

    /// A worker's life.
    pub fn work(&self) {
        let mut served = None;
        while !self.stop.load(Ordering::Acquire) {
            self.config.panic_if_told("worker");
            match self.next_session(served.take()) {
                Ok(Some(QueuedSession { session: number, .. })) if number < SESSIONS => self.accept(number),
                Ok(Some(QueuedSession { session: number, program })) => {
                    served = Some((program, self.visit(number)))
                }
                Ok(None) => {}
                // A successor that adopts the pool serves better than this process with fewer workers.
                Err(e) => panic!("waiting for sessions: {e}"),
            }
        }
        // The next one hears it, too.
        self.bell.ring();
    }

    /// Whose turn it is, after waiting for somebody if there is nobody. `None`: come again.
    fn next_session(&self, served: Option<Served>) -> io::Result<Option<QueuedSession>> {
        while let Some(number) = self.timers.due() {
            match number {
                GRACE => self.cut_off(),
                BEAT => self.pulse.beat(),
                session => self.come_in(&mut lock(&self.waiting), session),
            }
        }
        let mut turns = lock(&self.waiting);
        if let Some((program, bytes)) = served {
            turns.charge(program, bytes);
        }
        let mut events = Events::default();
        while self.is_busy() {
            let came = self.poll.wait(&mut events, EVENTS, 0)?;
            came.iter().for_each(|event| self.come_in(&mut turns, event.u64));
            if came.len() < EVENTS {
                break;
            }
        }
        if let Some(turn) = turns.next() {
            return Ok(Some(turn));
        }
        self.asleep.fetch_add(1, Ordering::Relaxed);
        drop(turns);
        let came = self.poll.wait(&mut events, 1, self.timers.patience_ms());
        let mut turns = lock(&self.waiting);
        self.asleep.fetch_sub(1, Ordering::Relaxed);
        came?.iter().for_each(|event| self.come_in(&mut turns, event.u64));
        Ok(turns.next())
    }

    /// Whether a session that can go on may have to wait. If a worker sleeps it is woken for that.
    pub fn is_busy(&self) -> bool {
        self.asleep.load(Ordering::Relaxed) == 0
    }

    /// A session, or a listener, can go on.
    fn come_in(&self, turns: &mut FairQueue, number: u64) {
        if number == BELL {
            self.bell.hear();
            return self.watch_again(self.bell.as_fd(), BELL, Interest::Read);
        }
        let program = match self.config.fair {
            true => lock(&self.sessions).get(&number).map_or(NOBODY, |seat| seat.program),
            false => NOBODY,
        };
        turns.wait(program, number);
    }

    /// No worker begins anything as long as this is held.
    pub fn hold(&self) -> MutexGuard<'_, FairQueue> {
        lock(&self.waiting)
    }

    /// Ends all workers and the flusher.
    pub fn ring(&self) {
        self.stop.store(true, Ordering::Release);
        self.bell.ring();
        self.tier.pool.wake();
        self.tier.prefetches.stop();
        self.peers.stop();
        self.ending.stop();
        if let Some(names) = &self.names {
            names.stop();
        }
    }

    /// Who greeted rightly gets in; on this host with the pool.
    pub fn admit(
        &self,
        number: u64,
        hello: &Hello,
        stream: &Stream,
    ) -> (Who, Welcome, Option<BorrowedFd<'_>>) {
        lock(&self.admissions).greeted(number, kind(stream));
        if let Some(names) = &self.names {
            names.arrived(hello.client);
        }
        if hello.role == Role::Client {
            self.end_older(hello.client, number);
        }
        if let Some(seat) = lock(&self.sessions).get_mut(&number) {
            seat.program = hello.program;
        }
        let local = stream.is_local() && hello.role == Role::Client;
        let pid = stream.peer_process().ok().flatten().unwrap_or(0);
        let ledger = match (local, hello.resume_ledger) {
            (false, _) => None,
            (true, Some(old)) if self.tier.pool.resume_ledger(LedgerId(old), pid) => Some(LedgerId(old)),
            (true, _) => self.tier.pool.take_ledger(pid),
        };
        let welcome = Welcome {
            block: self.tier.pool.geometry().block,
            metadata: self.config.metadata,
            cache: self.tier.pool.mark(),
            retired: self.retired,
            ledger: ledger.map(|ledger| ledger.0),
        };
        let process = ProcessIdentity::of(pid);
        let who = Who { client: hello.client, role: hello.role, ledger, process };
        (who, welcome, ledger.map(|_| self.tier.pool.descriptor()))
    }

    pub fn count_sessions(&self) -> (u32, u32) {
        let sessions: Vec<_> = lock(&self.sessions).values().map(|seat| Arc::clone(&seat.session)).collect();
        // A session that is at work just now is not looked into.
        let local = sessions.iter().filter(|s| {
            s.try_lock().is_ok_and(|session| session.who().is_some_and(|who| who.ledger.is_some()))
        });
        (sessions.len() as u32, local.count() as u32)
    }

    /// Lets a session go on that waited for another server.
    pub fn deliver(&self, number: u64, answer: impl FnOnce(&mut Session)) {
        if let Some(session) = self.session(number) {
            answer(&mut lock(&session));
            self.visit(number);
            // It may have to be visited again soon, and the workers may all be asleep.
            self.bell.ring();
        }
    }

    fn accept(&self, number: u64) {
        let listener = &self.listeners[(number - LISTENERS) as usize];
        for _ in 0..AT_A_TIME {
            match listener.accept() {
                Ok(Some(stream)) => self.welcome(stream),
                Ok(None) => break,
                Err(e) => {
                    self.counters.remember(format!("accepting a connection: {e}"));
                    // Those who wait make the listener ready all the time: looking at it again at once would be all that
                    // this worker does.
                    let oldest = lock(&self.admissions).oldest_ungreeted();
                    oldest.into_iter().for_each(|oldest| self.expel(oldest));
                    return self.timers.set(Instant::now() + NO_DESCRIPTOR, number);
                }
            }
        }
        self.watch_again(listener.as_fd(), number, Interest::Read);
    }

    fn welcome(&self, stream: Stream) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let admission = lock(&self.admissions).come(number, kind(&stream));
        match admission {
            Admission::Taken => {}
            Admission::Instead(oldest) => {
                self.counters.refused.add(1);
                self.expel(oldest);
            }
            Admission::Refused => {
                self.counters.refused.add(1);
                return self.counters.remember("closed a connection: there are too many".into());
            }
        }
        let now = Instant::now();
        let Ok(nonce) = fresh_nonce() else {
            lock(&self.admissions).left(number);
            return self.counters.remember("closed a connection: the system has no random numbers".into());
        };
        let peer = if stream.is_local() { "a process of this host" } else { "another host" };
        let user = stream.peer_user().ok().flatten();
        let handshake = ServerHandshake::new(self.handshake_config.clone(), peer.into(), user, nonce);
        let session = Session::new(stream, handshake, now);
        let session = Arc::new(Mutex::new(session));
        lock(&self.sessions).insert(number, Seat { program: NOBODY, session: Arc::clone(&session) });
        self.timers.set(now + GREETING, number);
        let session = lock(&session);
        let watched = self.poll.add(session.stream.as_fd(), number, Interest::Read);
        drop(session);
        if watched.is_err() {
            self.end(number);
        }
    }

    fn session(&self, number: u64) -> Option<Arc<Mutex<Session>>> {
        lock(&self.sessions).get(&number).map(|seat| Arc::clone(&seat.session))
    }

    /// Lets a session go on; how many bytes it moved.
    fn visit(&self, number: u64) -> u64 {
        let Some(session) = self.session(number) else { return 0 };
        let mut session = lock(&session);
        let next = session.step(self, number);
        let moved = session.take_moved();
        match next {
            Next::Read => self.watch_again(session.stream.as_fd(), number, Interest::Read),
            Next::Write => self.watch_again(session.stream.as_fd(), number, Interest::Write),
            Next::Away => {}
            Next::Later(when) => self.wake_at(&mut session, when, number),
            Next::Until(when) => {
                self.watch_again(session.stream.as_fd(), number, Interest::End);
                self.wake_at(&mut session, when, number);
            }
            Next::End => {
                let (who, opened) = (session.close(), session.take_opened_away());
                drop(session);
                self.end(number);
                self.left(number, who, opened);
            }
        }
        moved
    }

    /// Has a session visited at this time, unless it will be before.
    fn wake_at(&self, session: &mut Session, when: Instant, number: u64) {
        let still_set = session.alarm.filter(|alarm| *alarm > Instant::now());
        if still_set.is_none_or(|alarm| when < alarm) {
            session.alarm = Some(when);
            self.timers.set(when, number);
        }
    }

    fn end(&self, number: u64) {
        lock(&self.sessions).remove(&number);
        lock(&self.admissions).left(number);
    }

    /// A client has one connection; if it comes again, what it asked on an older one must not be done any more.
    fn end_older(&self, client: ClientId, number: u64) {
        let Some(older) = lock(&self.clients).insert(client, number) else { return };
        self.expel(older);
    }

    /// Ends sessions of clients that do not give up what they have leased.
    fn cut_off(&self) {
        for number in self.leases.cut_off() {
            let grace = self.config.grace.as_secs_f64();
            self.counters.remember(format!(
                "closed a connection: its client did not give up what it has leased within {grace} s"
            ));
            self.expel(number);
        }
        self.leases.forget_cut_off(&self.tier.pool);
    }

    fn expel(&self, number: u64) {
        let Some(seat) = lock(&self.sessions).remove(&number) else { return };
        lock(&self.admissions).left(number);
        let (who, opened) = {
            let mut session = lock(&seat.session);
            (session.close(), session.take_opened_away())
        };
        self.left(number, who, opened);
    }

    /// Ends a client's connection, and with it what it has asked for, unless something of that is being done just now. For
    /// sessions, which may not wait for each other.
    pub fn try_expel(&self, client: ClientId) -> bool {
        let Some(number) = lock(&self.clients).get(&client).copied() else { return true };
        let seat = lock(&self.sessions).get(&number).map(|seat| Arc::clone(&seat.session));
        let Some(session) = seat else { return true };
        let (who, opened) = match session.try_lock() {
            Ok(mut session) => (session.close(), session.take_opened_away()),
            Err(TryLockError::Poisoned(poisoned)) => {
                let mut session = poisoned.into_inner();
                (session.close(), session.take_opened_away())
            }
            Err(TryLockError::WouldBlock) => return false,
        };
        self.end(number);
        self.left(number, who, opened);
        true
    }

    /// A client, as its user knows it.
    pub fn name_of(&self, client: ClientId) -> String {
        let number = lock(&self.clients).get(&client).copied();
        let session = number.and_then(|number| self.session(number));
        // It may be at work just now, and then it is no news which one it is.
        let who = session.and_then(|session| session.try_lock().ok().and_then(|session| session.who()));
        match who.map(|who| who.process) {
            Some(Some(process)) => format!("process {} of this host", process.pid),
            Some(None) => "a process of another host".to_owned(),
            None => "a process whose connection is busy or gone".to_owned(),
        }
    }

    /// What a client leaves behind when its connection ends.
    fn left(&self, number: u64, who: Option<Who>, opened: Vec<FileId>) {
        let Some(who) = who else { return };
        lock(&self.clients).retain(|client, session| *client != who.client || *session != number);
        self.peers.close(who.client, opened);
        self.leases.left(number, who.client);
        if who.role == Role::Client {
            self.locks.left(who.client);
            self.shared_counters.left(who.client);
            self.tier.prefetches.left(who.client);
        }
        if let Some(ledger) = who.ledger {
            self.tier.pool.give_ledger(ledger);
        }
        if let Some(names) = &self.names {
            names.left(who.client, who.process, self.config.lease);
        }
    }

    fn watch_again(&self, fd: BorrowedFd<'_>, number: u64, interest: Interest) {
        if let Err(e) = self.poll.again(fd, number, interest) {
            self.counters.remember(format!("epoll: {e}"));
        }
    }
}

fn kind(stream: &Stream) -> Kind {
    if stream.is_local() { Kind::Local } else { Kind::Far }
}

/// A lock, also after some other thread's panic: what it guards is changed in single steps.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
