//! The invariants of a name space, which hold between two changes. Tests and simulations check it.

use std::io;
use std::path::Path as DiskPath;

use pario_metadata::FileSize;
use pario_types::FileId;

use crate::ROOT;
use crate::disk::DiskFile;
use crate::inodes::{Body, Inode};
use crate::namespace::Namespace;
use crate::state::{State, Truncation};

/// Reads a whole file of the disk; `None` if there is none.
pub type ReadFile<'a> = &'a dyn Fn(&DiskPath) -> Option<Vec<u8>>;

impl Namespace {
    /// Checks that names, inodes, orphans, open files and ids agree.
    pub fn check_invariants(&self) -> Result<(), String> {
        self.state.check()?;
        self.journal.check_numbers(&self.state)?;
        let is_orphan = |file: &&FileId| self.state.orphans.contains(file);
        if let Some(file) = self.ready.iter().chain(&self.taken).find(|file| !is_orphan(file)) {
            return Err(format!("{file:?} is to be removed, but is no orphan"));
        }
        if let Some(file) = self.ready.iter().find(|file| self.opens.of(**file) > 0) {
            return Err(format!("{file:?} is to be removed, but is open"));
        }
        self.opens
            .check_counts(|file| self.state.inodes.get(file).is_some_and(|inode| inode.entries().is_none()))
    }

    /// Checks that snapshot and journal describe the present state, as `read` finds them on the disk. Nothing is checked while a failed
    /// write or sync leaves open what they contain.
    pub fn check_replay(&self, read: ReadFile<'_>) -> Result<(), String> {
        match self.journal.replayed(read) {
            None => Ok(()),
            Some(replayed) => self.state.compare(&replayed.map_err(|error| error.to_string())?),
        }
    }
}

impl State {
    fn check(&self) -> Result<(), String> {
        let (mut named, mut entries, mut directories) = (0, 0, 0);
        for (file, inode) in self.inodes.from(FileId(0)) {
            let wrong = |why: &str| Err(format!("{file:?} {why}: {inode:?}"));
            if file.0 >= self.next {
                return wrong("has a number that is not assigned yet");
            }
            directories += u64::from(inode.entries().is_some());
            entries += inode.entries().map_or(0, |entries| entries.len() as u64);
            if self.orphans.contains(&file) {
                if inode.parent != FileId(0) || inode.entries().is_some() {
                    return wrong("is an orphan with a name, or a directory");
                }
            } else if file != ROOT {
                named += 1;
                if self.child(inode.parent, &inode.name) != Some(file) {
                    return wrong("does not stand under its name");
                }
            }
        }
        if (entries, directories) != (named, self.directories) {
            return Err(format!(
                "{entries} entries for {named} names, {directories} directories, of which {} are counted",
                self.directories
            ));
        }
        if let Some(file) = self.orphans.iter().find(|file| self.inodes.get(**file).is_none()) {
            return Err(format!("the orphan {file:?} does not exist"));
        }
        for (file, truncation) in &self.truncations {
            if truncation.id.0 >= self.next_truncation || self.inodes.get(*file).is_none() {
                return Err(format!(
                    "{file:?} has {truncation:?}; the next number is {}",
                    self.next_truncation
                ));
            }
        }
        match self
            .tables
            .placed()
            .find(|(file, table)| self.inodes.get(*file).is_none() || self.tables.bytes(*table).is_none())
        {
            None => Ok(()),
            Some((file, table)) => Err(format!("{file:?} is placed by {table:?}, or does not exist")),
        }
    }

    /// Compares the state with one that was read from the disk. Not in the files are: the numbers that were skipped at a start, what a
    /// server saw of an uncertain size, and tables that no file has.
    fn compare(&self, replayed: &State) -> Result<(), String> {
        let differs = |what: &str, now: String, then: String| {
            Err(format!("snapshot and journal have other {what}: {then} instead of {now}"))
        };
        if replayed.next > self.next || replayed.next_truncation > self.next_truncation {
            let numbers = |state: &State| format!("{} and {}", state.next, state.next_truncation);
            return differs("numbers", numbers(self), numbers(replayed));
        }
        if self.orphans != replayed.orphans {
            return differs("orphans", format!("{:?}", self.orphans), format!("{:?}", replayed.orphans));
        }
        let truncations = |state: &State| -> Vec<(FileId, Truncation)> {
            let known = |(file, one): (&FileId, &Truncation)| (*file, Truncation { is_left: false, ..*one });
            state.truncations.iter().map(known).collect()
        };
        let (now, then) = (truncations(self), truncations(replayed));
        if now != then {
            return differs("truncations", format!("{now:?}"), format!("{then:?}"));
        }
        if self.requests.all() != replayed.requests.all() {
            let text = |state: &State| format!("{:?}", state.requests.all());
            return differs("requests", text(self), text(replayed));
        }
        let placed = |state: &State| -> Vec<_> { state.tables.placed().collect() };
        if placed(self) != placed(replayed) {
            return differs("tables", format!("{:?}", placed(self)), format!("{:?}", placed(replayed)));
        }
        let (mut now, mut then) = (self.inodes.from(FileId(0)), replayed.inodes.from(FileId(0)));
        loop {
            match (now.next(), then.next()) {
                (None, None) => return Ok(()),
                (Some(a), Some(b)) if a.0 == b.0 && is_same(a.1, b.1) => {}
                (a, b) => return differs("files", format!("{a:?}"), format!("{b:?}")),
            }
        }
    }
}

/// Whether two inodes are equal but for the number of an uncertain size.
fn is_same(a: &Inode, b: &Inode) -> bool {
    let is_unsure = |inode: &Inode| matches!(inode.size(), Some(FileSize::Ask { .. }));
    match (&a.body, &b.body) {
        (Body::File { striping, .. }, Body::File { striping: other, .. }) if is_unsure(a) && is_unsure(b) => {
            let key = |inode: &Inode| (inode.parent, inode.name.clone(), inode.mode, inode.times);
            striping == other && key(a) == key(b)
        }
        _ => a == b,
    }
}

/// The content of a file, to be read only.
pub(crate) struct FileContent(pub Vec<u8>);

impl DiskFile for FileContent {
    fn length(&mut self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&mut self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let rest = self.0.get(at as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&mut self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn resize(&mut self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn reserve(&mut self, _: u64, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}
