//! Listens for connections.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use crate::address::Address;
use crate::error::Error;
use crate::socket_options::SocketOptions;
use crate::stream::Stream;
use crate::sys;

/// A nonblocking listener. Dropping it removes the file of a Unix socket.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    address: Address,
    tuning: SocketOptions,
    /// Removed when this is dropped.
    _file: Option<SocketFile>,
}

#[derive(Debug)]
enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// The file of a Unix socket, by which it is found.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl Listener {
    /// Listens at an address. TCP port 0 is any free one. Only its owner may use a Unix socket; the file of a server that
    /// is gone is replaced, that of one that listens is not.
    pub fn bind(address: &Address, tuning: SocketOptions) -> Result<Listener, Error> {
        let bound = match address {
            Address::Unix(path) => {
                bind_unix(path).map(|(socket, file)| (socket, address.clone(), Some(file)))
            }
            Address::Tcp(host, port) => {
                bind_tcp(host, *port).map(|(socket, address)| (socket, address, None))
            }
        };
        let (socket, address, file) =
            bound.map_err(|cause| Error::Listen { address: address.to_string(), cause })?;
        Ok(Listener { socket, address, tuning, _file: file })
    }

    /// Its address, with the actual port.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Accepts the next connection without waiting; `None` if there is none.
    pub fn accept(&self) -> io::Result<Option<Stream>> {
        let accepted = match &self.socket {
            Socket::Unix(socket) => socket.accept().map(|(stream, _)| Stream::Unix(stream)),
            Socket::Tcp(socket) => socket.accept().map(|(stream, _)| Stream::Tcp(stream)),
        };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            // The client has gone before it was accepted. The next call accepts other connections.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => return Ok(None),
            Err(error) => return Err(error),
        };
        stream.set_nonblocking(true)?;
        stream.tune(&self.tuning)?;
        Ok(Some(stream))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Unix(socket) => socket.as_fd(),
            Socket::Tcp(socket) => socket.as_fd(),
        }
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

fn bind_tcp(host: &str, port: u16) -> io::Result<(Socket, Address)> {
    let socket = TcpListener::bind((host, port))?;
    socket.set_nonblocking(true)?;
    let port = socket.local_addr()?.port();
    Ok((Socket::Tcp(socket), Address::Tcp(host.to_owned(), port)))
}

/// Binds beside the path and renames the socket to it: so the socket is never accessible to others, and there is always one
/// while a stale one is replaced.
fn bind_unix(path: &Path) -> io::Result<(Socket, SocketFile)> {
    refuse_if_in_use(path)?;
    let mut beside = path.as_os_str().to_owned();
    beside.push("~");
    let beside = PathBuf::from(beside);
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = UnixListener::bind(&beside)?;
    let ready = (|| {
        fs::set_permissions(&beside, fs::Permissions::from_mode(0o600))?;
        socket.set_nonblocking(true)?;
        let status = fs::symlink_metadata(&beside)?;
        fs::rename(&beside, path)?;
        Ok((status.dev(), status.ino()))
    })();
    match ready {
        Ok(identity) => Ok((Socket::Unix(socket), SocketFile { path: path.to_owned(), identity })),
        Err(error) => {
            // The reason is more useful than the error of the cleanup.
            let _ = fs::remove_file(&beside);
            Err(error)
        }
    }
}

fn refuse_if_in_use(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(status) if !status.file_type().is_socket() => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the path is taken by something else"));
        }
        Ok(_) => {}
    }
    match sys::connect_unix(path).map_err(|error| (error.kind(), error)) {
        Err((io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound, _)) => Ok(()),
        // It listens, and many connections wait for it.
        Ok(_) | Err((io::ErrorKind::WouldBlock, _)) => {
            Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there"))
        }
        Err((_, error)) => Err(error),
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A successor may have put its own socket there.
        let ours = fs::symlink_metadata(&self.path).is_ok_and(|s| (s.dev(), s.ino()) == self.identity);
        if ours {
            // A leftover is stale, and the next server replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}
