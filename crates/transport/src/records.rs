//! A stream of bytes in records: what one side writes the other reads, and nothing that anybody else has put there.
//!
//! A reader takes a whole record out of the stream before it hands out any of it. It reads to the end of the record at
//! hand, and the head of the next one with it, so that large records cost one call each and nothing has to be moved; when
//! it does not know what comes it reads a little more, so that a small message costs one call as well. A writer holds one
//! record; what goes into it is copied, since it must not change once it has a tag.

use std::io;
use std::ops::Range;

use pario_wire::{MAX_RECORD, Opener, RECORD_HEAD, Sealer, TAG};

use crate::stream::Stream;

/// How much is read when it is not known what comes: small messages as a whole, and little of large ones.
const GUESS: usize = 1024;

/// Why nothing more can be read.
#[derive(Debug)]
pub enum ReadError {
    /// The stream says so; `WouldBlock`: not now.
    Stream(io::Error),
    /// What came is not what the other side has sent.
    Tampered,
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> io::Error {
        match error {
            ReadError::Stream(error) => error,
            ReadError::Tampered => io::Error::other(pario_wire::Error::Tampered),
        }
    }
}

/// What comes out of a stream.
#[derive(Debug)]
pub struct RecordReader {
    opener: Opener,
    buffer: Vec<u8>,
    /// Where the first byte lies that was verified and not handed out, and where these end.
    verified: Range<usize>,
    /// Where the first record begins that was not verified, and how far the buffer is filled.
    begin: usize,
    end: usize,
}

impl RecordReader {
    /// What it verifies with. Nothing must have come that was not handed out.
    pub(crate) fn into_opener(self) -> Opener {
        assert!(self.verified.is_empty() && self.begin == self.end, "bytes are left");
        self.opener
    }

    /// Before the first record.
    pub fn new(opener: Opener) -> RecordReader {
        RecordReader { opener, buffer: Vec::new(), verified: 0..0, begin: 0, end: 0 }
    }

    /// Reads some bytes; 0 at the end of the stream.
    pub fn read(&mut self, stream: &Stream, out: &mut [u8]) -> Result<usize, ReadError> {
        if out.is_empty() {
            return Ok(0);
        }
        while self.verified.is_empty() {
            if self.has_record()? {
                self.open()?;
            } else if self.fill(stream).map_err(ReadError::Stream)? == 0 {
                return Ok(0);
            }
        }
        let len = self.verified.len().min(out.len());
        out[..len].copy_from_slice(&self.buffer[self.verified.start..self.verified.start + len]);
        self.verified.start += len;
        Ok(len)
    }

    /// Whether there is something to read that will not show as something in the stream.
    pub fn has_more(&self) -> bool {
        // What is wrong shows when it is read.
        !self.verified.is_empty() || self.has_record().unwrap_or(true)
    }

    /// The length of the record at hand, if that is known.
    fn length(&self) -> Result<Option<usize>, ReadError> {
        match self.buffer[self.begin..self.end].first_chunk::<RECORD_HEAD>() {
            None => Ok(None),
            Some(head) => Opener::length(*head).map(Some).map_err(|_| ReadError::Tampered),
        }
    }

    fn has_record(&self) -> Result<bool, ReadError> {
        Ok(self.length()?.is_some_and(|length| self.end - self.begin >= length))
    }

    fn open(&mut self) -> Result<(), ReadError> {
        let Some(length) = self.length()? else { return Ok(()) };
        let record = &mut self.buffer[self.begin..self.begin + length];
        let bytes = self.opener.open(record).map_err(|_| ReadError::Tampered)?.len();
        let start = self.begin + RECORD_HEAD;
        self.verified = start..start + bytes;
        self.begin += length;
        Ok(())
    }

    /// Reads from the stream what is missing of a record. All that was verified is handed out.
    fn fill(&mut self, stream: &Stream) -> io::Result<usize> {
        let held = self.end - self.begin;
        if self.begin > 0 {
            self.buffer.copy_within(self.begin..self.end, 0);
            (self.begin, self.end, self.verified) = (0, held, 0..0);
        }
        // A length that is none was found out before.
        let upto = self.length().ok().flatten().map_or(GUESS, |length| length + RECORD_HEAD);
        if self.buffer.len() < upto {
            self.buffer.resize(upto, 0);
        }
        loop {
            match stream.read(&mut self.buffer[held..upto]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(count) => {
                    self.end += count;
                    return Ok(count);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// What goes into a stream.
#[derive(Debug)]
pub struct RecordWriter {
    sealer: Sealer,
    /// The record that is being sent, and room for longer ones.
    buffer: Vec<u8>,
    /// Which bytes of it are still to be sent.
    left: Range<usize>,
}

impl RecordWriter {
    /// What it seals with.
    pub(crate) fn into_sealer(self) -> Sealer {
        self.sealer
    }

    /// Before the first record.
    pub fn new(sealer: Sealer) -> RecordWriter {
        RecordWriter { sealer, buffer: Vec::new(), left: 0..0 }
    }

    /// Makes a record of the first bytes of these parts; how many: 0 if they are empty, and then there is no record.
    ///
    /// # Panics
    /// If the record before it is not sent.
    pub fn seal<'a>(&mut self, parts: impl Iterator<Item = &'a [u8]> + Clone) -> usize {
        let mut len = 0;
        for part in parts.clone() {
            len = MAX_RECORD.min(len + part.len());
            if len == MAX_RECORD {
                break;
            }
        }
        self.seal_with(len, |mut room| {
            for part in parts {
                let (here, rest) = room.split_at_mut(part.len().min(room.len()));
                here.copy_from_slice(&part[..here.len()]);
                room = rest;
                if room.is_empty() {
                    break;
                }
            }
        });
        len
    }

    /// Makes a record of so many bytes, at most [`MAX_RECORD`], that `fill` puts in their place.
    ///
    /// # Panics
    /// If the record before it is not sent.
    pub fn seal_with(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) {
        assert!(self.is_sent(), "a record is still to be sent");
        if len == 0 {
            return;
        }
        let whole = RECORD_HEAD + len + TAG;
        if self.buffer.len() < whole {
            self.buffer.resize(whole, 0);
        }
        fill(&mut self.buffer[RECORD_HEAD..RECORD_HEAD + len]);
        self.sealer.seal(&mut self.buffer[..whole]);
        self.left = 0..whole;
    }

    /// Sends what the stream takes of the record; an error, such as `WouldBlock`, if that is not all.
    pub fn send(&mut self, stream: &Stream) -> io::Result<()> {
        while !self.is_sent() {
            match stream.write(&self.buffer[self.left.clone()]) {
                Ok(count) => self.left.start += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether nothing is left to send.
    pub fn is_sent(&self) -> bool {
        self.left.is_empty()
    }
}
