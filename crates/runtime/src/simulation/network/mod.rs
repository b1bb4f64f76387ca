//! Streams and listeners between simulated processes.
//!
//! A socket has a number that looks like a descriptor and is none. Unix sockets deliver at once. Bytes over TCP arrive after a random delay,
//! in order within a connection and in any order between connections, and not at all while one of both hosts is cut off. The sockets of a process that ends are closed.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::limits::{self, LimitedResource};
use super::process::{HostId, SimulatedPid};
use super::scheduler::{self, Scheduler, Waiter, Wakeup};
use super::{counts, random};

mod faults;
mod poll;

pub use faults::{
    Refusal, break_connection, delay_connection, heal, hold_connection, set_cut, set_refusal, tear_connection,
};
pub use poll::{PollInterest, make_event, make_poll, poll_wait, poll_watch, set_event};

use faults::Trouble;
pub(crate) use faults::is_cut;
use poll::{PollState, Registration};

/// The number of a simulated socket.
pub type SocketNumber = i32;

/// Numbers that no real descriptor has.
const FIRST: SocketNumber = 1 << 24;

/// Most bytes on their way in one direction of a connection.
const CAPACITY: usize = 64 << 10;

/// Most connections that wait to be accepted.
const BACKLOG: usize = 128;

/// The longest delay of TCP, in nanoseconds.
const LONGEST_DELAY: u64 = 200_000;

/// A connection whose peer's host is cut off for longer fails, in nanoseconds.
const SILENCE: u64 = 30_000_000_000;

pub(crate) struct Network {
    random: fastrand::Rng,
    sockets: BTreeMap<SocketNumber, Socket>,
    count: SocketNumber,
    unix: BTreeMap<(HostId, PathBuf), SocketNumber>,
    tcp: BTreeMap<(HostId, u16), SocketNumber>,
    next_port: u16,
    cut: BTreeMap<HostId, u64>,
    refusals: BTreeMap<SimulatedPid, Refusal>,
    polls: BTreeMap<u64, PollState>,
    poll_count: u64,
}

struct Socket {
    owner: SimulatedPid,
    host: HostId,
    kind: Kind,
    waiters: Vec<Waiter>,
    /// Registration with a poll: its number there.
    poll: Option<Registration>,
}

enum Kind {
    Stream(StreamState),
    Listener {
        backlog: VecDeque<SocketNumber>,
    },
    /// Like an eventfd.
    Event {
        is_set: bool,
    },
}

struct StreamState {
    peer: Option<SocketNumber>,
    peer_process: SimulatedPid,
    peer_host: HostId,
    is_local: bool,
    /// Bytes on their way here, with the time of their arrival.
    incoming: VecDeque<(u64, VecDeque<u8>)>,
    descriptors: VecDeque<OwnedFd>,
    /// The other side sends nothing any more; it has closed.
    is_ended: bool,
    /// The connection failed, or this side has ended it.
    is_broken: bool,
    /// The trouble of the direction that ends here.
    trouble: Trouble,
}

fn use_network<T>(act: impl FnOnce(&mut Network, &Context) -> T) -> T {
    scheduler::with(|scheduler| {
        let owner = scheduler.owner();
        let context = Context { owner, host: scheduler.host(owner) };
        act(&mut scheduler.network, &context)
    })
}

/// Wakes everybody who waits for a socket, and the poll that watches it.
fn wake_waiters(scheduler: &mut Scheduler, sockets: impl IntoIterator<Item = SocketNumber>) {
    let waiters: Vec<Waiter> =
        sockets.into_iter().flat_map(|socket| scheduler.network.take_waiters(socket)).collect();
    waiters.into_iter().for_each(|waiter| scheduler.wake(waiter, Wakeup::Notified));
}

struct Context {
    owner: SimulatedPid,
    host: HostId,
}

fn broken_pipe() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

impl Network {
    pub fn new(seed: u64) -> Network {
        Network {
            random: random::stream(seed, "network", 0),
            sockets: BTreeMap::new(),
            count: 0,
            unix: BTreeMap::new(),
            tcp: BTreeMap::new(),
            next_port: 0,
            cut: BTreeMap::new(),
            refusals: BTreeMap::new(),
            polls: BTreeMap::new(),
            poll_count: 0,
        }
    }

    fn add(&mut self, owner: SimulatedPid, host: HostId, kind: Kind) -> SocketNumber {
        self.count += 1;
        let number = FIRST + self.count;
        self.sockets.insert(number, Socket { owner, host, kind, waiters: Vec::new(), poll: None });
        number
    }

    fn add_stream(
        &mut self,
        at: (SimulatedPid, HostId),
        peer: (SimulatedPid, HostId),
        is_local: bool,
    ) -> SocketNumber {
        let state = StreamState {
            peer: None,
            peer_process: peer.0,
            peer_host: peer.1,
            is_local,
            incoming: VecDeque::new(),
            descriptors: VecDeque::new(),
            is_ended: false,
            is_broken: false,
            trouble: Trouble::default(),
        };
        self.add(at.0, at.1, Kind::Stream(state))
    }

    fn join(&mut self, one: SocketNumber, other: SocketNumber) {
        self.stream(one).expect("new").peer = Some(other);
        self.stream(other).expect("new").peer = Some(one);
    }

    fn stream(&mut self, number: SocketNumber) -> io::Result<&mut StreamState> {
        match self.sockets.get_mut(&number).map(|socket| &mut socket.kind) {
            Some(Kind::Stream(stream)) => Ok(stream),
            _ => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }

    fn take_waiters(&mut self, number: SocketNumber) -> Vec<Waiter> {
        let Some(socket) = self.sockets.get_mut(&number) else { return Vec::new() };
        let mut waiters = std::mem::take(&mut socket.waiters);
        if let Some(poll) = socket.poll.and_then(|registration| self.polls.get_mut(&registration.poll)) {
            waiters.append(&mut poll.waiters);
        }
        waiters
    }

    /// Whether bytes can travel between two hosts; if not, since when.
    fn cut_since(&self, one: HostId, other: HostId) -> Option<u64> {
        if one == other {
            None
        } else {
            [one, other].iter().filter_map(|host| self.cut.get(host).copied()).min()
        }
    }

    /// Whether something can be read and written, and when that may change by itself.
    fn readiness(&mut self, number: SocketNumber, now: u64) -> (bool, bool, bool, Option<u64>) {
        let Some(socket) = self.sockets.get(&number) else { return (true, true, true, None) };
        let stream = match &socket.kind {
            Kind::Listener { backlog } => return (!backlog.is_empty(), false, false, None),
            Kind::Event { is_set } => return (*is_set, true, false, None),
            Kind::Stream(stream) => stream,
        };
        if let Some(since) = self.cut_since(socket.host, stream.peer_host).filter(|_| !stream.is_local) {
            let dead = since.saturating_add(SILENCE);
            if now >= dead {
                self.stream(number).expect("found above").is_broken = true;
            }
            return (now >= dead, now >= dead, now >= dead, Some(dead).filter(|dead| now < *dead));
        }
        let peer = match stream.peer.and_then(|peer| self.sockets.get(&peer)).map(|peer| &peer.kind) {
            Some(Kind::Stream(peer)) => Some(peer),
            _ => None,
        };
        let held = stream.trouble.held_since;
        let silent = [held, peer.and_then(|peer| peer.trouble.held_since)].into_iter().flatten().min();
        let dead = silent.map(|since| since.saturating_add(SILENCE));
        if dead.is_some_and(|dead| now >= dead) {
            self.stream(number).expect("found above").is_broken = true;
            return (true, true, true, None);
        }
        let arrived = held.is_none() && stream.incoming.front().is_some_and(|(time, _)| *time <= now);
        let is_ended = stream.is_ended && held.is_none();
        let ended = stream.is_broken || is_ended && stream.incoming.is_empty();
        let next = stream.incoming.front().map(|(time, _)| *time).filter(|time| *time > now);
        let next = [next, dead].into_iter().flatten().min();
        let room = peer
            .is_none_or(|peer| peer.incoming.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() < CAPACITY);
        (arrived || ended, room || stream.is_broken, stream.is_broken || is_ended, next)
    }

    /// Closes the sockets of a process; returns those who wait for them.
    pub fn process_ended(&mut self, process: SimulatedPid) -> Vec<Waiter> {
        let owned: Vec<_> = self
            .sockets
            .iter()
            .filter(|(_, socket)| socket.owner == process)
            .map(|(number, _)| *number)
            .collect();
        owned.into_iter().flat_map(|number| self.close(number)).collect()
    }

    /// Closes a socket; returns those who wait for it or its peer.
    fn close(&mut self, number: SocketNumber) -> Vec<Waiter> {
        let mut waiters = self.take_waiters(number);
        let Some(socket) = self.sockets.remove(&number) else { return waiters };
        if let Some(poll) = socket.poll.and_then(|registration| self.polls.get_mut(&registration.poll)) {
            poll.sockets.remove(&number);
        }
        match socket.kind {
            Kind::Stream(stream) => {
                let Some(peer) = stream.peer else { return waiters };
                if let Ok(peer) = self.stream(peer) {
                    peer.is_ended = true;
                    peer.peer = None;
                }
                waiters.append(&mut self.take_waiters(peer));
            }
            Kind::Listener { backlog } => {
                self.unix.retain(|_, listener| *listener != number);
                self.tcp.retain(|_, listener| *listener != number);
                backlog.into_iter().for_each(|waiting| waiters.append(&mut self.close(waiting)));
            }
            Kind::Event { .. } => {}
        }
        waiters
    }
}

/// Both ends of a stream within a process.
pub fn pair() -> (SocketNumber, SocketNumber) {
    use_network(|network, context| {
        let end = (context.owner, context.host);
        let (one, other) = (network.add_stream(end, end, true), network.add_stream(end, end, true));
        network.join(one, other);
        (one, other)
    })
}

/// Listens at a path of this host.
pub fn bind_unix(path: &Path) -> io::Result<SocketNumber> {
    use_network(|network, context| {
        let key = (context.host, path.to_owned());
        if network.unix.contains_key(&key) {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there"));
        }
        let number = network.add(context.owner, context.host, Kind::Listener { backlog: VecDeque::new() });
        network.unix.insert(key, number);
        Ok(number)
    })
}

/// Listens at a port of this host, any if it is 0.
pub fn bind_tcp(port: u16) -> io::Result<(SocketNumber, u16)> {
    use_network(|network, context| {
        if port == 0 {
            network.next_port += 1;
        }
        let port = if port == 0 { 20_000 + network.next_port } else { port };
        if network.tcp.contains_key(&(context.host, port)) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let number = network.add(context.owner, context.host, Kind::Listener { backlog: VecDeque::new() });
        network.tcp.insert((context.host, port), number);
        Ok((number, port))
    })
}

/// Connects to a path of this host.
pub fn connect_unix(path: &Path) -> io::Result<SocketNumber> {
    scheduler::point();
    limits::take(LimitedResource::Descriptors, "connect")?;
    scheduler::with(|scheduler| {
        let host = scheduler.host(scheduler.owner());
        let listener = scheduler.network.unix.get(&(host, path.to_owned())).copied();
        connect(scheduler, listener.ok_or(io::ErrorKind::ConnectionRefused)?, true)
    })
}

/// Connects to a port of a host.
pub fn connect_tcp(host: HostId, port: u16, deadline: u64) -> io::Result<SocketNumber> {
    limits::take(LimitedResource::Descriptors, "connect")?;
    let delay = use_network(|network, _| network.random.u64(0..LONGEST_DELAY));
    scheduler::sleep(Duration::from_nanos(delay));
    let is_cut = || {
        scheduler::with(|scheduler| {
            let own = scheduler.host(scheduler.owner());
            let network = &scheduler.network;
            network.cut_since(own, host).is_some() || network.is_full(host, port)
        })
    };
    while is_cut() {
        let now = scheduler::now();
        if now >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        scheduler::sleep(Duration::from_nanos((deadline - now).min(50_000_000)));
    }
    scheduler::with(|scheduler| {
        let listener = scheduler.network.tcp.get(&(host, port)).copied();
        connect(scheduler, listener.ok_or(io::ErrorKind::ConnectionRefused)?, false)
    })
}

fn connect(scheduler: &mut Scheduler, listener: SocketNumber, is_local: bool) -> io::Result<SocketNumber> {
    let owner = scheduler.owner();
    let here = (owner, scheduler.host(owner));
    let network = &mut scheduler.network;
    let socket = network.sockets.get_mut(&listener).ok_or(io::ErrorKind::ConnectionRefused)?;
    let there = (socket.owner, socket.host);
    if let Some(refusal) = network.refusals.get(&there.0) {
        counts::add(&mut scheduler.counts, "refused connection", 1);
        return Err(refusal.error());
    }
    match &mut socket.kind {
        Kind::Listener { backlog } if backlog.len() >= BACKLOG => {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Kind::Listener { .. } => {}
        _ => return Err(io::ErrorKind::ConnectionRefused.into()),
    }
    let (own, accepted) =
        (network.add_stream(here, there, is_local), network.add_stream(there, here, is_local));
    network.join(own, accepted);
    if let Some(Kind::Listener { backlog }) =
        network.sockets.get_mut(&listener).map(|socket| &mut socket.kind)
    {
        backlog.push_back(accepted);
    }
    wake_waiters(scheduler, [listener]);
    Ok(own)
}

/// The next connection of a listener.
pub fn accept(listener: SocketNumber) -> io::Result<Option<SocketNumber>> {
    scheduler::point();
    limits::take(LimitedResource::Descriptors, "accept")?;
    use_network(|network, _| match network.sockets.get_mut(&listener).map(|socket| &mut socket.kind) {
        Some(Kind::Listener { backlog }) => Ok(backlog.pop_front()),
        _ => Ok(None),
    })
}

/// Whether a stream is between processes of one host.
pub fn is_local(number: SocketNumber) -> bool {
    use_network(|network, _| network.stream(number).is_ok_and(|stream| stream.is_local))
}

/// The process at the other end.
pub fn peer_process(number: SocketNumber) -> io::Result<SimulatedPid> {
    use_network(|network, _| network.stream(number).map(|stream| stream.peer_process))
}

/// Reads what has arrived; 0 at the end.
pub fn read(number: SocketNumber, bytes: &mut [u8]) -> io::Result<usize> {
    scheduler::point();
    scheduler::with(|scheduler| {
        let now = scheduler.time();
        let (is_readable, ..) = scheduler.network.readiness(number, now);
        let stream = scheduler.network.stream(number)?;
        if !is_readable {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut count = 0;
        while let Some((time, arrived)) = stream.incoming.front_mut()
            && *time <= now
            && count < bytes.len()
        {
            let part = arrived.len().min(bytes.len() - count);
            arrived.drain(..part).zip(&mut bytes[count..]).for_each(|(from, to)| *to = from);
            count += part;
            if arrived.is_empty() {
                stream.incoming.pop_front();
            }
        }
        if count == 0 && !bytes.is_empty() && !stream.is_ended {
            stream.is_broken = true;
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let peer = stream.peer;
        wake_waiters(scheduler, peer);
        Ok(count)
    })
}

/// Writes what there is room for.
pub fn write(number: SocketNumber, bytes: &[u8]) -> io::Result<usize> {
    scheduler::point();
    scheduler::with(|scheduler| {
        let now = scheduler.time();
        let stream = scheduler.network.stream(number)?;
        let (is_local, is_broken, peer) = (stream.is_local, stream.is_broken, stream.peer);
        let peer = peer.filter(|_| !is_broken).ok_or_else(broken_pipe)?;
        let state = scheduler.network.stream(peer).map_err(|_| broken_pipe())?;
        let room = CAPACITY.saturating_sub(state.incoming.iter().map(|(_, bytes)| bytes.len()).sum());
        let mut count = room.min(bytes.len());
        if count == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let torn = state.trouble.bytes_left.filter(|left| *left <= count);
        state.trouble.bytes_left = state.trouble.bytes_left.map(|left| left.saturating_sub(count));
        count = torn.unwrap_or(count);
        let (last, trouble) = (state.incoming.back().map_or(0, |(time, _)| *time), state.trouble);
        let arrival = if is_local { now } else { trouble.arrival(now, &mut scheduler.network.random) };
        let state = scheduler.network.stream(peer)?;
        state.incoming.push_back((arrival.max(last), bytes[..count].iter().copied().collect()));
        if torn.is_some() {
            // The receiver gets a part of the message, then the end.
            (state.is_ended, state.trouble) = (true, Trouble::default());
            scheduler.network.stream(number)?.is_broken = true;
        }
        wake_waiters(scheduler, [peer, number]);
        if torn == Some(0) { Err(broken_pipe()) } else { Ok(count) }
    })
}

/// Sends a real descriptor with a byte.
pub fn send_descriptor(number: SocketNumber, mark: u8, descriptor: OwnedFd) -> io::Result<()> {
    use_network(|network, _| {
        let peer = network.stream(number)?.peer.ok_or_else(broken_pipe)?;
        network.stream(peer)?.descriptors.push_back(descriptor);
        Ok::<(), io::Error>(())
    })?;
    write(number, &[mark]).map(drop)
}

/// Receives a descriptor, and the byte that came with it.
pub fn receive_descriptor(number: SocketNumber) -> io::Result<Option<(u8, Vec<OwnedFd>)>> {
    let mut mark = [0];
    if read(number, &mut mark)? == 0 {
        return Ok(None);
    }
    use_network(|network, _| {
        Ok(Some((mark[0], network.stream(number)?.descriptors.pop_front().into_iter().collect())))
    })
}

/// Ends a stream in both directions.
pub fn shutdown(number: SocketNumber) -> io::Result<()> {
    scheduler::with(|scheduler| {
        let stream = scheduler.network.stream(number)?;
        stream.is_broken = true;
        let peer = stream.peer;
        if let Some(state) = peer.and_then(|peer| scheduler.network.stream(peer).ok()) {
            state.is_ended = true;
        }
        wake_waiters(scheduler, peer.into_iter().chain([number]));
        Ok(())
    })
}

/// Closes a socket.
pub fn close(number: SocketNumber) {
    if scheduler::is_active() {
        scheduler::with(|scheduler| {
            let waiters = scheduler.network.close(number);
            waiters.into_iter().for_each(|waiter| scheduler.wake(waiter, Wakeup::Notified));
        });
    }
}

/// Waits until a socket can be read or written, whichever is asked for; whether it can.
pub fn wait(number: SocketNumber, read: bool, write: bool, deadline: u64) -> (bool, bool) {
    loop {
        scheduler::point();
        let now = scheduler::now();
        let (readable, writable, _, next) = use_network(|network, _| network.readiness(number, now));
        if read && readable || write && writable || now >= deadline {
            return (read && readable, write && writable);
        }
        let waiter = scheduler::waiter();
        use_network(|network, _| {
            if let Some(socket) = network.sockets.get_mut(&number) {
                socket.waiters.push(waiter);
            }
        });
        scheduler::block(waiter, Some(next.unwrap_or(u64::MAX).min(deadline)));
    }
}

/// Whether the other side has closed the stream.
pub fn is_gone(number: SocketNumber) -> bool {
    let now = scheduler::now();
    use_network(|network, _| network.readiness(number, now).2)
}
