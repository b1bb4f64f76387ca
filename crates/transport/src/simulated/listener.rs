//! Listens for connections of simulated processes.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use pario_runtime::simulation::network::{self, SocketNumber};

use crate::address::Address;
use crate::error::Error;
use crate::socket_options::SocketOptions;
use crate::stream::Stream;

/// A nonblocking listener.
#[derive(Debug)]
pub struct Listener {
    socket: SocketNumber,
    address: Address,
}

impl Listener {
    /// Listens at an address. TCP port 0 is any free one.
    pub fn bind(address: &Address, _tuning: SocketOptions) -> Result<Listener, Error> {
        let bound = match address {
            Address::Unix(path) => network::bind_unix(path).map(|socket| (socket, address.clone())),
            Address::Tcp(host, port) => {
                network::bind_tcp(*port).map(|(socket, port)| (socket, Address::Tcp(host.clone(), port)))
            }
        };
        let (socket, address) =
            bound.map_err(|cause| Error::Listen { address: address.to_string(), cause })?;
        Ok(Listener { socket, address })
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Accepts the next connection without waiting.
    pub fn accept(&self) -> io::Result<Option<Stream>> {
        Ok(network::accept(self.socket)?.map(Stream::accepted))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        network::close(self.socket);
    }
}

impl AsFd for Listener {
    #[allow(unsafe_code)]
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: no such descriptor exists, and only simulated calls get this number.
        unsafe { BorrowedFd::borrow_raw(self.socket) }
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.socket
    }
}
