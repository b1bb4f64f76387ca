//! Messages between ranks that go on while the caller does other things.
//!
//! A [`Message`] owns its memory until the host is done with it. One that is dropped under way keeps its
//! memory for ever: the host may still use it.

use crate::comm::Comm;
use crate::error::HostError;
use crate::handles::Host;
use std::ffi::{c_int, c_void};

/// A message under way, or an exchange of several.
pub struct Message {
    host: &'static Host,
    /// The request, until it is done.
    request: Option<usize>,
    bytes: Vec<u8>,
    /// What an exchange reads from, and its counts.
    held: Option<Box<Held>>,
}

struct Held {
    from: Vec<u8>,
    counts: Vec<c_int>,
    places: Vec<c_int>,
}

/// The most bytes of one message.
pub const LONGEST: usize = c_int::MAX as usize;

impl Comm {
    /// Starts sending bytes, at most [`LONGEST`], to a rank.
    pub fn send(self, to: u32, tag: u16, bytes: Vec<u8>) -> Result<Message, HostError> {
        let host = self.host();
        let (at, len) = (bytes.as_ptr().cast::<c_void>(), length(bytes.len())?);
        let mut request = 0;
        // SAFETY: the bytes live in the message until the request is complete; a zeroed word for the handle.
        let code = unsafe {
            (host.f.isend)(at, len, self.byte(), to as c_int, c_int::from(tag), self.raw(), &mut request)
        };
        host.check("MPI_Isend", code)?;
        Ok(Message { host, request: Some(request), bytes, held: None })
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
        Ok(Message { host, request: Some(request), bytes, held: None })
    }

    /// Starts an exchange in which every rank gets everybody's bytes, in rank order; `lengths` says how many
    /// each brings. Collective.
    pub fn start_allgather(self, mine: Vec<u8>, lengths: &[usize]) -> Result<Message, HostError> {
        let host = self.host();
        let mut counts = Vec::with_capacity(lengths.len());
        let mut places = Vec::with_capacity(lengths.len());
        let mut total = 0;
        for len in lengths {
            counts.push(length(*len)?);
            places.push(length(total)?);
            total += len;
        }
        let mut bytes = vec![0u8; total];
        let held = Box::new(Held { from: mine, counts, places });
        let (from, len) = (held.from.as_ptr().cast::<c_void>(), length(held.from.len())?);
        let to = bytes.as_mut_ptr().cast::<c_void>();
        let (counts, places) = (held.counts.as_ptr(), held.places.as_ptr());
        let mut request = 0;
        // SAFETY: all buffers live in the message until the request is complete.
        let code = unsafe {
            let (byte, comm) = (self.byte(), self.raw());
            (host.f.iallgatherv)(from, len, byte, to, counts, places, byte, comm, &mut request)
        };
        host.check("MPI_Iallgatherv", code)?;
        Ok(Message { host, request: Some(request), bytes, held: Some(held) })
    }

    /// Splits the communicator: ranks of one colour form one, those without a colour none. Collective.
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
        Comm::new(host, host.handle(raw)).quiet().map(Some)
    }
}

impl Message {
    /// What was received, or nothing for a send, once it is complete. Then it must not be asked again.
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
        self.held = None;
        Ok(Some(std::mem::take(&mut self.bytes)))
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        if self.request.is_some() {
            std::mem::forget(std::mem::take(&mut self.bytes));
            std::mem::forget(self.held.take());
        }
    }
}

impl Comm {
    /// Lets the host bring its messages forward. A rank that waits for others without calling the host must do
    /// this now and then, or a message that another rank waits for may never leave.
    ///
    /// It asks for a message of tag 0, and must be on a communicator of ours that never has one: a probe that
    /// finds something, or that can only find messages of this process itself, makes no progress.
    pub fn poke(self) {
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
