//! The file `current`, which says which of the other files are valid.
//!
//! It has the valid generation, the number of flushed bytes of its journal, whether the name space was closed in order, and
//! the limits below which ids may have been assigned. With it the next start detects damage of flushed bytes, a journal
//! that is missing or too short, and restored files of an older set; and no id is assigned twice, not
//! even one whose record was lost with the power.
//!
//! The two slots are written alternately, so that one is always whole; the one with the larger sequence number is valid.
//!
//! ```text
//! slot at 0 and at 4096
//!  0  8  magic "PARIONSC"
//!  8  4  version, 1
//! 12 16  partition
//! 28  8  sequence number; even ones are written to the first slot, odd ones to the second
//! 36  8  generation: journal.G counts, and for G > 0 snapshot.G
//! 44  8  bytes of journal.G that were flushed; 0: it was not made yet
//! 52  8  numbers of files below this are not given out any more, whatever the journal says
//! 60  8  numbers of truncations likewise
//! 68  8  numbers of files from this on have not been given out
//! 76  8  numbers of truncations likewise
//! 84 16  the boot of the host by which this was written; 0: unknown
//! 100 4  1: closed in order, and everything flushed; 2: the same while clients may have had files open; else 0
//! 104 4  crc32c of bytes 0 to 103
//! ```
//!
//! A user who accepts the other files as they are truncates this file to 0 bytes.

use std::path::{Path, PathBuf};

use pario_types::PartitionId;

use crate::Error;
use crate::disk::{Disk, DiskFile, read_full, write_all};
use crate::error::Action;

/// Its name.
pub(crate) const NAME: &str = "current";
const NEW: &str = "current.tmp";
const MAGIC: &[u8; 8] = b"PARIONSC";
const VERSION: u32 = 1;
/// Bytes of a slot that are used.
const SLOT: usize = 108;
const CHECKED: usize = SLOT - 4;
/// The offset of the second slot: on a page of its own, so that a torn write never damages both.
const SECOND: u64 = 4096;
const LENGTH: u64 = 2 * SECOND;

/// The content of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CurrentMark {
    pub generation: u64,
    /// Bytes of the journal that were flushed.
    pub flushed: u64,
    /// Ids of files and of truncations: those below `from` are used, those from `upto` on have not been assigned.
    pub files: Numbers,
    pub truncations: Numbers,
    /// The id of the host's boot; 0 if it is unknown.
    pub boot: u128,
    /// The name space was closed in order, and everything flushed.
    pub is_closed: bool,
    /// Clients had files open at that time, or might have had.
    pub has_opens: bool,
}

/// The range of ids that may have been assigned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub from: u64,
    pub upto: u64,
}

/// The open file.
pub(crate) struct Current {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    partition: PartitionId,
    /// The sequence number of the last slot that was written.
    sequence: u64,
}

/// The state of the file at the start.
pub(crate) enum Found {
    Nothing,
    /// A file without bytes: the user accepts the other files as they are.
    Accepted(Current),
    Mark(Current, CurrentMark),
}

impl CurrentMark {
    fn encode(&self, partition: PartitionId, sequence: u64) -> [u8; SLOT] {
        let mut bytes = [0; SLOT];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..28].copy_from_slice(&partition.0.to_le_bytes());
        let (files, truncations) = (self.files, self.truncations);
        let limits = [files.from, truncations.from, files.upto, truncations.upto];
        let numbers = [sequence, self.generation, self.flushed].into_iter().chain(limits);
        for (to, number) in bytes[28..84].chunks_exact_mut(8).zip(numbers) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        bytes[84..100].copy_from_slice(&self.boot.to_le_bytes());
        let end: u32 = match (self.is_closed, self.has_opens) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => 2,
        };
        bytes[100..104].copy_from_slice(&end.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..CHECKED]);
        bytes[CHECKED..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Returns the sequence number and the mark of a slot; `None` if it is damaged.
    fn decode(bytes: &[u8; SLOT]) -> Option<(u64, CurrentMark)> {
        let number = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("within the slot"));
        let half = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("within the slot"));
        if bytes[..8] != *MAGIC || half(CHECKED) != crc32c::crc32c(&bytes[..CHECKED]) {
            return None;
        }
        let mark = CurrentMark {
            generation: number(36),
            flushed: number(44),
            files: Numbers { from: number(52), upto: number(68) },
            truncations: Numbers { from: number(60), upto: number(76) },
            boot: u128::from(number(84)) | u128::from(number(92)) << 64,
            is_closed: matches!(half(100), 1 | 2),
            has_opens: half(100) == 2,
        };
        Some((number(28), mark))
    }
}

impl Current {
    /// Finds the file and reads it.
    pub fn find(disk: &mut dyn Disk, names: &[String], partition: PartitionId) -> Result<Found, Error> {
        let path = disk.place().join(NAME);
        if !names.iter().any(|name| name == NAME) {
            return Ok(Found::Nothing);
        }
        let mut file = disk.open(NAME).map_err(|error| Error::io(Action::Open, &path, &error))?;
        let failed = |error: std::io::Error| Error::io(Action::Read, &path, &error);
        if file.length().map_err(failed)? == 0 {
            return Ok(Found::Accepted(Current { file, path, partition, sequence: 0 }));
        }
        let mut last = None;
        for at in [0, SECOND] {
            let mut slot = [0; SLOT];
            if read_full(file.as_mut(), &mut slot, at).map_err(failed)? < SLOT {
                continue;
            }
            let Some(found) = CurrentMark::decode(&slot) else { continue };
            check(&slot, &path, partition)?;
            last = last.filter(|last: &(u64, CurrentMark)| last.0 > found.0).or(Some(found));
        }
        let damaged =
            || Error::Damaged { file: path.clone(), offset: 0, why: "neither of its two slots is whole" };
        let (sequence, mark) = last.ok_or_else(damaged)?;
        Ok(Found::Mark(Current { file, path, partition, sequence }, mark))
    }

    /// Creates the file of a name space whose first journal does not exist yet.
    pub fn create(disk: &mut dyn Disk, partition: PartitionId, mark: &CurrentMark) -> Result<Current, Error> {
        let path = disk.place().join(NAME);
        let mut file = disk.create(NEW).map_err(|error| Error::io(Action::Create, &path, &error))?;
        let mut bytes = vec![0; LENGTH as usize];
        bytes[..SLOT].copy_from_slice(&mark.encode(partition, 0));
        write_all(file.as_mut(), &bytes, 0).map_err(|error| Error::io(Action::Write, &path, &error))?;
        file.sync().map_err(|error| Error::io(Action::Sync, &path, &error))?;
        disk.rename(NEW, NAME).map_err(|error| Error::io(Action::Rename, &path, &error))?;
        disk.sync().map_err(|error| Error::io(Action::Sync, disk.place(), &error))?;
        Ok(Current { file, path, partition, sequence: 0 })
    }

    /// Replaces the last mark on the medium. If this fails, either of them may be there; the next call writes to the same
    /// slot again.
    pub fn put(&mut self, mark: &CurrentMark) -> Result<(), Error> {
        let sequence = self.sequence + 1;
        let at = if sequence.is_multiple_of(2) { 0 } else { SECOND };
        let slot = mark.encode(self.partition, sequence);
        let written = write_all(self.file.as_mut(), &slot, at);
        written.map_err(|error| Error::io(Action::Write, &self.path, &error))?;
        self.file.sync().map_err(|error| Error::io(Action::Sync, &self.path, &error))?;
        self.sequence = sequence;
        Ok(())
    }
}

fn check(slot: &[u8; SLOT], path: &Path, partition: PartitionId) -> Result<(), Error> {
    let foreign = |why| Err(Error::Foreign { file: path.into(), why });
    if slot[8..12] != VERSION.to_le_bytes() {
        foreign("another version of the format")
    } else if slot[12..28] != partition.0.to_le_bytes() {
        foreign("of another partition")
    } else {
        Ok(())
    }
}
