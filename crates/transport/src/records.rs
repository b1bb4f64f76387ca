//! A stream of bytes in records: a side reads exactly what the other side wrote.
//!
//! A reader returns no byte of a record before it has verified the whole record. It reads a large record directly to its
//! destination if there is room, and small records to a buffer of its own. It reads to the end of the current record together
//! with the head of the next one. Only when it does not know what follows, it reads a little more. So a small message or a
//! large record costs one call.
//!
//! A writer sends several records with one call. It copies small pieces. A large piece of memory that does not change while
//! it is sent is not copied: the writer makes the tag and sends the bytes from where they are. Memory of the pool may change at
//! any time, so a server copies it first.

use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;

use pario_wire::{MAX_RECORD, RECORD_HEAD, RecordOpener, RecordSealer, TAG};

use crate::stream::Stream;

/// How much is read when it is not known what comes: small messages as a whole, and little of large ones.
const GUESS: usize = 1024;

/// Records of fewer bytes are always taken to memory of the reader's own.
const DIRECT: usize = 16 << 10;

/// Most bytes of records that are sent together: enough for few calls, and few enough for the processor's cache.
const BATCH: usize = 4 * (RECORD_HEAD + MAX_RECORD + TAG) + TOGETHER;

/// A payload of at least so many bytes is sent from where it is. Copying fewer costs less than another piece of a message.
const IN_PLACE: usize = 16 << 10;

/// A payload of at most so many bytes goes into one record with what stands before it.
const TOGETHER: usize = 8 << 10;

/// Why nothing more can be read.
#[derive(Debug)]
pub enum RecordReadError {
    /// The stream says so; `WouldBlock`: not now.
    Stream(io::Error),
    /// What came is not what the other side has sent.
    Tampered,
}

impl From<RecordReadError> for io::Error {
    fn from(error: RecordReadError) -> io::Error {
        match error {
            RecordReadError::Stream(error) => error,
            RecordReadError::Tampered => io::Error::other(pario_wire::Error::Tampered),
        }
    }
}

/// What comes out of a stream.
#[derive(Debug)]
pub struct RecordReader {
    opener: RecordOpener,
    buffer: Vec<u8>,
    /// Which bytes of the buffer are verified and not handed out.
    verified: Range<usize>,
    /// Which bytes of it came after those.
    raw: Range<usize>,
    direct: Option<DirectRecord>,
}

/// A record whose bytes go to where they are wanted.
#[derive(Debug)]
struct DirectRecord {
    /// Where that is.
    address: usize,
    len: usize,
    filled: usize,
    /// The tag and the head of the next record, as much of them as is here.
    tail: [u8; TAG + RECORD_HEAD],
    tail_filled: usize,
}

impl RecordReader {
    /// Before the first record.
    pub fn new(opener: RecordOpener) -> RecordReader {
        RecordReader { opener, buffer: Vec::new(), verified: 0..0, raw: 0..0, direct: None }
    }

    /// Reads some bytes; 0 at the end of the stream. After an error of the stream the next call has to name the same
    /// memory, which may have been changed by then.
    ///
    /// # Panics
    /// If it does not.
    pub fn read(&mut self, stream: &Stream, out: &mut [u8]) -> Result<usize, RecordReadError> {
        if out.is_empty() {
            return Ok(0);
        }
        while self.verified.is_empty() {
            if self.direct.is_some() {
                return self.read_direct(stream, out);
            }
            match self.length()? {
                Some(len) if self.raw.len() >= RECORD_HEAD + len + TAG => self.open(len)?,
                Some(len) if len >= DIRECT && len <= out.len() => self.begin_direct(len, out),
                known => {
                    if self.fill(stream, known).map_err(RecordReadError::Stream)? == 0 {
                        return Ok(0);
                    }
                }
            }
        }
        let len = self.verified.len().min(out.len());
        out[..len].copy_from_slice(&self.buffer[self.verified.start..self.verified.start + len]);
        self.verified.start += len;
        Ok(len)
    }

    /// Whether there is something to read that will not show as something in the stream.
    pub fn has_more(&self) -> bool {
        let has_record = || match self.length() {
            Ok(len) => len.is_some_and(|len| self.raw.len() >= RECORD_HEAD + len + TAG),
            // What is wrong shows when it is read.
            Err(_) => true,
        };
        self.direct.is_none() && (!self.verified.is_empty() || has_record())
    }

    /// What it verifies with. Nothing must have come that was not handed out.
    pub(crate) fn into_opener(self) -> RecordOpener {
        assert!(self.verified.is_empty() && self.raw.is_empty() && self.direct.is_none(), "bytes are left");
        self.opener
    }

    /// The length of the record at hand, if that is known.
    fn length(&self) -> Result<Option<usize>, RecordReadError> {
        match self.buffer[self.raw.clone()].first_chunk::<RECORD_HEAD>() {
            None => Ok(None),
            Some(head) => RecordOpener::length(*head).map(Some).map_err(|_| RecordReadError::Tampered),
        }
    }

    /// Verifies a record that is in the buffer.
    fn open(&mut self, len: usize) -> Result<(), RecordReadError> {
        let start = self.raw.start + RECORD_HEAD;
        let (bytes, after) = self.buffer[start..self.raw.end].split_at_mut(len);
        let tag = after.first_chunk::<TAG>().ok_or(RecordReadError::Tampered)?;
        self.opener.open(bytes, tag).map_err(|_| RecordReadError::Tampered)?;
        self.verified = start..start + len;
        self.raw.start = start + len + TAG;
        Ok(())
    }

    /// Reads from the stream what is missing of a record, whose length may be known.
    fn fill(&mut self, stream: &Stream, len: Option<usize>) -> io::Result<usize> {
        let held = self.raw.len();
        if self.raw.start > 0 {
            self.buffer.copy_within(self.raw.clone(), 0);
            (self.raw, self.verified) = (0..held, 0..0);
        }
        let upto = len.map_or(GUESS, |len| RECORD_HEAD + len + TAG + RECORD_HEAD);
        if self.buffer.len() < upto {
            self.buffer.resize(upto, 0);
        }
        let count = again(|| stream.read(&mut self.buffer[held..upto]))?;
        self.raw.end += count;
        Ok(count)
    }

    /// The record at hand, not all of which is here, goes to this memory.
    fn begin_direct(&mut self, len: usize, out: &mut [u8]) {
        let here = &self.buffer[self.raw.start + RECORD_HEAD..self.raw.end];
        let filled = here.len().min(len);
        out[..filled].copy_from_slice(&here[..filled]);
        let mut tail = [0; TAG + RECORD_HEAD];
        let tail_filled = here.len() - filled;
        tail[..tail_filled].copy_from_slice(&here[filled..]);
        self.direct = Some(DirectRecord { address: out.as_ptr() as usize, len, filled, tail, tail_filled });
        (self.raw, self.verified) = (0..0, 0..0);
    }

    /// Goes on with it; how many bytes it has, once all of them are verified.
    fn read_direct(&mut self, stream: &Stream, out: &mut [u8]) -> Result<usize, RecordReadError> {
        let Some(direct) = &mut self.direct else { return Ok(0) };
        let same = direct.address == out.as_ptr() as usize && direct.len <= out.len();
        assert!(same, "a record was to be read to other memory");
        let out = &mut out[..direct.len];
        while direct.tail_filled < TAG {
            let mut room = [
                IoSliceMut::new(&mut out[direct.filled..]),
                IoSliceMut::new(&mut direct.tail[direct.tail_filled..]),
            ];
            let count = again(|| stream.read_vectored(&mut room)).map_err(RecordReadError::Stream)?;
            if count == 0 {
                return Ok(0);
            }
            let of_record = count.min(direct.len - direct.filled);
            direct.filled += of_record;
            direct.tail_filled += count - of_record;
        }
        let (tag, head) =
            direct.tail[..direct.tail_filled].split_first_chunk().ok_or(RecordReadError::Tampered)?;
        self.opener.open(out, tag).map_err(|_| RecordReadError::Tampered)?;
        // The buffer had the head of this record, so it has room for that of the next.
        self.buffer[..head.len()].copy_from_slice(head);
        self.raw = 0..head.len();
        self.direct = None;
        Ok(out.len())
    }
}

/// Does something again if a signal came in between.
fn again(mut act: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match act() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Puts records into a stream.
///
/// Records wait until they are sent, several at a time. Their heads and tags are in a buffer. The bytes of small records are
/// there as well; those of large ones may stay where they are.
#[derive(Debug)]
pub struct RecordWriter {
    sealer: RecordSealer,
    buffer: Vec<u8>,
    /// How many bytes of the buffer belong to records that are not sent.
    filled: usize,
    /// The records whose bytes are not in the buffer: where they belong there, and how many they are.
    in_place: Vec<(usize, usize)>,
    /// Bytes of all these records.
    total: usize,
    /// How many of them are sent.
    sent: usize,
}

impl RecordWriter {
    /// Before the first record.
    pub fn new(sealer: RecordSealer) -> RecordWriter {
        RecordWriter { sealer, buffer: Vec::new(), filled: 0, in_place: Vec::new(), total: 0, sent: 0 }
    }

    /// What it seals with.
    pub(crate) fn into_sealer(self) -> RecordSealer {
        self.sealer
    }

    /// How much of a frame goes into its next record, if so much is left of its front, head and body, and of its payload. A
    /// large payload begins with a record of its own, so that the other side can take it to where it belongs.
    pub fn next_len(front: usize, payload: usize) -> usize {
        let len = if front > 0 && payload > TOGETHER { front } else { front + payload };
        len.min(MAX_RECORD)
    }

    /// Whether there is room for another record of so many bytes beside those that are not sent.
    pub fn has_room(&self, len: usize) -> bool {
        self.total + RECORD_HEAD + len + TAG <= BATCH
    }

    /// Makes a record of so many bytes, at most [`MAX_RECORD`], that `fill` puts in their place.
    ///
    /// # Panics
    /// If there is no room for it.
    pub fn seal(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) {
        let record = self.reserve(len, RECORD_HEAD + len + TAG);
        fill(&mut self.buffer[record.clone()][RECORD_HEAD..RECORD_HEAD + len]);
        self.sealer.seal(&mut self.buffer[record]);
    }

    /// Whether so many bytes are better sent from where they are.
    pub fn seals_in_place(&self, len: usize) -> bool {
        len >= IN_PLACE && self.sealer.seals_in_place()
    }

    /// Makes a record of bytes that must not change before it is [sent](RecordWriter::send).
    ///
    /// # Panics
    /// If there is no room for it, or these bytes have to be [copied](RecordWriter::seals_in_place).
    pub fn seal_in_place(&mut self, bytes: &[u8]) {
        let record = self.reserve(bytes.len(), RECORD_HEAD + TAG);
        let (head, tag) = self.sealer.seal_in_place(bytes);
        let at = record.start + RECORD_HEAD;
        self.buffer[record.start..at].copy_from_slice(&head);
        self.buffer[at..record.end].copy_from_slice(&tag);
        self.in_place.push((at, bytes.len()));
    }

    /// Room in the buffer for a part of another record.
    fn reserve(&mut self, len: usize, size: usize) -> Range<usize> {
        assert!(self.has_room(len), "records are still to be sent");
        let start = self.filled;
        self.filled += size;
        self.total += RECORD_HEAD + len + TAG;
        if self.buffer.len() < self.filled {
            self.buffer.resize(self.filled, 0);
        }
        start..self.filled
    }

    /// Sends what the stream takes; an error, such as `WouldBlock`, if that is not all. `in_place` are the bytes of the records
    /// that were [sealed in place](RecordWriter::seal_in_place), in the same order.
    ///
    /// # Panics
    /// If these are more or fewer.
    pub fn send(&mut self, stream: &Stream, in_place: &[&[u8]]) -> io::Result<()> {
        assert!(in_place.iter().map(|bytes| bytes.len()).eq(self.in_place.iter().map(|(_, len)| *len)));
        while !self.is_sent() {
            let mut slices = Vec::with_capacity(2 * in_place.len() + 1);
            let mut from = 0;
            for (bytes, (at, _)) in in_place.iter().zip(&self.in_place) {
                slices.push(IoSlice::new(&self.buffer[from..*at]));
                slices.push(IoSlice::new(bytes));
                from = *at;
            }
            slices.push(IoSlice::new(&self.buffer[from..self.filled]));
            let mut left = &mut slices[..];
            IoSlice::advance_slices(&mut left, self.sent);
            self.sent += again(|| stream.write_vectored(left))?;
        }
        self.in_place.clear();
        (self.filled, self.total, self.sent) = (0, 0, 0);
        Ok(())
    }

    /// Whether nothing is left to send.
    pub fn is_sent(&self) -> bool {
        self.sent == self.total
    }
}
