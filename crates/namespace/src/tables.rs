//! Tables by which files are placed: what a file of the name space brings along besides its inode.
//!
//! A table can be far longer than a record, so it is written down in parts, before the first file that is placed by
//! it; then it is named by the hash of its bytes. Files with the same table share it. One that no file has is
//! forgotten before the next snapshot: whoever still wants it puts it again.

use std::collections::{BTreeMap, BTreeSet};

use pario_layout::PlacementMapId;
use pario_types::FileId;

/// Bytes of a table in one record.
pub(crate) const PART: usize = 48 << 10;

/// The tables there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tables {
    /// Their bytes; all, or as much as was written down so far.
    known: BTreeMap<PlacementMapId, Vec<u8>>,
    /// The table of each placed file.
    of: BTreeMap<FileId, PlacementMapId>,
}

/// A part of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part<'a> {
    pub table: PlacementMapId,
    /// Where in its bytes.
    pub at: u32,
    pub bytes: &'a [u8],
}

impl Tables {
    /// The bytes of a table, if all of them are there.
    pub fn bytes(&self, table: PlacementMapId) -> Option<&[u8]> {
        self.known.get(&table).map(Vec::as_slice).filter(|bytes| bytes.len() == table.len as usize)
    }

    /// The table of a file.
    pub fn of(&self, file: FileId) -> Option<PlacementMapId> {
        self.of.get(&file).copied()
    }

    /// The parts in which a table is written down.
    pub fn parts(table: PlacementMapId, bytes: &[u8]) -> impl Iterator<Item = Part<'_>> {
        (0..).step_by(PART).zip(bytes.chunks(PART)).map(move |(at, bytes)| Part { table, at, bytes })
    }

    /// One more part; whether it fits. The first begins a table anew: its other parts may never have been written.
    pub fn add(&mut self, part: Part<'_>) -> bool {
        let Part { table, at, bytes } = part;
        let known = self.known.entry(table).or_default();
        if at == 0 {
            known.clear();
        }
        let fits = known.len() == at as usize && known.len() + bytes.len() <= table.len as usize;
        if fits {
            known.extend_from_slice(bytes);
        }
        fits && (known.len() < table.len as usize || PlacementMapId::of(known) == table)
    }

    /// The file is placed by a table that is there; whether it is.
    pub fn place(&mut self, file: FileId, table: PlacementMapId) -> bool {
        let is_there = self.bytes(table).is_some();
        if is_there {
            self.of.insert(file, table);
        }
        is_there
    }

    /// The file is no more.
    pub fn forget(&mut self, file: FileId) {
        self.of.remove(&file);
    }

    /// The tables of which all bytes are there.
    pub fn whole(&self) -> impl Iterator<Item = (PlacementMapId, &[u8])> {
        self.known.keys().filter_map(|table| Some((*table, self.bytes(*table)?)))
    }

    /// The placed files, in order, each with its table.
    pub fn placed(&self) -> impl Iterator<Item = (FileId, PlacementMapId)> + '_ {
        self.of.iter().map(|(file, table)| (*file, *table))
    }

    /// Keeps only those that files have.
    pub fn drop_unused(&mut self) {
        let used: BTreeSet<PlacementMapId> = self.of.values().copied().collect();
        self.known.retain(|table, _| used.contains(table));
    }
}
