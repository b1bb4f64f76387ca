//! What of a part is not on the medium yet.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, StoreAction};
use crate::run::BlockRun;
use crate::table::{BlockVersion, PartHeader};

/// What of a part is not on the medium yet. It is known as long as the process lives, and found in the entries after that.
#[derive(Debug, Default)]
pub struct Unsynced {
    /// The entries of blocks were looked through since the part was opened, or since a change of it failed.
    pub recovered: bool,
    /// Blocks written since the last sync began, with their entries.
    pub blocks: BTreeMap<u64, BlockVersion>,
    /// Those that a sync is bringing to the medium now. They must not change meanwhile: their older versions are not
    /// needed any more only when it is done.
    pub syncing: BTreeMap<u64, BlockVersion>,
    /// How often the header has changed, and up to which change it is on the medium.
    pub header: u64,
    pub synced_header: u64,
    /// The system may have forgotten to write some of the blocks: the next sync looks at each and writes it again.
    pub suspect: bool,
    /// Why the last sync failed.
    pub failed: Option<Error>,
    /// The header as it was then, if a sync has failed.
    pub known_header: Option<PartHeader>,
    /// Blocks for whose next write room was taken.
    pub reserved: BTreeSet<u64>,
}

impl Unsynced {
    /// Whether there is anything that a sync would bring to the medium.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.syncing.is_empty() && self.header == self.synced_header
    }

    /// What is known of these blocks.
    pub fn known(&self, run: BlockRun) -> impl Iterator<Item = (u64, BlockVersion)> + Clone {
        let syncing = self.syncing.range(run.blocks()).filter(|(block, _)| !self.blocks.contains_key(block));
        self.blocks.range(run.blocks()).chain(syncing).map(|(block, stored)| (*block, *stored))
    }

    /// Something failed. After a sync that did, the system may have forgotten to write anything.
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

    /// Blocks from this one on are gone.
    pub fn cut(&mut self, block: u64) {
        self.blocks.split_off(&block);
        self.reserved.split_off(&block);
    }
}
