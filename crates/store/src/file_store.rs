//! Parts as files in a directory.
//!
//! Every call about a part holds its lock ([`crate::parts`]), shared to read and exclusive to change; checksums of written
//! bytes are computed before. The index of parts and their lengths is in memory ([`crate::index`]), the most recently used
//! descriptors stay open, the steps of a change are in [`crate::change`], and those of a sync in [`crate::sync`].

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pario_medium::{HostFileSystem, Medium};
use pario_runtime::sync::Mutex;
use pario_types::{ErrorKind, FileId};
use rustix::process::{Resource, getrlimit};

use crate::change::BlockFindings;
use crate::directory::StoreDirectory;
use crate::error::{Error, Result, StoreAction};
use crate::files::PartFiles;
use crate::format::{StoreFormat, StoreIdentity};
use crate::index::{PartExtent, PartIndex};
use crate::manifest::PartManifest;
use crate::order::BlockOrder;
use crate::parts::{OpenPartCache, PartState};
use crate::run::{self, BlockRun};
use crate::unsynced::Unsynced;
use crate::{CorruptByte, PartInfo, Store, StoreSpace, VerifyReport, table};

/// The number of bytes that a verification reads before it releases the part's lock.
const VERIFY_AT_ONCE: usize = 1 << 20;
/// The number of removed parts whose files are deleted together: the record of their removal has to be on the medium first.
const REMOVE_AT_ONCE: usize = 64;
/// The number of blocks for which space is allocated at once.
const RESERVE_AT_ONCE: u64 = 4096;

/// A store in a directory, which it locks until it is dropped.
pub struct FileStore {
    pub(crate) block: usize,
    pub(crate) directory: Arc<StoreDirectory>,
    pub(crate) manifest: PartManifest,
    pub(crate) index: PartIndex,
    pub(crate) parts: OpenPartCache,
    /// Held by the thread that syncs all parts.
    pub(crate) all: Mutex<()>,
    /// Parts that are removed and whose files still exist.
    removed: Mutex<Vec<FileId>>,
    unverified: AtomicU64,
}

impl FileStore {
    /// Opens the store in a directory, or creates one there; also the directory, if only its parent exists. All names in it
    /// are read once, and other files in it are not touched.
    ///
    /// Refuses a directory of another partition, server, version or block size, and one that is in use.
    pub fn open(directory: &Path, block_size: usize, identity: StoreIdentity) -> Result<FileStore> {
        FileStore::open_on(Arc::new(HostFileSystem), directory, block_size, identity)
    }

    /// The same on any medium.
    pub fn open_on(
        medium: Arc<dyn Medium>,
        directory: &Path,
        block_size: usize,
        identity: StoreIdentity,
    ) -> Result<FileStore> {
        run::check_block_size(block_size)?;
        let directory = StoreDirectory::open(medium, directory, &StoreFormat::new(identity, block_size))?;
        let (manifest, known) = PartManifest::open(directory.medium(), directory.root())?;
        let index = directory.scan(&manifest, &known)?;
        match manifest.begin() {
            // It can still be read; each change tries again.
            Err(error)
                if matches!(error.errno(), libc::EROFS | libc::EACCES | libc::EPERM | libc::ENOSPC) => {}
            begun => begun?,
        }
        // A quarter of the process's limit, up to four descriptors each; the rest is for its connections.
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Ok(FileStore {
            block: block_size,
            directory: Arc::new(directory),
            manifest,
            index,
            parts: OpenPartCache::new((limit / 12).clamp(8, 512) as usize),
            all: Mutex::default(),
            removed: Mutex::default(),
            unverified: AtomicU64::new(0),
        })
    }

    /// Keeps the files of so many parts open; default up to 512, fewer where descriptors are scarce.
    pub fn with_open_parts(mut self, most: usize) -> FileStore {
        self.parts = OpenPartCache::new(most);
        self
    }

    /// Does something with a part and its end that changes neither; `None` if the part does not exist.
    fn with_part<R>(
        &self,
        file: FileId,
        act: impl FnOnce(&PartFiles, &Unsynced, u64) -> Result<R>,
    ) -> Result<Option<R>> {
        let part = self.parts.get(file);
        loop {
            let state = part.read();
            let Some(extent) = self.extent_of(file)? else { return Ok(None) };
            if let Some(files) = &state.files {
                return act(files, &state.unsynced, extent.end).map(Some);
            }
            drop(state);
            let mut state = part.write();
            if self.extent_of(file)?.is_some() {
                self.files(file, &mut state)?;
            }
        }
    }

    /// Does something with a part that may change it; `None` if it does not exist and `create` is false. Waits for a sync
    /// that holds what `conflicts` selects.
    fn change_part<R>(
        &self,
        file: FileId,
        create: bool,
        conflicts: impl Fn(&Unsynced) -> bool,
        act: impl FnOnce(&PartFiles, &mut Unsynced) -> Result<R>,
    ) -> Result<Option<R>> {
        self.manifest.begin()?;
        let part = self.parts.get(file);
        let mut state = loop {
            let mut state = part.write();
            let files = match self.extent_of(file)? {
                None if !create => return Ok(None),
                None => self.create(file, &mut state)?,
                Some(_) => self.files(file, &mut state)?,
            };
            if let Some(refused) = files.refused() {
                return Err(refused);
            }
            self.recover(&files, &mut state)?;
            if !conflicts(&state.unsynced) {
                break state;
            }
            let failed = state.unsynced.failed.is_some();
            drop(state);
            if failed {
                self.sync_part(file)?;
            } else {
                drop(part.sync_lock());
            }
        };
        let PartState { files, unsynced } = &mut *state;
        let files = Arc::clone(files.as_ref().expect("just opened"));
        let result = act(&files, unsynced);
        let extent = files.extent();
        if let Ok(mut extent) = extent {
            extent.unsynced |= unsynced.failed.is_some();
            self.index.set(file, extent);
        }
        if let Some(error) = result.as_ref().err().or(extent.as_ref().err()) {
            state.unsynced.note_failure(error);
            // A header may have been written in part, so that the file has the new one: the file decides.
            if state.unsynced.failed.is_some() {
                drop(state.close())
            } else {
                state.files = None
            }
            if let Some(extent) = self.files(file, &mut state).ok().and_then(|files| files.extent().ok()) {
                self.index.set(file, extent);
            }
        }
        result.and_then(|result| extent.map(|_| Some(result)))
    }

    /// Recovers a part before it changes, if that was not done.
    pub(crate) fn recover(&self, files: &PartFiles, state: &mut PartState) -> Result<()> {
        if state.unsynced.recovered {
            return Ok(());
        }
        files.recover(&mut state.unsynced).inspect_err(|error| state.unsynced.note_failure(error))
    }

    /// Returns the extent of a part; an error if it is lost.
    fn extent_of(&self, file: FileId) -> Result<Option<PartExtent>> {
        match self.index.extent(file) {
            Some(extent) if extent.lost => Err(Error::Lost { file, path: self.directory.names(file).sums }),
            found => Ok(found),
        }
    }

    fn create(&self, file: FileId, state: &mut PartState) -> Result<Arc<PartFiles>> {
        if self.removed().contains(&file) {
            self.remove_files()?;
        }
        let losses = self.manifest.losses();
        let files =
            self.open_with_descriptors(|| PartFiles::create(file, self.block, &self.directory, losses))?;
        self.manifest.created(file)?;
        self.index.set(file, files.extent()?);
        state.files = Some(Arc::clone(&files));
        state.unsynced = Unsynced { recovered: true, header: 1, ..Unsynced::default() };
        Ok(files)
    }

    /// Opens files; if descriptors have run out, closes others and tries again.
    pub(crate) fn open_with_descriptors(
        &self,
        open: impl Fn() -> Result<PartFiles>,
    ) -> Result<Arc<PartFiles>> {
        let opened = match open() {
            Err(error)
                if matches!(error.errno(), libc::EMFILE | libc::ENFILE) && self.parts.close_oldest() =>
            {
                open()
            }
            opened => opened,
        };
        opened.map(Arc::new)
    }

    /// Deletes the files of parts that are removed.
    pub(crate) fn remove_files(&self) -> Result<()> {
        let mut removed = self.removed();
        if removed.is_empty() {
            return Ok(());
        }
        self.manifest.sync()?;
        while let Some(file) = removed.last() {
            self.directory.remove(*file)?;
            removed.pop();
        }
        Ok(())
    }

    fn removed(&self) -> pario_runtime::sync::MutexGuard<'_, Vec<FileId>> {
        self.removed.lock()
    }

    /// Does something that allocates space; if there is none, frees that of removed parts and tries again.
    fn with_room<R>(&self, act: impl Fn() -> Result<R>) -> Result<R> {
        match act() {
            Err(error) if is_full(&error) && !self.removed().is_empty() => {
                self.remove_files()?;
                act()
            }
            done => done,
        }
    }

    fn write_blocks(
        &self,
        run: BlockRun,
        file: FileId,
        blocks: &[&[u8]],
        sums: &[u32],
        end: u64,
    ) -> Result<()> {
        let create = run.end_after(0, end) > 0;
        self.change_part(
            file,
            create,
            |unsynced| unsynced.is_syncing(run),
            |files, unsynced| {
                let stored = files.header().end;
                let new = run.end_after(stored, end);
                let there = run.below(new);
                if there.count == 0 {
                    return files.set_end(unsynced, new, files.header().cut);
                }
                let mut sums = sums[..there.count].to_vec();
                for index in (0..there.count).filter(|index| run.kept(*index, new) != run.kept(*index, end)) {
                    let number = run.first + index as u64;
                    sums[index] = table::sum(file, number, blocks[index], run.kept(index, new));
                }
                files.write(unsynced, there, &blocks[..there.count], &sums, new)
            },
        )?;
        Ok(())
    }

    /// A lost part has no bytes any more.
    fn recreate_lost_part(&self, file: FileId) -> Result<()> {
        let part = self.parts.get(file);
        let mut state = part.write();
        if self.index.extent(file).is_some_and(|extent| extent.lost) {
            self.directory.remove(file)?;
            self.create(file, &mut state)?;
        }
        Ok(())
    }

    /// All blocks of a lost part are damaged; of one without any bytes the first is.
    fn verify_lost(&self, extent: PartExtent, from: u64, most: u64) -> VerifyReport {
        let blocks = extent.end.div_ceil(self.block as u64).max(1);
        let stop = from.saturating_add(most).min(blocks);
        VerifyReport { damaged: (from..stop).collect(), repaired: 0, next: (stop < blocks).then_some(stop) }
    }

    /// Sets the end of a part; returns whether the truncation was new.
    fn move_end(&self, file: FileId, end: u64, cut: u64) -> Result<bool> {
        let done = self.change_part(file, end > 0 || cut > 0, is_syncing_any, |files, unsynced| {
            let remembered = files.header().cut;
            if cut > 0 && cut <= remembered {
                return Ok(false);
            }
            files.set_end(unsynced, end, cut.max(remembered)).map(|()| true)
        })?;
        Ok(done.unwrap_or(true))
    }

    /// Frees space for a truncation: that of removed parts, and of blocks after the new last one, which needs space for its
    /// new version. Returns whether there was any.
    fn make_room(&self, file: FileId, end: u64) -> Result<bool> {
        let has_removed = !self.removed().is_empty();
        self.remove_files()?;
        let whole_blocks = end.next_multiple_of(self.block as u64);
        let has_more = self.end(file)? > whole_blocks;
        if has_more {
            self.move_end(file, whole_blocks, 0)?;
        }
        Ok(has_removed || has_more)
    }

    fn run(&self, file: FileId, first: u64, count: usize) -> Result<BlockRun> {
        BlockRun::new(file, self.block, first, count)
    }
}

/// Whether an error means that there is no space.
fn is_full(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::Quota)
}

/// Whether a sync holds any block of the part.
fn is_syncing_any(unsynced: &Unsynced) -> bool {
    !unsynced.syncing.is_empty()
}

impl Store for FileStore {
    fn block_size(&self) -> usize {
        self.block
    }

    fn read(&self, file: FileId, first: u64, blocks: &mut [&mut [u8]]) -> Result<()> {
        run::check_sizes(blocks, self.block);
        let run = self.run(file, first, blocks.len())?;
        let read = self.with_part(file, |files, unsynced, end| {
            let there = run.below(end);
            let unverified = files.read(unsynced, there, &mut blocks[..there.count], end)?;
            self.unverified.fetch_add(unverified, Ordering::Relaxed);
            Ok(there.count)
        })?;
        blocks[read.unwrap_or(0)..].iter_mut().for_each(|block| block.fill(0));
        Ok(())
    }

    fn write(&self, file: FileId, first: u64, blocks: &[&[u8]], end: u64) -> Result<()> {
        run::check_sizes(blocks, self.block);
        let run = self.run(file, first, blocks.len())?;
        let sum = |index: usize| table::sum(file, first + index as u64, blocks[index], run.kept(index, end));
        let sums: Vec<_> = (0..run.count).map(sum).collect();
        self.with_room(|| self.write_blocks(run, file, blocks, &sums, end))
    }

    fn arrange(&self, file: FileId, runs: &[Range<u64>]) -> Result<()> {
        let order = BlockOrder::new(self.block, runs).ok_or(Error::Order { file })?;
        let arranged = self.change_part(file, true, is_syncing_any, |files, unsynced| {
            let header = files.header();
            let late = header.end > 0 || header.ordered || order.is_plain();
            if late { Ok(false) } else { files.arrange(unsynced, &order).map(|()| true) }
        })?;
        if arranged == Some(true) {
            // The next use opens it again, with its order.
            self.parts.get(file).write().close();
            let extent = self.with_part(file, |files, _, _| files.extent())?;
            extent.into_iter().for_each(|extent| self.index.set(file, extent));
        }
        Ok(())
    }

    fn contiguous_blocks(&self, file: FileId, first: u64, most: u64) -> Result<u64> {
        match self.index.extent(file) {
            Some(extent) if extent.ordered => {
                let together =
                    self.with_part(file, |files, _, _| Ok(files.contiguous_blocks(first, most)))?;
                Ok(together.unwrap_or(most))
            }
            _ => Ok(most),
        }
    }

    fn end(&self, file: FileId) -> Result<u64> {
        Ok(self.extent_of(file)?.map_or(0, |extent| extent.end))
    }

    fn set_end(&self, file: FileId, end: u64, cut: u64) -> Result<bool> {
        let end = run::sound_end(file, end)?;
        if end == 0 {
            self.recreate_lost_part(file)?;
        }
        match self.move_end(file, end, cut) {
            // Its last steps may have failed: then a second attempt finds it done.
            Err(error) if is_full(&error) && self.make_room(file, end)? => {
                self.move_end(file, end, cut).map(|_| true)
            }
            done => done,
        }
    }

    fn fence(&self, file: FileId, cut: u64) -> Result<bool> {
        let done = self.change_part(
            file,
            cut > 0,
            |_| false,
            |files, unsynced| {
                let new = cut > files.header().cut;
                if new { files.fence(unsynced, cut).map(|()| true) } else { Ok(false) }
            },
        )?;
        Ok(done.unwrap_or(false))
    }

    fn last_truncation(&self, file: FileId) -> Result<u64> {
        Ok(self.with_part(file, |files, _, _| Ok(files.header().cut))?.unwrap_or(0))
    }

    fn reserve(&self, file: FileId, blocks: Range<u64>) -> Result<()> {
        let bytes = blocks.end.saturating_sub(blocks.start).saturating_mul(self.block as u64);
        let root = self.directory.root();
        let space = self.directory.handle().space();
        if bytes > space.map_err(|error| Error::io(StoreAction::Inspect, root, error))?.total {
            return Err(Error::Io {
                action: StoreAction::Reserve,
                path: root.to_owned(),
                errno: libc::ENOSPC,
            });
        }
        let mut first = blocks.start;
        while first < blocks.end {
            let count = RESERVE_AT_ONCE.min(blocks.end - first);
            let run = self.run(file, first, count as usize)?;
            self.with_room(|| {
                self.change_part(file, true, is_syncing_any, |files, unsynced| files.reserve(unsynced, run))
            })?;
            first += count;
        }
        Ok(())
    }

    fn remove(&self, file: FileId) -> Result<()> {
        self.manifest.begin()?;
        let part = self.parts.get(file);
        let _turn = part.sync_lock();
        let mut state = part.write();
        if self.index.extent(file).is_some() {
            self.manifest.removed(file)?;
            *state = PartState::default();
            self.index.remove(file);
            self.removed().push(file);
        }
        drop(state);
        if self.removed().len() >= REMOVE_AT_ONCE { self.remove_files() } else { Ok(()) }
    }

    fn reclaim(&self) -> Result<()> {
        self.remove_files()
    }

    fn sync(&self, file: FileId) -> Result<()> {
        self.extent_of(file)?;
        self.sync_part(file)
    }

    fn sync_all(&self) -> Result<()> {
        self.sync_parts()
    }

    fn sync_failure(&self, file: FileId) -> Result<()> {
        let failed = match file {
            FileId(0) => self.parts.failure(),
            file if self.index.extent(file).is_none_or(|extent| !extent.unsynced) => None,
            file => self.parts.get(file).read().unsynced.failed.clone(),
        };
        failed.map_or(Ok(()), Err)
    }

    fn list(&self, after: FileId, most: usize) -> Result<Vec<PartInfo>> {
        Ok(self.index.list(after, most))
    }

    fn verify(&self, file: FileId, from: u64, most: u64) -> Result<VerifyReport> {
        if let Some(extent) = self.index.extent(file).filter(|extent| extent.lost) {
            return Ok(self.verify_lost(extent, from, most));
        }
        let at_once = (VERIFY_AT_ONCE / self.block).max(1) as u64;
        let stop = from.saturating_add(most);
        let (mut verified, mut scratch) = (VerifyReport::default(), Vec::new());
        let mut at = from;
        while at < stop {
            let inspect = |files: &PartFiles, unsynced: &Unsynced, end: u64| {
                let blocks = end.div_ceil(self.block as u64);
                let count = at_once.min(stop - at).min(blocks.saturating_sub(at));
                if count == 0 {
                    return Ok((0, BlockFindings::default()));
                }
                let mut found = files.inspect(unsynced, self.run(file, at, count as usize)?, &mut scratch)?;
                if files.refused().is_some() {
                    found.being_written.clear();
                }
                Ok((count, found))
            };
            let Some((count, found)) = self.with_part(file, inspect)?.filter(|(count, _)| *count > 0) else {
                return Ok(verified);
            };
            verified.damaged.extend(found.damaged);
            for block in found.being_written {
                let repaired = self.change_part(file, false, is_syncing_any, |files, unsynced| {
                    files.repair_block(unsynced, block)
                })?;
                verified.repaired += u64::from(repaired == Some(true));
            }
            at += count;
        }
        let more = at < self.end(file)?.div_ceil(self.block as u64);
        verified.next = more.then_some(at);
        Ok(verified)
    }

    fn accept(&self, file: FileId, blocks: &[u64]) -> Result<()> {
        if let Some(extent) = self.index.extent(file).filter(|extent| extent.lost) {
            let part = self.parts.get(file);
            let mut state = part.write();
            let losses = self.manifest.losses();
            PartFiles::accept_loss(file, self.block, &self.directory, extent, losses)?;
            state.unsynced = Unsynced { header: 1, ..Unsynced::default() };
            let files = self.files(file, &mut state)?;
            self.index.set(file, files.extent()?);
        }
        for block in blocks {
            self.change_part(file, false, is_syncing_any, |files, unsynced| {
                let there = *block < files.header().end.div_ceil(self.block as u64);
                if there { files.accept(unsynced, *block) } else { Ok(()) }
            })?;
        }
        Ok(())
    }

    fn room(&self) -> Result<StoreSpace> {
        self.remove_files()?;
        let space = self.directory.handle().space();
        let space = space.map_err(|error| Error::io(StoreAction::Inspect, self.directory.root(), error))?;
        let (used, parts) = self.index.total();
        Ok(StoreSpace { total: space.total, free: space.free, used, parts })
    }

    fn highest_file_id(&self) -> FileId {
        self.manifest.highest()
    }

    fn unverified(&self) -> u64 {
        self.unverified.load(Ordering::Relaxed)
    }
}

impl CorruptByte for FileStore {
    fn flip_byte(&self, file: FileId, at: u64) -> Result<()> {
        let end = self.end(file)?;
        assert!(at < end, "no byte {at} in a part of {end}");
        self.change_part(file, false, is_syncing_any, |files, _| files.flip_byte(at)).map(drop)
    }
}

impl Drop for FileStore {
    fn drop(&mut self) {
        // A failure of any of this does no harm: the next open of the store examines more.
        let gone = self.remove_files();
        if gone.is_ok() && self.index.unsynced().is_empty() {
            let _ = self.manifest.end();
        }
    }
}
