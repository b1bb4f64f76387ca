//! The parts in use: one lock each, the descriptors of the most recently used, and the unsynced state of all.
//!
//! There is never more than one [`PartState`] per file, so that its lock orders all calls about the file. Therefore only
//! parts that no thread holds are evicted, the least recently used first; while more threads than `most` work on different
//! parts, there are more. An unsynced part loses its descriptors, but its state stays.

use std::collections::HashMap;
use std::sync::Arc;

use pario_runtime::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use pario_types::FileId;

use crate::error::Error;
use crate::files::PartFiles;
use crate::unsynced::Unsynced;

/// A part with its locks.
#[derive(Default)]
pub struct OpenPart {
    state: RwLock<PartState>,
    /// Held by the thread that syncs the part.
    turn: Mutex<()>,
}

/// The state of a part.
#[derive(Default)]
pub struct PartState {
    /// Its descriptors, if they are open.
    pub files: Option<Arc<PartFiles>>,
    /// The part of it that is not on the medium.
    pub unsynced: Unsynced,
}

impl PartState {
    /// Closes its files. The header stays in memory if a sync may have damaged it.
    pub fn close(&mut self) -> Option<Arc<PartFiles>> {
        let files = self.files.take();
        if self.unsynced.failed.is_some() || !self.unsynced.is_empty() {
            self.unsynced.known_header =
                files.as_ref().map(|files| files.header()).or(self.unsynced.known_header);
        }
        files
    }
}

impl OpenPart {
    /// Locks the part for reading: no thread changes it meanwhile.
    pub fn read(&self) -> RwLockReadGuard<'_, PartState> {
        self.state.read()
    }

    /// Locks the part for a change of it or its descriptors.
    pub fn write(&self) -> RwLockWriteGuard<'_, PartState> {
        self.state.write()
    }

    /// Locks the part for a sync. Taken before the other lock, never after.
    pub fn sync_lock(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }
}

/// The parts in use.
pub struct OpenPartCache {
    most: usize,
    held: Mutex<OpenParts>,
}

#[derive(Default)]
struct OpenParts {
    by_file: HashMap<FileId, LastUse>,
    /// The number of lookups.
    now: u64,
    /// The number of parts that may have descriptors.
    open: usize,
}

struct LastUse {
    part: Arc<OpenPart>,
    last: u64,
    open: bool,
}

impl OpenPartCache {
    /// Keeps the descriptors of so many parts.
    pub fn new(most: usize) -> OpenPartCache {
        OpenPartCache { most: most.max(1), held: Mutex::default() }
    }

    /// Returns the part of a file.
    pub fn get(&self, file: FileId) -> Arc<OpenPart> {
        let mut held = self.held();
        held.now += 1;
        let last = held.now;
        let closed = held.by_file.get(&file).is_none_or(|found| !found.open);
        let gone =
            if closed && held.open >= self.most { held.close_oldest(self.most / 8 + 1) } else { Vec::new() };
        held.open += usize::from(closed);
        let found =
            held.by_file.entry(file).or_insert_with(|| LastUse { part: Arc::default(), last, open: true });
        (found.last, found.open) = (last, true);
        let part = Arc::clone(&found.part);
        drop(held);
        drop(gone); // Closes files: not under the lock.
        part
    }

    /// Closes all parts that no thread holds; returns whether there were any.
    pub fn close_oldest(&self) -> bool {
        let gone = self.held().close_oldest(usize::MAX);
        !gone.is_empty()
    }

    /// The system may have dropped unwritten data of any part.
    pub fn mark_suspect(&self) {
        let all: Vec<_> = self.held().by_file.values().map(|found| Arc::clone(&found.part)).collect();
        for part in all {
            let unsynced = &mut part.write().unsynced;
            if !unsynced.is_empty() {
                (unsynced.suspect, unsynced.recovered) = (true, false);
            }
        }
    }

    /// The error of the last failed sync of any part that has not been repaired since.
    pub fn failure(&self) -> Option<Error> {
        let all: Vec<_> = self.held().by_file.values().map(|found| Arc::clone(&found.part)).collect();
        all.iter().find_map(|part| part.read().unsynced.failed.clone())
    }

    fn held(&self) -> MutexGuard<'_, OpenParts> {
        self.held.lock()
    }

    /// The number of parts that have descriptors or could have.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.held().open
    }
}

impl OpenParts {
    /// Removes the descriptors of up to `most` parts that no thread holds, the least recently used first.
    fn close_oldest(&mut self, most: usize) -> Vec<Option<Arc<PartFiles>>> {
        // Parts are handed out under the same lock: one that no thread holds now is not handed out meanwhile.
        let free = self.by_file.iter().filter(|(_, found)| found.open && Arc::strong_count(&found.part) == 1);
        let mut free: Vec<_> = free.map(|(file, found)| (found.last, *file)).collect();
        free.sort_unstable();
        free.truncate(most);
        let mut gone = Vec::with_capacity(free.len());
        for (_, file) in free {
            let Some(found) = self.by_file.get_mut(&file) else { continue };
            let mut state = found.part.write();
            gone.push(state.close());
            let forget = state.unsynced.is_empty() && state.unsynced.failed.is_none();
            drop(state);
            found.open = false;
            self.open -= 1;
            if forget {
                self.by_file.remove(&file);
            }
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_files_are_closed_and_those_in_use_stay() {
        let parts = OpenPartCache::new(4);
        let held = parts.get(FileId(0));
        for file in 1..20 {
            parts.get(FileId(file));
            assert!(parts.len() <= 4);
            assert!(Arc::ptr_eq(&parts.get(FileId(0)), &held));
        }
        let newest = Arc::as_ptr(&parts.get(FileId(19)));
        parts.get(FileId(20));
        assert_eq!(Arc::as_ptr(&parts.get(FileId(19))), newest);
        assert!(parts.close_oldest());
        assert_eq!(parts.len(), 1);
        assert!(!parts.close_oldest());
    }

    #[test]
    fn files_that_are_not_synced_are_not_forgotten() {
        let parts = OpenPartCache::new(2);
        parts.get(FileId(1)).write().unsynced.header += 1;
        for file in 2..9 {
            parts.get(FileId(file));
        }
        assert!(parts.close_oldest());
        assert_eq!(parts.get(FileId(1)).read().unsynced.header, 1);
    }
}
