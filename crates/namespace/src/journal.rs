//! The journal on its disk: append, recovery, and rotation with a snapshot.
//!
//! Files: `journal.G`, for G > 0 `snapshot.G`, and `current`, which has the valid G (see [`crate::current`]). The state is
//! the snapshot with the records of the journal applied. A new generation is made in steps, each of which leaves a complete
//! set:
//!
//! 1. the state is written to `snapshot.tmp` and flushed;
//! 2. an empty `journal.G+1` is made (as `journal.tmp`, flushed, renamed), `snapshot.tmp` is renamed `snapshot.G+1`, and the
//!    directory flushed;
//! 3. `current` has G+1: from here on the new set is valid;
//! 4. the old set is removed.
//!
//! The meaning of bytes after the last record depends on `current`:
//!
//! - Within the flushed bytes, or after an orderly close, they are damage: an error.
//! - If the host has not been booted since, everything written is there. A record that the end of the file cuts short is
//!   left by a killed process; everything else is damage.
//! - Otherwise the host may have lost power, and with it any of the unflushed bytes: the bytes after the last record are
//!   cut off, and saved as `torn.G.OFFSET`.

use std::path::{Path, PathBuf};

use pario_types::{ClientId, ErrorKind, FileId, PartitionId, RequestId, Stamp};

use crate::change::{Change, Record};
use crate::current::{self, Current, CurrentMark, Numbers};
use crate::disk::{Disk, DiskFile, read_full, write_all};
use crate::error::Action;
use crate::frames::{Contents, Frames, HEADER, Next, Salt, frame, header};
use crate::invariants::{FileContent, ReadFile};
use crate::state::State;
use crate::{Error, NamespaceConfig, ROOT, RecoveryReport, snapshot};

/// Space on the medium that only urgent records may use, so that files can be removed from a full disk.
const KEPT: u64 = 256 << 10;
/// Space is allocated in steps of this.
const STEP: u64 = 1 << 20;
/// Ids of files and truncations are reserved in steps of this, before fewer than the next constant are left.
const NUMBERS: u64 = 1 << 16;
const FEW_NUMBERS: u64 = 1 << 12;
/// The number of ids that are skipped if the assigned ones are unknown.
const UNKNOWN: u64 = 1 << 32;
const NEW_JOURNAL: &str = "journal.tmp";
const NEW_SNAPSHOT: &str = "snapshot.tmp";

pub(crate) struct Journal {
    disk: Box<dyn Disk>,
    file: Box<dyn DiskFile>,
    current: Current,
    /// The content of `current`, or its next content if `mark_changed`.
    mark: CurrentMark,
    /// Whether `current` may differ from `mark`.
    mark_changed: bool,
    partition: PartitionId,
    salt: Salt,
    /// The offset of the next record.
    len: u64,
    snapshot_len: u64,
    /// Space on the medium is allocated up to here.
    reserved: u64,
    /// A journal shorter than this is not rotated.
    least: u64,
    /// After a failed snapshot: the length of the journal at which the next attempt follows.
    again_at: u64,
    /// Whether the file may be longer than `len`.
    ragged: bool,
    /// Whether the file has changed since it was flushed.
    dirty: bool,
    /// Whether a flush failed: the system may take the lost bytes for written, so only a new snapshot helps.
    doubtful: bool,
    buffer: Vec<u8>,
}

/// The files on a disk.
struct Found {
    snapshots: Vec<u64>,
    journals: Vec<u64>,
    names: Vec<String>,
}

impl Found {
    fn on(disk: &mut dyn Disk) -> Result<Found, Error> {
        let names = disk.list().map_err(|error| Error::io(Action::List, disk.place(), &error))?;
        let number = |name: &str, of: &str| name.strip_prefix(of)?.strip_prefix('.')?.parse::<u64>().ok();
        let all = |of: &str| names.iter().filter_map(|name| number(name, of)).collect::<Vec<_>>();
        Ok(Found { snapshots: all("snapshot"), journals: all("journal"), names })
    }

    fn is_empty(&self) -> bool {
        self.snapshots.is_empty() && self.journals.is_empty()
    }

    /// The valid generation where `current` does not say it.
    fn latest(&self) -> u64 {
        self.snapshots.iter().copied().max().unwrap_or(0)
    }

    /// Checks that a set is complete.
    fn check(&self, generation: u64, dir: &Path) -> Result<(), Error> {
        let missing = |file: String| Err(Error::Missing { file: dir.join(file) });
        if generation > 0 && !self.snapshots.contains(&generation) {
            return missing(format!("snapshot.{generation}"));
        }
        match self.journals.contains(&generation) {
            true => Ok(()),
            false => missing(format!("journal.{generation}")),
        }
    }
}

impl Journal {
    /// Reads the state on this disk, or creates a new one if there is none and never was.
    pub fn open(
        mut disk: Box<dyn Disk>,
        config: &NamespaceConfig,
        now: Stamp,
    ) -> Result<(Journal, State, RecoveryReport), Error> {
        let partition = config.partition;
        let mut found = Found::on(disk.as_mut())?;
        let boot = disk.boot();
        let nothing = CurrentMark { boot, ..CurrentMark::default() };
        let (current, mark) = match Current::find(disk.as_mut(), &found.names, partition)? {
            current::Found::Nothing if !found.is_empty() => {
                return Err(Error::Missing { file: disk.place().join(current::NAME) });
            }
            current::Found::Nothing if config.is_used() => {
                return Err(Error::Lost { dir: disk.place().into() });
            }
            current::Found::Nothing => (Current::create(disk.as_mut(), partition, &nothing)?, Some(nothing)),
            current::Found::Accepted(current) => (current, None),
            current::Found::Mark(current, mark) => (current, Some(mark)),
        };
        let generation = mark.map_or_else(|| found.latest(), |mark| mark.generation);
        // A name space of which nothing was flushed has never served a client.
        let fresh = mark.is_some_and(|mark| mark.flushed == 0) && found.is_empty();
        if fresh && config.is_used() {
            return Err(Error::Lost { dir: disk.place().into() });
        }
        if fresh {
            new_name_space(disk.as_mut(), partition, now)?;
            found.journals.push(0);
        }
        found.check(generation, disk.place())?;
        let mut recovered = RecoveryReport { fresh, ..RecoveryReport::default() };
        recovered.closed = mark.is_some_and(|mark| mark.is_closed);
        recovered.may_have_opens = !fresh && mark.is_none_or(|mark| !mark.is_closed || mark.has_opens);
        let recovery = Recovery { mark, boot, partition, generation };
        let (file, mut state, len, snapshot_len) = recovery.run(disk.as_mut(), &mut recovered)?;
        recovery.skip_numbers(&mut state, config, disk.place())?;
        let salt = Salt::of(&header(Contents::Journal, partition, generation));
        let flushed = if fresh { len } else { mark.map_or(0, |mark| mark.flushed.min(len)) };
        let files = Numbers { from: state.next, upto: 0 };
        let truncations = Numbers { from: state.next_truncation, upto: 0 };
        let mark =
            CurrentMark { generation, flushed, files, truncations, boot, is_closed: false, has_opens: false };
        let mut journal = Journal {
            disk,
            file,
            current,
            mark,
            mark_changed: true,
            partition,
            salt,
            len,
            snapshot_len,
            reserved: 0,
            least: config.journal,
            again_at: 0,
            ragged: false,
            dirty: true,
            doubtful: false,
            buffer: Vec::new(),
        };
        journal.take_numbers(&state)?;
        remove_leftovers(journal.disk.as_mut(), &found.names, generation);
        Ok((journal, state, recovered))
    }

    /// Makes sure that ids which the next record may assign are never assigned again. Called before each record.
    pub fn take_numbers(&mut self, state: &State) -> Result<(), Error> {
        let is_short = |next: u64, limit: u64| next.saturating_add(FEW_NUMBERS) > limit;
        if !self.mark_changed
            && !is_short(state.next, self.mark.files.upto)
            && !is_short(state.next_truncation, self.mark.truncations.upto)
        {
            return Ok(());
        }
        self.mark.files.upto = self.mark.files.upto.max(state.next.saturating_add(NUMBERS));
        let upto = state.next_truncation.saturating_add(NUMBERS);
        self.mark.truncations.upto = self.mark.truncations.upto.max(upto);
        self.write_current()
    }

    /// Writes `current`.
    fn write_current(&mut self) -> Result<(), Error> {
        self.mark_changed = true;
        self.current.put(&self.mark)?;
        self.mark_changed = false;
        Ok(())
    }

    /// Writes a record. If this fails, the journal is as before.
    pub fn append(&mut self, record: &Record<'_>) -> Result<(), Error> {
        self.drop_failed_append()?;
        self.buffer.clear();
        frame(&mut self.buffer, self.salt, self.len, |to| record.encode(to));
        self.make_room(record.change.is_urgent())?;
        self.dirty = true;
        if let Err(error) = write_all(self.file.as_mut(), &self.buffer, self.len) {
            self.ragged = true;
            // If this fails as well, the next record tries again before it is written.
            let _ = self.drop_failed_append();
            return Err(Error::io(Action::Write, self.path(), &error));
        }
        self.len += self.buffer.len() as u64;
        Ok(())
    }

    /// Allocates space for the record in the buffer, and for some more.
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
            // The file system cannot allocate space: it is not tried again.
            _ => {
                self.reserved = u64::MAX;
                Ok(())
            }
        }
    }

    /// Cuts off the bytes of a failed append.
    fn drop_failed_append(&mut self) -> Result<(), Error> {
        if self.ragged {
            let cut = self.file.resize(self.len);
            cut.map_err(|error| Error::io(Action::Resize, self.path(), &error))?;
            self.ragged = false;
            // A file system may free the space together with the bytes.
            self.reserved = 0;
        }
        Ok(())
    }

    /// Makes the written records survive a loss of power, and makes their loss detectable.
    pub fn sync(&mut self, state: &State) -> Result<(), Error> {
        self.drop_failed_append()?;
        if self.doubtful {
            return self.renew(state);
        }
        if !self.dirty && !self.mark_changed {
            return Ok(());
        }
        let synced = if pario_runtime::is_planted("journal-not-synced") { Ok(()) } else { self.file.sync() };
        if let Err(error) = synced {
            self.doubtful = true;
            return Err(Error::io(Action::Sync, self.path(), &error));
        }
        self.dirty = false;
        self.mark.flushed = self.len;
        self.write_current()
    }

    /// The same as the last call: the next start knows that everything is flushed, and whether clients may have files open.
    pub fn close(&mut self, state: &State, has_opens: bool) -> Result<(), Error> {
        self.sync(state)?;
        (self.mark.is_closed, self.mark.has_opens) = (true, has_opens);
        self.write_current()
    }

    /// Whether a snapshot is due.
    pub fn is_long(&self) -> bool {
        self.len > self.least.max(2 * self.snapshot_len) && self.len >= self.again_at
    }

    /// Bytes of journal and snapshot.
    pub fn bytes(&self) -> u64 {
        self.len + self.snapshot_len
    }

    /// Writes a snapshot and continues with an empty journal. If this fails, the old files stay valid.
    pub fn renew(&mut self, state: &State) -> Result<(), Error> {
        let next = self.mark.generation + 1;
        let before = self.mark;
        let made = self.new_set(state, next).and_then(|set| {
            self.mark = CurrentMark { generation: next, flushed: HEADER, ..before };
            self.write_current().map(|()| set)
        });
        match made {
            Ok((file, snapshot_len)) => {
                self.file = file;
                self.salt = Salt::of(&header(Contents::Journal, self.partition, next));
                (self.len, self.snapshot_len, self.reserved) = (HEADER, snapshot_len, 0);
                self.again_at = 0;
                (self.ragged, self.dirty, self.doubtful) = (false, false, false);
                self.remove_old();
                Ok(())
            }
            Err(error) => {
                self.again_at = self.len + self.len / 4;
                if self.mark != before {
                    // `current` may have either generation: before the old set continues, it has to have the old one. The
                    // new set stays until then.
                    (self.mark, self.mark_changed) = (before, true);
                    self.write_current()?;
                }
                self.remove_old();
                Err(error)
            }
        }
    }

    /// Creates the files of the next generation. Returns its journal, and the length of its snapshot.
    fn new_set(&mut self, state: &State, next: u64) -> Result<(Box<dyn DiskFile>, u64), Error> {
        let disk = self.disk.as_mut();
        let path = disk.place().join(NEW_SNAPSHOT);
        let mut file = disk.create(NEW_SNAPSHOT).map_err(|error| Error::io(Action::Create, &path, &error))?;
        let len = snapshot::write(state, file.as_mut(), self.partition, next);
        let len = len.map_err(|error| Error::io(Action::Write, &path, &error))?;
        file.sync().map_err(|error| Error::io(Action::Sync, &path, &error))?;
        let journal = new_journal(disk, self.partition, next, |_, _| {})?;
        let renamed = disk.rename(NEW_SNAPSHOT, &format!("snapshot.{next}"));
        renamed.map_err(|error| Error::io(Action::Rename, &path, &error))?;
        sync_names(disk)?;
        Ok((journal, len))
    }

    /// Removes files that are not valid. Files that cannot be removed now are removed when the name space is opened again.
    fn remove_old(&mut self) {
        if let Ok(names) = self.disk.list() {
            remove_leftovers(self.disk.as_mut(), &names, self.mark.generation);
        }
    }

    /// Ids are assigned within what `current` reserves, so a successor never assigns one again.
    pub fn check_numbers(&self, state: &State) -> Result<(), String> {
        let is_within = |next: u64, numbers: &Numbers| (numbers.from..=numbers.upto).contains(&next);
        let Journal { mark, len, mark_changed, .. } = self;
        let are_reserved =
            is_within(state.next, &mark.files) && is_within(state.next_truncation, &mark.truncations);
        if !mark_changed && !are_reserved {
            return Err(format!("{} and {} are not reserved in {mark:?}", state.next, state.next_truncation));
        }
        match mark.flushed > *len {
            true => Err(format!("{} bytes of the journal are flushed, but it has {len}", mark.flushed)),
            false => Ok(()),
        }
    }

    /// The state that the files describe. `None` while a failed write, sync or snapshot leaves their content open.
    pub fn replayed(&self, read: ReadFile<'_>) -> Option<Result<State, Error>> {
        if self.ragged || self.doubtful || self.mark_changed {
            return None;
        }
        let (partition, generation) = (self.partition, self.mark.generation);
        let open = |name: String| {
            let path = self.disk.place().join(name);
            read(&path).map(FileContent).ok_or(Error::Missing { file: path })
        };
        let replay = || {
            let mut state = State::new();
            if generation > 0 {
                let mut file = open(format!("snapshot.{generation}"))?;
                state = snapshot::read(&mut file, &self.path(), partition, generation)?.0;
            }
            let mut file = open(format!("journal.{generation}"))?;
            let mark = Some(CurrentMark { is_closed: true, flushed: self.len, ..self.mark });
            let recovery = Recovery { mark, boot: 0, partition, generation };
            recovery.replay(&mut file, &self.path(), &mut state, &mut RecoveryReport::default())?;
            Ok(state)
        };
        Some(replay())
    }

    fn path(&self) -> PathBuf {
        self.disk.place().join(format!("journal.{}", self.mark.generation))
    }
}

/// Creates the first journal, which contains the root.
fn new_name_space(disk: &mut dyn Disk, partition: PartitionId, now: Stamp) -> Result<(), Error> {
    let change = Change::Root { mode: 0o755 };
    let root = Record { now, client: ClientId(0), request: RequestId(0), change };
    new_journal(disk, partition, 0, |bytes, salt| frame(bytes, salt, HEADER, |to| root.encode(to)))?;
    sync_names(disk)
}

/// Creates a journal whose first bytes after the header `write` appends.
fn new_journal(
    disk: &mut dyn Disk,
    partition: PartitionId,
    generation: u64,
    write: impl FnOnce(&mut Vec<u8>, Salt),
) -> Result<Box<dyn DiskFile>, Error> {
    let path = disk.place().join(NEW_JOURNAL);
    let mut file = disk.create(NEW_JOURNAL).map_err(|error| Error::io(Action::Create, &path, &error))?;
    let header = header(Contents::Journal, partition, generation);
    let mut bytes = header.to_vec();
    write(&mut bytes, Salt::of(&header));
    write_all(file.as_mut(), &bytes, 0).map_err(|error| Error::io(Action::Write, &path, &error))?;
    file.sync().map_err(|error| Error::io(Action::Sync, &path, &error))?;
    let renamed = disk.rename(NEW_JOURNAL, &format!("journal.{generation}"));
    renamed.map_err(|error| Error::io(Action::Rename, &path, &error))?;
    Ok(file)
}

fn sync_names(disk: &mut dyn Disk) -> Result<(), Error> {
    disk.sync().map_err(|error| Error::io(Action::Sync, disk.place(), &error))
}

/// Removes files of other generations and unfinished ones. Files that cannot be removed are tried again at the next start.
fn remove_leftovers(disk: &mut dyn Disk, names: &[String], generation: u64) {
    for name in names {
        let ending = name.strip_prefix("journal.").or(name.strip_prefix("snapshot."));
        let is_unfinished = ["journal.tmp", "snapshot.tmp", "current.tmp"].contains(&name.as_str());
        if is_unfinished || ending.and_then(|end| end.parse().ok()).is_some_and(|n: u64| n != generation) {
            let _ = disk.remove(name);
        }
    }
}

/// The recovery of a set of files.
struct Recovery {
    /// The content of `current`; `None`: the user accepts the files as they are.
    mark: Option<CurrentMark>,
    boot: u128,
    partition: PartitionId,
    generation: u64,
}

impl Recovery {
    /// Returns the journal, the state, and the lengths of journal and snapshot.
    fn run(
        &self,
        disk: &mut dyn Disk,
        recovered: &mut RecoveryReport,
    ) -> Result<(Box<dyn DiskFile>, State, u64, u64), Error> {
        let generation = self.generation;
        let mut open = |name: &str| {
            let path = disk.place().join(name);
            let file = disk.open(name).map_err(|error| Error::io(Action::Open, &path, &error))?;
            Ok((file, path))
        };
        let (mut state, mut snapshot_len) = (State::new(), 0);
        if generation > 0 {
            let (mut file, path) = open(&format!("snapshot.{generation}"))?;
            (state, recovered.records, snapshot_len) =
                snapshot::read(file.as_mut(), &path, self.partition, generation)?;
        }
        let (mut file, path) = open(&format!("journal.{generation}"))?;
        let len = self.replay(file.as_mut(), &path, &mut state, recovered)?;
        let end = file.length().map_err(|error| Error::io(Action::Read, &path, &error))?;
        if len < end {
            recovered.torn = end - len;
            let kept = format!("torn.{generation}.{len}");
            // These bytes are only evidence: the server starts even if the disk has no space for a copy.
            recovered.is_torn_kept = keep(disk, file.as_mut(), &kept, len, end).is_ok();
            file.resize(len).map_err(|error| Error::io(Action::Resize, &path, &error))?;
            // The sync makes sure that these bytes never reappear under later records.
            file.sync().map_err(|error| Error::io(Action::Sync, &path, &error))?;
        }
        let flushed = self.mark.filter(|mark| mark.is_closed).map_or(self.flushed(), |_| len);
        copy_onto_itself(file.as_mut(), flushed, len)
            .map_err(|error| Error::io(Action::Write, &path, &error))?;
        recovered.bytes = snapshot_len + len;
        Ok((file, state, len, snapshot_len))
    }

    /// Applies all records of a journal. Returns its length without the bytes to cut off.
    fn replay(
        &self,
        file: &mut dyn DiskFile,
        path: &Path,
        state: &mut State,
        recovered: &mut RecoveryReport,
    ) -> Result<u64, Error> {
        let mut frames = Frames::open(file, path, Contents::Journal, self.partition, self.generation)?;
        let flushed = self.flushed();
        if frames.len() < flushed {
            return Err(frames.damaged_at(frames.len(), "it ends there, and more of it was flushed"));
        }
        loop {
            let at = frames.at();
            let (why, cut_short) = match frames.next()? {
                Next::End => break,
                Next::Bad { cut_short } => ("a record is not what was written", cut_short),
                Next::Record(payload, _) => {
                    let record = Record::decode(payload);
                    match record.map(|record| state.apply(&record)) {
                        Some(Ok(())) => {
                            recovered.records += 1;
                            continue;
                        }
                        Some(Err(misfit)) => (misfit.0, false),
                        None => ("a record makes no sense", false),
                    }
                }
            };
            if at < flushed || !self.may_be_torn(cut_short) {
                return Err(frames.damaged_at(at, why));
            }
            return self.checked(state, &frames, at);
        }
        self.checked(state, &frames, frames.at())
    }

    fn flushed(&self) -> u64 {
        self.mark.map_or(0, |mark| mark.flushed)
    }

    fn checked(&self, state: &State, frames: &Frames<'_>, len: u64) -> Result<u64, Error> {
        match state.inodes.get(ROOT) {
            Some(_) => Ok(len),
            None => Err(frames.damaged("it has no root")),
        }
    }

    /// Whether the bytes after the records, beyond the flushed ones, can be left by a killed process or a loss of power.
    fn may_be_torn(&self, cut_short: bool) -> bool {
        match self.mark {
            Some(mark) if mark.is_closed => false,
            Some(mark) if mark.boot != 0 && mark.boot == self.boot => cut_short,
            _ => true,
        }
    }

    /// Skips all ids that may have been assigned, where records of some may be missing. Refuses a name space that is older
    /// than the stored data.
    fn skip_numbers(&self, state: &mut State, config: &NamespaceConfig, dir: &Path) -> Result<(), Error> {
        let is_complete = |mark: &CurrentMark| mark.is_closed || mark.boot != 0 && mark.boot == self.boot;
        match self.mark {
            Some(mark) => {
                let least = |numbers: Numbers| if is_complete(&mark) { numbers.from } else { numbers.upto };
                state.next = state.next.max(least(mark.files));
                state.next_truncation = state.next_truncation.max(least(mark.truncations));
            }
            None => {
                state.next = state.next.max(config.highest_file.0 + 1).saturating_add(UNKNOWN);
                state.next_truncation = state.next_truncation.saturating_add(UNKNOWN);
            }
        }
        let limit = state.next.max(self.mark.map_or(0, |mark| mark.files.upto));
        match config.highest_file.0 >= limit {
            true => Err(Error::Older { dir: dir.into(), next: FileId(limit), stored: config.highest_file }),
            false => Ok(()),
        }
    }
}

/// Writes the bytes of a file from `from` to `to` again. A flush of the previous process may have failed, after which the
/// system takes unwritten bytes for stored: so the next flush stores them.
fn copy_onto_itself(file: &mut dyn DiskFile, from: u64, to: u64) -> std::io::Result<()> {
    let mut piece = vec![0; 1 << 20];
    let mut at = from;
    while at < to {
        let want = piece.len().min((to - at) as usize);
        let read = read_full(file, &mut piece[..want], at)?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        write_all(file, &piece[..read], at)?;
        at += read as u64;
    }
    Ok(())
}

/// Copies the bytes of a file from `from` to `to` into a new one.
fn keep(disk: &mut dyn Disk, file: &mut dyn DiskFile, name: &str, from: u64, to: u64) -> std::io::Result<()> {
    let mut copy = disk.create(name)?;
    let mut piece = vec![0; 1 << 20];
    let mut at = from;
    while at < to {
        let want = piece.len().min((to - at) as usize);
        let read = read_full(file, &mut piece[..want], at)?;
        if read == 0 {
            break;
        }
        write_all(copy.as_mut(), &piece[..read], at - from)?;
        at += read as u64;
    }
    copy.sync()
}
