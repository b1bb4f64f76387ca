//! A connection between processes: a Unix socket on one node, TCP between nodes.

use std::io::{self, BufReader, Read};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

use crate::socket;

use crate::address::AgentAddress;

/// A connection of either kind. Reads and writes fail after its deadline.
pub enum AgentStream {
    /// Within a node.
    Unix(UnixStream),
    /// Between nodes.
    Tcp(TcpStream),
}

impl AgentStream {
    /// Connects to an agent from a process on `node`.
    ///
    /// Nodes are compared by key, but the name of a Unix socket is valid only within one network namespace. So if the
    /// name is unknown and there is a TCP address, this connects by TCP.
    pub fn connect(to: &AgentAddress, node: u64, deadline: Duration) -> io::Result<AgentStream> {
        let unknown = || io::Error::from(io::ErrorKind::AddrNotAvailable);
        let by_tcp =
            || TcpStream::connect_timeout(&to.tcp.ok_or_else(unknown)?, deadline).map(AgentStream::Tcp);
        let stream = if to.node == node {
            match UnixStream::connect_addr(&to.unix()?) {
                Ok(stream) => Ok(AgentStream::Unix(stream)),
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
            AgentStream::Unix(stream) => {
                stream.set_read_timeout(Some(deadline))?;
                stream.set_write_timeout(Some(deadline))
            }
            AgentStream::Tcp(stream) => {
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

    /// Ends the connection for both sides and wakes threads that wait for it.
    pub fn end(&self) {
        // It fails only where the connection has ended already.
        let _ = match self {
            AgentStream::Unix(stream) => stream.shutdown(Shutdown::Both),
            AgentStream::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl AsFd for AgentStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            AgentStream::Unix(stream) => stream.as_fd(),
            AgentStream::Tcp(stream) => stream.as_fd(),
        }
    }
}

/// The reading side of a stream.
pub struct StreamReader(Arc<AgentStream>);

impl Read for StreamReader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match &*self.0 {
                AgentStream::Unix(stream) => (&mut &*stream).read(to),
                AgentStream::Tcp(stream) => (&mut &*stream).read(to),
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

/// Reads through a small buffer, so that a small frame costs one call; large bodies go past it.
pub type Input = BufReader<StreamReader>;

/// The input of a stream.
pub fn input(stream: &Arc<AgentStream>) -> Input {
    BufReader::with_capacity(4096, StreamReader(stream.clone()))
}

/// A listener of either kind; accepting never waits.
pub enum AgentListener {
    /// Within a node.
    Unix(UnixListener),
    /// Between nodes.
    Tcp(TcpListener),
}

impl AgentListener {
    /// The next connection that waits, if any. Over a Unix socket only from the same user.
    pub fn accept(&self, deadline: Duration) -> io::Result<Option<AgentStream>> {
        let stream = match self {
            AgentListener::Unix(listener) => listener.accept().map(|(stream, _)| AgentStream::Unix(stream)),
            AgentListener::Tcp(listener) => listener.accept().map(|(stream, _)| AgentStream::Tcp(stream)),
        };
        let stream = match stream {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            other => other?,
        };
        stream.set_deadline(deadline)?;
        if matches!(stream, AgentStream::Unix(_)) && !socket::is_same_user(stream.as_fd())? {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(Some(stream))
    }
}

impl AsFd for AgentListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            AgentListener::Unix(listener) => listener.as_fd(),
            AgentListener::Tcp(listener) => listener.as_fd(),
        }
    }
}
