//! The location of a run of consecutive blocks in a part, and the stored bytes of a write. Pure; all stores share it.

use std::ops::Range;

use pario_types::FileId;

use crate::{Error, Result};

/// The largest offset of a part.
const FARTHEST: u64 = i64::MAX as u64;

/// Consecutive blocks of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRun {
    /// Bytes of a block.
    block: u64,
    /// The first block.
    pub first: u64,
    /// The number of blocks.
    pub count: usize,
}

impl BlockRun {
    /// Creates a run, unless it goes beyond the largest offset.
    pub fn new(file: FileId, block: usize, first: u64, count: usize) -> Result<BlockRun> {
        let run = BlockRun { block: block as u64, first, count };
        let end = first.checked_add(count as u64).and_then(|end| end.checked_mul(run.block));
        end.filter(|end| *end <= FARTHEST).map(|_| run).ok_or(Error::TooFar { file })
    }

    /// The offset behind it.
    pub fn end(&self) -> u64 {
        (self.first + self.count as u64) * self.block
    }

    /// The numbers of its blocks.
    pub fn blocks(&self) -> Range<u64> {
        self.first..self.first + self.count as u64
    }

    /// The number of bytes of its block `index` below `end`.
    pub fn kept(&self, index: usize, end: u64) -> usize {
        let start = (self.first + index as u64) * self.block;
        end.saturating_sub(start).min(self.block) as usize
    }

    /// Those of its blocks that have a byte below `end`.
    pub fn below(&self, end: u64) -> BlockRun {
        let most = end.div_ceil(self.block).saturating_sub(self.first);
        BlockRun { count: (self.count as u64).min(most) as usize, ..*self }
    }

    /// The end of a part after this run was written with the writer's `end`.
    pub fn end_after(&self, stored: u64, end: u64) -> u64 {
        if self.count == 0 { stored } else { stored.max(end.min(self.end())) }
    }
}

/// Checks that a part can have this end.
pub fn sound_end(file: FileId, end: u64) -> Result<u64> {
    if end <= FARTHEST { Ok(end) } else { Err(Error::TooFar { file }) }
}

/// Panics if a block has a wrong size.
pub fn check_sizes<B: AsRef<[u8]>>(blocks: &[B], size: usize) {
    for block in blocks {
        assert_eq!(block.as_ref().len(), size, "a block of the wrong size");
    }
}

/// Whether a store can have this block size.
pub fn check_block_size(bytes: usize) -> Result<()> {
    let sound = bytes.is_power_of_two() && (4096..=1 << 30).contains(&bytes);
    if sound { Ok(()) } else { Err(Error::BlockSize { bytes }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn runs_beyond_the_largest_offset_are_refused() {
        for first in [u64::MAX, u64::MAX / 4096, (1 << 63) / 4096] {
            assert_eq!(BlockRun::new(FileId(1), 4096, first, 1), Err(Error::TooFar { file: FileId(1) }));
        }
        assert!(BlockRun::new(FileId(1), 4096, (1 << 63) / 4096 - 2, 1).is_ok());
    }

    proptest! {
        #[test]
        fn a_run_counts_its_blocks_and_bytes_below_an_end(first in 0u64..9, count in 0usize..5, end in 0u64..(16 * 4096)) {
            let run = BlockRun::new(FileId(1), 4096, first, count).unwrap();
            let below = (first * 4096..run.end()).filter(|at| *at < end).count();
            let kept: usize = (0..count).map(|index| run.kept(index, end)).sum();
            prop_assert_eq!(kept, below);
            let blocks = (0..count).filter(|index| run.kept(*index, end) > 0).count();
            prop_assert_eq!(run.below(end).count, blocks);
        }
    }
}
