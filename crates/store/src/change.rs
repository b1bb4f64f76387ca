//! The steps in which a part changes.
//!
//! Two invariants hold at every instant. Against `kill -9`: a version that is being written has an entry that says so
//! before its first byte, and the version before stays readable, or every byte is an old or a new one. Against a loss of
//! power: no byte of a durable version is changed before a newer version and the entry that says so are on the medium.
//!
//! - *Write*: entries with the new checksums, being written; the blocks; entries, written. A durable version stays in its
//!   home: the new one goes to the block's other home. Blocks beyond the end need no first entries, because only the new
//!   end, which comes last, makes them valid.
//! - *Cut*: the last block, with zeros in place of the bytes that are cut off, is written like any other; then the new end.
//!   If synced bytes are cut off, the end is brought to the medium before entries and bytes beyond it are removed, and the
//!   entries before the bytes.
//!
//! After a crash or a failed change the part is [settled](PartFiles::recover) before it changes again.

use std::ops::Range;

use crate::error::{Error, Result, StoreAction};
use crate::files::{BlockState, FileExtent, FileRole, PartFiles};
use crate::order::BlockOrder;
use crate::run::BlockRun;
use crate::table::{self, BlockVersion, ChecksumEntry, Home, Stage};
use crate::unsynced::Unsynced;

/// The number of entries that are examined at once.
const AT_ONCE: u64 = 4096;

/// The result of examining some blocks.
#[derive(Debug, Default)]
pub struct BlockFindings {
    /// The blocks that differ from what was written.
    pub damaged: Vec<u64>,
    /// The blocks that were being written when a process was killed.
    pub being_written: Vec<u64>,
}

impl PartFiles {
    /// Writes the bytes below `end` of blocks that begin below it; `sums` are theirs. The part ended at `stored`.
    pub fn write(
        &self,
        unsynced: &mut Unsynced,
        run: BlockRun,
        blocks: &[&[u8]],
        sums: &[u32],
        end: u64,
    ) -> Result<()> {
        let stored = self.header().end;
        self.begin_change(unsynced)?;
        let beyond = run.first >= self.blocks(stored);
        let before = match beyond {
            true => vec![ChecksumEntry::None; run.count],
            false => self.known_entries(unsynced, run)?,
        };
        let next: Vec<BlockVersion> = before.iter().zip(sums).map(|(entry, sum)| entry.next(*sum)).collect();
        // The state is unknown until all is done.
        unsynced.removed.write(run.blocks());
        for block in run.blocks() {
            unsynced.blocks.remove(&block);
        }
        if !beyond {
            self.write_entries(run.first, next.iter().map(|stored| ChecksumEntry::Stored(*stored)))?;
        }
        self.put(run, blocks, &before, &next, end)?;
        let written = next.iter().map(|stored| stored.at(Stage::Written));
        self.write_entries(run.first, written.clone().map(ChecksumEntry::Stored))?;
        unsynced.blocks.extend(run.blocks().zip(written));
        for block in run.blocks() {
            unsynced.reserved.remove(&block);
        }
        if end > stored {
            unsynced.header += 1;
            self.set_header(|header| header.end = end)?;
        }
        Ok(())
    }

    /// Sets the end of the part, and remembers the id of the truncation.
    pub fn set_end(&self, unsynced: &mut Unsynced, end: u64, cut: u64) -> Result<()> {
        let header = self.header();
        if (end, cut) == (header.end, header.cut) {
            return Ok(());
        }
        self.begin_change(unsynced)?;
        unsynced.header += 1;
        if end < header.end {
            return self.truncate(unsynced, end, cut);
        }
        // The necessary entries exist.
        let len = table::place(self.blocks(end));
        let failed = |error| Error::io(StoreAction::Resize, &self.names.sums, error);
        if end > header.end && self.sums.stats().map_err(failed)?.len < len {
            self.sums.set_len(len).map_err(failed)?;
        }
        self.set_header(|header| (header.end, header.cut) = (end, cut))
    }

    fn truncate(&self, unsynced: &mut Unsynced, end: u64, cut: u64) -> Result<()> {
        let (synced, blocks) = (self.header().synced_end > end, self.blocks(self.header().end));
        let last = self.clear_last(unsynced, end)?;
        if synced && let Some(block) = last {
            self.make_durable(unsynced, block)?;
        }
        self.set_header(|header| {
            (header.end, header.cut) = (end, cut);
            header.synced_end = header.synced_end.min(end);
            header.entries_end = header.entries_end.min(end);
        })?;
        unsynced.cut(self.blocks(end)..blocks);
        self.remove_beyond(end, synced)
    }

    /// Writes the last block before `end` with zeros behind it, if it has other bytes there; returns its number.
    fn clear_last(&self, unsynced: &mut Unsynced, end: u64) -> Result<Option<u64>> {
        let (block, kept) = (end / self.block as u64, (end % self.block as u64) as usize);
        if kept == 0 {
            return Ok(None);
        }
        let (entry, mut bytes, found) = self.load_block(unsynced, block)?;
        if found != BlockState::Good {
            // A block that does not match its entry must still not match it.
            return self.clear_damaged(block, entry, kept).map(|()| None);
        }
        if !matches!(entry, ChecksumEntry::Stored(_)) || table::is_zero(&bytes[kept..]) {
            return Ok(None);
        }
        bytes[kept..].fill(0);
        let run = BlockRun::new(self.file, self.block, block, 1)?;
        let next = entry.next(table::sum(self.file, block, &bytes, kept));
        unsynced.blocks.remove(&block);
        self.write_entries(block, [ChecksumEntry::Stored(next)])?;
        self.put(run, &[&bytes], &[entry], &[next], run.end())?;
        let written = next.at(Stage::Written);
        self.write_entries(block, [ChecksumEntry::Stored(written)])?;
        unsynced.blocks.insert(block, written);
        Ok(Some(block))
    }

    /// Overwrites the rest of a block with zeros in place.
    fn clear_damaged(&self, block: u64, entry: ChecksumEntry, kept: usize) -> Result<()> {
        let home = if let ChecksumEntry::Stored(stored) = entry { stored.home } else { Home::A };
        let (which, at) = self.place(block, home);
        let Some(file) = self.get(which) else { return Ok(()) };
        let cleared = pario_medium::clear(file, at + kept as u64..at + self.block as u64);
        cleared.map_err(|error| Error::io(StoreAction::Write, self.path(which), error))
    }

    /// Brings a block to the medium that was just written.
    fn make_durable(&self, unsynced: &mut Unsynced, block: u64) -> Result<()> {
        let Some(stored) = unsynced.blocks.get(&block).copied() else { return Ok(()) };
        self.sync_blocks([stored.home].into_iter())?;
        self.directory.sync(self.file)?;
        self.write_entries(block, [ChecksumEntry::Stored(stored.at(Stage::Durable))])?;
        unsynced.blocks.remove(&block);
        Ok(())
    }

    /// Cuts off entries and bytes beyond the end. If any of them may be durable, each step is on the medium before the
    /// next.
    fn remove_beyond(&self, end: u64, synced: bool) -> Result<()> {
        let blocks = self.blocks(end);
        let sync = || if synced { self.sync_sums() } else { Ok(()) };
        let failed = |error| Error::io(StoreAction::Resize, &self.names.sums, error);
        if self.sums.stats().map_err(failed)?.len > table::place(blocks) {
            sync()?;
            self.sums.set_len(table::place(blocks)).map_err(failed)?;
        }
        sync()?;
        for which in [FileRole::Data, FileRole::Alt] {
            let Some(file) = self.get(which) else { continue };
            let failed = |error| Error::io(StoreAction::Resize, self.path(which), error);
            let len = blocks * self.block as u64;
            if file.stats().map_err(failed)?.len > len {
                file.set_len(len).map_err(failed)?;
            }
        }
        let beyond = self.order().map_or(Vec::new(), |order| order.beyond(blocks));
        beyond.into_iter().try_for_each(|range| self.clear(range))
    }

    /// Overwrites bytes of the file of ordered blocks with zeros.
    fn clear(&self, range: Range<u64>) -> Result<()> {
        let Some(file) = self.get(FileRole::Ordered) else { return Ok(()) };
        pario_medium::clear(file, range)
            .map_err(|error| Error::io(StoreAction::Write, &self.names.ordered, error))
    }

    /// Remembers the id of a truncation that must not be performed.
    pub fn fence(&self, unsynced: &mut Unsynced, cut: u64) -> Result<()> {
        self.begin_change(unsynced)?;
        unsynced.header += 1;
        self.set_header(|header| header.cut = cut)
    }

    /// Gives an empty part an order, which takes effect with the new header.
    pub fn arrange(&self, unsynced: &mut Unsynced, order: &BlockOrder) -> Result<()> {
        let (medium, new) = (self.directory.medium(), &self.names.new_order);
        let bytes = order.encode(self.file);
        let write = || {
            let file = medium.open(new, pario_medium::OpenMode::New)?;
            pario_medium::put(&*file, 0, &[&bytes])?;
            medium.rename(new, &self.names.ordered)
        };
        self.begin_change(unsynced)?;
        self.directory.changed(self.file);
        write().map_err(|error| Error::io(StoreAction::Create, &self.names.ordered, error))?;
        unsynced.header += 1;
        self.set_header(|header| header.ordered = true)
    }

    /// Allocates space for the next write of blocks, also if a sync comes before it.
    pub fn reserve(&self, unsynced: &mut Unsynced, run: BlockRun) -> Result<()> {
        let entries = self.known_entries(unsynced, run)?;
        let failed = |which, error| Error::io(StoreAction::Reserve, self.path(which), error);
        let taken = |index: usize, home: Home| match entries[index] {
            ChecksumEntry::None | ChecksumEntry::Zeros | ChecksumEntry::Lost | ChecksumEntry::Damaged => {
                home == Home::A
            }
            // A durable version stays; one that is not durable may be by then.
            ChecksumEntry::Stored(stored) => stored.stage != Stage::Durable || home != stored.home,
        };
        for home in [Home::A, Home::B] {
            for stretch in self.file_extents(run, |index| Some(home).filter(|home| taken(index, *home))) {
                let FileExtent { which, at, count, .. } = stretch;
                let file = self.get_or_make(which)?;
                let done = file.allocate(at, (count * self.block) as u64);
                done.map_err(|error| failed(which, error))?;
            }
        }
        let len = (run.count * table::ENTRY) as u64;
        let done = self.sums.allocate(table::place(run.first), len);
        done.map_err(|error| Error::io(StoreAction::Reserve, &self.names.sums, error))?;
        unsynced.reserved.extend(run.blocks());
        Ok(())
    }

    /// Compares blocks that begin below the end with their entries.
    pub fn inspect(
        &self,
        unsynced: &Unsynced,
        run: BlockRun,
        scratch: &mut Vec<u8>,
    ) -> Result<BlockFindings> {
        let mut found = BlockFindings::default();
        let entries = self.known_entries(unsynced, run)?;
        if entries.iter().all(|entry| *entry == ChecksumEntry::None) && self.is_hole(run) {
            return Ok(found);
        }
        scratch.resize(run.count * self.block, 0);
        let mut blocks: Vec<_> = scratch.chunks_mut(self.block).collect();
        self.load(run, &entries, &mut blocks)?;
        for ((block, entry), bytes) in run.blocks().zip(entries).zip(blocks) {
            let being_written = matches!(
                entry,
                ChecksumEntry::Stored(BlockVersion { stage: Stage::Fresh | Stage::InPlace, .. })
            );
            match self.check_block(block, entry, bytes)? {
                BlockState::Damaged => found.damaged.push(block),
                _ if being_written => found.being_written.push(block),
                _ => {}
            }
        }
        Ok(found)
    }

    /// Gives a block that was being written the entry of the bytes that a reader gets; returns whether they were
    /// unverified.
    pub fn repair_block(&self, unsynced: &mut Unsynced, block: u64) -> Result<bool> {
        let (entry, bytes, found) = self.load_block(unsynced, block)?;
        let ChecksumEntry::Stored(stored) = entry else { return Ok(false) };
        if found == BlockState::Damaged || !matches!(stored.stage, Stage::Fresh | Stage::InPlace) {
            return Ok(false);
        }
        self.begin_change(unsynced)?;
        let sum = table::sum(self.file, block, &bytes, bytes.len());
        let newest = sum == stored.sum || found == BlockState::Unverified;
        let next = match newest {
            true => ChecksumEntry::Stored(BlockVersion { sum, ..stored }.at(Stage::Written)),
            false => stored.without(),
        };
        self.replace_entry(unsynced, block, next)?;
        Ok(found == BlockState::Unverified)
    }

    /// Accepts the present bytes of a block as valid.
    pub fn accept(&self, unsynced: &mut Unsynced, block: u64) -> Result<()> {
        let (entry, _, found) = self.load_block(unsynced, block)?;
        if found == BlockState::Good {
            return Ok(());
        }
        let run = BlockRun::new(self.file, self.block, block, 1)?;
        let mut bytes = vec![0; self.block];
        self.load(run, &[entry], &mut [&mut bytes])?;
        self.begin_change(unsynced)?;
        let sum = table::sum(self.file, block, &bytes, bytes.len());
        let next = match entry {
            ChecksumEntry::Stored(stored) => BlockVersion { sum, ..stored },
            other => other.next(sum),
        };
        self.replace_entry(unsynced, block, ChecksumEntry::Stored(next.at(Stage::Written)))
    }

    /// Inverts a stored byte.
    pub fn flip_byte(&self, at: u64) -> Result<()> {
        let block = at / self.block as u64;
        let entry = self.entries(BlockRun::new(self.file, self.block, block, 1)?)?[0];
        let home = if let ChecksumEntry::Stored(stored) = entry { stored.home } else { Home::A };
        let (which, start) = self.place(block, home);
        let (file, at) = (self.get_or_make(which)?, start + at % self.block as u64);
        let mut byte = [0];
        let flipped = pario_medium::fill(file, at, &mut [&mut byte])
            .and_then(|_| pario_medium::put(file, at, &[&[!byte[0]]]));
        flipped.map_err(|error| Error::io(StoreAction::Write, self.path(which), error))
    }

    /// Recovers a part after a crash, after a loss of power, or after a failed change: finds the blocks that are not
    /// durable, drops versions that a loss of power has damaged, and cuts off the bytes beyond the end.
    pub fn recover(&self, unsynced: &mut Unsynced) -> Result<()> {
        let header = self.header();
        let lost = self.power_was_lost();
        if (header.unsynced || lost) && self.refused().is_none() {
            let durable_end = self.scan_entries(unsynced, header.end, lost)?;
            // The end is written last when a part grows: bytes beyond it belong to an unfinished write.
            self.clear_last(unsynced, header.end)?;
            // The system may have dropped this header in a failed sync. It has to be on the medium before entries are
            // removed that an older header needs. An interrupted sync may have brought entries of durable blocks to the
            // medium, but not the header that belongs to them.
            unsynced.header += 1;
            self.set_header(|header| header.synced_end = header.synced_end.max(durable_end).min(header.end))?;
            self.remove_beyond(header.end, true)?;
            let len = table::place(self.blocks(header.end));
            let failed = |error| Error::io(StoreAction::Resize, &self.names.sums, error);
            if self.sums.stats().map_err(failed)?.len < len {
                self.sums.set_len(len).map_err(failed)?;
            }
            unsynced.header += 1;
            self.set_header(|header| (header.losses, header.unsynced) = (self.losses(), true))?;
        }
        unsynced.recovered = true;
        Ok(())
    }

    /// Examines the entries of all blocks; returns the end of the last durable block.
    fn scan_entries(&self, unsynced: &mut Unsynced, end: u64, lost: bool) -> Result<u64> {
        let mut found = Unsynced::default();
        let mut durable_blocks = 0;
        let blocks = self.blocks(end);
        for first in (0..blocks).step_by(AT_ONCE as usize) {
            let run = BlockRun::new(self.file, self.block, first, AT_ONCE.min(blocks - first) as usize)?;
            let mut entries = self.entries(run)?;
            for (block, entry) in
                run.blocks().zip(&mut entries).filter(|(block, _)| unsynced.removed.contains(*block))
            {
                *entry = self.entry_of_removed(block)?;
            }
            // The previous process may have been killed after a failed sync: the system writes these again.
            self.write_entries(first, entries.iter().copied())?;
            for (block, entry) in run.blocks().zip(entries) {
                if matches!(entry, ChecksumEntry::Stored(BlockVersion { stage: Stage::Durable, .. })) {
                    durable_blocks = block + 1;
                }
                let known = unsynced.blocks.get(&block).copied();
                match (known, entry) {
                    _ if unsynced.syncing.contains_key(&block) => {}
                    (Some(known), _) => {
                        found.blocks.insert(block, known);
                    }
                    (None, ChecksumEntry::None) if !lost => {}
                    (None, ChecksumEntry::None) => self.recover_hole(&mut found, block)?,
                    (None, ChecksumEntry::Stored(stored)) if entry.is_unsynced() => {
                        found.suspect = true;
                        if lost || stored.stage == Stage::Fresh {
                            self.recover_block(&mut found, block, stored)?;
                        } else {
                            found.blocks.insert(block, stored);
                        }
                    }
                    _ => {}
                }
            }
        }
        unsynced.blocks = found.blocks;
        unsynced.suspect |= found.suspect;
        Ok(durable_blocks * self.block as u64)
    }

    /// After a loss of power: a block without an entry is zeros, whatever part of a write has reached the medium.
    fn recover_hole(&self, found: &mut Unsynced, block: u64) -> Result<()> {
        match self.entry_of_removed(block)? {
            ChecksumEntry::None => Ok(()),
            entry => self.replace_entry(found, block, entry),
        }
    }

    /// The entry of a block without bytes. It has to say so if there are bytes that the system did not remove.
    fn entry_of_removed(&self, block: u64) -> Result<ChecksumEntry> {
        let run = BlockRun::new(self.file, self.block, block, 1)?;
        if self.is_hole(run) {
            return Ok(ChecksumEntry::None);
        }
        let mut bytes = vec![0; self.block];
        self.load(run, &[ChecksumEntry::None], &mut [&mut bytes])?;
        Ok(if table::is_zero(&bytes) { ChecksumEntry::None } else { ChecksumEntry::Zeros })
    }

    /// A version that has reached the medium completely stays, any other is dropped. This does not apply to one that a
    /// killed process wrote in place over another: of that, every byte is an old or a new one.
    fn recover_block(&self, found: &mut Unsynced, block: u64, stored: BlockVersion) -> Result<()> {
        let run = BlockRun::new(self.file, self.block, block, 1)?;
        let mut bytes = vec![0; self.block];
        self.load(run, &[ChecksumEntry::Stored(stored)], &mut [&mut bytes])?;
        let next = match self.fits(block, stored, &bytes) {
            true => ChecksumEntry::Stored(stored.at(Stage::Written)),
            false => stored.without(),
        };
        self.replace_entry(found, block, next)
    }

    /// Gives a block another entry, without changing its bytes.
    pub(crate) fn replace_entry(
        &self,
        unsynced: &mut Unsynced,
        block: u64,
        entry: ChecksumEntry,
    ) -> Result<()> {
        self.write_entries(block, [entry])?;
        unsynced.header += 1;
        if let ChecksumEntry::Stored(stored) = entry
            && entry.is_unsynced()
        {
            unsynced.blocks.insert(block, stored);
        } else {
            unsynced.blocks.remove(&block);
        }
        Ok(())
    }

    /// Notes in the header that there may be entries that are not durable.
    pub(crate) fn begin_change(&self, unsynced: &mut Unsynced) -> Result<()> {
        if self.header().unsynced {
            return Ok(());
        }
        unsynced.header += 1;
        self.set_header(|header| header.unsynced = true)
    }

    /// Writes entries of consecutive blocks.
    pub(crate) fn write_entries(
        &self,
        first: u64,
        entries: impl IntoIterator<Item = ChecksumEntry>,
    ) -> Result<()> {
        let bytes =
            entries.into_iter().zip(first..).flat_map(|(entry, block)| entry.encode(self.file, block));
        let bytes: Vec<u8> = bytes.collect();
        let written = pario_medium::put(&*self.sums, table::place(first), &[&bytes]);
        written.map_err(|error| Error::io(StoreAction::Write, &self.names.sums, error))
    }

    /// Writes the bytes of blocks below `end` to the homes of their new versions. Where another version was before, the
    /// rest of the last block becomes zeros.
    fn put(
        &self,
        run: BlockRun,
        blocks: &[&[u8]],
        before: &[ChecksumEntry],
        next: &[BlockVersion],
        end: u64,
    ) -> Result<()> {
        let mut pad = Vec::new();
        let (last, kept) = (run.count - 1, run.kept(run.count - 1, end));
        if kept < self.block && before[last] != ChecksumEntry::None {
            pad.resize(self.block - kept, 0);
        }
        for FileExtent { which, at, first, count } in self.file_extents(run, |index| Some(next[index].home)) {
            let kept = |index: usize| &blocks[index][..run.kept(index, end)];
            let mut pieces: Vec<&[u8]> = (first..first + count).map(kept).collect();
            if first + count == run.count {
                pieces.push(&pad);
            }
            let written = pario_medium::put(self.get_or_make(which)?, at, &pieces);
            written.map_err(|error| Error::io(StoreAction::Write, self.path(which), error))?;
        }
        Ok(())
    }

    /// Writes a whole block in place.
    pub(crate) fn rewrite_block(&self, run: BlockRun, bytes: &[u8], stored: BlockVersion) -> Result<()> {
        self.put(run, &[bytes], &[ChecksumEntry::Stored(stored)], &[stored], run.end())
    }

    /// Brings the files of these homes to the medium.
    pub(crate) fn sync_blocks(&self, homes: impl Iterator<Item = Home>) -> Result<()> {
        let mut dirty = [self.order().is_some(), false, false];
        for home in homes {
            dirty[1] |= home == Home::A;
            dirty[2] |= home == Home::B;
        }
        for (which, dirty) in [FileRole::Ordered, FileRole::Data, FileRole::Alt].into_iter().zip(dirty) {
            if let Some(file) = self.get(which).filter(|_| dirty) {
                file.sync().map_err(|error| Error::io(StoreAction::Sync, self.path(which), error))?;
            }
        }
        Ok(())
    }

    /// Brings end, truncation ids and entries to the medium.
    pub(crate) fn sync_sums(&self) -> Result<()> {
        self.sums.sync().map_err(|error| Error::io(StoreAction::Sync, &self.names.sums, error))
    }
}
