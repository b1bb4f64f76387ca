//! The open files of a part, the location of its blocks in them, and how blocks are read and verified.
//!
//! Every block has two *homes*: home A is its location in the part's own file, or in that of the ordered blocks; home B is
//! its location in the file of second versions. Its entry has the home of the newest version and whether a durable one is
//! in the other home. [`crate::change`] describes how they change.
//!
//! Callers hold the part's lock: shared for reads, exclusive for changes.

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use pario_medium::{MediumFile, OpenMode};
use pario_runtime::sync::{Mutex, MutexGuard};
use pario_types::FileId;

use crate::directory::{PartPaths, StoreDirectory};
use crate::error::{Error, Result, StoreAction};
use crate::index::PartExtent;
use crate::order::{BlockOrder, BlockPlace};
use crate::run::BlockRun;
use crate::table::{self, BlockVersion, ChecksumEntry, Home, PartHeader, Stage};
use crate::unsynced::Unsynced;

/// The files of a part.
pub struct PartFiles {
    pub(crate) file: FileId,
    pub(crate) block: usize,
    pub(crate) names: PartPaths,
    pub(crate) directory: Arc<StoreDirectory>,
    pub(crate) sums: Box<dyn MediumFile>,
    data: OnceLock<Box<dyn MediumFile>>,
    alt: OnceLock<Box<dyn MediumFile>>,
    ordered: Option<OrderedFile>,
    header: Mutex<PartHeader>,
    /// The number of power losses in the life of the store.
    losses: u64,
    /// The reason why it is read-only.
    refused: Option<i32>,
}

/// The file of ordered blocks, and the locations in it.
struct OrderedFile {
    data: Box<dyn MediumFile>,
    order: BlockOrder,
}

/// One of the files with blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileRole {
    Data,
    Alt,
    Ordered,
}

/// Blocks of a run that are consecutive in one of the files: those from `first` on, `count` of them.
#[derive(Clone, Copy, Debug)]
pub struct FileExtent {
    pub which: FileRole,
    pub at: u64,
    pub first: usize,
    pub count: usize,
}

/// The result of verifying a block's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// They are a complete version that was written.
    Good,
    /// A crash came while they were written in place: each byte is an old or a new one.
    Unverified,
    /// They differ from those that were written.
    Damaged,
}

impl PartFiles {
    /// Creates the first file of a part that does not exist.
    pub fn create(
        file: FileId,
        block: usize,
        directory: &Arc<StoreDirectory>,
        losses: u64,
    ) -> Result<PartFiles> {
        let names = directory.names(file);
        let failed = |error| Error::io(StoreAction::Create, &names.sums, error);
        let sums = directory.medium().open(&names.sums, OpenMode::New).map_err(failed)?;
        directory.changed(file);
        let header = PartHeader { losses, unsynced: true, ..PartHeader::default() };
        pario_medium::put(&*sums, 0, &[&header.encode(file)]).map_err(failed)?;
        Ok(PartFiles::new(file, block, directory, sums, header, losses))
    }

    /// Creates checksums for a part that has lost them: they mark each of its blocks as lost.
    pub fn accept_loss(
        file: FileId,
        block: usize,
        directory: &Arc<StoreDirectory>,
        extent: PartExtent,
        losses: u64,
    ) -> Result<()> {
        let names = directory.names(file);
        let failed = |error| Error::io(StoreAction::Create, &names.sums, error);
        let sums = directory.medium().open(&names.sums, OpenMode::New).map_err(failed)?;
        directory.changed(file);
        // The header comes last: without it the checksums are still lost.
        for number in 0..extent.end.div_ceil(block as u64) {
            let entry = ChecksumEntry::Lost.encode(file, number);
            pario_medium::put(&*sums, table::place(number), &[&entry]).map_err(failed)?;
        }
        let (end, ordered) = (extent.end, extent.ordered);
        let header = PartHeader { losses, end, ordered, unsynced: true, ..PartHeader::default() };
        pario_medium::put(&*sums, 0, &[&header.encode(file)]).map_err(failed)
    }

    fn new(
        file: FileId,
        block: usize,
        directory: &Arc<StoreDirectory>,
        sums: Box<dyn MediumFile>,
        header: PartHeader,
        losses: u64,
    ) -> PartFiles {
        PartFiles {
            file,
            block,
            names: directory.names(file),
            directory: Arc::clone(directory),
            sums,
            data: OnceLock::new(),
            alt: OnceLock::new(),
            ordered: None,
            header: Mutex::new(header),
            losses,
            refused: None,
        }
    }

    /// Opens the files of an existing part, read-only if the system grants no more. Its `known` header is used instead of
    /// the one in the file, which a failed sync can have damaged.
    pub fn open(
        file: FileId,
        block: usize,
        directory: &Arc<StoreDirectory>,
        known: Option<PartHeader>,
        losses: u64,
    ) -> Result<PartFiles> {
        let names = directory.names(file);
        let open = |path: &Path, mode| directory.medium().open(path, mode);
        let lost = || Error::Lost { file, path: names.sums.clone() };
        let failed = |path: &Path, error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => lost(),
            _ => Error::io(StoreAction::Open, path, error),
        };
        let (sums, refused) = match open(&names.sums, OpenMode::Write) {
            Ok(sums) => (sums, None),
            Err(error) => match error.raw_os_error() {
                Some(errno @ (libc::EROFS | libc::EACCES | libc::EPERM)) => {
                    let sums = open(&names.sums, OpenMode::Read);
                    (sums.map_err(|error| failed(&names.sums, error))?, Some(errno))
                }
                _ => return Err(failed(&names.sums, error)),
            },
        };
        let mut bytes = [0; table::HEADER];
        let read = pario_medium::fill(&*sums, 0, &mut [&mut bytes]);
        read.map_err(|error| Error::io(StoreAction::Read, &names.sums, error))?;
        let header = known.or_else(|| PartHeader::decode(file, &bytes)).ok_or_else(lost)?;
        let mut files = PartFiles { refused, ..PartFiles::new(file, block, directory, sums, header, losses) };
        let mode = if refused.is_none() { OpenMode::Write } else { OpenMode::Read };
        let there = |path: &Path| match open(path, mode) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some).map_err(|error| Error::io(StoreAction::Open, path, error)),
        };
        let once = |file: Option<_>| file.map_or_else(OnceLock::new, OnceLock::from);
        (files.data, files.alt) = (once(there(&names.data)?), once(there(&names.alt)?));
        if header.ordered
            && let Some(data) = there(&names.ordered)?
        {
            let read = |to: &mut [u8]| pario_medium::fill(&*data, 0, &mut [to]).map(drop);
            let order = data.stats().and_then(|stats| BlockOrder::decode(file, block, stats.len, read));
            let order = order.map_err(|error| Error::io(StoreAction::Read, &names.ordered, error))?;
            // Without its order the blocks cannot be found in it: they are damaged.
            files.ordered = order.map(|order| OrderedFile { data, order });
        }
        Ok(files)
    }

    /// The number of blocks from this one on that are consecutive, at most `most`.
    pub fn contiguous_blocks(&self, block: u64, most: u64) -> u64 {
        self.ordered.as_ref().map_or(most, |ordered| ordered.order.place(block, most).1)
    }

    /// The reason why it is read-only, if it is.
    pub fn refused(&self) -> Option<Error> {
        let errno = self.refused?;
        Some(Error::Io { action: StoreAction::Open, path: self.names.sums.clone(), errno })
    }

    /// The content of the header.
    pub fn header(&self) -> PartHeader {
        *self.lock_header()
    }

    /// Changes the header, in the file and then in memory.
    pub(crate) fn set_header(&self, change: impl FnOnce(&mut PartHeader)) -> Result<()> {
        let mut header = self.lock_header();
        let mut next = *header;
        change(&mut next);
        next.sequence += 1;
        let written = pario_medium::put(&*self.sums, 0, &[&next.encode(self.file)]);
        written.map_err(|error| Error::io(StoreAction::Write, &self.names.sums, error))?;
        *header = next;
        Ok(())
    }

    fn lock_header(&self) -> MutexGuard<'_, PartHeader> {
        self.header.lock()
    }

    /// The number of power losses in the life of the store.
    pub(crate) fn losses(&self) -> u64 {
        self.losses
    }

    /// Whether power was lost since the entries were last examined: blocks that are not durable may then be mixed.
    pub(crate) fn power_was_lost(&self) -> bool {
        self.header().losses != self.losses
    }

    /// The number of blocks up to an offset.
    pub(crate) fn blocks(&self, end: u64) -> u64 {
        end.div_ceil(self.block as u64)
    }

    /// Its length and its space.
    pub fn extent(&self) -> Result<PartExtent> {
        let header = self.header();
        let mut used = 0;
        for which in [FileRole::Data, FileRole::Alt, FileRole::Ordered] {
            if let Some(file) = self.get(which) {
                let stats = file.stats();
                used += stats.map_err(|error| Error::io(StoreAction::Inspect, self.path(which), error))?.used;
            }
        }
        let unsynced = header.unsynced || header.losses != self.losses;
        Ok(PartExtent { end: header.end, used, ordered: header.ordered, lost: false, unsynced })
    }

    /// Returns a file, if it exists.
    pub(crate) fn get(&self, which: FileRole) -> Option<&dyn MediumFile> {
        match which {
            FileRole::Data => self.data.get().map(|file| &**file),
            FileRole::Alt => self.alt.get().map(|file| &**file),
            FileRole::Ordered => self.ordered.as_ref().map(|ordered| &*ordered.data),
        }
    }

    /// Returns a file, and creates it if it does not exist.
    pub(crate) fn get_or_make(&self, which: FileRole) -> Result<&dyn MediumFile> {
        let (slot, path) = match which {
            FileRole::Data => (&self.data, &self.names.data),
            FileRole::Alt => (&self.alt, &self.names.alt),
            FileRole::Ordered => (&self.data, &self.names.ordered),
        };
        if self.get(which).is_none() {
            let made = self.directory.medium().open(path, OpenMode::Create);
            let made = made.map_err(|error| Error::io(StoreAction::Create, path, error))?;
            self.directory.changed(self.file);
            // Under the part's exclusive lock no other thread creates it.
            let _ = slot.set(made);
        }
        Ok(self.get(which).expect("just made"))
    }

    /// Returns the path of a file.
    pub(crate) fn path(&self, which: FileRole) -> &Path {
        match which {
            FileRole::Data => &self.names.data,
            FileRole::Alt => &self.names.alt,
            FileRole::Ordered => &self.names.ordered,
        }
    }

    /// The order of its blocks, if it has one of its own.
    pub(crate) fn order(&self) -> Option<&BlockOrder> {
        self.ordered.as_ref().map(|ordered| &ordered.order)
    }

    /// Returns the location of a block's home.
    pub(crate) fn place(&self, block: u64, home: Home) -> (FileRole, u64) {
        let plain = block * self.block as u64;
        match (home, self.order().map(|order| order.place(block, 1).0)) {
            (Home::B, _) => (FileRole::Alt, plain),
            (Home::A, Some(BlockPlace::Ordered(at))) => (FileRole::Ordered, at),
            (Home::A, _) => (FileRole::Data, plain),
        }
    }

    /// Returns the locations of these homes of the blocks of a run; adjacent ones are merged. Blocks without a home are
    /// skipped.
    pub(crate) fn file_extents(
        &self,
        run: BlockRun,
        home: impl Fn(usize) -> Option<Home>,
    ) -> Vec<FileExtent> {
        let mut found: Vec<FileExtent> = Vec::new();
        for (index, block) in run.blocks().enumerate() {
            let Some(home) = home(index) else { continue };
            let (which, at) = self.place(block, home);
            match found.last_mut() {
                Some(last)
                    if last.which == which
                        && last.first + last.count == index
                        && last.at + (last.count * self.block) as u64 == at =>
                {
                    last.count += 1;
                }
                _ => found.push(FileExtent { which, at, first: index, count: 1 }),
            }
        }
        found
    }

    /// The entries of blocks.
    pub(crate) fn entries(&self, run: BlockRun) -> Result<Vec<ChecksumEntry>> {
        let mut bytes = vec![0; run.count * table::ENTRY];
        let read = pario_medium::fill(&*self.sums, table::place(run.first), &mut [&mut bytes]);
        let got = read.map_err(|error| Error::io(StoreAction::Read, &self.names.sums, error))?;
        let header = self.header();
        let must = if header.losses == self.losses { header.end } else { header.entries_end };
        let must = self.blocks(must);
        let entries = run.blocks().zip(bytes.chunks_exact(table::ENTRY)).enumerate();
        let decode = |(index, (block, bytes)): (usize, (u64, &[u8]))| {
            let there = ((index + 1) * table::ENTRY) as u64 <= got;
            match there || block >= must {
                true => ChecksumEntry::decode(self.file, block, bytes.try_into().expect("an entry")),
                false => ChecksumEntry::Damaged,
            }
        };
        Ok(entries.map(decode).collect())
    }

    /// The same, from memory where they are known: damage by a failed sync in the file has no effect.
    pub(crate) fn known_entries(&self, unsynced: &Unsynced, run: BlockRun) -> Result<Vec<ChecksumEntry>> {
        let mut known = unsynced.known(run).map(|(block, stored)| ((block - run.first) as usize, stored));
        let mut entries = match known.clone().count() == run.count {
            true => vec![ChecksumEntry::None; run.count],
            false => self.entries(run)?,
        };
        known.by_ref().for_each(|(index, stored)| entries[index] = ChecksumEntry::Stored(stored));
        Ok(entries)
    }

    /// Reads blocks that begin below the end; returns the number of unverified ones.
    pub fn read(
        &self,
        unsynced: &Unsynced,
        run: BlockRun,
        blocks: &mut [&mut [u8]],
        end: u64,
    ) -> Result<u64> {
        let entries = self.known_entries(unsynced, run)?;
        self.load(run, &entries, blocks)?;
        let mut unverified = 0;
        for ((block, entry), bytes) in run.blocks().zip(entries).zip(blocks.iter_mut()) {
            match self.check_block(block, entry, bytes)? {
                BlockState::Good => {}
                BlockState::Unverified => unverified += 1,
                BlockState::Damaged => return Err(Error::Damaged { file: self.file, block }),
            }
        }
        if let Some(last) = run.count.checked_sub(1) {
            blocks[last][run.kept(last, end)..].fill(0);
        }
        Ok(unverified)
    }

    /// Reads the newest versions of blocks as they are.
    pub(crate) fn load(
        &self,
        run: BlockRun,
        entries: &[ChecksumEntry],
        blocks: &mut [&mut [u8]],
    ) -> Result<()> {
        let home = |index: usize| match entries[index] {
            ChecksumEntry::Stored(stored) => Some(stored.home),
            ChecksumEntry::Zeros => None,
            ChecksumEntry::None | ChecksumEntry::Lost | ChecksumEntry::Damaged => Some(Home::A),
        };
        for FileExtent { which, at, first, count } in self.file_extents(run, home) {
            let here = &mut blocks[first..first + count];
            match self.get(which) {
                Some(file) => {
                    let filled = pario_medium::fill(file, at, here);
                    filled.map_err(|error| Error::io(StoreAction::Read, self.path(which), error))?;
                }
                None => here.iter_mut().for_each(|block| block.fill(0)),
            }
        }
        Ok(())
    }

    /// Compares the newest version of a block with its entry; if that was never finished, returns the version before.
    pub(crate) fn check_block(
        &self,
        block: u64,
        entry: ChecksumEntry,
        bytes: &mut [u8],
    ) -> Result<BlockState> {
        let stored = match entry {
            ChecksumEntry::None if table::is_zero(bytes) => return Ok(BlockState::Good),
            ChecksumEntry::None if !self.power_was_lost() => return Ok(BlockState::Damaged),
            ChecksumEntry::None | ChecksumEntry::Zeros => {
                bytes.fill(0);
                return Ok(BlockState::Good);
            }
            ChecksumEntry::Lost | ChecksumEntry::Damaged => return Ok(BlockState::Damaged),
            ChecksumEntry::Stored(stored) => stored,
        };
        if self.fits(block, stored, bytes) || pario_runtime::is_planted("checksum-not-compared") {
            return Ok(BlockState::Good);
        }
        match stored.stage {
            Stage::Durable => Ok(BlockState::Damaged),
            Stage::Written if !self.power_was_lost() => Ok(BlockState::Damaged),
            Stage::InPlace if !self.power_was_lost() => Ok(BlockState::Unverified),
            Stage::Fresh | Stage::InPlace | Stage::Written => self.load_previous(block, stored, bytes),
        }
    }

    /// Whether bytes match an entry.
    pub(crate) fn fits(&self, block: u64, stored: BlockVersion, bytes: &[u8]) -> bool {
        stored.sum == table::sum(self.file, block, bytes, bytes.len())
    }

    fn load_previous(&self, block: u64, stored: BlockVersion, bytes: &mut [u8]) -> Result<BlockState> {
        let before = stored.without();
        match before {
            ChecksumEntry::Stored(durable) => {
                let run = BlockRun::new(self.file, self.block, block, 1)?;
                self.load(run, &[before], &mut [&mut *bytes])?;
                Ok(if self.fits(block, durable, bytes) { BlockState::Good } else { BlockState::Damaged })
            }
            ChecksumEntry::Lost | ChecksumEntry::Damaged => Ok(BlockState::Damaged),
            ChecksumEntry::None | ChecksumEntry::Zeros => {
                bytes.fill(0);
                Ok(BlockState::Good)
            }
        }
    }

    /// A block's entry and the bytes that a reader gets.
    pub(crate) fn load_block(
        &self,
        unsynced: &Unsynced,
        block: u64,
    ) -> Result<(ChecksumEntry, Vec<u8>, BlockState)> {
        let run = BlockRun::new(self.file, self.block, block, 1)?;
        let mut bytes = vec![0; self.block];
        let entry = self.known_entries(unsynced, run)?[0];
        self.load(run, &[entry], &mut [&mut bytes])?;
        let found = self.check_block(block, entry, &mut bytes)?;
        Ok((entry, bytes, found))
    }

    /// Whether the system knows that there is a hole.
    pub(crate) fn is_hole(&self, run: BlockRun) -> bool {
        self.file_extents(run, |_| Some(Home::A)).iter().all(|stretch| {
            let end = stretch.at + (stretch.count * self.block) as u64;
            let Some(file) = self.get(stretch.which) else { return true };
            file.next_data(stretch.at).is_ok_and(|next| next.is_none_or(|at| at >= end))
        })
    }
}
