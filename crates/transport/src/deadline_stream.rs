//! Reads and writes all bytes on a nonblocking stream, with a deadline.

use std::io;
use std::os::fd::OwnedFd;

use pario_runtime::time::Instant;

use crate::error::{ConnectionAction, Error};
use crate::socket_options::Interest;
use crate::stream::Stream;

/// The deadline, the peer and the operation of a wait.
#[derive(Clone, Copy)]
pub(crate) struct DeadlineStream<'a> {
    pub(crate) stream: &'a Stream,
    pub(crate) peer: &'a str,
    pub(crate) action: ConnectionAction,
    pub(crate) deadline: Instant,
}

impl DeadlineStream<'_> {
    pub(crate) fn timed_out(&self) -> Error {
        Error::TimedOut { action: self.action, peer: self.peer.to_owned() }
    }

    pub(crate) fn closed(&self) -> Error {
        Error::Closed { action: self.action, peer: self.peer.to_owned() }
    }

    pub(crate) fn unexpected_message(&self, what: &'static str) -> Error {
        Error::UnexpectedMessage { peer: self.peer.to_owned(), what }
    }

    pub(crate) fn malformed(&self, cause: pario_wire::Error) -> Error {
        Error::Malformed { peer: self.peer.to_owned(), cause }
    }

    pub(crate) fn tampered(&self) -> Error {
        Error::Tampered { peer: self.peer.to_owned() }
    }

    pub(crate) fn failed(&self, cause: io::Error) -> Error {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, InvalidData, TimedOut, UnexpectedEof};
        match cause.kind() {
            BrokenPipe | ConnectionReset | UnexpectedEof => self.closed(),
            TimedOut => self.timed_out(),
            InvalidData => self.unexpected_message("no descriptor came where one was promised"),
            _ => Error::System { action: self.action, peer: self.peer.to_owned(), cause },
        }
    }

    /// Repeats an operation that may have to wait for the stream until it is done.
    fn until_done<T>(&self, interest: Interest, mut act: impl FnMut() -> io::Result<T>) -> Result<T, Error> {
        loop {
            match act() {
                Ok(done) => return Ok(done),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(interest)?,
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    pub(crate) fn wait(&self, interest: Interest) -> Result<(), Error> {
        let ready = self.stream.wait(interest, self.deadline).map_err(|error| self.failed(error))?;
        if ready.read || ready.write { Ok(()) } else { Err(self.timed_out()) }
    }

    pub(crate) fn write_all(&self, bytes: &[u8]) -> Result<(), Error> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let n = self.until_done(Interest::Write, || self.stream.write(rest))?;
            rest = &rest[n..];
        }
        Ok(())
    }

    pub(crate) fn read_exact(&self, bytes: &mut [u8]) -> Result<(), Error> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.until_done(Interest::Read, || self.stream.read(&mut bytes[filled..]))? {
                0 => return Err(self.closed()),
                n => filled += n,
            }
        }
        Ok(())
    }

    pub(crate) fn receive_descriptor(&self) -> Result<OwnedFd, Error> {
        self.until_done(Interest::Read, || self.stream.receive_descriptor())
    }
}
