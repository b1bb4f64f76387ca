//! An agent: a few threads that serve the blocks of a file that their rank owns.
//!
//! The threads wait at one poller for listeners and sessions; whichever has something to read wakes one of
//! them, which serves one frame and arms the session again. So the number of threads bounds the accesses
//! under way, and a thousand idle shippers cost no thread. A thread waits for a peer only inside a frame,
//! under the deadline.
//!
//! Nobody waits in a circle. An agent's thread waits for a shipper in two places: for the rest of a frame,
//! which that shipper is sending at the moment, and to get an answer with data off, which that shipper takes
//! as soon as it comes, since it takes from all agents at once and sends nothing long while such an answer is
//! out. The threads hold no lock of the file while they wait for a shipper.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pario_posix::socket::Poller;
use pario_posix::{PrefetchLimits, Tuning, node};

use crate::Limits;
use crate::address::Address;
use crate::backing::{Backing, Hold};
use crate::counts::{AgentCounters, AgentCounts};
use crate::error::Error;
use crate::map::Map;
use crate::served::Report;
use crate::session::{Desk, Over, Session};
use crate::stream::Listener;

/// What an agent is to do.
pub struct Service {
    /// The file, as this rank has it open. Its shipper has to use the same.
    pub file: Arc<dyn Backing>,
    /// Whose blocks are whose.
    pub map: Map,
    /// The rank of the agent.
    pub rank: u32,
    /// What a shipper has to know: a random number that only the ranks of this open have.
    pub secret: u128,
    /// The settings of its accesses; not the atomic one.
    pub tuning: Tuning,
    /// How far its reads are prefetched.
    pub prefetch: PrefetchLimits,
    /// Lock the file once and for all: file-partitioning mode.
    pub partitioned: bool,
    /// The address to be reached at by other nodes, where there are any.
    pub tcp: Option<IpAddr>,
    /// Bounds.
    pub limits: Limits,
    /// Gets to know every request that was served, on the agent's threads.
    pub report: Option<Report>,
}

const STOP: u64 = 0;
const FIRST_LISTENER: u64 = 1;
const FIRST_SESSION: u64 = 16;

/// What the threads share.
struct Core {
    desk: Desk,
    limits: Limits,
    poller: Poller,
    listeners: Vec<Listener>,
    sessions: Mutex<Sessions>,
    running: Mutex<usize>,
    ended: Condvar,
    /// Whether it is in file-partitioning mode, and the lock of that: it lives as long as any thread that may write.
    partitioned: bool,
    hold: Mutex<Option<Box<dyn Hold>>>,
}

#[derive(Default)]
struct Sessions {
    open: HashMap<u64, Arc<Session>>,
    accepted: u64,
    stopping: bool,
}

/// The agent of one rank for one open file. Dropping it stops it.
pub struct Agent {
    core: Arc<Core>,
    address: Address,
    threads: Vec<JoinHandle<()>>,
    /// Closing it is the sign to stop.
    stop: Option<UnixStream>,
}

pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is guarded here is valid at every step.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Agent {
    /// Starts an agent: from now on it can be reached at its address.
    pub fn start(service: Service) -> Result<Agent, Error> {
        let Service { file, map, rank, secret, tuning, prefetch, partitioned, tcp, limits, report } = service;
        let counts = AgentCounters::default();
        let hold = match partitioned {
            true => {
                counts.locks.add(1);
                Some(file.hold()?.ok_or(Error::InUse)?)
            }
            false => None,
        };
        let manner = RwLock::new((own_tuning(tuning, partitioned), prefetch));
        let owned = map.owned_by(rank);
        let desk = Desk { file, owned, secret, manner, report, counts };
        Agent::listen(desk, tcp, limits, hold).map_err(Error::Start)
    }

    fn listen(
        desk: Desk,
        tcp: Option<IpAddr>,
        limits: Limits,
        hold: Option<Box<dyn Hold>>,
    ) -> io::Result<Agent> {
        let mut address = Address { node: node::node_key(), id: node::random_id()?, tcp: None };
        let unix = UnixListener::bind_addr(&address.unix()?)?;
        unix.set_nonblocking(true)?;
        let mut listeners = vec![Listener::Unix(unix)];
        if let Some(ip) = tcp {
            let listener = TcpListener::bind((ip, 0))?;
            listener.set_nonblocking(true)?;
            address.tcp = Some(listener.local_addr()?);
            listeners.push(Listener::Tcp(listener));
        }
        let (stop, stopped) = UnixStream::pair()?;
        let poller = Poller::new()?;
        for (key, listener) in (FIRST_LISTENER..).zip(&listeners) {
            poller.add(listener.as_fd(), key)?;
        }
        poller.add_for_all(stopped.as_fd(), STOP)?;
        let core = Arc::new(Core {
            desk,
            limits,
            poller,
            listeners,
            sessions: Mutex::default(),
            running: Mutex::new(0),
            ended: Condvar::new(),
            partitioned: hold.is_some(),
            hold: Mutex::new(hold),
        });
        let mut agent = Agent { core, address, threads: Vec::new(), stop: Some(stop) };
        let stopped = Arc::new(stopped);
        for _ in 0..limits.threads.max(1) {
            agent.spawn(stopped.clone())?;
        }
        Ok(agent)
    }

    fn spawn(&mut self, stopped: Arc<UnixStream>) -> io::Result<()> {
        let core = self.core.clone();
        *held(&core.running) += 1;
        let body = {
            let core = core.clone();
            move || {
                core.run();
                drop(stopped);
                *held(&core.running) -= 1;
                core.ended.notify_all();
            }
        };
        match std::thread::Builder::new().name("pario-agent".into()).stack_size(512 << 10).spawn(body) {
            Ok(thread) => self.threads.push(thread),
            Err(error) => {
                *held(&core.running) -= 1;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Where shippers find it.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Changes the settings of its accesses.
    pub fn retune(&self, tuning: Tuning, prefetch: PrefetchLimits) {
        let partitioned = self.core.partitioned;
        let mut now = self.core.desk.manner.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        *now = (own_tuning(tuning, partitioned), prefetch);
    }

    /// What it has done so far.
    pub fn counts(&self) -> AgentCounts {
        self.core.desk.counts.shown()
    }

    /// Ends all connections and threads, and lets the file's lock go; an error if that was lost meanwhile.
    /// Shippers in the middle of something get an error; accesses under way come to their end.
    pub fn stop(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        drop(self.stop.take());
        {
            let mut sessions = held(&self.core.sessions);
            sessions.stopping = true;
            sessions.open.drain().for_each(|(_, session)| session.stream.end());
        }
        let end = Instant::now() + self.core.limits.deadline;
        let mut running = held(&self.core.running);
        while *running > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.threads.clear();
                return Err(Error::Stuck { threads: *running });
            }
            running = self
                .core
                .ended
                .wait_timeout(running, left)
                .unwrap_or_else(|poisoned| poisoned.into_inner())
                .0;
        }
        drop(running);
        // All have left their loop; a panic there would be a bug that has been told already.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
        match held(&self.core.hold).take() {
            Some(hold) => Ok(hold.release()?),
            None => Ok(()),
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Whoever wants to know calls `stop`.
        let _ = self.end();
    }
}

/// An agent's blocks are its own, so it waits for nobody's turn; whether it needs locks against other
/// programs is the caller's word, unless the file is partitioned.
fn own_tuning(tuning: Tuning, partitioned: bool) -> Tuning {
    Tuning { atomic: false, sole: tuning.sole || partitioned, stagger: (0, 1), ..tuning }
}

impl Core {
    fn run(&self) {
        let mut scratch = Vec::new();
        // Waiting fails only for a descriptor that is none.
        while let Ok(key) = self.poller.wait() {
            match key {
                STOP => break,
                FIRST_SESSION.. => self.serve(key, &mut scratch),
                _ => self.accept(key),
            }
        }
    }

    fn serve(&self, key: u64, scratch: &mut Vec<u8>) {
        let Some(session) = held(&self.sessions).open.get(&key).cloned() else { return };
        let served = catch_unwind(AssertUnwindSafe(|| session.serve(&self.desk, scratch)));
        let over = match served {
            Ok(Ok(())) => self.poller.arm(session.stream.as_fd(), key).is_err(),
            Ok(Err(Over::Connection)) => true,
            Ok(Err(Over::Refused | Over::Malformed)) | Err(_) => {
                self.desk.counts.refused.add(1);
                true
            }
        };
        if over {
            session.stream.end();
            held(&self.sessions).open.remove(&key);
        }
    }

    fn accept(&self, key: u64) {
        let Some(listener) = self.listeners.get((key - FIRST_LISTENER) as usize) else { return };
        loop {
            match listener.accept(self.limits.deadline) {
                Ok(None) => break,
                Ok(Some(stream)) => self.admit(Session::new(stream)),
                // One that failed early, or no descriptors are left: the others of the queue wait a moment.
                Err(_) => {
                    std::thread::sleep(Duration::from_millis(1));
                    break;
                }
            }
        }
        // It was added once, so it can be armed again.
        let _ = self.poller.arm(listener.as_fd(), key);
    }

    /// Takes a connection in. Where there are too many, a stranger has to go.
    fn admit(&self, session: Session) {
        let mut sessions = held(&self.sessions);
        if sessions.stopping {
            return;
        }
        if sessions.open.len() >= self.limits.sessions {
            let stranger =
                sessions.open.iter().filter(|(_, open)| !open.is_known()).map(|(&key, _)| key).min();
            let Some(open) = stranger.and_then(|key| sessions.open.remove(&key)) else { return };
            open.stream.end();
        }
        let key = FIRST_SESSION + sessions.accepted;
        sessions.accepted += 1;
        self.desk.counts.sessions.add(1);
        let session = Arc::new(session);
        sessions.open.insert(key, session.clone());
        if self.poller.add(session.stream.as_fd(), key).is_err() {
            sessions.open.remove(&key);
        }
    }
}
