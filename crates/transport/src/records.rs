//! A stream of bytes in records: a side reads exactly the bytes that the other side wrote.
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

/// The number of bytes to read when the next record is unknown: small messages as a whole, and little of large ones.
const GUESS: usize = 1024;

/// Smaller records are always read to the reader's own buffer.
const DIRECT: usize = 16 << 10;

/// The largest number of bytes of records that are sent together: enough for few calls, and few enough for the processor's
/// cache.
const BATCH: usize = 4 * (RECORD_HEAD + MAX_RECORD + TAG) + TOGETHER;

/// A payload of at least so many bytes is sent in place. Copying fewer costs less than another piece of a message.
const IN_PLACE: usize = 16 << 10;

/// A payload of at most so many bytes shares a record with the bytes before it.
const TOGETHER: usize = 8 << 10;

/// The reason why nothing more can be read.
#[derive(Debug)]
pub enum RecordReadError {
    /// An error of the stream; `WouldBlock`: not now.
    Stream(io::Error),
    /// The received bytes are not those that the other side sent.
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

/// The receiving side of a stream.
#[derive(Debug)]
pub struct RecordReader {
    opener: RecordOpener,
    buffer: Vec<u8>,
    /// The bytes of the buffer that are verified and not returned yet.
    verified: Range<usize>,
    /// The bytes of it that came after those.
    raw: Range<usize>,
    direct: Option<DirectRecord>,
}

/// A record whose bytes go directly to their destination.
#[derive(Debug)]
struct DirectRecord {
    /// The destination.
    address: usize,
    len: usize,
    filled: usize,
    /// The tag and the head of the next record, as much of them as has arrived.
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

    /// Whether there is something to read that does not make the stream readable.
    pub fn has_more(&self) -> bool {
        let has_record = || match self.length() {
            Ok(len) => len.is_some_and(|len| self.raw.len() >= RECORD_HEAD + len + TAG),
            // An error is reported when it is read.
            Err(_) => true,
        };
        self.direct.is_none() && (!self.verified.is_empty() || has_record())
    }

    /// Its key. All received bytes must have been returned.
    pub(crate) fn into_opener(self) -> RecordOpener {
        assert!(self.verified.is_empty() && self.raw.is_empty() && self.direct.is_none(), "bytes are left");
        self.opener
    }

    /// The length of the current record, if that is known.
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

    /// Reads the missing bytes of a record, whose length may be known.
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

    /// The current record, which is incomplete, goes to this memory.
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

    /// Continues with it; returns its number of bytes, once all of them are verified.
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
        // The buffer had the head of this record, so it has space for that of the next.
        self.buffer[..head.len()].copy_from_slice(head);
        self.raw = 0..head.len();
        self.direct = None;
        Ok(out.len())
    }
}

/// Repeats a call that a signal interrupts.
fn again(mut act: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match act() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// The sending side of a stream.
///
/// Records wait until they are sent, several at a time. Their heads and tags are in a buffer. The bytes of small records
/// are there as well; those of large ones may stay in place.
#[derive(Debug)]
pub struct RecordWriter {
    sealer: RecordSealer,
    buffer: Vec<u8>,
    /// The number of bytes of the buffer that belong to unsent records.
    filled: usize,
    /// The records whose bytes are not in the buffer: their position there, and their length.
    in_place: Vec<(usize, usize)>,
    /// Bytes of all these records.
    total: usize,
    /// The number of them that are sent.
    sent: usize,
}

impl RecordWriter {
    /// Before the first record.
    pub fn new(sealer: RecordSealer) -> RecordWriter {
        RecordWriter { sealer, buffer: Vec::new(), filled: 0, in_place: Vec::new(), total: 0, sent: 0 }
    }

    /// Its key.
    pub(crate) fn into_sealer(self) -> RecordSealer {
        self.sealer
    }

    /// The number of bytes of a frame in its next record, if so much is left of its front, head and body, and of its
    /// payload. A large payload begins with a record of its own, so that the other side can read it directly to its
    /// destination.
    pub fn next_len(front: usize, payload: usize) -> usize {
        let len = if front > 0 && payload > TOGETHER { front } else { front + payload };
        len.min(MAX_RECORD)
    }

    /// Whether there is space for another record of so many bytes beside the unsent ones.
    pub fn has_room(&self, len: usize) -> bool {
        self.total + RECORD_HEAD + len + TAG <= BATCH
    }

    /// Makes a record of so many bytes, at most [`MAX_RECORD`], that `fill` writes.
    ///
    /// # Panics
    /// If there is no space for it.
    pub fn seal(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) {
        let record = self.reserve(len, RECORD_HEAD + len + TAG);
        fill(&mut self.buffer[record.clone()][RECORD_HEAD..RECORD_HEAD + len]);
        self.sealer.seal(&mut self.buffer[record]);
    }

    /// Whether so many bytes are better sent in place.
    pub fn seals_in_place(&self, len: usize) -> bool {
        len >= IN_PLACE && self.sealer.seals_in_place()
    }

    /// Makes a record of bytes that must not change before it is [sent](RecordWriter::send).
    ///
    /// # Panics
    /// If there is no space for it, or these bytes have to be [copied](RecordWriter::seals_in_place).
    pub fn seal_in_place(&mut self, bytes: &[u8]) {
        let record = self.reserve(bytes.len(), RECORD_HEAD + TAG);
        let (head, tag) = self.sealer.seal_in_place(bytes);
        let at = record.start + RECORD_HEAD;
        self.buffer[record.start..at].copy_from_slice(&head);
        self.buffer[at..record.end].copy_from_slice(&tag);
        self.in_place.push((at, bytes.len()));
    }

    /// Space in the buffer for a part of another record.
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

    /// Sends the bytes that the stream takes; an error, such as `WouldBlock`, if those are not all. `in_place` are the
    /// bytes of the records that were [sealed in place](RecordWriter::seal_in_place), in the same order.
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

    /// Whether all is sent.
    pub fn is_sent(&self) -> bool {
        self.sent == self.total
    }
}
