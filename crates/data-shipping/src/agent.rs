//! An I/O agent: a few threads that serve the blocks of a file that their rank owns.
//!
//! The threads wait in one poller for listeners and sessions. A socket that can be read wakes one thread, which serves
//! one frame and arms the session again. So the number of threads bounds the concurrent accesses, and a thousand idle
//! shippers need no thread. A thread waits for a peer only within a frame, under the deadline.
//!
//! There is no deadlock. An agent's thread waits for a shipper in two places: for the rest of a frame, which that shipper
//! is sending, and while it sends a reply with data, which that shipper receives at once, because a shipper receives from
//! all agents at the same time and sends nothing large while such a reply is outstanding. The threads hold no lock of the
//! file while they wait for a shipper.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};

use crate::socket::Poller;
use pario_types::{AccessTuning, PrefetchLimits};

use crate::ShippingLimits;
use crate::address::AgentAddress;
use crate::block_map::BlockMap;
use crate::counts::{AgentCounters, AgentCounts};
use crate::error::Error;
use crate::observer::RequestObserver;
use crate::session::{AgentState, SessionEnd, ShippingSession};
use crate::stream::AgentListener;
use pario_file_backend::{FileBackend, RangeLock};

/// The configuration of an agent.
pub struct AgentConfig {
    /// The file, as this rank has it open. Its shipper has to use the same.
    pub file: Arc<dyn FileBackend>,
    /// The assignment of blocks to agents.
    pub map: BlockMap,
    /// The rank of the agent.
    pub rank: u32,
    /// The key of the node that the agent runs on. Shippers with the same key connect by a Unix socket.
    pub node: u64,
    /// The secret that shippers present: a random number that only the ranks of this open have.
    pub secret: u128,
    /// The settings of its accesses; `atomic` is ignored.
    pub tuning: AccessTuning,
    /// The extent to which its reads are prefetched.
    pub prefetch: PrefetchLimits,
    /// Lock the file once and for all: file-partitioning mode.
    pub partitioned: bool,
    /// The address to be reached at by other nodes, where there are any.
    pub tcp: Option<IpAddr>,
    /// Bounds.
    pub limits: ShippingLimits,
    /// Called for each served request, on the agent's threads.
    pub report: Option<RequestObserver>,
}

const STOP: u64 = 0;
const FIRST_LISTENER: u64 = 1;
const FIRST_SESSION: u64 = 16;

/// The state that the threads share.
struct AgentCore {
    agent: AgentState,
    limits: ShippingLimits,
    poller: Poller,
    listeners: Vec<AgentListener>,
    sessions: Mutex<Sessions>,
    running: Mutex<usize>,
    ended: Condvar,
    /// Whether it is in file-partitioning mode, and the lock of that: it lives as long as any thread that may write.
    partitioned: bool,
    hold: Mutex<Option<Box<dyn RangeLock>>>,
}

#[derive(Default)]
struct Sessions {
    open: HashMap<u64, Arc<ShippingSession>>,
    accepted: u64,
    stopping: bool,
}

/// The agent of one rank for one open file. Dropping it stops it.
pub struct Agent {
    core: Arc<AgentCore>,
    address: AgentAddress,
    threads: Vec<JoinHandle<()>>,
    /// Closing it tells the threads to stop.
    stop: Option<UnixStream>,
}

impl Agent {
    /// Starts an agent: from now on it can be reached at its address.
    pub fn start(service: AgentConfig) -> Result<Agent, Error> {
        let AgentConfig { file, map, rank, node, secret, tuning, prefetch, partitioned, tcp, limits, report } =
            service;
        let counts = AgentCounters::default();
        let hold = match partitioned {
            true => {
                counts.locks.add(1);
                Some(file.lock_whole_file()?.ok_or(Error::InUse)?)
            }
            false => None,
        };
        let tuning_and_prefetch = RwLock::new((own_tuning(tuning, partitioned), prefetch));
        let owned = map.owned_by(rank);
        let agent = AgentState { file, owned, secret, tuning_and_prefetch, report, counts };
        Agent::listen(node, agent, tcp, limits, hold).map_err(Error::Start)
    }

    fn listen(
        node: u64,
        agent: AgentState,
        tcp: Option<IpAddr>,
        limits: ShippingLimits,
        hold: Option<Box<dyn RangeLock>>,
    ) -> io::Result<Agent> {
        let mut address = AgentAddress { node, id: random_id()?, tcp: None };
        let unix = UnixListener::bind_addr(&address.unix()?)?;
        unix.set_nonblocking(true)?;
        let mut listeners = vec![AgentListener::Unix(unix)];
        if let Some(ip) = tcp {
            let listener = TcpListener::bind((ip, 0))?;
            listener.set_nonblocking(true)?;
            address.tcp = Some(listener.local_addr()?);
            listeners.push(AgentListener::Tcp(listener));
        }
        let (stop, stopped) = UnixStream::pair()?;
        let poller = Poller::new()?;
        for (key, listener) in (FIRST_LISTENER..).zip(&listeners) {
            poller.add(listener.as_fd(), key)?;
        }
        poller.add_for_all(stopped.as_fd(), STOP)?;
        let core = Arc::new(AgentCore {
            agent,
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
        *core.running.lock() += 1;
        let body = {
            let core = core.clone();
            move || {
                core.run();
                drop(stopped);
                *core.running.lock() -= 1;
                core.ended.notify_all();
            }
        };
        match std::thread::Builder::new().name("pario-agent".into()).stack_size(512 << 10).spawn(body) {
            Ok(thread) => self.threads.push(thread),
            Err(error) => {
                *core.running.lock() -= 1;
                return Err(error);
            }
        }
        Ok(())
    }

    /// The address for shippers.
    pub fn address(&self) -> AgentAddress {
        self.address
    }

    /// Changes the settings of its accesses.
    pub fn retune(&self, tuning: AccessTuning, prefetch: PrefetchLimits) {
        let partitioned = self.core.partitioned;
        let mut now = self.core.agent.tuning_and_prefetch.write();
        *now = (own_tuning(tuning, partitioned), prefetch);
    }

    /// Its counters so far.
    pub fn counts(&self) -> AgentCounts {
        self.core.agent.counts.shown()
    }

    /// Ends all connections and threads and releases the lock of the file; an error if that lock was lost. Shippers with a
    /// request in progress get an error; accesses in progress are completed.
    pub fn stop(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        drop(self.stop.take());
        {
            let mut sessions = self.core.sessions.lock();
            sessions.stopping = true;
            sessions.open.drain().for_each(|(_, session)| session.stream.end());
        }
        let end = Instant::now() + self.core.limits.deadline;
        let mut running = self.core.running.lock();
        while *running > 0 {
            if Instant::now() >= end {
                self.threads.clear();
                return Err(Error::Stuck { threads: *running });
            }
            self.core.ended.wait_until(&mut running, end);
        }
        drop(running);
        // All threads have left their loop. A panic there is a bug that was reported when it happened.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
        match self.core.hold.lock().take() {
            Some(hold) => Ok(hold.release()?),
            None => Ok(()),
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Callers that need the result call `stop`.
        let _ = self.end();
    }
}

/// The settings of an agent's accesses. No other rank accesses its blocks, so it does not stagger. The caller decides
/// whether it needs locks against other programs, unless the file is partitioned.
fn own_tuning(tuning: AccessTuning, partitioned: bool) -> AccessTuning {
    AccessTuning { atomic: false, sole: tuning.sole || partitioned, stagger: (0, 1), ..tuning }
}

fn random_id() -> io::Result<u128> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes)?;
    Ok(u128::from_ne_bytes(bytes))
}

impl AgentCore {
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
        let Some(session) = self.sessions.lock().open.get(&key).cloned() else { return };
        let served = catch_unwind(AssertUnwindSafe(|| session.serve(&self.agent, scratch)));
        let over = match served {
            Ok(Ok(())) => self.poller.arm(session.stream.as_fd(), key).is_err(),
            Ok(Err(SessionEnd::Connection)) => true,
            Ok(Err(SessionEnd::Refused | SessionEnd::Malformed)) | Err(_) => {
                self.agent.counts.refused.add(1);
                true
            }
        };
        if over {
            session.stream.end();
            self.sessions.lock().open.remove(&key);
        }
    }

    fn accept(&self, key: u64) {
        let Some(listener) = self.listeners.get((key - FIRST_LISTENER) as usize) else { return };
        loop {
            match listener.accept(self.limits.deadline) {
                Ok(None) => break,
                Ok(Some(stream)) => self.add_session(ShippingSession::new(stream)),
                // The connection failed early, or no descriptors are left: let the rest of the queue wait a moment.
                Err(_) => {
                    std::thread::sleep(Duration::from_millis(1));
                    break;
                }
            }
        }
        // It was added once, so it can be armed again.
        let _ = self.poller.arm(listener.as_fd(), key);
    }

    /// Adds a session. If there are too many, the oldest session that has not authenticated is closed.
    fn add_session(&self, session: ShippingSession) {
        let mut sessions = self.sessions.lock();
        if sessions.stopping {
            return;
        }
        if sessions.open.len() >= self.limits.sessions {
            let unauthenticated =
                sessions.open.iter().filter(|(_, open)| !open.is_known()).map(|(&key, _)| key).min();
            let Some(open) = unauthenticated.and_then(|key| sessions.open.remove(&key)) else { return };
            open.stream.end();
        }
        let key = FIRST_SESSION + sessions.accepted;
        sessions.accepted += 1;
        self.agent.counts.sessions.add(1);
        let session = Arc::new(session);
        sessions.open.insert(key, session.clone());
        if self.poller.add(session.stream.as_fd(), key).is_err() {
            sessions.open.remove(&key);
        }
    }
}
