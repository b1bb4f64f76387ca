//! The payload of the request under way, as far as it has arrived.
//!
//! A large write is received a chunk at a time: its bytes go to the pool while they are in the processor's cache, and bytes that a
//! client has not sent yet delay no other client. The rest waits in the socket. Every byte in the buffer was verified.

use std::io::ErrorKind::WouldBlock;
use std::ops::Range;

use pario_transport::{RecordReadError, RecordReader, Stream};

/// Buffers that have grown beyond this size are freed after use.
pub(super) const MAX_KEPT: usize = (1 << 20) + (64 << 10);

#[derive(Default)]
pub(crate) struct Payload {
    buffer: Vec<u8>,
    /// The bytes of the buffer that have arrived and are not used yet.
    arrived: Range<usize>,
    /// How many bytes have not arrived.
    left: usize,
    /// How many bytes are received at a time.
    chunk: usize,
    /// How many bytes arrived since [`Payload::take_received`].
    received: u64,
}

impl Payload {
    /// Prepares for a payload of `total` bytes, which is received in chunks.
    pub fn expect(&mut self, total: usize, chunk: usize) {
        self.clear();
        self.left = total;
        self.chunk = chunk.min(total);
        if self.buffer.len() < self.chunk {
            self.buffer.resize(self.chunk, 0);
        }
    }

    /// Receives bytes; whether a chunk has arrived, or all of the rest.
    pub fn receive(&mut self, reader: &mut RecordReader, stream: &Stream) -> Result<bool, RecordReadError> {
        if self.left > 0 && self.arrived.start > 0 {
            self.buffer.copy_within(self.arrived.clone(), 0);
            self.arrived = 0..self.arrived.len();
        }
        while self.left > 0 && self.arrived.end < self.chunk {
            let upto = self.chunk.min(self.arrived.end + self.left);
            match reader.read(stream, &mut self.buffer[self.arrived.end..upto]) {
                Ok(0) => return Err(RecordReadError::Stream(std::io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => {
                    self.arrived.end += count;
                    self.left -= count;
                    self.received += count as u64;
                }
                Err(RecordReadError::Stream(e)) if e.kind() == WouldBlock => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// Receives and drops the rest of the payload; whether all of it has arrived.
    pub fn discard(&mut self, reader: &mut RecordReader, stream: &Stream) -> Result<bool, RecordReadError> {
        while self.left > 0 {
            if !self.receive(reader, stream)? {
                return Ok(false);
            }
            self.arrived = 0..0;
        }
        Ok(true)
    }

    /// The bytes that have arrived and are not used yet.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.arrived.clone()]
    }

    /// Marks so many of these bytes as used.
    pub fn consume(&mut self, count: usize) {
        assert!(count <= self.arrived.len());
        self.arrived.start += count;
    }

    /// Whether all of the payload has arrived.
    pub fn is_last(&self) -> bool {
        self.left == 0
    }

    pub fn take_received(&mut self) -> u64 {
        std::mem::take(&mut self.received)
    }

    /// Clears the buffer after a request whose payload has arrived.
    pub fn clear(&mut self) {
        assert_eq!(self.left, 0);
        self.arrived = 0..0;
        if self.buffer.len() > MAX_KEPT {
            self.buffer = Vec::new();
        }
    }
}
