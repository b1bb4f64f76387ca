//! A stream of bytes between two processes, over a Unix socket or TCP.

use std::io::{self, IoSlice, IoSliceMut, Read};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::time::Duration;

use pario_runtime::time::Instant;

use crate::address::Address;
use crate::socket_options::{Interest, Ready, SocketOptions};
use crate::sys;

/// The byte that is sent with a descriptor.
const MARK: u8 = b'D';

/// The pause before another attempt when a Unix socket has too many waiting connections.
const CROWDED: Duration = Duration::from_millis(2);

/// A connected stream. Methods take `&self`: reading and writing at the same time is fine.
#[derive(Debug)]
pub enum Stream {
    /// Within a host, or within a process ([`Stream::pair`]).
    Unix(UnixStream),
    /// Between hosts.
    Tcp(TcpStream),
}

impl Stream {
    /// Two ends of one stream, within this process or for a child.
    pub fn pair() -> io::Result<(Stream, Stream)> {
        UnixStream::pair().map(|(one, other)| (Stream::Unix(one), Stream::Unix(other)))
    }

    /// Connects; the stream is nonblocking. All of it is limited by the deadline.
    pub fn connect(address: &Address, tuning: &SocketOptions, deadline: Instant) -> io::Result<Stream> {
        let stream = match address {
            Address::Unix(path) => loop {
                match sys::connect_unix(path) {
                    Ok(socket) => break Stream::Unix(socket.into()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        pario_runtime::thread::sleep(left(deadline)?.min(CROWDED));
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            },
            Address::Tcp(host, port) => Stream::Tcp(connect_tcp(host, *port, deadline)?),
        };
        stream.set_nonblocking(true)?;
        stream.tune(tuning)?;
        Ok(stream)
    }

    /// Whether both ends are certainly on the same host.
    pub fn is_local(&self) -> bool {
        matches!(self, Stream::Unix(_))
    }

    /// Sets whether reading and writing return `WouldBlock` rather than wait.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_nonblocking(nonblocking),
            Stream::Tcp(stream) => stream.set_nonblocking(nonblocking),
        }
    }

    /// Sets the options for requests and replies.
    pub fn tune(&self, tuning: &SocketOptions) -> io::Result<()> {
        let set = |level, name, value: u128| {
            let value = libc::c_int::try_from(value).unwrap_or(libc::c_int::MAX);
            sys::set_option(self.as_fd(), level, name, value)
        };
        if let Some(bytes) = tuning.buffer {
            set(libc::SOL_SOCKET, libc::SO_SNDBUF, bytes.into())?;
            set(libc::SOL_SOCKET, libc::SO_RCVBUF, bytes.into())?;
        }
        if let Stream::Tcp(stream) = self {
            stream.set_nodelay(true)?;
            let third = u128::from(tuning.silence.as_secs() / 3).max(1);
            set(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
            set(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, third)?;
            set(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, third)?;
            set(libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 2)?;
            set(libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, tuning.silence.as_millis())?;
        }
        Ok(())
    }

    /// Reads some bytes; 0 at the end of the stream.
    pub fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => (&*stream).read(bytes),
            Stream::Tcp(stream) => (&*stream).read(bytes),
        }
    }

    /// Reads some bytes into several buffers, in their order; 0 at the end of the stream.
    pub fn read_vectored(&self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => (&*stream).read_vectored(slices),
            Stream::Tcp(stream) => (&*stream).read_vectored(slices),
        }
    }

    /// Writes some bytes from several buffers, in their order. Never raises `SIGPIPE`.
    pub fn write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        sys::send(self.as_fd(), slices)
    }

    /// Writes some bytes. Never raises `SIGPIPE`.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    /// Sends a descriptor (with one byte of the stream). Only on Unix streams.
    pub fn send_descriptor(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        match self {
            Stream::Unix(_) => sys::send_descriptor(self.as_fd(), MARK, descriptor),
            Stream::Tcp(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Receives the descriptor that the other side sends next; anything else is `InvalidData`. Only on Unix streams.
    pub fn receive_descriptor(&self) -> io::Result<OwnedFd> {
        if !self.is_local() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        match sys::receive_descriptors(self.as_fd())? {
            None => Err(io::ErrorKind::UnexpectedEof.into()),
            Some((MARK, mut descriptors)) if descriptors.len() == 1 => Ok(descriptors.remove(0)),
            Some(_) => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// The user at the other end, where the system knows it: of a Unix stream.
    pub fn peer_user(&self) -> io::Result<Option<u32>> {
        match self {
            Stream::Unix(_) => sys::peer(self.as_fd()).map(|(user, _)| Some(user)),
            Stream::Tcp(_) => Ok(None),
        }
    }

    /// The process at the other end, likewise; 0 is one that is not visible from here.
    pub fn peer_process(&self) -> io::Result<Option<u32>> {
        match self {
            Stream::Unix(_) => sys::peer(self.as_fd()).map(|(_, process)| Some(process)),
            Stream::Tcp(_) => Ok(None),
        }
    }

    /// Ends the stream in both directions, also for other holders of it.
    pub fn shutdown(&self) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
        }
    }

    /// Waits until an operation is possible, or the deadline has passed.
    pub fn wait(&self, interest: Interest, deadline: Instant) -> io::Result<Ready> {
        let events = match interest {
            Interest::Read => libc::POLLIN,
            Interest::Write => libc::POLLOUT,
            Interest::Both => libc::POLLIN | libc::POLLOUT,
        };
        let there = sys::wait(self.as_fd(), events, deadline)?;
        let broken = there & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0;
        Ok(Ready { read: broken || there & libc::POLLIN != 0, write: broken || there & libc::POLLOUT != 0 })
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

/// The remaining time, or an error if there is none.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Looks up the addresses of a host. A thread of its own does it, since the duration of a lookup is not limited.
pub fn look_up(host: &str, port: u16, deadline: Instant) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let (found, addresses) = channel();
    let host = host.to_owned();
    let ask = move || {
        let answer = (host.as_str(), port).to_socket_addrs().map(Vec::from_iter);
        // After the deadline there is no receiver any more.
        let _ = found.send(answer);
    };
    pario_runtime::thread::Builder::new().name("pario names".into()).spawn(ask)?;
    addresses.recv_timeout(left(deadline)?).map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

fn connect_tcp(host: &str, port: u16, deadline: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in look_up(host, port, deadline)? {
        match TcpStream::connect_timeout(&address, left(deadline)?) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
