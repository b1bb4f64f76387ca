//! The state that the journal describes, and the effect of each change.
//!
//! [`State::apply`] is the only way in which names, inodes and remembered requests change, for requests of clients as for
//! recovery. It refuses a record that does not fit. This cannot happen for a change that was planned on this very state,
//! and recovery ends there.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use pario_types::{ClientId, FileId, Stamp, TruncationId};

use crate::ROOT;
use crate::change::{Change, Record};
use crate::inodes::{Body, Entries, Inode, Inodes, Times};
use crate::requests::{Outcome, Requests};
use crate::tables::Tables;
use pario_metadata::FileSize;

/// The reason why a record cannot be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidRecord(pub &'static str);

/// A truncation that was begun and has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Truncation {
    pub id: TruncationId,
    pub size: u64,
    /// The client that began it.
    pub client: ClientId,
    /// Whether another client had the file open for writing at some time since the begin, or its own client has aborted it:
    /// then it must not be completed, because that would destroy later writes.
    pub contended: bool,
    /// Whether its client is gone or has aborted it, so that the metadata server has to resolve it. Not in the journal.
    pub is_left: bool,
}

/// The durable state.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub inodes: Inodes,
    /// The next id of a file.
    pub next: u64,
    /// Files without a name whose stripes are not yet removed.
    pub orphans: BTreeSet<FileId>,
    /// The truncation under way of each file.
    pub truncations: BTreeMap<FileId, Truncation>,
    /// The next id of a truncation.
    pub next_truncation: u64,
    pub requests: Requests,
    pub directories: u64,
    pub tables: Tables,
    /// The last number assigned to an uncertain size. It starts anywhere, so that numbers of a previous server mean
    /// nothing.
    seen: u64,
}

impl State {
    pub fn new() -> State {
        State {
            inodes: Inodes::default(),
            next: ROOT.0,
            orphans: BTreeSet::new(),
            truncations: BTreeMap::new(),
            next_truncation: 1,
            requests: Requests::default(),
            directories: 0,
            tables: Tables::default(),
            seen: RandomState::new().hash_one(0),
        }
    }

    /// Returns an uncertain size with a number unlike any before.
    pub fn ask(&mut self) -> FileSize {
        self.seen = self.seen.wrapping_add(1);
        FileSize::Ask { seen: self.seen }
    }

    /// Returns the inode of this name in a directory.
    pub fn child(&self, directory: FileId, name: &str) -> Option<FileId> {
        self.inodes.get(directory)?.entries()?.get(name).copied()
    }

    /// The file's size may have changed: earlier answers of the servers are out of date.
    pub fn set_size(&mut self, file: FileId, new: FileSize) -> Result<(), InvalidRecord> {
        match self.inodes.get_mut(file).map(|inode| &mut inode.body) {
            Some(Body::File { size, .. }) => *size = new,
            _ => return Err(InvalidRecord("it is about a file that is not there")),
        }
        Ok(())
    }

    /// Applies a change, and remembers the request.
    pub fn apply(&mut self, record: &Record<'_>) -> Result<(), InvalidRecord> {
        let now = record.now;
        let mut outcome = Outcome::Done;
        match record.change {
            Change::Root { mode } => self.root(mode, now)?,
            Change::Create { parent, file, mode, writing, striping, table, name } => {
                if table.is_some_and(|table| self.tables.bytes(table).is_none()) {
                    return Err(InvalidRecord("the table that it names is not there"));
                }
                let size = if writing { self.ask() } else { FileSize::Known(0) };
                self.add(parent, file, name, mode, now, Body::File { striping, size })?;
                table.map(|table| self.tables.place(file, table));
                outcome = Outcome::About(file);
            }
            Change::MakeDirectories { parent, first, mode, above, path } => {
                outcome = Outcome::About(self.make_directories(parent, first, mode, above, path, now)?);
            }
            Change::RemoveDirectory { parent, directory, name } => {
                self.empty(directory)?;
                self.take_entry(parent, name, directory, now)?;
                self.drop_directory(directory);
            }
            Change::Unlink { parent, file, name } => {
                self.file(file)?;
                self.take_entry(parent, name, file, now)?;
                self.orphan(file, now);
            }
            Change::Rename { from, to, what, replaced, from_name, to_name } => {
                self.rename((from, from_name), (to, to_name), what, replaced, now)?;
            }
            Change::SetAttributes { file, mode, accessed, modified } => {
                let inode =
                    self.inodes.get_mut(file).ok_or(InvalidRecord("what it is about is not there"))?;
                inode.mode = mode.unwrap_or(inode.mode);
                inode.times.accessed = accessed.unwrap_or(inode.times.accessed);
                inode.times.modified = modified.unwrap_or(inode.times.modified);
                inode.times.changed = now;
                outcome = Outcome::About(file);
            }
            Change::Writing { file } => {
                let size = self.ask();
                self.set_size(file, size)?;
            }
            Change::Settle { file, size, modified } => {
                let inode = self.file(file)?;
                if let Some(modified) = modified {
                    inode.times.modified = modified;
                    inode.times.changed = now;
                }
                if let Some(size) = size {
                    self.set_size(file, FileSize::Known(size))?;
                }
            }
            Change::BeginTruncate { file, size, truncation: id, contended } => {
                if self.truncations.contains_key(&file) {
                    return Err(InvalidRecord("its file is in the middle of another truncation"));
                }
                if id.0 < self.next_truncation || id.0 == u64::MAX {
                    return Err(InvalidRecord("it uses a truncation's number again"));
                }
                let unsure = self.ask();
                self.set_size(file, unsure)?;
                let is_reused = pario_runtime::is_planted("truncation-number-reused");
                self.next_truncation = id.0 + u64::from(!is_reused);
                let begun = Truncation { id, size, client: record.client, contended, is_left: false };
                self.truncations.insert(file, begun);
            }
            Change::EndTruncate { file } => {
                let unsure = self.ask();
                self.set_size(file, unsure)?;
                self.truncations.remove(&file);
            }
            Change::ContendTruncate { file } => match self.truncations.get_mut(&file) {
                Some(truncation) => truncation.contended = true,
                None => return Err(InvalidRecord("it is about a truncation that was not begun")),
            },
            Change::Reaped { file } => {
                if !self.orphans.remove(&file) {
                    return Err(InvalidRecord("it is about a file that is no orphan"));
                }
                self.truncations.remove(&file);
                self.inodes.remove(file);
                self.tables.forget(file);
            }
            Change::Table(part) => {
                if !self.tables.add(part) {
                    return Err(InvalidRecord("it is no part of the table that it says"));
                }
            }
        }
        self.requests.remember(record.client, record.request, outcome);
        Ok(())
    }

    fn root(&mut self, mode: u16, now: Stamp) -> Result<(), InvalidRecord> {
        let body = Body::Directory(Entries::new());
        let root = Inode { parent: ROOT, name: "".into(), mode, times: Times::all(now), body };
        if !self.inodes.insert(ROOT, root) {
            return Err(InvalidRecord("there is a root already"));
        }
        self.next = ROOT.0 + 1;
        self.directories += 1;
        Ok(())
    }

    /// Returns a file, to change it.
    fn file(&mut self, file: FileId) -> Result<&mut Inode, InvalidRecord> {
        let inode = self.inodes.get_mut(file).filter(|inode| inode.entries().is_none());
        inode.ok_or(InvalidRecord("it is about a file that is not there"))
    }

    /// Checks that this is an empty directory.
    fn empty(&self, directory: FileId) -> Result<(), InvalidRecord> {
        match self.inodes.get(directory).and_then(Inode::entries) {
            Some(entries) if entries.is_empty() && directory != ROOT => Ok(()),
            _ => Err(InvalidRecord("it removes what is not an empty directory")),
        }
    }

    /// Adds a new inode under a new name.
    fn add(
        &mut self,
        parent: FileId,
        file: FileId,
        name: &str,
        mode: u16,
        now: Stamp,
        body: Body,
    ) -> Result<(), InvalidRecord> {
        if file.0 < self.next || file.0 == u64::MAX {
            return Err(InvalidRecord("it uses a number again"));
        }
        let directory = self.inodes.get_mut(parent);
        let Some(directory) =
            directory.filter(|inode| inode.entries().is_some_and(|e| !e.contains_key(name)))
        else {
            return Err(InvalidRecord("the name is taken, or in no directory"));
        };
        let name: Arc<str> = name.into();
        directory.entries_mut().expect("just seen").insert(name.clone(), file);
        (directory.times.modified, directory.times.changed) = (now, now);
        self.directories += u64::from(matches!(body, Body::Directory(_)));
        self.next = file.0 + 1;
        let new = self.inodes.insert(file, Inode { parent, name, mode, times: Times::all(now), body });
        assert!(new, "numbers from next on are free");
        Ok(())
    }

    /// Creates nested directories; returns the id of the last.
    fn make_directories(
        &mut self,
        mut parent: FileId,
        first: FileId,
        mode: u16,
        above: u16,
        path: &str,
        now: Stamp,
    ) -> Result<FileId, InvalidRecord> {
        let mut file = first;
        let mut names = path.split('/').peekable();
        while let Some(name) = names.next() {
            let mode = if names.peek().is_some() { above } else { mode };
            self.add(parent, file, name, mode, now, Body::Directory(Entries::new()))?;
            parent = file;
            file = FileId(file.0 + 1);
        }
        Ok(parent)
    }

    /// Removes a name, which has to refer to this inode, from a directory.
    fn take_entry(
        &mut self,
        parent: FileId,
        name: &str,
        what: FileId,
        now: Stamp,
    ) -> Result<(), InvalidRecord> {
        if self.child(parent, name) != Some(what) {
            return Err(InvalidRecord("the name stands for something else"));
        }
        let directory = self.inodes.get_mut(parent).expect("it has a child");
        directory.entries_mut().expect("it has a child").remove(name);
        (directory.times.modified, directory.times.changed) = (now, now);
        Ok(())
    }

    fn drop_directory(&mut self, directory: FileId) {
        self.inodes.remove(directory);
        self.directories -= 1;
    }

    fn orphan(&mut self, file: FileId, now: Stamp) {
        let inode = self.inodes.get_mut(file).expect("it had a name");
        (inode.parent, inode.name, inode.times.changed) = (FileId(0), "".into(), now);
        self.orphans.insert(file);
    }

    fn rename(
        &mut self,
        (from, from_name): (FileId, &str),
        (to, to_name): (FileId, &str),
        what: FileId,
        replaced: FileId,
        now: Stamp,
    ) -> Result<(), InvalidRecord> {
        let target = self.child(to, to_name);
        if target.unwrap_or_default() != replaced || replaced == what {
            return Err(InvalidRecord("the new name stands for something else"));
        }
        if self.inodes.get(to).and_then(Inode::entries).is_none() {
            return Err(InvalidRecord("the new name is in no directory"));
        }
        let replaces_file =
            target.and_then(|file| self.inodes.get(file)).is_some_and(|i| i.entries().is_none());
        if target.is_some() && !replaces_file {
            self.empty(replaced)?;
        }
        self.take_entry(from, from_name, what, now)?;
        if target.is_some() {
            self.take_entry(to, to_name, replaced, now)?;
            if replaces_file { self.orphan(replaced, now) } else { self.drop_directory(replaced) }
        }
        let name: Arc<str> = to_name.into();
        let inode = self.inodes.get_mut(what).expect("it has a name");
        (inode.parent, inode.name, inode.times.changed) = (to, name.clone(), now);
        let directory = self.inodes.get_mut(to).expect("just seen");
        directory.entries_mut().expect("just seen").insert(name, what);
        (directory.times.modified, directory.times.changed) = (now, now);
        Ok(())
    }
}
