//! Copies that may differ: their writer went, or failed, while it had them locked.
//!
//! They are remembered, also on storage ([`crate::divergence_log`]), with who it was, until somebody has written all of them, or has made them equal. What is remembered
//! is bounded; of too many ranges all that lies between is suspected as well, and of too many files the oldest are left to
//! whoever checks the partition.

use std::collections::BTreeMap;

use pario_locks::LockExtent;
use pario_types::{ClientId, FileId};

const MOST_FILES: usize = 4096;
const MOST_EXTENTS: usize = 4096;
const MOST_CLIENTS: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct DivergentReplicas(BTreeMap<FileId, DivergentExtents>);

/// What writers of one file have left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DivergentExtents {
    /// In order and apart.
    pub extents: Vec<LockExtent>,
    pub clients: Vec<ClientId>,
}

impl DivergentReplicas {
    /// A client that had these extents locked is gone.
    pub fn add(&mut self, file: FileId, client: ClientId, extents: &[LockExtent]) {
        let left = self.0.entry(file).or_default();
        left.clients.retain(|known| *known != client);
        left.clients.push(client);
        if left.clients.len() > MOST_CLIENTS {
            left.clients.remove(0);
        }
        left.remove(extents);
        left.extents.extend(extents);
        left.extents.sort_unstable_by_key(|extent| extent.start());
        if let [first, .., last] = left.extents[..]
            && left.extents.len() > MOST_EXTENTS
        {
            left.extents = LockExtent::new(first.start(), last.end()).into_iter().collect();
        }
        if self.0.len() > MOST_FILES {
            self.0.pop_first();
        }
    }

    /// All copies of these extents are equal.
    pub fn repaired(&mut self, file: FileId, extents: &[LockExtent]) {
        if let Some(left) = self.0.get_mut(&file) {
            left.remove(extents);
            if left.extents.is_empty() {
                self.0.remove(&file);
            }
        }
    }

    /// There is no such file any more.
    pub fn forget(&mut self, file: FileId) {
        self.0.remove(&file);
    }

    /// The recorded entries, by file.
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
        fn what_is_torn_is_so_byte_by_byte(steps in prop::collection::vec((any::<bool>(), extents()), 0..20)) {
            let (mut torn, mut naive) = (DivergentReplicas::default(), BTreeSet::new());
            for (number, (adds, extents)) in (0u128..).zip(steps) {
                if adds {
                    torn.add(FILE, ClientId(number), &extents);
                    naive.extend(bytes(&extents));
                } else {
                    torn.repaired(FILE, &extents);
                    naive.retain(|byte| !bytes(&extents).any(|gone| gone == *byte));
                }
                let left = torn.of(FILE);
                prop_assert!(left.extents.is_sorted_by(|a, b| a.end() <= b.start()));
                prop_assert!(bytes(&left.extents).eq(naive.iter().copied()));
            }
        }
    }

    #[test]
    fn it_takes_bounded_room() {
        let mut torn = DivergentReplicas::default();
        for number in 0..2 * MOST_EXTENTS as u64 {
            let extent = LockExtent::new(10 * number, 10 * number + 5).expect("not empty");
            torn.add(FILE, ClientId(number.into()), &[extent]);
            let left = torn.of(FILE);
            assert!(left.extents.len() <= MOST_EXTENTS && left.clients.len() <= MOST_CLIENTS);
            assert!(left.extents.iter().any(|known| known.covers(extent)));
        }
        (100..100 + 2 * MOST_FILES as u64).for_each(|file| {
            torn.add(FileId(file), ClientId(1), &[LockExtent::ALL]);
        });
        assert!(torn.0.len() <= MOST_FILES);
        torn.forget(FileId(99 + 2 * MOST_FILES as u64));
        assert_eq!(torn.of(FileId(99 + 2 * MOST_FILES as u64)), DivergentExtents::default());
    }
}
