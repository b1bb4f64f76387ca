//! The open files of a part, what lies where in them, and how blocks are read and judged.
//!
//! Every block has two *homes*: home A is its place in the part's own file, or in that of the ordered blocks; home B is its
//! place in the file of second versions. Its entry says where the newest version lies and whether a durable one lies in the
//! other home. How they change is in [`crate::change`].
//!
//! Callers hold the part's lock: shared for what reads, exclusive for what changes.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use pario_medium::{MediumFile, Mode};
use pario_types::FileId;

use crate::directory::{Directory, Names};
use crate::error::{Action, Error, Result};
use crate::index::Extent;
use crate::order::{Order, Place};
use crate::run::Run;
use crate::table::{self, Entry, Header, Home, Stage, Stored};
use crate::unsynced::Unsynced;

/// The files of a part.
pub struct PartFiles {
    pub(crate) file: FileId,
    pub(crate) block: usize,
    pub(crate) names: Names,
    pub(crate) directory: Arc<Directory>,
    pub(crate) sums: Box<dyn MediumFile>,
    data: OnceLock<Box<dyn MediumFile>>,
    alt: OnceLock<Box<dyn MediumFile>>,
    ordered: Option<Ordered>,
    header: Mutex<Header>,
    /// How often power was lost in the life of the store.
    losses: u64,
    /// Why it may only be read.
    refused: Option<i32>,
}

/// The file of ordered blocks, and what lies where in it.
struct Ordered {
    data: Box<dyn MediumFile>,
    order: Order,
}

/// One of the files that hold blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Data,
    Alt,
    Ordered,
}

/// Blocks of a run that follow each other in one of the files: those from `first` on, `count` of them.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    pub which: Which,
    pub at: u64,
    pub first: usize,
    pub count: usize,
}

/// What became of a block's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// They are a version that was written, in full.
    Good,
    /// A crash came while they were written in place: each is an old or a new one.
    Unverified,
    /// They are not those that were written.
    Damaged,
}

impl PartFiles {
    /// Makes the first file of a part that is not there.
    pub fn create(file: FileId, block: usize, directory: &Arc<Directory>, losses: u64) -> Result<PartFiles> {
        let names = directory.names(file);
        let failed = |error| Error::io(Action::Create, &names.sums, error);
        let sums = directory.medium().open(&names.sums, Mode::New).map_err(failed)?;
        directory.changed(file);
        let header = Header { losses, unsynced: true, ..Header::default() };
        pario_medium::put(&*sums, 0, &[&header.encode(file)]).map_err(failed)?;
        Ok(PartFiles::new(file, block, directory, sums, header, losses))
    }

    /// Makes checksums in place of those of a part that are lost: they say of each of its blocks that it is.
    pub fn accept_loss(
        file: FileId,
        block: usize,
        directory: &Arc<Directory>,
        extent: Extent,
        losses: u64,
    ) -> Result<()> {
        let names = directory.names(file);
        let failed = |error| Error::io(Action::Create, &names.sums, error);
        let sums = directory.medium().open(&names.sums, Mode::New).map_err(failed)?;
        directory.changed(file);
        // The header comes last: without it they are still lost.
        for number in 0..extent.end.div_ceil(block as u64) {
            let entry = Entry::Lost.encode(file, number);
            pario_medium::put(&*sums, table::place(number), &[&entry]).map_err(failed)?;
        }
        let (end, ordered) = (extent.end, extent.ordered);
        let header = Header { losses, end, ordered, unsynced: true, ..Header::default() };
        pario_medium::put(&*sums, 0, &[&header.encode(file)]).map_err(failed)
    }

    fn new(
        file: FileId,
        block: usize,
        directory: &Arc<Directory>,
        sums: Box<dyn MediumFile>,
        header: Header,
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

    /// Opens the files of a part that is there, for reading only if the system grants no more. Its header may be `known`
    /// better than from the file, which a failed sync can have spoilt.
    pub fn open(
        file: FileId,
        block: usize,
        directory: &Arc<Directory>,
        known: Option<Header>,
        losses: u64,
    ) -> Result<PartFiles> {
        let names = directory.names(file);
        let open = |path: &Path, mode| directory.medium().open(path, mode);
        let lost = || Error::Lost { file, path: names.sums.clone() };
        let failed = |path: &Path, error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => lost(),
            _ => Error::io(Action::Open, path, error),
        };
        let (sums, refused) = match open(&names.sums, Mode::Write) {
            Ok(sums) => (sums, None),
            Err(error) => match error.raw_os_error() {
                Some(errno @ (libc::EROFS | libc::EACCES | libc::EPERM)) => {
                    let sums = open(&names.sums, Mode::Read);
                    (sums.map_err(|error| failed(&names.sums, error))?, Some(errno))
                }
                _ => return Err(failed(&names.sums, error)),
            },
        };
        let mut bytes = [0; table::HEADER];
        let read = pario_medium::fill(&*sums, 0, &mut [&mut bytes]);
        read.map_err(|error| Error::io(Action::Read, &names.sums, error))?;
        let header = known.or_else(|| Header::decode(file, &bytes)).ok_or_else(lost)?;
        let mut files = PartFiles { refused, ..PartFiles::new(file, block, directory, sums, header, losses) };
        let mode = if refused.is_none() { Mode::Write } else { Mode::Read };
        let there = |path: &Path| match open(path, mode) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some).map_err(|error| Error::io(Action::Open, path, error)),
        };
        let once = |file: Option<_>| file.map_or_else(OnceLock::new, OnceLock::from);
        (files.data, files.alt) = (once(there(&names.data)?), once(there(&names.alt)?));
        if header.ordered
            && let Some(data) = there(&names.ordered)?
        {
            let read = |to: &mut [u8]| pario_medium::fill(&*data, 0, &mut [to]).map(drop);
            let order = data.facts().and_then(|facts| Order::decode(file, block, facts.len, read));
            let order = order.map_err(|error| Error::io(Action::Read, &names.ordered, error))?;
            // Without its order the blocks cannot be found in it: they are damaged.
            files.ordered = order.map(|order| Ordered { data, order });
        }
        Ok(files)
    }

    /// How many blocks from this one on lie one after the other, at most `most`.
    pub fn together(&self, block: u64, most: u64) -> u64 {
        self.ordered.as_ref().map_or(most, |ordered| ordered.order.place(block, most).1)
    }

    /// Why it may only be read, if so.
    pub fn refused(&self) -> Option<Error> {
        let errno = self.refused?;
        Some(Error::Io { action: Action::Open, path: self.names.sums.clone(), errno })
    }

    /// What the header says.
    pub fn header(&self) -> Header {
        *self.lock_header()
    }

    /// Changes the header, in the file and then in memory.
    pub(crate) fn set_header(&self, change: impl FnOnce(&mut Header)) -> Result<()> {
        let mut header = self.lock_header();
        let mut next = *header;
        change(&mut next);
        next.sequence += 1;
        let written = pario_medium::put(&*self.sums, 0, &[&next.encode(self.file)]);
        written.map_err(|error| Error::io(Action::Write, &self.names.sums, error))?;
        *header = next;
        Ok(())
    }

    fn lock_header(&self) -> MutexGuard<'_, Header> {
        self.header.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often power was lost in the life of the store.
    pub(crate) fn losses(&self) -> u64 {
        self.losses
    }

    /// Power was lost since somebody looked through the entries: what is not durable may be mixed.
    pub(crate) fn power_was_lost(&self) -> bool {
        self.header().losses != self.losses
    }

    /// How many blocks there are up to an offset.
    pub(crate) fn blocks(&self, end: u64) -> u64 {
        end.div_ceil(self.block as u64)
    }

    /// How long it is and what room it takes.
    pub fn extent(&self) -> Result<Extent> {
        let header = self.header();
        let mut used = 0;
        for which in [Which::Data, Which::Alt, Which::Ordered] {
            if let Some(file) = self.get(which) {
                let facts = file.facts();
                used += facts.map_err(|error| Error::io(Action::Inspect, self.path(which), error))?.used;
            }
        }
        let unsynced = header.unsynced || header.losses != self.losses;
        Ok(Extent { end: header.end, used, ordered: header.ordered, lost: false, unsynced })
    }

    /// A file, if it is there.
    pub(crate) fn get(&self, which: Which) -> Option<&dyn MediumFile> {
        match which {
            Which::Data => self.data.get().map(|file| &**file),
            Which::Alt => self.alt.get().map(|file| &**file),
            Which::Ordered => self.ordered.as_ref().map(|ordered| &*ordered.data),
        }
    }

    /// A file, made if it is not there.
    pub(crate) fn get_or_make(&self, which: Which) -> Result<&dyn MediumFile> {
        let (slot, path) = match which {
            Which::Data => (&self.data, &self.names.data),
            Which::Alt => (&self.alt, &self.names.alt),
            Which::Ordered => (&self.data, &self.names.ordered),
        };
        if self.get(which).is_none() {
            let made = self.directory.medium().open(path, Mode::Create);
            let made = made.map_err(|error| Error::io(Action::Create, path, error))?;
            self.directory.changed(self.file);
            // Under the part's exclusive lock nobody else makes it.
            let _ = slot.set(made);
        }
        Ok(self.get(which).expect("just made"))
    }

    /// Where a file is.
    pub(crate) fn path(&self, which: Which) -> &Path {
        match which {
            Which::Data => &self.names.data,
            Which::Alt => &self.names.alt,
            Which::Ordered => &self.names.ordered,
        }
    }

    /// The order of its blocks, if it has one of its own.
    pub(crate) fn order(&self) -> Option<&Order> {
        self.ordered.as_ref().map(|ordered| &ordered.order)
    }

    /// Where a block's home is.
    pub(crate) fn place(&self, block: u64, home: Home) -> (Which, u64) {
        let plain = block * self.block as u64;
        match (home, self.order().map(|order| order.place(block, 1).0)) {
            (Home::B, _) => (Which::Alt, plain),
            (Home::A, Some(Place::Ordered(at))) => (Which::Ordered, at),
            (Home::A, _) => (Which::Data, plain),
        }
    }

    /// Where these homes of the blocks of a run lie, neighbours together. Blocks without a home are passed over.
    pub(crate) fn stretches(&self, run: Run, home: impl Fn(usize) -> Option<Home>) -> Vec<Stretch> {
        let mut found: Vec<Stretch> = Vec::new();
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
                _ => found.push(Stretch { which, at, first: index, count: 1 }),
            }
        }
        found
    }

    /// The entries of blocks.
    pub(crate) fn entries(&self, run: Run) -> Result<Vec<Entry>> {
        let mut bytes = vec![0; run.count * table::ENTRY];
        let read = pario_medium::fill(&*self.sums, table::place(run.first), &mut [&mut bytes]);
        let got = read.map_err(|error| Error::io(Action::Read, &self.names.sums, error))?;
        let header = self.header();
        let must = if header.losses == self.losses { header.end } else { header.entries_end };
        let must = self.blocks(must);
        let entries = run.blocks().zip(bytes.chunks_exact(table::ENTRY)).enumerate();
        let decode = |(index, (block, bytes)): (usize, (u64, &[u8]))| {
            let there = ((index + 1) * table::ENTRY) as u64 <= got;
            match there || block >= must {
                true => Entry::decode(self.file, block, bytes.try_into().expect("an entry")),
                false => Entry::Damaged,
            }
        };
        Ok(entries.map(decode).collect())
    }

    /// The same, from memory where they are known: what a failed sync has spoilt in the file does not count.
    pub(crate) fn known_entries(&self, unsynced: &Unsynced, run: Run) -> Result<Vec<Entry>> {
        let mut known = unsynced.known(run).map(|(block, stored)| ((block - run.first) as usize, stored));
        let mut entries = match known.clone().count() == run.count {
            true => vec![Entry::None; run.count],
            false => self.entries(run)?,
        };
        known.by_ref().for_each(|(index, stored)| entries[index] = Entry::Stored(stored));
        Ok(entries)
    }

    /// Reads blocks that begin below the end; how many of them are unverified.
    pub fn read(&self, unsynced: &Unsynced, run: Run, blocks: &mut [&mut [u8]], end: u64) -> Result<u64> {
        let entries = self.known_entries(unsynced, run)?;
        self.load(run, &entries, blocks)?;
        let mut unverified = 0;
        for ((block, entry), bytes) in run.blocks().zip(entries).zip(blocks.iter_mut()) {
            match self.judge(block, entry, bytes)? {
                Found::Good => {}
                Found::Unverified => unverified += 1,
                Found::Damaged => return Err(Error::Damaged { file: self.file, block }),
            }
        }
        if let Some(last) = run.count.checked_sub(1) {
            blocks[last][run.kept(last, end)..].fill(0);
        }
        Ok(unverified)
    }

    /// Reads the newest versions of blocks as they are.
    pub(crate) fn load(&self, run: Run, entries: &[Entry], blocks: &mut [&mut [u8]]) -> Result<()> {
        let home = |index: usize| match entries[index] {
            Entry::Stored(stored) => Some(stored.home),
            Entry::Zeros => None,
            Entry::None | Entry::Lost | Entry::Damaged => Some(Home::A),
        };
        for Stretch { which, at, first, count } in self.stretches(run, home) {
            let here = &mut blocks[first..first + count];
            match self.get(which) {
                Some(file) => {
                    let filled = pario_medium::fill(file, at, here);
                    filled.map_err(|error| Error::io(Action::Read, self.path(which), error))?;
                }
                None => here.iter_mut().for_each(|block| block.fill(0)),
            }
        }
        Ok(())
    }

    /// Compares the newest version of a block with its entry; where that was never finished, brings the one before.
    pub(crate) fn judge(&self, block: u64, entry: Entry, bytes: &mut [u8]) -> Result<Found> {
        let stored = match entry {
            Entry::None if table::is_zero(bytes) => return Ok(Found::Good),
            Entry::None if !self.power_was_lost() => return Ok(Found::Damaged),
            Entry::None | Entry::Zeros => {
                bytes.fill(0);
                return Ok(Found::Good);
            }
            Entry::Lost | Entry::Damaged => return Ok(Found::Damaged),
            Entry::Stored(stored) => stored,
        };
        if self.fits(block, stored, bytes) {
            return Ok(Found::Good);
        }
        match stored.stage {
            Stage::Durable => Ok(Found::Damaged),
            Stage::Written if !self.power_was_lost() => Ok(Found::Damaged),
            Stage::InPlace if !self.power_was_lost() => Ok(Found::Unverified),
            Stage::Fresh | Stage::InPlace | Stage::Written => self.bring_before(block, stored, bytes),
        }
    }

    /// Whether bytes are those that an entry is of.
    pub(crate) fn fits(&self, block: u64, stored: Stored, bytes: &[u8]) -> bool {
        stored.sum == table::sum(self.file, block, bytes, bytes.len())
    }

    fn bring_before(&self, block: u64, stored: Stored, bytes: &mut [u8]) -> Result<Found> {
        let before = stored.without();
        match before {
            Entry::Stored(durable) => {
                let run = Run::new(self.file, self.block, block, 1)?;
                self.load(run, &[before], &mut [&mut *bytes])?;
                Ok(if self.fits(block, durable, bytes) { Found::Good } else { Found::Damaged })
            }
            Entry::Lost | Entry::Damaged => Ok(Found::Damaged),
            Entry::None | Entry::Zeros => {
                bytes.fill(0);
                Ok(Found::Good)
            }
        }
    }

    /// A block's entry and the bytes that a reader gets.
    pub(crate) fn look(&self, unsynced: &Unsynced, block: u64) -> Result<(Entry, Vec<u8>, Found)> {
        let run = Run::new(self.file, self.block, block, 1)?;
        let mut bytes = vec![0; self.block];
        let entry = self.known_entries(unsynced, run)?[0];
        self.load(run, &[entry], &mut [&mut bytes])?;
        let found = self.judge(block, entry, &mut bytes)?;
        Ok((entry, bytes, found))
    }

    /// Whether the system knows that nothing is stored there.
    pub(crate) fn is_hole(&self, run: Run) -> bool {
        self.stretches(run, |_| Some(Home::A)).iter().all(|stretch| {
            let end = stretch.at + (stretch.count * self.block) as u64;
            let Some(file) = self.get(stretch.which) else { return true };
            file.next_data(stretch.at).is_ok_and(|next| next.is_none_or(|at| at >= end))
        })
    }
}
