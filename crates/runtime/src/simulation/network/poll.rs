//! Readiness of several sockets, as `epoll` reports it, and events, as `eventfd` makes them.

use std::collections::BTreeSet;
use std::io;

use super::super::scheduler::{self, Waiter};
use super::{Kind, Network, SocketNumber, use_network, wake_waiters};

#[derive(Clone, Copy)]
pub(super) struct Registration {
    pub poll: u64,
    pub number: u64,
    pub interest: Option<PollInterest>,
}

#[derive(Default)]
pub(super) struct PollState {
    pub sockets: BTreeSet<SocketNumber>,
    pub waiters: Vec<Waiter>,
}

/// The condition of a socket that a poll reports, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollInterest {
    /// Something can be read.
    Read,
    /// Something can be written.
    Write,
    /// The other side has closed.
    End,
}

/// A descriptor that is readable while its event is set.
pub fn make_event() -> SocketNumber {
    use_network(|network, context| network.add(context.owner, context.host, Kind::Event { is_set: false }))
}

/// Makes an event readable, or clears it.
pub fn set_event(number: SocketNumber, is_readable: bool) {
    scheduler::point();
    scheduler::with(|scheduler| {
        if let Some(Kind::Event { is_set }) =
            scheduler.network.sockets.get_mut(&number).map(|socket| &mut socket.kind)
        {
            *is_set = is_readable;
        }
        wake_waiters(scheduler, [number]);
    });
}

/// Makes a poll.
pub fn make_poll() -> u64 {
    use_network(|network, _| {
        network.poll_count += 1;
        network.polls.insert(network.poll_count, PollState::default());
        network.poll_count
    })
}

/// Watches a socket once.
pub fn poll_watch(poll: u64, socket: SocketNumber, number: u64, interest: PollInterest) -> io::Result<()> {
    scheduler::with(|scheduler| {
        let network = &mut scheduler.network;
        let entry =
            network.sockets.get_mut(&socket).ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))?;
        entry.poll = Some(Registration { poll, number, interest: Some(interest) });
        network.polls.get_mut(&poll).expect("made before").sockets.insert(socket);
        wake_waiters(scheduler, [socket]);
        Ok(())
    })
}

/// Numbers of sockets that are ready, at most so many; none after the deadline.
pub fn poll_wait(poll: u64, most: usize, deadline: Option<u64>) -> Vec<u64> {
    loop {
        scheduler::point();
        let now = scheduler::now();
        let (ready, next) = use_network(|network, _| network.poll_ready(poll, most, now));
        if !ready.is_empty() || deadline.is_some_and(|deadline| now >= deadline) {
            return ready;
        }
        let waiter = scheduler::waiter();
        use_network(|network, _| network.polls.get_mut(&poll).expect("made before").waiters.push(waiter));
        let until = [deadline, next].into_iter().flatten().min();
        scheduler::block(waiter, until);
    }
}

impl Network {
    fn poll_ready(&mut self, poll: u64, most: usize, now: u64) -> (Vec<u64>, Option<u64>) {
        let sockets: Vec<_> = self.polls[&poll].sockets.iter().copied().collect();
        let (mut ready, mut next) = (Vec::new(), None::<u64>);
        for socket in sockets {
            let (readable, writable, ended, later) = self.readiness(socket, now);
            let Some(registration) = self.sockets.get_mut(&socket).and_then(|socket| socket.poll.as_mut())
            else {
                continue;
            };
            let is_ready = match registration.interest {
                Some(PollInterest::Read) => readable || ended,
                Some(PollInterest::Write) => writable || ended,
                Some(PollInterest::End) => ended,
                None => continue,
            };
            if is_ready && ready.len() < most {
                registration.interest = None;
                ready.push(registration.number);
            } else if let Some(later) = later {
                next = Some(next.map_or(later, |next| next.min(later)));
            }
        }
        (ready, next)
    }
}
