//! The journal on its disk: appending, recovering, and giving way to a snapshot.
//!
//! Files: `journal.G`, and for G > 0 `snapshot.G`: the state is that of the snapshot with the largest G, and
//! what `journal.G` adds. A new generation comes about in steps, each of which leaves a whole set behind:
//!
//! 1. the state is written to `snapshot.tmp` and flushed;
//! 2. an empty `journal.G+1` is made (as `journal.tmp`, flushed, renamed), and the directory flushed;
//! 3. `snapshot.tmp` becomes `snapshot.G+1`: from here on the new set counts;
//! 4. the directory is flushed, the old set removed.

use std::path::PathBuf;

use pario_units::{ClientId, ErrorKind, PartitionId, RequestId, Stamp};

use crate::change::{Change, Record};
use crate::disk::{Disk, DiskFile, write_all};
use crate::error::Action;
use crate::frames::{Contents, Frames, HEADER, Next, frame, header};
use crate::state::State;
use crate::{Error, ROOT, Recovered, snapshot};

/// Room on the medium that only urgent records may use, so that files can be removed from a full disk.
const KEPT: u64 = 256 << 10;
/// Room is taken in steps of this.
const STEP: u64 = 1 << 20;
const NEW_JOURNAL: &str = "journal.tmp";
const NEW_SNAPSHOT: &str = "snapshot.tmp";

pub(crate) struct Journal {
    disk: Box<dyn Disk>,
    file: Box<dyn DiskFile>,
    partition: PartitionId,
    generation: u64,
    /// Where the next record goes.
    len: u64,
    snapshot_len: u64,
    /// The medium has room for the file up to here.
    reserved: u64,
    /// A journal shorter than this is left alone.
    least: u64,
    /// After a snapshot failed: how long the journal has to be for the next attempt.
    again_at: u64,
    /// The file may be longer than `len`.
    ragged: bool,
    /// A flush failed, and the system may take the lost bytes for written: only a new snapshot helps.
    doubtful: bool,
    /// The names of the current set have not reached the medium, so the old set is still there.
    unnamed: bool,
    buffer: Vec<u8>,
}

/// What is on a disk.
struct Found {
    snapshot: Option<u64>,
    journals: Vec<u64>,
    names: Vec<String>,
}

impl Found {
    fn on(disk: &mut dyn Disk) -> Result<Found, Error> {
        let names = disk.list().map_err(|error| Error::io(Action::List, disk.place(), &error))?;
        let number = |name: &str, of: &str| name.strip_prefix(of)?.strip_prefix('.')?.parse::<u64>().ok();
        let snapshot = names.iter().filter_map(|name| number(name, "snapshot")).max();
        let journals = names.iter().filter_map(|name| number(name, "journal")).collect();
        Ok(Found { snapshot, journals, names })
    }
}

impl Journal {
    /// The state on this disk; a new one if there is none.
    pub fn open(
        mut disk: Box<dyn Disk>,
        partition: PartitionId,
        least: u64,
        now: Stamp,
    ) -> Result<(Journal, State, Recovered), Error> {
        let mut found = Found::on(disk.as_mut())?;
        let fresh = found.snapshot.is_none() && found.journals.is_empty();
        if fresh {
            let change = Change::Root { mode: 0o755 };
            let mut root = Vec::new();
            Record { now, client: ClientId(0), request: RequestId(0), change }.encode(&mut root);
            new_journal(disk.as_mut(), partition, 0, |bytes| frame(bytes, |to| to.extend(&root)))?;
            sync_names(disk.as_mut())?;
            found.journals.push(0);
        }
        let generation = found.snapshot.unwrap_or(0);
        let name = format!("journal.{generation}");
        let path = disk.place().join(&name);
        if !found.journals.contains(&generation) {
            return Err(Error::Missing { file: path });
        }

        let mut recovered = Recovered { fresh, ..Recovered::default() };
        let mut state = State::new();
        let mut snapshot_len = 0;
        if found.snapshot.is_some() {
            let name = format!("snapshot.{generation}");
            let path = disk.place().join(&name);
            let mut file = disk.open(&name).map_err(|error| Error::io(Action::Open, &path, &error))?;
            (state, recovered.records, snapshot_len) =
                snapshot::read(file.as_mut(), &path, partition, generation)?;
        }
        let mut file = disk.open(&name).map_err(|error| Error::io(Action::Open, &path, &error))?;
        let len = replay(file.as_mut(), &path, partition, generation, &mut state, &mut recovered)?;
        recovered.bytes = snapshot_len + len;
        remove_leftovers(disk.as_mut(), &found.names, generation);
        let journal = Journal {
            disk,
            file,
            partition,
            generation,
            len,
            snapshot_len,
            reserved: 0,
            least,
            again_at: 0,
            ragged: false,
            doubtful: false,
            unnamed: false,
            buffer: Vec::new(),
        };
        Ok((journal, state, recovered))
    }

    /// Writes a record. If this fails, the journal is as before.
    pub fn append(&mut self, record: &Record<'_>) -> Result<(), Error> {
        self.smooth()?;
        self.buffer.clear();
        frame(&mut self.buffer, |to| record.encode(to));
        self.make_room(record.change.is_urgent())?;
        if let Err(error) = write_all(self.file.as_mut(), &self.buffer, self.len) {
            self.ragged = true;
            // If this fails as well, the next record tries again before it is written.
            let _ = self.smooth();
            return Err(Error::io(Action::Write, self.path(), &error));
        }
        self.len += self.buffer.len() as u64;
        Ok(())
    }

    /// Takes room for the record in the buffer, and for some more.
    fn make_room(&mut self, urgent: bool) -> Result<(), Error> {
        let end = self.len + self.buffer.len() as u64;
        if end + KEPT <= self.reserved {
            return Ok(());
        }
        let from = self.reserved.max(self.len);
        let mut full = Ok(());
        for upto in [end + STEP, end + KEPT] {
            match self.file.reserve(from, upto - from) {
                Ok(()) => {
                    self.reserved = upto;
                    return Ok(());
                }
                Err(error) => full = Err(Error::io(Action::Write, self.path(), &error)),
            }
        }
        match full.as_ref().map_err(Error::kind) {
            Err(ErrorKind::NoSpace | ErrorKind::Quota) if !urgent => full,
            Err(ErrorKind::NoSpace | ErrorKind::Quota) => Ok(()),
            // The file system cannot do this: it is not asked again.
            _ => {
                self.reserved = u64::MAX;
                Ok(())
            }
        }
    }

    /// Cuts off what a failed append has left.
    fn smooth(&mut self) -> Result<(), Error> {
        if self.ragged {
            let cut = self.file.resize(self.len);
            cut.map_err(|error| Error::io(Action::Resize, self.path(), &error))?;
            self.ragged = false;
            // A file system may give the room back with the bytes.
            self.reserved = 0;
        }
        Ok(())
    }

    /// What is written survives a loss of power.
    pub fn sync(&mut self, state: &State) -> Result<(), Error> {
        if self.doubtful {
            self.renew(state)?;
        } else if let Err(error) = self.file.sync() {
            self.doubtful = true;
            return Err(Error::io(Action::Sync, self.path(), &error));
        }
        if self.unnamed {
            sync_names(self.disk.as_mut())?;
            self.unnamed = false;
            self.remove_old();
        }
        Ok(())
    }

    /// Whether it is time for a snapshot.
    pub fn is_long(&self) -> bool {
        self.len > self.least.max(2 * self.snapshot_len) && self.len >= self.again_at
    }

    /// Bytes of journal and snapshot.
    pub fn bytes(&self) -> u64 {
        self.len + self.snapshot_len
    }

    /// Writes a snapshot and goes on with an empty journal. If this fails, the old ones go on.
    pub fn renew(&mut self, state: &State) -> Result<(), Error> {
        let next = self.generation + 1;
        match self.new_set(state, next) {
            Ok((file, snapshot_len)) => {
                self.file = file;
                self.generation = next;
                (self.len, self.snapshot_len, self.reserved) = (HEADER, snapshot_len, 0);
                (self.again_at, self.ragged, self.doubtful) = (0, false, false);
                self.unnamed = sync_names(self.disk.as_mut()).is_err();
                if !self.unnamed {
                    self.remove_old();
                }
                Ok(())
            }
            Err(error) => {
                self.again_at = self.len + self.len / 4;
                for name in [
                    format!("snapshot.{next}"),
                    NEW_SNAPSHOT.into(),
                    NEW_JOURNAL.into(),
                    format!("journal.{next}"),
                ] {
                    // What cannot be removed now is removed when the name space is opened again.
                    let _ = self.disk.remove(&name);
                }
                Err(error)
            }
        }
    }

    /// Makes the set of files of the next generation; its journal, and the length of its snapshot.
    fn new_set(&mut self, state: &State, next: u64) -> Result<(Box<dyn DiskFile>, u64), Error> {
        let disk = self.disk.as_mut();
        let path = disk.place().join(NEW_SNAPSHOT);
        let mut file = disk.create(NEW_SNAPSHOT).map_err(|error| Error::io(Action::Create, &path, &error))?;
        let len = snapshot::write(state, file.as_mut(), self.partition, next);
        let len = len.map_err(|error| Error::io(Action::Write, &path, &error))?;
        file.sync().map_err(|error| Error::io(Action::Sync, &path, &error))?;
        let journal = new_journal(disk, self.partition, next, |_| {})?;
        sync_names(disk)?;
        let renamed = disk.rename(NEW_SNAPSHOT, &format!("snapshot.{next}"));
        renamed.map_err(|error| Error::io(Action::Rename, &path, &error))?;
        Ok((journal, len))
    }

    fn remove_old(&mut self) {
        if let Ok(names) = self.disk.list() {
            remove_leftovers(self.disk.as_mut(), &names, self.generation);
        }
    }

    fn path(&self) -> PathBuf {
        self.disk.place().join(format!("journal.{}", self.generation))
    }
}

/// Makes a journal whose first bytes after the header `write` appends.
fn new_journal(
    disk: &mut dyn Disk,
    partition: PartitionId,
    generation: u64,
    write: impl FnOnce(&mut Vec<u8>),
) -> Result<Box<dyn DiskFile>, Error> {
    let path = disk.place().join(NEW_JOURNAL);
    let mut file = disk.create(NEW_JOURNAL).map_err(|error| Error::io(Action::Create, &path, &error))?;
    let mut bytes = header(Contents::Journal, partition, generation).to_vec();
    write(&mut bytes);
    write_all(file.as_mut(), &bytes, 0).map_err(|error| Error::io(Action::Write, &path, &error))?;
    file.sync().map_err(|error| Error::io(Action::Sync, &path, &error))?;
    let renamed = disk.rename(NEW_JOURNAL, &format!("journal.{generation}"));
    renamed.map_err(|error| Error::io(Action::Rename, &path, &error))?;
    Ok(file)
}

fn sync_names(disk: &mut dyn Disk) -> Result<(), Error> {
    disk.sync().map_err(|error| Error::io(Action::Sync, disk.place(), &error))
}

/// Applies all records of a journal and cuts off a torn end; how long it is then.
fn replay(
    file: &mut dyn DiskFile,
    path: &std::path::Path,
    partition: PartitionId,
    generation: u64,
    state: &mut State,
    recovered: &mut Recovered,
) -> Result<u64, Error> {
    let mut frames = Frames::open(file, path, Contents::Journal, partition, generation)?;
    loop {
        match frames.next()? {
            Next::Record(payload, at) => {
                let record = Record::decode(payload);
                let applied = record.map(|record| state.apply(&record));
                let why = match applied {
                    Some(Ok(())) => None,
                    Some(Err(misfit)) => Some(misfit.0),
                    None => Some("a record makes no sense"),
                };
                if let Some(why) = why {
                    return Err(frames.damaged_at(at, why));
                }
                recovered.records += 1;
            }
            Next::End { torn } => {
                recovered.torn = torn;
                break;
            }
        }
    }
    let len = frames.at();
    if state.inodes.get(ROOT).is_none() {
        return Err(frames.damaged("it has no root"));
    }
    if recovered.torn {
        file.resize(len).map_err(|error| Error::io(Action::Resize, path, &error))?;
    }
    Ok(len)
}

/// Removes files of other generations and unfinished ones. What cannot be removed is tried again another
/// time.
fn remove_leftovers(disk: &mut dyn Disk, names: &[String], generation: u64) {
    for name in names {
        let ending = name.strip_prefix("journal.").or(name.strip_prefix("snapshot."));
        if ending.is_some_and(|end| end == "tmp" || end.parse().is_ok_and(|n: u64| n != generation)) {
            let _ = disk.remove(name);
        }
    }
}
