//! Syncing parts to the medium.
//!
//! A sync brings the blocks written since the last one to the medium, then notes in their entries that they are durable,
//! and brings the entries to the medium. Only then may the older versions of these blocks be dropped; until then no thread
//! writes these blocks, whereas all others can be written meanwhile.
//!
//! After a failed sync the system may have dropped some of the data, without reporting it again. So the next sync compares
//! all these blocks with their checksums, which are in memory, and writes them again. A block that does not match any more
//! is damaged, and no sync of the part succeeds until it is overwritten or accepted. The same is done with blocks that a
//! killed process has left.

use std::collections::BTreeMap;
use std::sync::Arc;

use pario_types::FileId;

use crate::FileStore;
use crate::error::{Error, Result, StoreAction};
use crate::files::{BlockState, PartFiles};
use crate::parts::{OpenPart, PartState};
use crate::run::BlockRun;
use crate::table::{BlockVersion, ChecksumEntry, PreviousVersion, Stage, sum};
use crate::unsynced::Unsynced;

/// The data that a sync brings to the medium.
struct SyncJob {
    file: FileId,
    blocks: BTreeMap<u64, BlockVersion>,
    /// The version of the header that it has seen, and the end of the part.
    header: u64,
    end: u64,
    /// Whether its entries say that it is durable.
    marked: bool,
}

impl FileStore {
    /// Brings one part to the medium.
    pub(crate) fn sync_part(&self, file: FileId) -> Result<()> {
        let part = self.parts.get(file);
        let _turn = part.sync_lock();
        let Some(mut job) = self.begin_sync(file, &part)? else {
            self.directory.sync(file)?;
            return self.manifest.sync();
        };
        let outcome = self.run_sync(&part, &mut job);
        self.finish_sync(&part, job, outcome)
    }

    fn run_sync(&self, part: &OpenPart, job: &mut SyncJob) -> Result<()> {
        // This is done without the lock: it takes long, and other threads may continue.
        let files = self.files(job.file, &mut part.write())?;
        if !pario_runtime::is_planted("sync-without-blocks") {
            files.sync_blocks(job.blocks.values().map(|stored| stored.home))?;
        }
        // The names of the files to which the entries refer come before the entries.
        if !pario_runtime::is_planted("sync-without-names") {
            self.directory.sync(job.file)?;
        }
        self.mark(part, job)?;
        if !pario_runtime::is_planted("sync-without-checksums") {
            files.sync_sums()?;
        }
        self.manifest.durable(&[job.file])
    }

    /// Brings all parts to the medium.
    pub(crate) fn sync_parts(&self) -> Result<()> {
        let _turn = self.all.lock();
        let parts: Vec<_> =
            self.index.unsynced().into_iter().map(|file| (file, self.parts.get(file))).collect();
        let _turns: Vec<_> = parts.iter().map(|(_, part)| part.sync_lock()).collect();
        let mut outcome = Ok(());
        let mut jobs = Vec::new();
        for (file, part) in &parts {
            match self.begin_sync(*file, part) {
                Ok(job) => jobs.extend(job.map(|job| (job, part))),
                Err(error) => outcome = outcome.and(Err(error)),
            }
            self.close(part);
        }
        let mut done = self.sync_medium();
        if done.is_ok() && !jobs.is_empty() {
            done = jobs.iter_mut().try_for_each(|(job, part)| {
                let marked = self.mark(part, job);
                self.close(part);
                marked
            });
            let files: Vec<FileId> = jobs.iter().map(|(job, _)| job.file).collect();
            done = done.and_then(|()| self.sync_medium()).and_then(|()| self.manifest.durable(&files));
        }
        for (job, part) in jobs {
            outcome = outcome.and(self.finish_sync(part, job, done.clone()));
            self.close(part);
        }
        outcome.and(done)?;
        self.manifest.sync()?;
        self.remove_files()
    }

    fn sync_medium(&self) -> Result<()> {
        let done = self.directory.handle().sync_file_system();
        if done.is_err() {
            self.manifest.mark_suspect();
            self.parts.mark_suspect();
        }
        done.map_err(|error| Error::io(StoreAction::Sync, self.directory.root(), error))
    }

    /// Closes the files of a part that is held for long: there may be many.
    fn close(&self, part: &OpenPart) {
        part.write().close();
    }

    /// Takes the unsynced state of a part; `None` if there is none.
    fn begin_sync(&self, file: FileId, part: &OpenPart) -> Result<Option<SyncJob>> {
        let Some(extent) = self.index.extent(file) else { return Ok(None) };
        if !extent.unsynced && !extent.lost {
            return Ok(None);
        }
        self.manifest.begin()?;
        let mut state = part.write();
        let files = self.files(file, &mut state)?;
        if files.refused().is_some() {
            return Ok(None);
        }
        self.recover(&files, &mut state)?;
        let unsynced = &mut state.unsynced;
        // Those of a sync that failed after their entries were written.
        let again = std::mem::take(&mut unsynced.syncing);
        unsynced.suspect |= !again.is_empty();
        unsynced.blocks.extend(again);
        if unsynced.suspect
            && let Err(error) = rewrite_unsynced(&files, unsynced)
        {
            unsynced.failed = Some(error.clone());
            return Err(error);
        }
        unsynced.suspect = false;
        let blocks = std::mem::take(&mut unsynced.blocks);
        unsynced.syncing = blocks.clone();
        Ok(Some(SyncJob { file, blocks, header: unsynced.header, end: files.header().end, marked: false }))
    }

    /// Notes in the entries of blocks that they are durable.
    fn mark(&self, part: &OpenPart, job: &mut SyncJob) -> Result<()> {
        let mut state = part.write();
        let files = self.files(job.file, &mut state)?;
        job.marked = true;
        let mut blocks = job.blocks.iter().map(|(block, stored)| (*block, *stored)).peekable();
        while let Some((first, stored)) = blocks.next() {
            let mut entries = vec![ChecksumEntry::Stored(stored.at(Stage::Durable))];
            while let Some((_, next)) = blocks.next_if(|(block, _)| *block == first + entries.len() as u64) {
                entries.push(ChecksumEntry::Stored(next.at(Stage::Durable)));
            }
            files.write_entries(first, entries)?;
        }
        files.set_header(|header| header.synced_end = header.synced_end.max(job.end).min(header.end))
    }

    fn finish_sync(&self, part: &OpenPart, job: SyncJob, outcome: Result<()>) -> Result<()> {
        if outcome.is_ok() {
            self.free_old_versions(part, &job);
        }
        let mut state = part.write();
        let outcome = outcome.and_then(|()| {
            // Only now, because the header may reach the medium before the data to which it refers.
            let files = self.files(job.file, &mut state)?;
            let PartState { unsynced, .. } = &*state;
            let clean = unsynced.blocks.is_empty() && unsynced.header == job.header && unsynced.recovered;
            files.set_header(|header| {
                header.entries_end = job.end.min(header.end);
                header.unsynced = !clean;
            })
        });
        let unsynced = &mut state.unsynced;
        match &outcome {
            Ok(()) => {
                unsynced.syncing.clear();
                unsynced.removed.synced(job.header);
                unsynced.synced_header = job.header;
                (unsynced.failed, unsynced.known_header) = (None, None);
            }
            Err(_) if pario_runtime::is_planted("failed-sync-believed") => unsynced.syncing.clear(),
            Err(error) => {
                unsynced.failed = Some(error.clone());
                (unsynced.suspect, unsynced.recovered) = (true, false);
                unsynced.header += 1;
                // Entries that may already say that blocks are durable must not change before they are: these stay held.
                if !job.marked {
                    let blocks = std::mem::take(&mut unsynced.syncing);
                    unsynced.blocks.extend(blocks);
                }
            }
        }
        if let Some(mut extent) = state.files.as_ref().and_then(|files| files.extent().ok()) {
            extent.unsynced |= outcome.is_err();
            self.index.set(job.file, extent);
        } else if let Some(mut extent) = self.index.extent(job.file) {
            extent.unsynced = outcome.is_err() || !state.unsynced.is_empty();
            self.index.set(job.file, extent);
        }
        outcome
    }

    /// Frees the space of versions that are not needed any more. A failure does no harm: they are overwritten later.
    fn free_old_versions(&self, part: &OpenPart, job: &SyncJob) {
        let mut state = part.write();
        let Ok(files) = self.files(job.file, &mut state) else { return };
        let old =
            job.blocks.iter().filter(|(_, stored)| matches!(stored.before, PreviousVersion::Durable(_)));
        let old = old.filter(|(block, _)| !state.unsynced.reserved.contains(block));
        let mut old = old.map(|(block, stored)| (*block, stored.home.other())).peekable();
        while let Some((first, home)) = old.next() {
            let mut count = 1;
            while old.next_if(|(block, other)| *block == first + count && *other == home).is_some() {
                count += 1;
            }
            let Ok(run) = BlockRun::new(job.file, self.block, first, count as usize) else { return };
            for stretch in files.file_extents(run, |_| Some(home)) {
                if let Some(file) = files.get(stretch.which) {
                    let _ = file.punch(stretch.at, (stretch.count * self.block) as u64);
                }
            }
        }
    }

    /// Returns the files of a part, opened if necessary.
    pub(crate) fn files(&self, file: FileId, state: &mut PartState) -> Result<Arc<PartFiles>> {
        if let Some(files) = state.files.as_ref().filter(|files| files.refused().is_none()) {
            return Ok(Arc::clone(files));
        }
        let (known, losses) = (state.unsynced.known_header, self.manifest.losses());
        let open = || PartFiles::open(file, self.block, &self.directory, known, losses);
        let opened = self.open_with_descriptors(open)?;
        state.unsynced.known_header = None;
        state.files = Some(Arc::clone(&opened));
        Ok(opened)
    }
}

/// Compares blocks with their entries and writes them again, so that the system does not take them for written.
fn rewrite_unsynced(files: &PartFiles, unsynced: &mut Unsynced) -> Result<()> {
    let mut bytes = vec![0; files.block];
    let mut damaged = None;
    for (block, stored) in unsynced.blocks.clone() {
        let run = BlockRun::new(files.file, files.block, block, 1)?;
        files.load(run, &[ChecksumEntry::Stored(stored)], &mut [&mut bytes])?;
        let found = match files.fits(block, stored, &bytes) {
            true => BlockState::Good,
            false => match stored.stage {
                Stage::InPlace => BlockState::Unverified,
                // The version before is good, and stays.
                Stage::Fresh => {
                    files.replace_entry(unsynced, block, stored.without())?;
                    continue;
                }
                Stage::Written | Stage::Durable => BlockState::Damaged,
            },
        };
        if found == BlockState::Damaged {
            damaged.get_or_insert(Error::Damaged { file: files.file, block });
            // A sync that failed late may have marked it durable: a successor has to know that it is not.
            files.replace_entry(unsynced, block, ChecksumEntry::Stored(stored))?;
            continue;
        }
        let sum = sum(files.file, block, &bytes, bytes.len());
        let stored = BlockVersion { sum, ..stored }.at(Stage::Written);
        files.rewrite_block(run, &bytes, stored)?;
        files.replace_entry(unsynced, block, ChecksumEntry::Stored(stored))?;
    }
    files.set_header(|header| header.unsynced = true)?;
    files.directory.changed(files.file);
    damaged.map_or(Ok(()), Err)
}
