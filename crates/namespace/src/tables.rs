//! The tables of placed files, which are stored beside the inodes.
//!
//! A table can be far longer than a record, so it is written in parts, before the first file that is placed by it. The hash
//! of its bytes identifies it. Files with the same table share it. A table that no file has is dropped before the next
//! snapshot; a client that still needs it stores it again.

use std::collections::{BTreeMap, BTreeSet};

use pario_layout::PlacementMapId;
use pario_types::FileId;

/// Bytes of a table in one record.
pub(crate) const PART: usize = 48 << 10;

/// All tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tables {
    /// Their bytes; all, or as many as have been written so far.
    known: BTreeMap<PlacementMapId, Vec<u8>>,
    /// The table of each placed file.
    of: BTreeMap<FileId, PlacementMapId>,
}

/// A part of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TablePart<'a> {
    pub table: PlacementMapId,
    /// Its offset in the table.
    pub at: u32,
    pub bytes: &'a [u8],
}

impl Tables {
    /// Returns the bytes of a table, if they are complete.
    pub fn bytes(&self, table: PlacementMapId) -> Option<&[u8]> {
        self.known.get(&table).map(Vec::as_slice).filter(|bytes| bytes.len() == table.len as usize)
    }

    /// The table of a file.
    pub fn of(&self, file: FileId) -> Option<PlacementMapId> {
        self.of.get(&file).copied()
    }

    /// Returns the parts in which a table is written.
    pub fn parts(table: PlacementMapId, bytes: &[u8]) -> impl Iterator<Item = TablePart<'_>> {
        (0..).step_by(PART).zip(bytes.chunks(PART)).map(move |(at, bytes)| TablePart { table, at, bytes })
    }

    /// Adds a part; returns whether it fits. The first part starts a table anew: its other parts may never have been
    /// written.
    pub fn add(&mut self, part: TablePart<'_>) -> bool {
        let TablePart { table, at, bytes } = part;
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

    /// Places a file by a table; returns whether the table is known.
    pub fn place(&mut self, file: FileId, table: PlacementMapId) -> bool {
        let is_there = self.bytes(table).is_some();
        if is_there {
            self.of.insert(file, table);
        }
        is_there
    }

    /// The file is removed.
    pub fn forget(&mut self, file: FileId) {
        self.of.remove(&file);
    }

    /// Returns the complete tables.
    pub fn whole(&self) -> impl Iterator<Item = (PlacementMapId, &[u8])> {
        self.known.keys().filter_map(|table| Some((*table, self.bytes(*table)?)))
    }

    /// Returns the placed files, in order, each with its table.
    pub fn placed(&self) -> impl Iterator<Item = (FileId, PlacementMapId)> + '_ {
        self.of.iter().map(|(file, table)| (*file, *table))
    }

    /// Drops the tables that no file has.
    pub fn drop_unused(&mut self) {
        let used: BTreeSet<PlacementMapId> = self.of.values().copied().collect();
        self.known.retain(|table, _| used.contains(table));
    }
}
