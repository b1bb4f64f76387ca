//! A stream of bytes between two simulated processes.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use pario_runtime::simulation::network::{self, SocketNumber};
use pario_runtime::simulation::process::HostId;
use pario_runtime::simulation::scheduler;
use pario_runtime::time::Instant;

use crate::address::Address;
use crate::socket_options::{Interest, Ready, SocketOptions};
use crate::sys;

/// The byte that travels with a descriptor.
const MARK: u8 = b'D';

/// How long to let others go first when a Unix socket has too many waiting connections.
const CROWDED: Duration = Duration::from_millis(2);

/// A connected stream.
#[derive(Debug)]
pub struct Stream(SocketNumber);

/// The virtual time of an instant.
fn virtual_time(deadline: Instant) -> u64 {
    let left = deadline.saturating_duration_since(Instant::now());
    scheduler::now().saturating_add(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX / 4))
}

impl Stream {
    pub(crate) fn accepted(number: SocketNumber) -> Stream {
        Stream(number)
    }

    /// Two ends of one stream within this process.
    pub fn pair() -> io::Result<(Stream, Stream)> {
        let (one, other) = network::pair();
        Ok((Stream(one), Stream(other)))
    }

    /// Connects, within the deadline.
    pub fn connect(address: &Address, _tuning: &SocketOptions, deadline: Instant) -> io::Result<Stream> {
        match address {
            Address::Unix(path) => loop {
                match network::connect_unix(path) {
                    Ok(socket) => return Ok(Stream(socket)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        let left = deadline.saturating_duration_since(Instant::now());
                        if left.is_zero() {
                            return Err(io::ErrorKind::TimedOut.into());
                        }
                        pario_runtime::thread::sleep(left.min(CROWDED));
                    }
                    Err(error) => return Err(error),
                }
            },
            Address::Tcp(host, port) => {
                let host = host_of(host).ok_or(io::ErrorKind::NotFound)?;
                network::connect_tcp(host, *port, virtual_time(deadline)).map(Stream)
            }
        }
    }

    /// Whether both ends are on the same host for certain.
    pub fn is_local(&self) -> bool {
        network::is_local(self.0)
    }

    /// Streams never block here.
    pub fn set_nonblocking(&self, _nonblocking: bool) -> io::Result<()> {
        Ok(())
    }

    /// Without effect here.
    pub fn tune(&self, _tuning: &SocketOptions) -> io::Result<()> {
        Ok(())
    }

    /// Reads some bytes; 0 at the end of the stream.
    pub fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        network::read(self.0, bytes)
    }

    /// Reads some bytes into several buffers; 0 at the end of the stream.
    pub fn read_vectored(&self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match slices.iter_mut().find(|slice| !slice.is_empty()) {
            Some(slice) => network::read(self.0, slice),
            None => Ok(0),
        }
    }

    /// Writes some bytes from several buffers.
    pub fn write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        network::write(self.0, &bytes)
    }

    /// Writes some bytes.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        network::write(self.0, bytes)
    }

    /// Gives the other side a descriptor.
    pub fn send_descriptor(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        network::send_descriptor(self.0, MARK, descriptor.try_clone_to_owned()?)
    }

    /// The descriptor that the other side sends next.
    pub fn receive_descriptor(&self) -> io::Result<OwnedFd> {
        match network::receive_descriptor(self.0)? {
            None => Err(io::ErrorKind::UnexpectedEof.into()),
            Some((MARK, mut descriptors)) if descriptors.len() == 1 => Ok(descriptors.remove(0)),
            Some(_) => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// The user at the other end of a local stream.
    pub fn peer_user(&self) -> io::Result<Option<u32>> {
        Ok(self.is_local().then(sys::own_user))
    }

    /// The process at the other end of a local stream.
    pub fn peer_process(&self) -> io::Result<Option<u32>> {
        let process = network::peer_process(self.0)?;
        Ok(self.is_local().then_some(process.0))
    }

    /// Ends the stream in both directions.
    pub fn shutdown(&self) -> io::Result<()> {
        network::shutdown(self.0)
    }

    /// Waits until something can be done, or the deadline has passed.
    pub fn wait(&self, interest: Interest, deadline: Instant) -> io::Result<Ready> {
        let (read, write) = (interest != Interest::Write, interest != Interest::Read);
        let (readable, writable) = network::wait(self.0, read, write, virtual_time(deadline));
        Ok(Ready { read: readable, write: writable })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        network::close(self.0);
    }
}

impl AsFd for Stream {
    #[allow(unsafe_code)]
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: no such descriptor exists, and only simulated calls get this number.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

/// Simulated host N has the address 10.0.0.N.
fn host_of(host: &str) -> Option<HostId> {
    match host.parse::<IpAddr>().ok()? {
        IpAddr::V4(address) => Some(HostId(address.octets()[3].into())),
        IpAddr::V6(_) => None,
    }
}
