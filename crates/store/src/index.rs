//! An index of all parts and their lengths, in memory: it is read from the directory once, when the store is opened, and
//! updated with every change. So ends, lists and used space cost no system call.

use std::collections::BTreeMap;
use std::ops::Bound;

use pario_runtime::sync::{Mutex, MutexGuard};
use pario_types::FileId;

use crate::PartInfo;

/// The extent of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartExtent {
    /// Its end.
    pub end: u64,
    /// Bytes that it takes on the medium.
    pub used: u64,
    /// Whether it has an order of its own.
    pub ordered: bool,
    /// Whether its checksums are lost, so that none of its bytes can be trusted.
    pub lost: bool,
    /// Whether some of it may not be on the medium.
    pub unsynced: bool,
}

/// All parts of a store.
#[derive(Debug, Default)]
pub struct PartIndex {
    parts: Mutex<IndexState>,
}

#[derive(Debug, Default)]
struct IndexState {
    by_file: BTreeMap<FileId, PartExtent>,
    used: u64,
}

impl PartIndex {
    /// Returns the extent of a part; `None` if it does not exist.
    pub fn extent(&self, file: FileId) -> Option<PartExtent> {
        self.parts().by_file.get(&file).copied()
    }

    /// Records the extent of a part.
    pub fn set(&self, file: FileId, extent: PartExtent) {
        let mut parts = self.parts();
        let old = parts.by_file.insert(file, extent).unwrap_or_default();
        parts.used = parts.used - old.used + extent.used;
    }

    /// Records the removal of a part.
    pub fn remove(&self, file: FileId) {
        let mut parts = self.parts();
        let old = parts.by_file.remove(&file).unwrap_or_default();
        parts.used -= old.used;
    }

    /// The parts after a file.
    pub fn list(&self, after: FileId, most: usize) -> Vec<PartInfo> {
        let parts = self.parts();
        let rest = parts.by_file.range((Bound::Excluded(after), Bound::Unbounded));
        rest.take(most).map(|(file, extent)| PartInfo { file: *file, end: extent.end }).collect()
    }

    /// The parts of which some bytes may not be on the medium.
    pub fn unsynced(&self) -> Vec<FileId> {
        let parts = self.parts();
        parts.by_file.iter().filter(|(_, extent)| extent.unsynced).map(|(file, _)| *file).collect()
    }

    /// The bytes of all parts, and their number.
    pub fn total(&self) -> (u64, u64) {
        let parts = self.parts();
        (parts.used, parts.by_file.len() as u64)
    }

    fn parts(&self) -> MutexGuard<'_, IndexState> {
        self.parts.lock()
    }
}
