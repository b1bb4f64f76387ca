//! The state of a part that is not on the medium yet.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::error::{Error, StoreAction};
use crate::removed::RemovedBlocks;
use crate::run::BlockRun;
use crate::table::{BlockVersion, PartHeader};

/// The state of a part that is not on the medium yet. It is in memory as long as the process lives, and found in the
/// entries after that.
#[derive(Debug, Default)]
pub struct Unsynced {
    /// Whether the entries of blocks were examined since the part was opened, or since a change of it failed.
    pub recovered: bool,
    /// Blocks written since the last sync began, with their entries.
    pub blocks: BTreeMap<u64, BlockVersion>,
    /// The blocks that a sync is bringing to the medium now. They must not change meanwhile: their older versions are
    /// needed until it is done.
    pub syncing: BTreeMap<u64, BlockVersion>,
    /// Blocks that truncations have removed.
    pub removed: RemovedBlocks,
    /// The version of the header, and the version that is on the medium.
    pub header: u64,
    pub synced_header: u64,
    /// Whether the system may have dropped some of the blocks: the next sync verifies each and writes it again.
    pub suspect: bool,
    /// The reason why the last sync failed.
    pub failed: Option<Error>,
    /// The header as it was then, if a sync has failed.
    pub known_header: Option<PartHeader>,
    /// Blocks for whose next write space was allocated.
    pub reserved: BTreeSet<u64>,
}

impl Unsynced {
    /// Whether there is anything to sync.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.syncing.is_empty() && self.header == self.synced_header
    }

    /// Returns the known entries of these blocks.
    pub fn known(&self, run: BlockRun) -> impl Iterator<Item = (u64, BlockVersion)> + Clone {
        let syncing = self.syncing.range(run.blocks()).filter(|(block, _)| !self.blocks.contains_key(block));
        self.blocks.range(run.blocks()).chain(syncing).map(|(block, stored)| (*block, *stored))
    }

    /// An operation failed. After a failed sync the system may have dropped any data.
    pub fn note_failure(&mut self, error: &Error) {
        self.recovered = false;
        if matches!(error, Error::Io { action: StoreAction::Sync, .. }) {
            self.suspect = true;
            self.failed = Some(error.clone());
        }
    }

    /// Whether a sync holds any of these blocks.
    pub fn is_syncing(&self, run: BlockRun) -> bool {
        self.syncing.range(run.blocks()).next().is_some()
    }

    /// These blocks are removed, which are all from the first one on.
    pub fn cut(&mut self, blocks: Range<u64>) {
        self.blocks.split_off(&blocks.start);
        self.reserved.split_off(&blocks.start);
        self.removed.remove(blocks, self.header);
    }
}
