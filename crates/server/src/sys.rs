//! System calls: epoll, eventfd and limits. The only unsafe code of this crate.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The event of a descriptor to report, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    Read,
    Write,
    /// Only the end of the connection.
    HangUp,
}

/// The largest number of events that one call reports.
pub(crate) const EVENTS: usize = 64;

/// The buffer for reported events.
pub(crate) struct Events([libc::epoll_event; EVENTS]);

impl Default for Events {
    fn default() -> Events {
        Events([libc::epoll_event { events: 0, u64: 0 }; EVENTS])
    }
}

/// An epoll instance. Every registered descriptor has a number; an event is reported once (oneshot).
pub(crate) struct Poll(OwnedFd);

impl Poll {
    pub fn new() -> io::Result<Poll> {
        // SAFETY: no memory involved; the result is checked.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: a new descriptor without another owner.
        Ok(Poll(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub fn add(&self, fd: BorrowedFd<'_>, number: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, number, interest)
    }

    /// Reports the next event of a registered descriptor.
    pub fn rearm(&self, fd: BorrowedFd<'_>, number: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, number, interest)
    }

    /// Waits for events, at most `most`; returns none after `limit_ms` (-1: no limit).
    pub fn wait<'a>(
        &self,
        events: &'a mut Events,
        most: usize,
        limit_ms: i32,
    ) -> io::Result<&'a [libc::epoll_event]> {
        let events = &mut events.0[..most];
        let (buffer, len) = (events.as_mut_ptr(), events.len() as i32);
        // SAFETY: the buffer has space for that many events.
        match check(unsafe { libc::epoll_wait(self.0.as_raw_fd(), buffer, len, limit_ms) }) {
            Ok(count) => Ok(&events[..count as usize]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(&[]),
            Err(e) => Err(e),
        }
    }

    fn control(&self, how: i32, fd: BorrowedFd<'_>, number: u64, interest: Interest) -> io::Result<()> {
        let events = match interest {
            Interest::Read => libc::EPOLLIN | libc::EPOLLRDHUP,
            Interest::Write => libc::EPOLLOUT,
            Interest::HangUp => libc::EPOLLRDHUP,
        };
        let mut event = libc::epoll_event { events: (events | libc::EPOLLONESHOT) as u32, u64: number };
        // SAFETY: both descriptors are open; the event is read during the call.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), how, fd.as_raw_fd(), &mut event) })?;
        Ok(())
    }
}

/// An eventfd: readable from [`Wakeup::wake`] to [`Wakeup::clear`].
pub(crate) struct Wakeup(std::fs::File);

impl Wakeup {
    pub fn new() -> io::Result<Wakeup> {
        // SAFETY: no memory involved; the result is checked.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: a new descriptor without another owner.
        Ok(Wakeup(std::fs::File::from(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    pub fn clear(&self) {
        use std::io::Read;
        // Another worker may have cleared it first.
        let _ = (&self.0).read(&mut [0; 8]);
    }

    pub fn wake(&self) {
        use std::io::Write;
        // This can only fail after 2^64 calls.
        let _ = (&self.0).write(&1u64.to_ne_bytes());
    }
}

impl std::os::fd::AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Whether the other side has closed the connection, even if there are unread bytes.
pub(crate) fn has_hung_up(socket: BorrowedFd<'_>) -> bool {
    let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 };
    // SAFETY: one descriptor, which is open.
    unsafe { libc::poll(&mut poll, 1, 0) > 0 }
}

/// Raises the limit on descriptors as far as possible and returns it.
pub(crate) fn raise_descriptor_limit() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 1024, rlim_max: 1024 };
    // SAFETY: the structure is a local that the call fills in. If it fails, the default limit stays.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
    // SAFETY: a local that the call reads.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) } == 0 {
        limit = raised;
    }
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
}

/// Lowers the priority of this thread. A failure has no effect but speed.
pub(crate) fn lower_priority() {
    const NICE: i32 = 10;
    // SAFETY: no memory involved. On Linux 0 is this thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
