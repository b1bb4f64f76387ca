//! The list of parts that must exist: a log beside the parts, so that a part with missing files is noticed.
//!
//! The file `manifest` has records of 32 bytes, all numbers little-endian:
//!
//! ```text
//! offset  bytes
//!      0      4  kind: 1 start, 2 created, 3 durable, 4 removed, 5 session, 6 end of session, 7 highest
//!      4      4  CRC-32C of the record's offset (8 bytes) and its last 24 bytes
//!      8      8  a file's id; start: "PARIOMF1"; session: how often power was lost
//!     16      8  session: the boot's number
//!     24      8  up to which offset the log was known to be on the medium
//! ```
//!
//! A part is *created* when its first file exists and *durable* when its first sync is done. Each record is appended in one
//! write; those of created and removed parts reach the medium with the next sync, the others at once. An invalid record is
//! damage if a later one says that it was on the medium; else it is the effect of a loss of power, and the log is written
//! anew without it. A session that did not end, of another boot, means that power was lost.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pario_medium::{Medium, MediumFile, OpenMode};
use pario_runtime::sync::{Mutex, MutexGuard};
use pario_types::FileId;

use crate::error::{Error, Result, StoreAction};

const RECORD: usize = 32;
const MAGIC: u64 = u64::from_le_bytes(*b"PARIOMF1");
/// Space that is reserved for more records, so that parts can be removed from a full medium.
const AHEAD: u64 = 64 << 10;

const START: u32 = 1;
const CREATED: u32 = 2;
const DURABLE: u32 = 3;
const REMOVED: u32 = 4;
const SESSION: u32 = 5;
const ENDED: u32 = 6;
const HIGHEST: u32 = 7;

/// The log of a store.
pub struct PartManifest {
    medium: Arc<dyn Medium>,
    root: PathBuf,
    losses: u64,
    log: Mutex<ManifestLog>,
}

/// The content of a store's log when it was opened.
#[derive(Debug, Default)]
pub struct ManifestContents {
    /// The parts that must exist, and whether each was ever synced.
    pub parts: BTreeMap<FileId, bool>,
    /// The removed parts.
    pub removed: BTreeSet<FileId>,
    /// Whether power was lost since the last session.
    pub power_was_lost: bool,
}

struct ManifestLog {
    file: Option<Box<dyn MediumFile>>,
    len: u64,
    /// The offset up to which it is on the medium.
    synced: u64,
    /// The offset up to which space is allocated.
    taken: u64,
    /// Whether it has to be written anew, because a sync of it failed or records are invalid.
    suspect: bool,
    /// The last session in it: whether it has not ended, the number of power losses, the boot's number.
    last: (u32, u64, u64),
    /// Whether that is this one.
    begun: bool,
    parts: BTreeMap<FileId, bool>,
    highest: FileId,
}

/// A record.
#[derive(Clone, Copy)]
struct ManifestRecord {
    kind: u32,
    value: u64,
    boot: u64,
    synced: u64,
}

impl PartManifest {
    /// Creates the log of a new store.
    pub fn create(medium: &Arc<dyn Medium>, root: &Path) -> Result<()> {
        let manifest = PartManifest::new(medium, root, 0, ManifestLog::empty());
        let mut log = manifest.log();
        manifest.rewrite(&mut log)
    }

    /// Creates a log of the parts that are found, in place of a lost one.
    pub fn rebuild(medium: &Arc<dyn Medium>, root: &Path, found: &BTreeSet<FileId>) -> Result<()> {
        let parts = found.iter().map(|file| (*file, true)).collect();
        let highest = found.last().copied().unwrap_or_default();
        // A number that no part has: so entries that are not durable are examined.
        let losses = medium.boot().max(1 << 32);
        let last = (SESSION, losses, 0);
        let manifest = PartManifest::new(
            medium,
            root,
            losses,
            ManifestLog { parts, highest, last, ..ManifestLog::empty() },
        );
        let mut log = manifest.log();
        manifest.rewrite(&mut log)
    }

    /// Opens the log.
    pub fn open(medium: &Arc<dyn Medium>, root: &Path) -> Result<(PartManifest, ManifestContents)> {
        let path = root.join("manifest");
        let missing = || Error::NoManifest { path: path.clone() };
        let file = match medium.open(&path, OpenMode::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing()),
            opened => opened.map_err(|error| Error::io(StoreAction::Open, &path, error))?,
        };
        let failed = |error| Error::io(StoreAction::Read, &path, error);
        let len = file.stats().map_err(failed)?.len as usize;
        let mut bytes = vec![0; len];
        pario_medium::fill(&*file, 0, &mut [&mut bytes]).map_err(failed)?;
        let read = ParsedManifest::parse(&bytes).ok_or_else(missing)?;
        let boot = medium.boot();
        let power_was_lost = read.session.is_some_and(|last| last != boot || boot == 0);
        let losses = read.losses + u64::from(power_was_lost);
        let len = (len / RECORD * RECORD) as u64;
        let log = ManifestLog {
            len,
            suspect: read.suspect || read.records > 4096 + 4 * read.parts.len(),
            parts: read.parts.clone(),
            highest: read.highest,
            last: (
                if read.session.is_some() { SESSION } else { ENDED },
                read.losses,
                read.session.unwrap_or(0),
            ),
            ..ManifestLog::empty()
        };
        let manifest = PartManifest::new(medium, root, losses, log);
        Ok((manifest, ManifestContents { parts: read.parts, removed: read.removed, power_was_lost }))
    }

    /// The number of power losses.
    pub fn losses(&self) -> u64 {
        self.losses
    }

    /// The highest id of a part that ever existed.
    pub fn highest(&self) -> FileId {
        self.log().highest
    }

    /// Makes sure that this session is in the log on the medium: from now on parts may change.
    pub fn begin(&self) -> Result<()> {
        let mut log = self.log();
        if log.begun {
            return Ok(());
        }
        log.last = (SESSION, self.losses, self.medium.boot());
        self.append(&mut log, SESSION, self.losses)?;
        self.sync_log(&mut log)?;
        log.begun = true;
        Ok(())
    }

    /// Records that a part exists.
    pub fn created(&self, file: FileId) -> Result<()> {
        let mut log = self.log();
        if log.parts.contains_key(&file) {
            return Ok(());
        }
        self.append(&mut log, CREATED, file.0)?;
        log.highest = log.highest.max(file);
        log.parts.insert(file, false);
        Ok(())
    }

    /// Records that parts were synced: from now on they must exist also after a loss of power.
    pub fn durable(&self, files: &[FileId]) -> Result<()> {
        let mut log = self.log();
        let mut new = false;
        for file in files {
            if log.parts.get(file) == Some(&false) {
                self.append(&mut log, DURABLE, file.0)?;
                log.parts.insert(*file, true);
                new = true;
            }
        }
        if new || log.suspect { self.sync_log(&mut log) } else { Ok(()) }
    }

    /// Records that a part is to be removed; its files may be deleted after the next sync of the log.
    pub fn removed(&self, file: FileId) -> Result<()> {
        let mut log = self.log();
        if log.parts.contains_key(&file) {
            self.append(&mut log, REMOVED, file.0)?;
            log.parts.remove(&file);
        }
        Ok(())
    }

    /// The system may have dropped any of the log: the next sync writes it anew.
    pub fn mark_suspect(&self) {
        self.log().suspect = true;
    }

    /// Brings all records to the medium.
    pub fn sync(&self) -> Result<()> {
        let mut log = self.log();
        if log.synced < log.len || log.suspect { self.sync_log(&mut log) } else { Ok(()) }
    }

    /// Everything is on the medium, and no thread changes anything any more.
    pub fn end(&self) -> Result<()> {
        let mut log = self.log();
        if log.begun {
            log.last.0 = ENDED;
            self.append(&mut log, ENDED, self.losses)?;
            self.sync_log(&mut log)?;
            log.begun = false;
        }
        Ok(())
    }

    fn new(medium: &Arc<dyn Medium>, root: &Path, losses: u64, log: ManifestLog) -> PartManifest {
        PartManifest { medium: Arc::clone(medium), root: root.to_owned(), losses, log: Mutex::new(log) }
    }

    fn append(&self, log: &mut ManifestLog, kind: u32, value: u64) -> Result<()> {
        let path = self.root.join("manifest");
        let synced = log.synced;
        let ManifestLog { file, len, taken, .. } = log;
        let file = self.open_log(file)?;
        if *len + AHEAD / 2 > *taken && file.allocate(*len, AHEAD).is_ok() {
            *taken = *len + AHEAD;
        }
        let record = ManifestRecord { kind, value, boot: self.medium.boot(), synced };
        let written = pario_medium::put(file, *len, &[&record.encode(*len)]);
        written.map_err(|error| Error::io(StoreAction::Write, &path, error))?;
        *len += RECORD as u64;
        Ok(())
    }

    fn open_log<'a>(&self, file: &'a mut Option<Box<dyn MediumFile>>) -> Result<&'a dyn MediumFile> {
        let opened = match file.take() {
            Some(opened) => opened,
            None => {
                let path = self.root.join("manifest");
                let opened = self.medium.open(&path, OpenMode::Write);
                opened.map_err(|error| Error::io(StoreAction::Open, &path, error))?
            }
        };
        Ok(&**file.insert(opened))
    }

    fn sync_log(&self, log: &mut ManifestLog) -> Result<()> {
        if log.suspect {
            return self.rewrite(log);
        }
        match self.open_log(&mut log.file)?.sync() {
            Ok(()) => {
                log.synced = log.len;
                Ok(())
            }
            Err(error) => {
                // The system may have dropped the data that it could not write.
                log.suspect = true;
                Err(Error::io(StoreAction::Sync, &self.root.join("manifest"), error))
            }
        }
    }

    /// Writes the log anew, with its valid records.
    fn rewrite(&self, log: &mut ManifestLog) -> Result<()> {
        let mut records = vec![(START, MAGIC), (HIGHEST, log.highest.0)];
        for (file, durable) in &log.parts {
            records.push((CREATED, file.0));
            if *durable {
                records.push((DURABLE, file.0));
            }
        }
        let (kind, losses, boot) = log.last;
        records.push((kind, losses));
        let mut bytes = Vec::with_capacity(records.len() * RECORD);
        for (kind, value) in records {
            let synced = bytes.len() as u64;
            let record = ManifestRecord { kind, value, boot, synced };
            bytes.extend(record.encode(synced));
        }
        let (path, new) = (self.root.join("manifest"), self.root.join("manifest.new"));
        let write = || {
            let file = self.medium.open(&new, OpenMode::New)?;
            pario_medium::put(&*file, 0, &[&bytes])?;
            file.sync()?;
            self.medium.rename(&new, &path)?;
            Ok(file)
        };
        let file = write().map_err(|error| Error::io(StoreAction::Create, &path, error))?;
        (log.len, log.synced, log.taken) = (bytes.len() as u64, bytes.len() as u64, 0);
        (log.suspect, log.file) = (true, Some(file));
        let named = self.medium.open_directory(&self.root).and_then(|directory| directory.sync());
        named.map_err(|error| Error::io(StoreAction::Sync, &self.root, error))?;
        log.suspect = false;
        Ok(())
    }

    fn log(&self) -> MutexGuard<'_, ManifestLog> {
        self.log.lock()
    }
}

impl ManifestLog {
    fn empty() -> ManifestLog {
        ManifestLog {
            file: None,
            len: 0,
            synced: 0,
            taken: 0,
            suspect: false,
            last: (ENDED, 0, 0),
            begun: false,
            parts: BTreeMap::new(),
            highest: FileId(0),
        }
    }
}

impl ManifestRecord {
    fn encode(&self, at: u64) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        bytes[..4].copy_from_slice(&self.kind.to_le_bytes());
        for (place, number) in bytes[8..].chunks_exact_mut(8).zip([self.value, self.boot, self.synced]) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let sum = ManifestRecord::sum(at, &bytes);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8], at: u64) -> Option<ManifestRecord> {
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let record = ManifestRecord { kind: half(0), value: number(8), boot: number(16), synced: number(24) };
        (half(4) == ManifestRecord::sum(at, bytes)).then_some(record)
    }

    fn sum(at: u64, bytes: &[u8]) -> u32 {
        let sum = crc32c::crc32c_append(crc32c::crc32c(&at.to_le_bytes()), &bytes[..4]);
        crc32c::crc32c_append(sum, &bytes[8..])
    }
}

/// The content of a log.
#[derive(Default)]
struct ParsedManifest {
    parts: BTreeMap<FileId, bool>,
    removed: BTreeSet<FileId>,
    highest: FileId,
    losses: u64,
    /// The boot of a session that has not ended.
    session: Option<u64>,
    suspect: bool,
    records: usize,
}

impl ParsedManifest {
    /// `None` if it is damaged.
    fn parse(bytes: &[u8]) -> Option<ParsedManifest> {
        let mut read =
            ParsedManifest { suspect: !bytes.len().is_multiple_of(RECORD), ..ParsedManifest::default() };
        let (mut unsound, mut synced) = (u64::MAX, 0);
        for (at, record) in (0..).step_by(RECORD).zip(bytes.chunks_exact(RECORD)) {
            match ManifestRecord::decode(record, at) {
                Some(record) => {
                    synced = synced.max(record.synced);
                    read.take(at, record)?;
                }
                None => unsound = unsound.min(at),
            }
        }
        read.suspect |= unsound < u64::MAX;
        (read.records > 0 && unsound >= synced).then_some(read)
    }

    fn take(&mut self, at: u64, record: ManifestRecord) -> Option<()> {
        self.records += 1;
        let file = FileId(record.value);
        match record.kind {
            START => return (at == 0 && record.value == MAGIC).then_some(()),
            CREATED | DURABLE => {
                self.highest = self.highest.max(file);
                self.removed.remove(&file);
                let durable = self.parts.entry(file).or_insert(false);
                *durable |= record.kind == DURABLE;
            }
            REMOVED => {
                self.parts.remove(&file);
                self.removed.insert(file);
            }
            SESSION => (self.losses, self.session) = (record.value, Some(record.boot)),
            ENDED => (self.losses, self.session) = (record.value, None),
            HIGHEST => self.highest = self.highest.max(file),
            _ => return None,
        }
        Some(())
    }
}
