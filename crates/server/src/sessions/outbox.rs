//! The reply that a session is sending: first head and body, then the payload.

use std::io::ErrorKind::WouldBlock;

use pario_transport::{RecordWriter, Stream};
use pario_wire::{Envelope, Reply, encode_reply};

use super::payload::MAX_KEPT;
use super::session_error::SessionError;
use crate::pool::PinnedPiece;

#[derive(Default)]
pub(super) struct Outbox {
    /// Makes the records, after the handshake.
    pub writer: Option<RecordWriter>,
    front: Vec<u8>,
    payload: Vec<u8>,
    /// How many bytes of `payload` belong to the reply.
    payload_len: usize,
    /// How many bytes of `front` and `payload` are in records.
    sealed: usize,
}

impl Outbox {
    /// Reserves the buffer for a reply's payload. The outbox must be empty.
    pub fn reserve(&mut self, len: usize) -> &mut [u8] {
        if self.payload.len() < len {
            self.payload.resize(len, 0);
        }
        &mut self.payload[..len]
    }

    /// Queues a reply whose payload is in the reserved buffer.
    pub fn put_reply(&mut self, to: Envelope, reply: &Reply, payload: usize) -> Result<(), SessionError> {
        encode_reply(&mut self.front, to, reply, payload as u64)?;
        self.payload_len = payload;
        Ok(())
    }

    /// Sends a reply whose payload lies in pinned blocks, a record at a time: clients may change the blocks meanwhile, but not the
    /// bytes of a record. Bytes that the socket does not accept at once are copied, so a slow client keeps no blocks pinned.
    pub fn send_pinned(
        &mut self,
        stream: &Stream,
        to: Envelope,
        reply: &Reply,
        mut pieces: Vec<PinnedPiece>,
        payload: usize,
    ) -> Result<(), SessionError> {
        encode_reply(&mut self.front, to, reply, payload as u64)?;
        let Some(writer) = &mut self.writer else { return Err(SessionError::Disconnected) };
        writer.seal(self.front.len(), |record| record.copy_from_slice(&self.front));
        self.front.clear();
        let mut left = payload;
        while left > 0 {
            while left > 0 && writer.has_room(RecordWriter::next_len(0, left)) {
                let len = RecordWriter::next_len(0, left);
                writer.seal(len, |record| copy_front(&mut pieces, record));
                left -= len;
            }
            match writer.send(stream, &[]) {
                Ok(()) => {}
                Err(e) if e.kind() == WouldBlock => break,
                Err(_) => return Err(SessionError::Disconnected),
            }
        }
        copy_front(&mut pieces, self.reserve(left));
        self.payload_len = left;
        Ok(())
    }

    /// Sends as much as the socket accepts; whether everything is sent.
    pub fn send(&mut self, stream: &Stream) -> Result<bool, SessionError> {
        let Some(writer) = &mut self.writer else { return Ok(true) };
        loop {
            match writer.send(stream, &[]) {
                Ok(()) => {}
                Err(e) if e.kind() == WouldBlock => return Ok(false),
                Err(_) => return Err(SessionError::Disconnected),
            }
            let whole = self.front.len() + self.payload_len;
            if self.sealed == whole {
                break;
            }
            while self.sealed < whole {
                let front = &self.front[self.sealed.min(self.front.len())..];
                let payload = &self.payload[self.sealed.saturating_sub(self.front.len())..self.payload_len];
                let len = RecordWriter::next_len(front.len(), payload.len());
                if !writer.has_room(len) {
                    break;
                }
                writer.seal(len, |record| {
                    let (head, bytes) = record.split_at_mut(front.len().min(len));
                    head.copy_from_slice(&front[..head.len()]);
                    bytes.copy_from_slice(&payload[..bytes.len()]);
                });
                self.sealed += len;
            }
        }
        self.front.clear();
        (self.sealed, self.payload_len) = (0, 0);
        if self.payload.len() > MAX_KEPT {
            self.payload = Vec::new();
        }
        Ok(true)
    }
}

/// Copies bytes from the front of pieces, and removes them there.
fn copy_front(pieces: &mut Vec<PinnedPiece>, mut to: &mut [u8]) {
    let mut done = 0;
    while !to.is_empty() {
        let PinnedPiece { pin, range } = &mut pieces[done];
        let (here, rest) = to.split_at_mut(range.len().min(to.len()));
        pin.read(range.start, here);
        range.start += here.len() as u32;
        done += usize::from(range.start == range.end);
        to = rest;
    }
    pieces.drain(..done);
}
