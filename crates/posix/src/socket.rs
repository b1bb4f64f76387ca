//! What the standard library's sockets lack: waiting for many at once, sending without a signal, and asking
//! whose process is at the other end.
//!
//! A library inside somebody's program must not raise SIGPIPE, and its threads must sleep while nothing
//! comes, however many peers there are.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

fn checked(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Sends bytes and says how many were taken. A closed peer is an error, never a signal.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the slice outlives the call.
    let sent =
        unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Waits until one of the sockets can be read or has ended; returns the indexes of those. None of them means
/// that the time is over.
pub fn wait_readable(sockets: &[BorrowedFd<'_>], timeout: Duration) -> io::Result<Vec<usize>> {
    let asked = |fd: &BorrowedFd<'_>| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut list: Vec<_> = sockets.iter().map(asked).collect();
    let end = Instant::now() + timeout;
    loop {
        // Rounded up: a wait that ends early would look like one that is over.
        let left = end.saturating_duration_since(Instant::now()).as_micros().div_ceil(1000);
        let left = i32::try_from(left).unwrap_or(i32::MAX);
        // SAFETY: the list outlives the call.
        match checked(unsafe { libc::poll(list.as_mut_ptr(), list.len() as libc::nfds_t, left) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(_) => break,
        }
    }
    Ok((0..list.len()).filter(|&index| list[index].revents != 0).collect())
}

/// Whether the process at the other end of a Unix socket runs as the same user as this one.
pub fn is_same_user(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let to = std::ptr::from_mut(&mut peer).cast();
    // SAFETY: the structure and its length outlive the call.
    checked(unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, to, &mut len)
    })?;
    // SAFETY: no memory involved.
    Ok(peer.uid == unsafe { libc::geteuid() })
}

/// Hands each descriptor that has something to read to one of the threads that wait.
///
/// The kernel is the dispatcher: it wakes one thread, and tells of that descriptor no more until it is armed
/// again. A descriptor that is closed leaves by itself.
pub struct Poller(OwnedFd);

impl Poller {
    /// One without descriptors.
    pub fn new() -> io::Result<Poller> {
        // SAFETY: no memory involved.
        let fd = checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: a fresh descriptor that nobody else owns.
        Ok(Poller(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Adds a descriptor that is told of once, as `key`.
    pub fn add(&self, fd: BorrowedFd<'_>, key: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, libc::EPOLLIN | libc::EPOLLONESHOT, fd, key)
    }

    /// Adds a descriptor that every thread is told of as long as it can be read: the sign for all to stop.
    pub fn add_for_all(&self, fd: BorrowedFd<'_>, key: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, libc::EPOLLIN, fd, key)
    }

    /// Lets a descriptor be told of once more.
    pub fn arm(&self, fd: BorrowedFd<'_>, key: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, libc::EPOLLIN | libc::EPOLLONESHOT, fd, key)
    }

    fn control(&self, op: i32, events: i32, fd: BorrowedFd<'_>, key: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: key };
        // SAFETY: the structure outlives the call.
        checked(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), op, fd.as_raw_fd(), &mut event) }).map(drop)
    }

    /// Waits for a descriptor that can be read or has ended; returns its key.
    pub fn wait(&self) -> io::Result<u64> {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        loop {
            // SAFETY: room for one event, which outlives the call.
            match checked(unsafe { libc::epoll_wait(self.0.as_raw_fd(), &mut event, 1, -1) }) {
                Ok(1..) => return Ok(event.u64),
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_closed_peer_is_an_error_and_no_signal() {
        let (here, there) = UnixStream::pair().unwrap();
        assert_eq!(send(here.as_fd(), b"abc").unwrap(), 3);
        assert!(is_same_user(here.as_fd()).unwrap());
        drop(there);
        assert_eq!(send(here.as_fd(), b"abc").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn those_with_bytes_are_named() {
        let pairs: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap()).collect();
        let sockets: Vec<_> = pairs.iter().map(|pair| pair.0.as_fd()).collect();
        assert_eq!(wait_readable(&sockets, Duration::ZERO).unwrap(), []);
        (&pairs[1].1).write_all(b"x").unwrap();
        assert_eq!(wait_readable(&sockets, Duration::from_secs(60)).unwrap(), [1]);
    }

    #[test]
    fn a_descriptor_is_told_of_once_per_arming() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let (stop, mut stopper) = UnixStream::pair().unwrap();
        let poller = Poller::new().unwrap();
        poller.add(here.as_fd(), 7).unwrap();
        poller.add_for_all(stop.as_fd(), 0).unwrap();
        there.write_all(b"x").unwrap();
        assert_eq!(poller.wait().unwrap(), 7);
        stopper.write_all(b"x").unwrap();
        assert_eq!((poller.wait().unwrap(), poller.wait().unwrap()), (0, 0));
        (&stop).read_exact(&mut [0]).unwrap();
        poller.arm(here.as_fd(), 8).unwrap();
        assert_eq!(poller.wait().unwrap(), 8);
    }
}
