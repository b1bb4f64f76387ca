//! A connection between processes: a Unix socket on one node, TCP between nodes.

use std::io::{self, BufReader, Read};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

use pario_posix::socket;

use crate::address::Address;

/// Either kind of connection. Reading and writing give up after the deadline it was made with.
pub enum Stream {
    /// Within a node.
    Unix(UnixStream),
    /// Between nodes.
    Tcp(TcpStream),
}

impl Stream {
    /// Connects to an agent from a process on `node`.
    ///
    /// A node is told by its key, but a Unix socket's name is only known within one network namespace; so
    /// where the name is unknown and there is a TCP address, that is tried.
    pub fn connect(to: &Address, node: u64, deadline: Duration) -> io::Result<Stream> {
        let unknown = || io::Error::from(io::ErrorKind::AddrNotAvailable);
        let by_tcp = || TcpStream::connect_timeout(&to.tcp.ok_or_else(unknown)?, deadline).map(Stream::Tcp);
        let stream = if to.node == node {
            match UnixStream::connect_addr(&to.unix()?) {
                Ok(stream) => Ok(Stream::Unix(stream)),
                Err(error) => by_tcp().map_err(|_| error),
            }
        } else {
            by_tcp()
        }?;
        stream.set_deadline(deadline)?;
        Ok(stream)
    }

    fn set_deadline(&self, deadline: Duration) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => {
                stream.set_read_timeout(Some(deadline))?;
                stream.set_write_timeout(Some(deadline))
            }
            Stream::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(deadline))?;
                stream.set_write_timeout(Some(deadline))
            }
        }
    }

    /// Sends all bytes.
    pub fn send(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match socket::send(self.as_fd(), bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends the connection for both sides; whoever waits for it wakes up.
    pub fn end(&self) {
        // It fails only where the connection has ended already.
        let _ = match self {
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
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

/// The reading side of a stream.
pub struct Reader(Arc<Stream>);

impl Read for Reader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match &*self.0 {
                Stream::Unix(stream) => (&mut &*stream).read(to),
                Stream::Tcp(stream) => (&mut &*stream).read(to),
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

/// Reads through a small buffer, so that a small frame costs one call; large bodies go past it.
pub type Input = BufReader<Reader>;

/// The input of a stream.
pub fn input(stream: &Arc<Stream>) -> Input {
    BufReader::with_capacity(4096, Reader(stream.clone()))
}

/// Either kind of listener; accepting never waits.
pub enum Listener {
    /// Within a node.
    Unix(UnixListener),
    /// Between nodes.
    Tcp(TcpListener),
}

impl Listener {
    /// The next connection that waits, if any. Over a Unix socket only from the same user.
    pub fn accept(&self, deadline: Duration) -> io::Result<Option<Stream>> {
        let stream = match self {
            Listener::Unix(listener) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
            Listener::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
        };
        let stream = match stream {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            other => other?,
        };
        stream.set_deadline(deadline)?;
        if matches!(stream, Stream::Unix(_)) && !socket::is_same_user(stream.as_fd())? {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(Some(stream))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix(listener) => listener.as_fd(),
            Listener::Tcp(listener) => listener.as_fd(),
        }
    }
}
