//! epoll and eventfd. The only unsafe code of this room.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// What to be told about a descriptor, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    Read,
    Write,
    /// Only that the other side goes.
    End,
}

/// Events that are asked for at a time.
pub(crate) const EVENTS: usize = 64;

/// Room for them.
pub(crate) struct Events([libc::epoll_event; EVENTS]);

impl Default for Events {
    fn default() -> Events {
        Events([libc::epoll_event { events: 0, u64: 0 }; EVENTS])
    }
}

/// An epoll instance. Every registered descriptor has a number; each report is given once (oneshot).
pub(crate) struct Poll(OwnedFd);

impl Poll {
    pub fn new() -> io::Result<Poll> {
        // SAFETY: no memory involved; the result is checked.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: a fresh descriptor that nobody else owns.
        Ok(Poll(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub fn add(&self, fd: BorrowedFd<'_>, number: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, number, interest)
    }

    /// Reports once more.
    pub fn again(&self, fd: BorrowedFd<'_>, number: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, number, interest)
    }

    /// Descriptors that are ready, at most so many; none after `limit_ms` (-1: never).
    pub fn wait<'a>(
        &self,
        events: &'a mut Events,
        most: usize,
        limit_ms: i32,
    ) -> io::Result<&'a [libc::epoll_event]> {
        let events = &mut events.0[..most];
        let (room, len) = (events.as_mut_ptr(), events.len() as i32);
        // SAFETY: room for that many events.
        match check(unsafe { libc::epoll_wait(self.0.as_raw_fd(), room, len, limit_ms) }) {
            Ok(count) => Ok(&events[..count as usize]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(&[]),
            Err(e) => Err(e),
        }
    }

    fn control(&self, how: i32, fd: BorrowedFd<'_>, number: u64, interest: Interest) -> io::Result<()> {
        let events = match interest {
            Interest::Read => libc::EPOLLIN | libc::EPOLLRDHUP,
            Interest::Write => libc::EPOLLOUT,
            Interest::End => libc::EPOLLRDHUP,
        };
        let mut event = libc::epoll_event { events: (events | libc::EPOLLONESHOT) as u32, u64: number };
        // SAFETY: both descriptors are open; the event is read during the call.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), how, fd.as_raw_fd(), &mut event) })?;
        Ok(())
    }
}

/// A descriptor that is readable from when it is rung to when it is heard.
pub(crate) struct Bell(std::fs::File);

impl Bell {
    pub fn new() -> io::Result<Bell> {
        // SAFETY: no memory involved; the result is checked.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: a fresh descriptor that nobody else owns.
        Ok(Bell(std::fs::File::from(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    pub fn hear(&self) {
        use std::io::Read;
        // Somebody else may have heard it first.
        let _ = (&self.0).read(&mut [0; 8]);
    }

    pub fn ring(&self) {
        use std::io::Write;
        // It can only fail if it was rung 2^64 times.
        let _ = (&self.0).write(&1u64.to_ne_bytes());
    }
}

impl std::os::fd::AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Whether the other side of a socket has closed it, whatever it has sent before.
pub(crate) fn is_gone(socket: BorrowedFd<'_>) -> bool {
    let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 };
    // SAFETY: one descriptor, which is open.
    unsafe { libc::poll(&mut poll, 1, 0) > 0 }
}

/// Lets this process have as many descriptors as it may; how many these are.
pub(crate) fn raise_descriptor_limit() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 1024, rlim_max: 1024 };
    // SAFETY: the structure is a local that the call fills in. If it fails, the usual limit is a fair guess.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
    // SAFETY: a local that the call reads.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) } == 0 {
        limit = raised;
    }
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
}

/// This thread runs when others of the machine do not need its processor. Whether that could be said does not matter.
pub(crate) fn step_back() {
    const NICE: i32 = 10;
    // SAFETY: no memory involved. On Linux 0 is this thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
