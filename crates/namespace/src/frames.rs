//! Files of checked records: a header of 40 bytes, then records one after the other.
//!
//! ```text
//! header   0  8  magic: "PARIONSJ" journal, "PARIONSS" snapshot
//!          8  4  version, 2
//!         12 16  partition
//!         28  8  generation: the number in the file's name
//!         36  4  crc32c of bytes 0 to 35
//! record   0  4  length n of the payload, 1 to 65536
//!          4  4  crc32c of the header's checksum (4), the record's offset in the file (8), the length (4) and the payload
//!          8  n  payload
//! ```
//!
//! Numbers are little-endian. The checksum of a record is valid for its file and its offset only, so neither a misdirected
//! write nor earlier content of the disk passes for a record. The caller decides about bytes that are no record: see
//! [`crate::journal`].

use std::path::Path;

use pario_types::PartitionId;

use crate::Error;
use crate::disk::{DiskFile, read_full};
use crate::error::Action;

/// The longest payload of a record.
pub(crate) const LONGEST: usize = 65536;
/// Bytes of a file's header.
pub(crate) const HEADER: u64 = 40;
/// Bytes before a record's payload.
const FRAME: usize = 8;
const VERSION: u32 = 2;
/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    Journal,
    Snapshot,
}

impl Contents {
    fn magic(self) -> &'static [u8; 8] {
        match self {
            Contents::Journal => b"PARIONSJ",
            Contents::Snapshot => b"PARIONSS",
        }
    }
}

/// The header of a file.
pub(crate) fn header(contents: Contents, partition: PartitionId, generation: u64) -> [u8; HEADER as usize] {
    let mut bytes = [0; HEADER as usize];
    bytes[..8].copy_from_slice(contents.magic());
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..28].copy_from_slice(&partition.0.to_le_bytes());
    bytes[28..36].copy_from_slice(&generation.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..36]);
    bytes[36..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// The start value of the checksums of a file's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Salt(u32);

impl Salt {
    pub fn of(header: &[u8; HEADER as usize]) -> Salt {
        Salt(crc32c::crc32c(&header[36..]))
    }

    fn checksum(self, at: u64, len: [u8; 4], payload: &[u8]) -> u32 {
        let placed = crc32c::crc32c_append(self.0, &at.to_le_bytes());
        crc32c::crc32c_append(crc32c::crc32c_append(placed, &len), payload)
    }
}

/// Appends a record for offset `at`, whose payload `write` appends.
pub(crate) fn frame(to: &mut Vec<u8>, salt: Salt, at: u64, write: impl FnOnce(&mut Vec<u8>)) {
    let start = to.len();
    to.extend([0; FRAME]);
    write(to);
    let len = to.len() - start - FRAME;
    assert!((1..=LONGEST).contains(&len), "a record of {len} bytes");
    let len = (len as u32).to_le_bytes();
    let crc = salt.checksum(at, len, &to[start + FRAME..]);
    to[start..start + 4].copy_from_slice(&len);
    to[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
}

/// Returns the payload of the record at the start of these bytes, if it is complete and undamaged.
fn sound(bytes: &[u8], salt: Salt, at: u64) -> Option<&[u8]> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let (crc, rest) = rest.split_first_chunk::<4>()?;
    let payload_len = u32::from_le_bytes(*len) as usize;
    let payload = rest.get(..payload_len).filter(|_| (1..=LONGEST).contains(&payload_len))?;
    (salt.checksum(at, *len, payload) == u32::from_le_bytes(*crc)).then_some(payload)
}

/// The next item of a file.
pub(crate) enum Next<'a> {
    /// A record's payload, and the offset of the record.
    Record(&'a [u8], u64),
    /// The end of the file.
    End,
    /// Bytes that are no record. `cut_short`: the rest of the file can be the beginning of one.
    Bad { cut_short: bool },
}

/// Reads a file record by record.
pub(crate) struct Frames<'f> {
    file: &'f mut dyn DiskFile,
    name: &'f Path,
    len: u64,
    salt: Salt,
    /// The offset of the next record in the file, and in `buffer`.
    at: u64,
    within: usize,
    buffer: Vec<u8>,
}

impl<'f> Frames<'f> {
    /// Opens a file and checks its header.
    pub fn open(
        file: &'f mut dyn DiskFile,
        name: &'f Path,
        contents: Contents,
        partition: PartitionId,
        generation: u64,
    ) -> Result<Frames<'f>, Error> {
        let len = file.length().map_err(|error| Error::io(Action::Read, name, &error))?;
        let expected = header(contents, partition, generation);
        let salt = Salt::of(&expected);
        let mut frames = Frames { file, name, len, salt, at: 0, within: 0, buffer: Vec::new() };
        frames.fill(HEADER as usize)?;
        let Some((found, _)) = frames.buffer.split_first_chunk::<{ HEADER as usize }>() else {
            return Err(frames.damaged("its header is not whole"));
        };
        let foreign = |why| Err(Error::Foreign { file: name.into(), why });
        if crc32c::crc32c(&found[..36]).to_le_bytes() != found[36..] {
            return Err(frames.damaged("its header is not what was written"));
        } else if found[..8] != expected[..8] {
            return foreign("another kind of file");
        } else if found[8..12] != expected[8..12] {
            return foreign("another version of the format");
        } else if found[12..28] != expected[12..28] {
            return foreign("of another partition");
        } else if found[28..36] != expected[28..36] {
            return foreign("another name than it was made with");
        }
        (frames.at, frames.within) = (HEADER, HEADER as usize);
        Ok(frames)
    }

    /// The length of the file.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The offset of the next record.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// An error about the record that begins here.
    pub fn damaged(&self, why: &'static str) -> Error {
        Error::Damaged { file: self.name.into(), offset: self.at, why }
    }

    /// An error about the record that begins at `offset`.
    pub fn damaged_at(&self, offset: u64, why: &'static str) -> Error {
        Error::Damaged { file: self.name.into(), offset, why }
    }

    /// Returns the next record.
    pub fn next(&mut self) -> Result<Next<'_>, Error> {
        self.fill(FRAME)?;
        if self.within == self.buffer.len() {
            return Ok(Next::End);
        }
        let len = self.buffer[self.within..].first_chunk::<4>().map_or(0, |len| u32::from_le_bytes(*len));
        if (1..=LONGEST).contains(&(len as usize)) {
            self.fill(FRAME + len as usize)?;
        }
        let rest = &self.buffer[self.within..];
        if sound(rest, self.salt, self.at).is_none() {
            let wanted = FRAME + if rest.len() < 4 { 0 } else { len as usize };
            let possible = rest.len() < 4 || (1..=LONGEST).contains(&(len as usize));
            return Ok(Next::Bad { cut_short: possible && ((self.len - self.at) as usize) < wanted });
        }
        let (begin, offset) = (self.within + FRAME, self.at);
        self.within = begin + len as usize;
        self.at += (FRAME + len as usize) as u64;
        Ok(Next::Record(&self.buffer[begin..self.within], offset))
    }

    /// Reads until the buffer has this many bytes from `at` on, or all that there are.
    fn fill(&mut self, want: usize) -> Result<(), Error> {
        if self.buffer.len() - self.within >= want {
            return Ok(());
        }
        self.buffer.drain(..self.within);
        self.within = 0;
        let have = self.buffer.len();
        let left = (self.len - self.at).saturating_sub(have as u64);
        let more = (want.max(CHUNK) as u64).min(left) as usize;
        self.buffer.resize(have + more, 0);
        let read = read_full(self.file, &mut self.buffer[have..], self.at + have as u64);
        let read = read.map_err(|error| Error::io(Action::Read, self.name, &error))?;
        self.buffer.truncate(have + read);
        Ok(())
    }
}
