//! The parts in use: one lock each, and the descriptors of those used last.
//!
//! There is never more than one [`OpenPart`] per file, so that its lock orders all calls about the file.
//! Hence only those go that nobody holds, the longest unused first; while more threads than `most` work on
//! different parts, there are more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use pario_units::FileId;

use crate::pair::Pair;

/// A part with its lock: shared for reading it, exclusive for changing it or its descriptors.
#[derive(Default)]
pub struct OpenPart {
    pair: RwLock<Option<Arc<Pair>>>,
}

impl OpenPart {
    /// Its descriptors if they are open; nobody changes the part meanwhile.
    pub fn read(&self) -> RwLockReadGuard<'_, Option<Arc<Pair>>> {
        self.pair.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its descriptors, to be opened or closed; nobody else has the part meanwhile.
    pub fn write(&self) -> RwLockWriteGuard<'_, Option<Arc<Pair>>> {
        self.pair.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The parts in use.
pub struct Parts {
    most: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    by_file: HashMap<FileId, Use>,
    /// Counts lookups.
    now: u64,
}

struct Use {
    part: Arc<OpenPart>,
    last: u64,
}

impl Parts {
    /// Keeps the descriptors of so many parts.
    pub fn new(most: usize) -> Parts {
        Parts { most: most.max(1), held: Mutex::default() }
    }

    /// The part of a file.
    pub fn get(&self, file: FileId) -> Arc<OpenPart> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.now += 1;
        let last = held.now;
        if let Some(found) = held.by_file.get_mut(&file) {
            found.last = last;
            return Arc::clone(&found.part);
        }
        let gone = if held.by_file.len() < self.most { Vec::new() } else { held.let_go(self.most / 8 + 1) };
        let part = Arc::new(OpenPart::default());
        held.by_file.insert(file, Use { part: Arc::clone(&part), last });
        drop(held);
        drop(gone); // Closes files: not under the lock.
        part
    }

    /// Closes all that nobody holds; whether there were any.
    pub fn let_go(&self) -> bool {
        let gone = self.held.lock().unwrap_or_else(PoisonError::into_inner).let_go(usize::MAX);
        !gone.is_empty()
    }

    /// How many parts have descriptors or could have.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.held.lock().unwrap().by_file.len()
    }
}

impl Held {
    /// Takes out up to `most` that nobody holds, the longest unused first.
    fn let_go(&mut self, most: usize) -> Vec<Arc<OpenPart>> {
        // Only `get` hands out more holders, under the same lock: who has none now gets none meanwhile.
        let free = self.by_file.iter().filter(|(_, found)| Arc::strong_count(&found.part) == 1);
        let mut free: Vec<_> = free.map(|(file, found)| (found.last, *file)).collect();
        free.sort_unstable();
        let oldest = free.into_iter().take(most);
        oldest.filter_map(|(_, file)| self.by_file.remove(&file)).map(|found| found.part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_go_and_held_ones_stay() {
        let parts = Parts::new(4);
        let held = parts.get(FileId(0));
        for file in 1..20 {
            parts.get(FileId(file));
            assert!(parts.len() <= 4);
            assert!(Arc::ptr_eq(&parts.get(FileId(0)), &held));
        }
        let newest = Arc::as_ptr(&parts.get(FileId(19)));
        parts.get(FileId(20));
        assert_eq!(Arc::as_ptr(&parts.get(FileId(19))), newest);
        assert!(parts.let_go());
        assert_eq!(parts.len(), 1);
        assert!(!parts.let_go());
    }
}
