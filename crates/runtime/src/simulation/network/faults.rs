//! Faults of connections: late, half open, torn, broken, refused.

use std::io;

use super::super::process::{HostId, SimulatedPid};
use super::super::scheduler;
use super::{Kind, LONGEST_DELAY, Network, SocketNumber, StreamState, shutdown, wake_waiters};

/// The trouble of one direction of a connection.
#[derive(Clone, Copy, Default)]
pub(super) struct Trouble {
    /// The longest delay of a message, in nanoseconds, if it is not the usual one.
    longest_delay: Option<u64>,
    /// Nothing arrives since this time.
    pub held_since: Option<u64>,
    /// The connection breaks after so many more bytes.
    pub bytes_left: Option<usize>,
}

impl Trouble {
    /// When a message arrives that is sent now. Most delays are short and few are long: each of ten times the usual longest delay is half as
    /// likely as the one before.
    pub fn arrival(&self, now: u64, random: &mut fastrand::Rng) -> u64 {
        let mut longest = LONGEST_DELAY;
        if let Some(most) = self.longest_delay {
            while longest < most && random.bool() {
                longest = longest.saturating_mul(10).min(most);
            }
        }
        now + random.u64(1..=longest)
    }
}

/// How new connections to a process fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nobody seems to listen.
    Refused,
    /// Too many connections wait to be accepted.
    Full,
}

/// Chooses a connection of a process at random: its number on this side.
fn choose(
    process: SimulatedPid,
    random: &mut fastrand::Rng,
    wants: impl Fn(&StreamState) -> bool,
) -> Option<SocketNumber> {
    scheduler::with(|scheduler| {
        let sockets = scheduler.network.sockets.iter().filter(|(_, socket)| socket.owner == process);
        let is_wanted = |kind: &Kind| matches!(kind, Kind::Stream(stream) if wants(stream));
        let sockets: Vec<_> =
            sockets.filter(|(_, socket)| is_wanted(&socket.kind)).map(|(number, _)| *number).collect();
        random.choice(sockets)
    })
}

/// Chooses a connection over TCP, and one of its directions: the socket that receives.
fn choose_direction(process: SimulatedPid, random: &mut fastrand::Rng) -> Option<SocketNumber> {
    let own = choose(process, random, |stream| !stream.is_local)?;
    let peer = scheduler::with(|scheduler| scheduler.network.stream(own).ok().and_then(|stream| stream.peer));
    if random.bool() { peer } else { Some(own) }
}

fn change(socket: SocketNumber, act: impl FnOnce(&mut Trouble)) {
    scheduler::with(|scheduler| {
        let mut peer = None;
        if let Ok(stream) = scheduler.network.stream(socket) {
            act(&mut stream.trouble);
            peer = stream.peer;
        }
        wake_waiters(scheduler, [Some(socket), peer].into_iter().flatten());
    });
}

/// Breaks one connection between a process and others, chosen by a random number; whether there was one.
pub fn break_connection(process: SimulatedPid, random: &mut fastrand::Rng) -> bool {
    choose(process, random, |_| true).is_some_and(|number| shutdown(number).is_ok())
}

/// Breaks one connection of a process in the middle of a message, after at most so many more bytes; whether there was one.
pub fn tear_connection(process: SimulatedPid, most: usize, random: &mut fastrand::Rng) -> bool {
    let number = choose(process, random, |_| true);
    let bytes = random.usize(0..most);
    number.inspect(|number| change(*number, |trouble| trouble.bytes_left = Some(bytes))).is_some()
}

/// Messages over TCP in one direction of one connection of a process arrive late, until [`heal`].
pub fn delay_connection(
    process: SimulatedPid,
    longest: u64,
    random: &mut fastrand::Rng,
) -> Option<SocketNumber> {
    let number = choose_direction(process, random)?;
    change(number, |trouble| trouble.longest_delay = Some(longest));
    Some(number)
}

/// Nothing arrives in one direction of one TCP connection of a process, until [`heal`]. Both sides notice after a long silence.
pub fn hold_connection(process: SimulatedPid, random: &mut fastrand::Rng) -> Option<SocketNumber> {
    let number = choose_direction(process, random)?;
    let now = scheduler::now();
    change(number, |trouble| trouble.held_since = Some(now));
    Some(number)
}

/// Ends the trouble of a connection, if it still exists.
pub fn heal(number: SocketNumber) {
    change(number, |trouble| *trouble = Trouble::default());
}

/// New connections to a process fail, or succeed again.
pub fn set_refusal(process: SimulatedPid, refusal: Option<Refusal>) {
    scheduler::with(|scheduler| match refusal {
        Some(refusal) => drop(scheduler.network.refusals.insert(process, refusal)),
        None => drop(scheduler.network.refusals.remove(&process)),
    });
}

/// Whether a host is cut off from all others.
pub(crate) fn is_cut(host: HostId) -> bool {
    scheduler::with(|scheduler| scheduler.network.cut.contains_key(&host))
}

/// Cuts a host off from all others, or connects it again.
pub fn set_cut(host: HostId, is_cut: bool) {
    scheduler::with(|scheduler| {
        let now = scheduler.time();
        let network = &mut scheduler.network;
        match is_cut {
            true => drop(network.cut.entry(host).or_insert(now)),
            false => drop(network.cut.remove(&host)),
        }
        let sockets: Vec<_> = network.sockets.keys().copied().collect();
        wake_waiters(scheduler, sockets);
    });
}

impl Network {
    /// Whether no more connections fit into the queue of a listener.
    pub(super) fn is_full(&self, host: HostId, port: u16) -> bool {
        let listener = self.tcp.get(&(host, port)).and_then(|number| self.sockets.get(number));
        listener.is_some_and(|listener| self.refusals.get(&listener.owner) == Some(&Refusal::Full))
    }
}

impl Refusal {
    /// The error of a connection. Over TCP a full queue is none: the first message is lost and sent again until the time limit.
    pub(super) fn error(self) -> io::Error {
        match self {
            Refusal::Refused => io::ErrorKind::ConnectionRefused.into(),
            Refusal::Full => io::ErrorKind::WouldBlock.into(),
        }
    }
}
