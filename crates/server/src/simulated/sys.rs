//! Readiness of simulated sockets.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use pario_runtime::simulation::network::{self, PollInterest, SocketNumber};
use pario_runtime::simulation::scheduler;

/// What to be told about a descriptor, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    Read,
    Write,
    /// Only that the other side has closed.
    HangUp,
}

/// Events that are asked for at a time.
pub(crate) const EVENTS: usize = 64;

/// Space for them.
pub(crate) struct Events([libc::epoll_event; EVENTS]);

impl Default for Events {
    fn default() -> Events {
        Events([libc::epoll_event { events: 0, u64: 0 }; EVENTS])
    }
}

/// A poll of simulated sockets.
pub(crate) struct Poll(u64);

impl Poll {
    pub fn new() -> io::Result<Poll> {
        Ok(Poll(network::make_poll()))
    }

    pub fn add(&self, fd: BorrowedFd<'_>, number: u64, interest: Interest) -> io::Result<()> {
        let interest = match interest {
            Interest::Read => PollInterest::Read,
            Interest::Write => PollInterest::Write,
            Interest::HangUp => PollInterest::End,
        };
        network::poll_watch(self.0, fd.as_raw_fd(), number, interest)
    }

    /// Reports once more.
    pub fn rearm(&self, fd: BorrowedFd<'_>, number: u64, interest: Interest) -> io::Result<()> {
        self.add(fd, number, interest)
    }

    /// Sockets that are ready, at most so many; none after `limit_ms` (-1: never).
    pub fn wait<'a>(
        &self,
        events: &'a mut Events,
        most: usize,
        limit_ms: i32,
    ) -> io::Result<&'a [libc::epoll_event]> {
        let limit = u64::try_from(limit_ms).ok().map(|limit| scheduler::now() + limit * 1_000_000);
        let ready = network::poll_wait(self.0, most, limit);
        for (event, number) in events.0.iter_mut().zip(&ready) {
            event.u64 = *number;
        }
        Ok(&events.0[..ready.len()])
    }
}

/// A descriptor that is readable from a wake-up until it is cleared.
pub(crate) struct Wakeup(SocketNumber);

impl Wakeup {
    pub fn new() -> io::Result<Wakeup> {
        Ok(Wakeup(network::make_event()))
    }

    pub fn clear(&self) {
        network::set_event(self.0, false);
    }

    pub fn wake(&self) {
        network::set_event(self.0, true);
    }
}

impl Drop for Wakeup {
    fn drop(&mut self) {
        network::close(self.0);
    }
}

impl std::os::fd::AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: no such descriptor exists, and only simulated calls get this number.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

/// Whether the other side of a socket has closed it.
pub(crate) fn has_hung_up(socket: BorrowedFd<'_>) -> bool {
    network::is_gone(socket.as_raw_fd())
}

/// As many as a simulated process needs.
pub(crate) fn raise_descriptor_limit() -> usize {
    4096
}

/// Simulated threads have no priorities.
pub(crate) fn lower_priority() {}
