//! Socket operations that the standard library lacks: waiting for several sockets, sending without SIGPIPE, and the
//! user id of the peer.
//!
//! This library runs inside another program, so it must not raise SIGPIPE. Its threads sleep while no peer sends,
//! however many peers there are.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, sockopt};

/// Sends bytes; returns how many the socket accepted. A closed peer is an error, never a signal.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?)
}

/// Waits until one of the sockets can be read or has ended; returns the indexes of those. An empty list means that
/// the time is over.
pub fn wait_readable(sockets: &[BorrowedFd<'_>], timeout: Duration) -> io::Result<Vec<usize>> {
    let mut list: Vec<_> = sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
    let end = Instant::now() + timeout;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        // A timeout that is too long for the kernel's type is as good as none.
        match poll(&mut list, Timespec::try_from(left).ok().as_ref()) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => break,
        }
    }
    Ok((0..list.len()).filter(|&index| !list[index].revents().is_empty()).collect())
}

/// Whether the process at the other end of a Unix socket runs as the same user as this one.
pub fn is_same_user(socket: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(sockopt::socket_peercred(socket)?.uid == rustix::process::geteuid())
}

/// Hands each descriptor that can be read to one of the threads that wait.
///
/// The kernel wakes one thread and does not report that descriptor again until it is armed again. A descriptor that is
/// closed leaves the set by itself.
pub struct Poller(OwnedFd);

impl Poller {
    /// A poller without descriptors.
    pub fn new() -> io::Result<Poller> {
        Ok(Poller(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Adds a descriptor that is reported once, as `key`.
    pub fn add(&self, fd: BorrowedFd<'_>, key: u64) -> io::Result<()> {
        let once = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        Ok(epoll::add(&self.0, fd, epoll::EventData::new_u64(key), once)?)
    }

    /// Adds a descriptor that is reported to every thread while it can be read: the signal for all to stop.
    pub fn add_for_all(&self, fd: BorrowedFd<'_>, key: u64) -> io::Result<()> {
        Ok(epoll::add(&self.0, fd, epoll::EventData::new_u64(key), epoll::EventFlags::IN)?)
    }

    /// Lets a descriptor be reported once more.
    pub fn arm(&self, fd: BorrowedFd<'_>, key: u64) -> io::Result<()> {
        let once = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        Ok(epoll::modify(&self.0, fd, epoll::EventData::new_u64(key), once)?)
    }

    /// Waits for a descriptor that can be read or has ended; returns its key.
    pub fn wait(&self) -> io::Result<u64> {
        let mut events = Vec::with_capacity(1);
        loop {
            match epoll::wait(&self.0, spare_capacity(&mut events), None) {
                Err(error) if error != Errno::INTR => return Err(error.into()),
                _ => {}
            }
            if let Some(event) = events.pop() {
                return Ok(event.data.u64());
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
    fn readable_sockets_are_reported() {
        let pairs: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap()).collect();
        let sockets: Vec<_> = pairs.iter().map(|pair| pair.0.as_fd()).collect();
        assert_eq!(wait_readable(&sockets, Duration::ZERO).unwrap(), []);
        (&pairs[1].1).write_all(b"x").unwrap();
        assert_eq!(wait_readable(&sockets, Duration::from_secs(60)).unwrap(), [1]);
    }

    #[test]
    fn a_descriptor_is_reported_once_per_arming() {
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
