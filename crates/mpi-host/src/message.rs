//! Nonblocking messages between ranks.
//!
//! A [`Message`] owns its memory until the host has completed it. Dropping an incomplete message leaks its memory,
//! because the host may still use it.

use crate::comm::Comm;
use crate::error::HostError;
use crate::handles::Host;
use std::ffi::{c_int, c_void};

/// A message in progress, or an allgather of several ranks.
pub struct Message {
    host: &'static Host,
    /// The request, until it is complete.
    request: Option<usize>,
    bytes: Vec<u8>,
    /// The send buffer and the counts of an allgather.
    buffers: Option<Box<GatherBuffers>>,
}

struct GatherBuffers {
    from: Vec<u8>,
    counts: Vec<c_int>,
    displacements: Vec<c_int>,
}

/// The largest number of bytes in one message.
pub const MAX_MESSAGE: usize = c_int::MAX as usize;

impl Comm {
    /// Starts sending bytes, at most [`MAX_MESSAGE`], to a rank.
    pub fn send(self, to: u32, tag: u16, bytes: Vec<u8>) -> Result<Message, HostError> {
        let host = self.host();
        let (at, len) = (bytes.as_ptr().cast::<c_void>(), length(bytes.len())?);
        let mut request = 0;
        // SAFETY: the bytes live in the message until the request is complete; a zeroed word for the handle.
        let code = unsafe {
            (host.f.isend)(at, len, self.byte(), to as c_int, c_int::from(tag), self.raw(), &mut request)
        };
        host.check("MPI_Isend", code)?;
        Ok(Message { host, request: Some(request), bytes, buffers: None })
    }

    /// Starts receiving exactly `len` bytes from a rank.
    pub fn receive(self, from: u32, tag: u16, len: usize) -> Result<Message, HostError> {
        let host = self.host();
        let mut bytes = vec![0u8; len];
        let (at, len) = (bytes.as_mut_ptr().cast::<c_void>(), length(len)?);
        let mut request = 0;
        // SAFETY: as in `send`.
        let code = unsafe {
            (host.f.irecv)(at, len, self.byte(), from as c_int, c_int::from(tag), self.raw(), &mut request)
        };
        host.check("MPI_Irecv", code)?;
        Ok(Message { host, request: Some(request), bytes, buffers: None })
    }

    /// Starts an allgather: every rank gets the bytes of all ranks, in rank order. `lengths` has the number of bytes
    /// of each rank. Collective.
    pub fn start_allgather(self, mine: Vec<u8>, lengths: &[usize]) -> Result<Message, HostError> {
        let host = self.host();
        let mut counts = Vec::with_capacity(lengths.len());
        let mut displacements = Vec::with_capacity(lengths.len());
        let mut total = 0;
        for len in lengths {
            counts.push(length(*len)?);
            displacements.push(length(total)?);
            total += len;
        }
        let mut bytes = vec![0u8; total];
        let buffers = Box::new(GatherBuffers { from: mine, counts, displacements });
        let (from, len) = (buffers.from.as_ptr().cast::<c_void>(), length(buffers.from.len())?);
        let to = bytes.as_mut_ptr().cast::<c_void>();
        let (counts, displacements) = (buffers.counts.as_ptr(), buffers.displacements.as_ptr());
        let mut request = 0;
        // SAFETY: all buffers live in the message until the request is complete.
        let code = unsafe {
            let (byte, comm) = (self.byte(), self.raw());
            (host.f.iallgatherv)(from, len, byte, to, counts, displacements, byte, comm, &mut request)
        };
        host.check("MPI_Iallgatherv", code)?;
        Ok(Message { host, request: Some(request), bytes, buffers: Some(buffers) })
    }

    /// Splits the communicator: ranks with the same colour form a new one, ranks without a colour are in none.
    /// Collective.
    pub fn split(self, colour: Option<u32>) -> Result<Option<crate::comm::OwnedComm>, HostError> {
        let host = self.host();
        let colour = colour.map_or(host.constants.number.undefined as c_int, |colour| colour as c_int);
        let mut raw = 0;
        // SAFETY: handles by value; writes one handle into a zeroed word.
        let code = unsafe { (host.f.comm_split)(self.raw(), colour, 0, &mut raw) };
        host.check("MPI_Comm_split", code)?;
        if colour == host.constants.number.undefined as c_int {
            return Ok(None);
        }
        Comm::new(host, host.handle(raw)).return_errors().map(Some)
    }
}

impl Message {
    /// The received bytes (none for a send) once the message is complete. It must not be tested again afterwards.
    pub fn test(&mut self) -> Result<Option<Vec<u8>>, HostError> {
        let Some(request) = &mut self.request else { return Ok(Some(Vec::new())) };
        let mut done = 0;
        let ignore = self.host.constants.number.status_ignore as usize as *mut c_void;
        // SAFETY: a request variable of ours; the flag is an int.
        let code = unsafe { (self.host.f.test)(request, &mut done, ignore) };
        self.host.check("MPI_Test", code)?;
        if done == 0 {
            return Ok(None);
        }
        self.request = None;
        self.buffers = None;
        Ok(Some(std::mem::take(&mut self.bytes)))
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        if self.request.is_some() {
            std::mem::forget(std::mem::take(&mut self.bytes));
            std::mem::forget(self.buffers.take());
        }
    }
}

impl Comm {
    /// Makes progress in the host's messages. A rank that waits for other ranks without calling the host must do this
    /// from time to time, or a message that another rank waits for may never be sent.
    ///
    /// It probes for a message with tag 0, and must be called on a private communicator that never has one: a probe
    /// that finds a message, or that can find only messages of this process itself, makes no progress.
    pub fn make_progress(self) {
        let host = self.host();
        let (mut flag, ignore) = (0, host.constants.number.status_ignore as usize as *mut c_void);
        let any = host.constants.number.any_source as c_int;
        // SAFETY: a handle by value; writes one int. What it finds, or that it fails, is of no interest.
        unsafe { (host.f.iprobe)(any, 0, self.raw(), &mut flag, ignore) };
    }
}

fn length(len: usize) -> Result<c_int, HostError> {
    c_int::try_from(len).map_err(|_| HostError::Contents("a message of more than 2^31 bytes"))
}
