//! The blocks that truncations have removed and no sync has brought to the medium.
//!
//! A removal is a change of entries. If a sync fails, the system may drop that change, and old entries appear again. So the store remembers
//! which blocks have no bytes, and [recovery](crate::files::PartFiles::recover) removes their entries again.

use std::collections::BTreeSet;
use std::ops::Range;

/// The removals of a part since its last sync.
#[derive(Debug, Default)]
pub struct RemovedBlocks(Vec<Removal>);

/// One removal, or several that touch.
#[derive(Debug)]
struct Removal {
    /// The version of the part's header with the last of them.
    header: u64,
    blocks: Range<u64>,
    /// Those that were written since, or may have been.
    written: BTreeSet<u64>,
}

impl RemovedBlocks {
    /// All blocks of a range, which are all from its first one on, are removed.
    pub fn remove(&mut self, blocks: Range<u64>, header: u64) {
        let mut all = Removal { header, blocks, written: BTreeSet::new() };
        self.0.retain_mut(|earlier| {
            let first = all.blocks.start;
            let touches = earlier.blocks.end >= first;
            if touches {
                earlier.written.retain(|block| *block < first);
                all.written.append(&mut earlier.written);
                let start = earlier.blocks.start.min(first);
                all.blocks = start..earlier.blocks.end.max(all.blocks.end);
            }
            !touches
        });
        self.0.push(all);
    }

    /// Blocks are about to be written.
    pub fn write(&mut self, blocks: Range<u64>) {
        for removal in &mut self.0 {
            let first = blocks.start.max(removal.blocks.start);
            removal.written.extend(first..blocks.end.min(removal.blocks.end));
        }
    }

    /// A sync that has seen this version of the header has succeeded.
    pub fn synced(&mut self, header: u64) {
        self.0.retain(|removal| removal.header > header);
    }

    /// Whether a block was removed and not written since.
    pub fn contains(&self, block: u64) -> bool {
        self.0.iter().any(|one| one.blocks.contains(&block) && !one.written.contains(&block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_sync_forgets_only_the_removals_that_it_has_seen() {
        let mut removed = RemovedBlocks::default();
        removed.remove(2..4, 1);
        removed.remove(8..9, 2);
        removed.synced(1);
        assert!(!removed.contains(2) && removed.contains(8));
    }

    proptest! {
        #[test]
        fn the_removed_blocks_are_those_not_written_since(
            steps in prop::collection::vec((any::<bool>(), 0u64..20, 0u64..20), 0..30),
        ) {
            let (mut removed, mut expected, mut end) = (RemovedBlocks::default(), BTreeSet::new(), 20);
            for (removes, one, other) in steps {
                if removes && one < end {
                    removed.remove(one..end, 1);
                    expected.extend(one..end);
                    end = one;
                } else if !removes && one < other {
                    removed.write(one..other);
                    expected.retain(|block| !(one..other).contains(block));
                    end = end.max(other);
                }
                for block in 0..20 {
                    prop_assert_eq!(removed.contains(block), expected.contains(&block), "block {}", block);
                }
            }
        }
    }
}
