//! Replicas that may differ: their writer disconnected, or failed, while it held a lock on them.
//!
//! The server records them, with their writers, also on storage ([`super::divergence_log`]), until a client has written all of them or
//! has repaired them. The record is bounded: of too many ranges it keeps the range from the first to the last, and of too many files
//! it drops the oldest; `pario check` finds those.

use std::collections::BTreeMap;

use pario_locks::LockExtent;
use pario_types::{ClientId, FileId};

const MAX_FILES: usize = 4096;
const MAX_EXTENTS: usize = 4096;
const MAX_CLIENTS: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct DivergentReplicas(BTreeMap<FileId, DivergentExtents>);

/// The divergent extents of one file, and their writers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DivergentExtents {
    /// Sorted and disjoint.
    pub extents: Vec<LockExtent>,
    pub clients: Vec<ClientId>,
}

impl DivergentReplicas {
    /// Adds extents that a client had locked.
    pub fn add(&mut self, file: FileId, client: ClientId, extents: &[LockExtent]) {
        let left = self.0.entry(file).or_default();
        left.clients.retain(|known| *known != client);
        left.clients.push(client);
        if left.clients.len() > MAX_CLIENTS {
            left.clients.remove(0);
        }
        left.remove(extents);
        left.extents.extend(extents);
        left.extents.sort_unstable_by_key(|extent| extent.start());
        if let [first, .., last] = left.extents[..]
            && left.extents.len() > MAX_EXTENTS
        {
            left.extents = LockExtent::new(first.start(), last.end()).into_iter().collect();
        }
        if self.0.len() > MAX_FILES {
            self.0.pop_first();
        }
    }

    /// Removes extents whose replicas are equal.
    pub fn repaired(&mut self, file: FileId, extents: &[LockExtent]) {
        if let Some(left) = self.0.get_mut(&file) {
            left.remove(extents);
            if left.extents.is_empty() {
                self.0.remove(&file);
            }
        }
    }

    /// Removes a file that does not exist any more.
    pub fn forget(&mut self, file: FileId) {
        self.0.remove(&file);
    }

    /// All extents, by file.
    pub fn all(&self) -> impl Iterator<Item = (FileId, &DivergentExtents)> {
        self.0.iter().map(|(file, left)| (*file, left))
    }

    pub fn of(&self, file: FileId) -> DivergentExtents {
        self.0.get(&file).cloned().unwrap_or_default()
    }
}

impl DivergentExtents {
    fn remove(&mut self, extents: &[LockExtent]) {
        for gone in extents {
            if self.extents.iter().any(|extent| extent.overlaps(*gone)) {
                self.extents = self.extents.iter().flat_map(|extent| extent.minus(*gone)).collect();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const FILE: FileId = FileId(7);

    fn extents() -> impl Strategy<Value = Vec<LockExtent>> {
        prop::collection::vec((1u64..20, 1u64..9), 0..5).prop_map(|pieces| {
            let mut at = 0;
            let extent = |(gap, len)| {
                at += gap + len;
                LockExtent::new(at - len, at).expect("not empty")
            };
            pieces.into_iter().map(extent).collect()
        })
    }

    fn bytes(extents: &[LockExtent]) -> impl Iterator<Item = u64> + '_ {
        extents.iter().flat_map(|extent| extent.start()..extent.end())
    }

    proptest! {
        #[test]
        fn extents_are_those_of_a_set_of_bytes(steps in prop::collection::vec((any::<bool>(), extents()), 0..20)) {
            let (mut divergent, mut naive) = (DivergentReplicas::default(), BTreeSet::new());
            for (number, (adds, extents)) in (0u128..).zip(steps) {
                if adds {
                    divergent.add(FILE, ClientId(number), &extents);
                    naive.extend(bytes(&extents));
                } else {
                    divergent.repaired(FILE, &extents);
                    naive.retain(|byte| !bytes(&extents).any(|gone| gone == *byte));
                }
                let left = divergent.of(FILE);
                prop_assert!(left.extents.is_sorted_by(|a, b| a.end() <= b.start()));
                prop_assert!(bytes(&left.extents).eq(naive.iter().copied()));
            }
        }
    }

    #[test]
    fn the_record_is_bounded() {
        let mut divergent = DivergentReplicas::default();
        for number in 0..2 * MAX_EXTENTS as u64 {
            let extent = LockExtent::new(10 * number, 10 * number + 5).expect("not empty");
            divergent.add(FILE, ClientId(number.into()), &[extent]);
            let left = divergent.of(FILE);
            assert!(left.extents.len() <= MAX_EXTENTS && left.clients.len() <= MAX_CLIENTS);
            assert!(left.extents.iter().any(|known| known.covers(extent)));
        }
        (100..100 + 2 * MAX_FILES as u64).for_each(|file| {
            divergent.add(FileId(file), ClientId(1), &[LockExtent::ALL]);
        });
        assert!(divergent.0.len() <= MAX_FILES);
        divergent.forget(FileId(99 + 2 * MAX_FILES as u64));
        assert_eq!(divergent.of(FileId(99 + 2 * MAX_FILES as u64)), DivergentExtents::default());
    }
}
