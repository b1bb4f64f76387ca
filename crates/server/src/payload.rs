//! The payload of the request under way, as much of it as is here.
//!
//! A large write is taken a chunk at a time: its bytes go on to the pool while they are in the processor's cache, and
//! what a client has not sent yet holds up nobody. The rest waits in the socket. Every byte that is here was verified.

use std::io::ErrorKind::WouldBlock;
use std::ops::Range;

use pario_transport::{RecordReadError, RecordReader, Stream};

/// Buffers that grew beyond this are given back after use.
pub(crate) const KEEP: usize = (1 << 20) + (64 << 10);

#[derive(Default)]
pub(crate) struct Payload {
    buffer: Vec<u8>,
    /// Which bytes of the buffer are here and not used yet.
    here: Range<usize>,
    /// How many are still to come.
    left: usize,
    /// How many are wanted at a time.
    chunk: usize,
    /// How many came since somebody asked.
    received: u64,
}

impl Payload {
    /// One of so many bytes follows in the socket, to be taken in chunks.
    pub fn expect(&mut self, total: usize, chunk: usize) {
        self.clear();
        self.left = total;
        self.chunk = chunk.min(total);
        if self.buffer.len() < self.chunk {
            self.buffer.resize(self.chunk, 0);
        }
    }

    /// Whether a chunk is here, or all of the rest.
    pub fn receive(&mut self, reader: &mut RecordReader, stream: &Stream) -> Result<bool, RecordReadError> {
        if self.left > 0 && self.here.start > 0 {
            self.buffer.copy_within(self.here.clone(), 0);
            self.here = 0..self.here.len();
        }
        while self.left > 0 && self.here.end < self.chunk {
            let upto = self.chunk.min(self.here.end + self.left);
            match reader.read(stream, &mut self.buffer[self.here.end..upto]) {
                Ok(0) => return Err(RecordReadError::Stream(std::io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => {
                    self.here.end += count;
                    self.left -= count;
                    self.received += count as u64;
                }
                Err(RecordReadError::Stream(e)) if e.kind() == WouldBlock => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// Reads what nobody wants; whether all of it is gone.
    pub fn discard(&mut self, reader: &mut RecordReader, stream: &Stream) -> Result<bool, RecordReadError> {
        while self.left > 0 {
            if !self.receive(reader, stream)? {
                return Ok(false);
            }
            self.here = 0..0;
        }
        Ok(true)
    }

    /// What is here.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.here.clone()]
    }

    /// So many of these are used.
    pub fn consume(&mut self, count: usize) {
        assert!(count <= self.here.len());
        self.here.start += count;
    }

    /// Whether nothing comes after what is here.
    pub fn is_last(&self) -> bool {
        self.left == 0
    }

    pub fn take_received(&mut self) -> u64 {
        std::mem::take(&mut self.received)
    }

    /// The request is over, and all of its payload is read.
    pub fn clear(&mut self) {
        assert_eq!(self.left, 0);
        self.here = 0..0;
        if self.buffer.len() > KEEP {
            self.buffer = Vec::new();
        }
    }
}
