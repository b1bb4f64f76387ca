//! All inodes by their number.
//!
//! Ids only grow, so the table is divided into runs of 64 of them: a run holds its inodes without gaps, and a bit for each
//! id says whether it is present. This costs the size of an inode and little more (a hash map would cost twice as much),
//! and keeps them in order.

use std::collections::BTreeMap;
use std::sync::Arc;

use pario_layout::Striping;
use pario_types::{FileId, Stamp};

use pario_metadata::FileSize;

/// The times of an inode; see [`crate::Attributes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub accessed: Stamp,
    pub modified: Stamp,
    pub changed: Stamp,
    pub created: Stamp,
}

impl Times {
    pub fn all(now: Stamp) -> Times {
        Times { accessed: now, modified: now, changed: now, created: now }
    }
}

/// A file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inode {
    /// Its directory; the root is its own parent; 0 if it has no name.
    pub parent: FileId,
    /// Shared with the entry of its directory.
    pub name: Arc<str>,
    pub mode: u16,
    pub times: Times,
    pub body: Body,
}

/// The content of an inode: file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    File { striping: Striping, size: FileSize },
    Directory(Entries),
}

/// A directory's entries in order of their names.
pub(crate) type Entries = BTreeMap<Arc<str>, FileId>;

impl Inode {
    pub fn entries(&self) -> Option<&Entries> {
        match &self.body {
            Body::Directory(entries) => Some(entries),
            Body::File { .. } => None,
        }
    }

    pub fn entries_mut(&mut self) -> Option<&mut Entries> {
        match &mut self.body {
            Body::Directory(entries) => Some(entries),
            Body::File { .. } => None,
        }
    }

    pub fn size(&self) -> Option<FileSize> {
        match self.body {
            Body::File { size, .. } => Some(size),
            Body::Directory(_) => None,
        }
    }
}

const RUN: u64 = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Run {
    /// Bit i: id i of this run is present.
    present: u64,
    inodes: Vec<Inode>,
}

impl Run {
    /// Returns the index of the inode of this id, or the index at which it would be.
    fn place(&self, number: u64) -> usize {
        (self.present & ((1 << number) - 1)).count_ones() as usize
    }

    fn has(&self, number: u64) -> bool {
        self.present & (1 << number) != 0
    }
}

/// The table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inodes {
    runs: BTreeMap<u64, Run>,
    len: u64,
}

fn split(file: FileId) -> (u64, u64) {
    (file.0 / RUN, file.0 % RUN)
}

impl Inodes {
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn get(&self, file: FileId) -> Option<&Inode> {
        let (run, number) = split(file);
        let run = self.runs.get(&run).filter(|run| run.has(number))?;
        Some(&run.inodes[run.place(number)])
    }

    pub fn get_mut(&mut self, file: FileId) -> Option<&mut Inode> {
        let (run, number) = split(file);
        let run = self.runs.get_mut(&run).filter(|run| run.has(number))?;
        let place = run.place(number);
        Some(&mut run.inodes[place])
    }

    /// Adds an inode under an id that is not present; returns whether that was so.
    pub fn insert(&mut self, file: FileId, inode: Inode) -> bool {
        let (run, number) = split(file);
        let run = self.runs.entry(run).or_default();
        let new = !run.has(number);
        if new {
            run.inodes.insert(run.place(number), inode);
            run.present |= 1 << number;
            self.len += 1;
        }
        new
    }

    pub fn remove(&mut self, file: FileId) -> Option<Inode> {
        let (key, number) = split(file);
        let run = self.runs.get_mut(&key).filter(|run| run.has(number))?;
        let inode = run.inodes.remove(run.place(number));
        run.present &= !(1 << number);
        self.len -= 1;
        if run.inodes.is_empty() {
            self.runs.remove(&key);
        } else if run.inodes.len() * 4 < run.inodes.capacity() {
            run.inodes.shrink_to(run.inodes.len() * 2);
        }
        Some(inode)
    }

    /// All inodes from this number on, in order.
    pub fn from(&self, file: FileId) -> impl Iterator<Item = (FileId, &Inode)> {
        let (first, number) = split(file);
        self.runs.range(first..).flat_map(move |(key, run)| {
            let skip = if *key == first { (1u64 << number) - 1 } else { 0 };
            let numbers = (0..RUN).filter(|number| run.has(*number));
            let all = numbers.zip(&run.inodes);
            all.filter(move |(number, _)| skip & (1 << number) == 0)
                .map(move |(number, inode)| (FileId(key * RUN + number), inode))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn inode(mark: u64) -> Inode {
        let times = Times::all(Stamp(mark as i64));
        Inode { parent: FileId(1), name: "x".into(), mode: 0, times, body: Body::Directory(Entries::new()) }
    }

    #[test]
    fn an_inode_is_small() {
        assert!(size_of::<Inode>() <= 104, "{}", size_of::<Inode>());
    }

    proptest! {
        #[test]
        fn the_table_is_a_map(
            steps in prop::collection::vec((any::<bool>(), 0u64..300), 1..200),
            from in 0u64..310,
        ) {
            let (mut table, mut model) = (Inodes::default(), BTreeMap::new());
            for (at, (add, id)) in steps.into_iter().enumerate() {
                let file = FileId(id);
                if add {
                    let new = table.insert(file, inode(at as u64));
                    prop_assert_eq!(new, !model.contains_key(&file));
                    model.entry(file).or_insert_with(|| inode(at as u64));
                } else {
                    prop_assert_eq!(table.remove(file), model.remove(&file));
                }
                prop_assert_eq!(table.get(file), model.get(&file));
                prop_assert_eq!(table.len(), model.len() as u64);
            }
            let all: Vec<_> = table.from(FileId(from)).collect();
            let expected: Vec<_> = model.range(FileId(from)..).map(|(id, inode)| (*id, inode)).collect();
            prop_assert_eq!(all, expected);
        }
    }
}
