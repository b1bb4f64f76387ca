//! The open files of a part, and the steps in which they change: data, checksums and, if the part has an order of
//! its own, the file beside with the blocks that are in order. The length of the first is always the part's.
//!
//! Against `kill -9` between any two steps: the entries of blocks are marked as in flux, with the new
//! checksums, before the blocks change, and entered as good afterwards. Entries beyond the end, which a cut
//! or a write can leave, are trimmed off when the pair is opened; after a failure it is closed, so that
//! this comes next. Before that the ordered blocks that they are of become zeros: so all beyond the end are,
//! whatever comes to lie within it later. A part with an order becomes longer before it is written to, so that no
//! bytes lie beyond its end.
//!
//! Callers hold the part's lock: shared for what reads, exclusive for what changes.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use pario_units::FileId;

use crate::directory::Names;
use crate::error::{Action, Error, Result};
use crate::index::Extent;
use crate::order::{Order, Place};
use crate::run::Run;
use crate::steps::{Step, Steps};
use crate::sums::{self, Entry, Verdict};
use crate::{sys, whole};

/// Data and checksums of a part.
pub struct Pair {
    file: FileId,
    block: usize,
    names: Names,
    data: File,
    /// `None`: missing, and may not be created.
    sums: Option<File>,
    /// Only of a part with an order of its own.
    ordered: Option<Ordered>,
    /// Why it may only be read.
    refused: Option<i32>,
    steps: Arc<dyn Steps>,
}

/// The file beside, and what lies where in it.
struct Ordered {
    data: File,
    order: Order,
}

/// Blocks that follow each other in one of the files.
struct Stretch<'a> {
    file: &'a File,
    path: &'a Path,
    at: u64,
    count: usize,
}

/// What looking at some blocks gave.
#[derive(Debug, Default)]
pub struct Inspected {
    /// Those that are not as they were written.
    pub damaged: Vec<u64>,
    /// Those in flux.
    pub in_flux: Vec<u64>,
}

impl Pair {
    /// Makes the files of a part that is not there; checksums first, so that there are no bytes without them.
    pub fn create(file: FileId, block: usize, names: Names, steps: Arc<dyn Steps>) -> Result<Pair> {
        let create = |path: &Path, step| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(true).mode(0o600);
            let asked = steps.before(step, 0).map_err(io::Error::from_raw_os_error);
            let opened = asked.and_then(|_| options.open(path));
            opened.map_err(|error| Error::io(Action::Create, path, error))
        };
        let sums = create(&names.sums, Step::CreateSums)?;
        let done = sums.write_all_at(&sums::header(file, 0), 0);
        done.map_err(|error| Error::io(Action::Write, &names.sums, error))?;
        let data = create(&names.data, Step::CreateData)?;
        Ok(Pair { file, block, names, data, sums: Some(sums), ordered: None, refused: None, steps })
    }

    /// Gives an empty part an order: from the rename on it has one, and before it has none.
    pub fn arrange(&self, order: &Order) -> Result<()> {
        let path = &self.names.new_order;
        let bytes = order.encode(self.file);
        let write = || {
            let mut options = OpenOptions::new();
            let file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
            let allowed = self.ask(Step::WriteOrder, bytes.len())?;
            file.write_all_at(&bytes[..allowed], 0)?;
            all_of(allowed, bytes.len())?;
            self.ask(Step::Arrange, 0)?;
            std::fs::rename(path, &self.names.ordered)
        };
        write().map_err(|error| Error::io(Action::Create, &self.names.ordered, error))
    }

    /// Opens the files of a part that is there, for reading only if the system grants no more.
    pub fn open(
        file: FileId,
        block: usize,
        names: Names,
        ordered: bool,
        steps: Arc<dyn Steps>,
    ) -> Result<Pair> {
        let open = |path: &Path, write: bool, create: bool| {
            OpenOptions::new().read(true).write(write).create(create).mode(0o600).open(path)
        };
        let failed = |path: &Path, error| Error::io(Action::Open, path, error);
        let (data, refused) = match open(&names.data, true, false) {
            Ok(data) => (data, None),
            Err(error) => match error.raw_os_error() {
                Some(errno @ (libc::EROFS | libc::EACCES | libc::EPERM)) => {
                    let data = open(&names.data, false, false);
                    (data.map_err(|error| failed(&names.data, error))?, Some(errno))
                }
                _ => return Err(failed(&names.data, error)),
            },
        };
        let sums = match open(&names.sums, refused.is_none(), refused.is_none()) {
            Err(error) if refused.is_some() && error.kind() == io::ErrorKind::NotFound => None,
            sums => Some(sums.map_err(|error| failed(&names.sums, error))?),
        };
        let ordered = ordered.then(|| {
            let data = open(&names.ordered, refused.is_none(), false);
            let data = data.map_err(|error| failed(&names.ordered, error))?;
            let read = |to: &mut [u8]| data.read_exact_at(to, 0);
            let order = data.metadata().and_then(|facts| Order::decode(file, block, facts.len(), read));
            let order = order.map_err(|error| Error::io(Action::Read, &names.ordered, error))?;
            let order = order.ok_or_else(|| Error::NoOrder { path: names.ordered.clone() })?;
            Ok(Ordered { data, order })
        });
        let pair = Pair { ordered: ordered.transpose()?, file, block, names, data, sums, refused, steps };
        pair.settle()?;
        Ok(pair)
    }

    /// How many blocks from this one on lie one after the other, at most `most`.
    pub fn together(&self, block: u64, most: u64) -> u64 {
        self.ordered.as_ref().map_or(most, |ordered| ordered.order.place(block, most).1)
    }

    /// Why it may only be read, if so.
    pub fn refused(&self) -> Option<Error> {
        let errno = self.refused?;
        Some(Error::Io { action: Action::Open, path: self.names.data.clone(), errno })
    }

    /// How long it is and what room it takes.
    pub fn extent(&self) -> Result<Extent> {
        let facts = |file: &File, path: &Path| {
            file.metadata().map_err(|error| Error::io(Action::Inspect, path, error))
        };
        let data = facts(&self.data, &self.names.data)?;
        let mut used = data.blocks() * 512;
        if let Some(ordered) = &self.ordered {
            used += facts(&ordered.data, &self.names.ordered)?.blocks() * 512;
        }
        Ok(Extent { end: data.len(), used, ordered: self.ordered.is_some() })
    }

    /// Brings all that was written to the medium.
    pub fn sync(&self) -> Result<()> {
        let sync =
            |file: &File, path: &Path| file.sync_data().map_err(|error| Error::io(Action::Sync, path, error));
        sync(&self.data, &self.names.data)?;
        self.ordered.iter().try_for_each(|ordered| sync(&ordered.data, &self.names.ordered))?;
        self.sums.iter().try_for_each(|sums| sync(sums, &self.names.sums))
    }

    /// Reads blocks that begin below the end; how many of them are unverified.
    pub fn read(&self, run: Run, blocks: &mut [&mut [u8]]) -> Result<u64> {
        self.fill(run, blocks)?;
        let mut unverified = 0;
        for ((block, entry), bytes) in run.blocks().zip(self.entries(run)?).zip(blocks) {
            match entry.judge(self.file, block, bytes) {
                Verdict::Good | Verdict::GoodInFlux => {}
                Verdict::Unverified => unverified += 1,
                Verdict::Damaged => return Err(Error::Damaged { file: self.file, block }),
            }
        }
        Ok(unverified)
    }

    /// Compares blocks that begin below the end with their entries.
    pub fn inspect(&self, run: Run, scratch: &mut Vec<u8>) -> Result<Inspected> {
        let mut found = Inspected::default();
        let entries = self.entries(run)?;
        if entries.iter().all(|entry| entry.is_none()) && self.is_hole(run) {
            return Ok(found);
        }
        scratch.resize(run.count * self.block, 0);
        let mut blocks: Vec<_> = scratch.chunks_mut(self.block).collect();
        self.fill(run, &mut blocks)?;
        for ((block, entry), bytes) in run.blocks().zip(entries).zip(blocks) {
            match entry.judge(self.file, block, bytes) {
                Verdict::Good => {}
                Verdict::GoodInFlux | Verdict::Unverified => found.in_flux.push(block),
                Verdict::Damaged => found.damaged.push(block),
            }
        }
        Ok(found)
    }

    /// Writes the bytes below `end` of blocks that begin below it; `sums` are theirs. The part ended at `stored`.
    pub fn write(&self, run: Run, blocks: &[&[u8]], sums: &[u32], end: u64, stored: u64) -> Result<()> {
        self.enter(Step::Mark, run.first, sums.iter().map(|sum| Entry::in_flux(*sum)))?;
        if self.ordered.is_some() && end > stored {
            self.resize(end)?;
        }
        let kept = blocks.iter().enumerate().map(|(index, block)| &block[..run.kept(index, end)]);
        self.put(run, kept.collect())?;
        self.enter(Step::Enter, run.first, sums.iter().map(|sum| Entry::good(*sum)))
    }

    /// Cuts the part or makes it longer by a hole.
    pub fn set_end(&self, end: u64, stored: u64) -> Result<()> {
        if end >= stored {
            return if end > stored { self.resize(end) } else { Ok(()) };
        }
        let last = self.shortened(end)?;
        if let Some((block, sum)) = last {
            self.enter(Step::Mark, block, [Entry::in_flux(sum)].into_iter())?;
        }
        self.clear_within(end)?;
        self.resize(end)?;
        self.trim(end)?;
        match last {
            Some((block, sum)) => self.enter(Step::Enter, block, [Entry::good(sum)].into_iter()),
            None => Ok(()),
        }
    }

    /// A block in flux becomes good with the bytes that it has; whether they were unverified.
    pub fn mend(&self, block: u64) -> Result<bool> {
        let (entry, bytes) = self.look(block)?;
        let verdict = entry.judge(self.file, block, &bytes);
        if matches!(verdict, Verdict::GoodInFlux | Verdict::Unverified) {
            self.approve(block, &bytes)?;
        }
        Ok(verdict == Verdict::Unverified)
    }

    /// A block becomes good with the bytes that it has, whatever they are.
    pub fn accept(&self, block: u64) -> Result<()> {
        let (entry, bytes) = self.look(block)?;
        match entry.judge(self.file, block, &bytes) {
            Verdict::Good => Ok(()),
            _ => self.approve(block, &bytes),
        }
    }

    /// Inverts a stored byte.
    pub fn flip(&self, at: u64) -> Result<()> {
        let mut byte = [0];
        let block = self.block as u64;
        let Stretch { file, path, at: start, .. } = self.stretch(at / block, 1);
        let at = start + at % block;
        let read = whole::fill(file, at, &mut [&mut byte]);
        read.map_err(|error| Error::io(Action::Read, path, error))?;
        let written = file.write_all_at(&[!byte[0]], at);
        written.map_err(|error| Error::io(Action::Write, path, error))
    }

    /// The last block after a cut to `end` and its checksum then; `None` if its entry need not or must not
    /// change: one that does not fit its block goes on not to fit.
    fn shortened(&self, end: u64) -> Result<Option<(u64, u32)>> {
        let (block, kept) = (end / self.block as u64, (end % self.block as u64) as usize);
        if kept == 0 {
            return Ok(None);
        }
        let (entry, bytes) = self.look(block)?;
        let fits = matches!(entry.judge(self.file, block, &bytes), Verdict::Good | Verdict::GoodInFlux);
        Ok((fits && !entry.is_none()).then(|| (block, sums::sum(self.file, block, &bytes, kept))))
    }

    fn look(&self, block: u64) -> Result<(Entry, Vec<u8>)> {
        let run = Run::new(self.file, self.block, block, 1)?;
        let mut bytes = vec![0; self.block];
        self.fill(run, &mut [&mut bytes])?;
        Ok((self.entries(run)?[0], bytes))
    }

    fn approve(&self, block: u64, bytes: &[u8]) -> Result<()> {
        let sum = sums::sum(self.file, block, bytes, bytes.len());
        self.enter(Step::Enter, block, [Entry::good(sum)].into_iter())
    }

    /// Makes the checksum file's header right and cuts off entries beyond the end.
    fn settle(&self) -> Result<()> {
        let Some(file) = self.sums.as_ref().filter(|_| self.refused.is_none()) else { return Ok(()) };
        let mut found = [0; sums::HEADER];
        let read = file.read_exact_at(&mut found, 0);
        if read.is_err() || sums::cut(self.file, &found).is_none() {
            self.set_cut(0)?;
        }
        self.trim(self.extent()?.end)
    }

    /// The highest identity of a truncation that was carried out or fenced.
    pub fn cut(&self) -> Result<u64> {
        let mut found = [0; sums::HEADER];
        let read = self.sums().and_then(|file| file.read_exact_at(&mut found, 0));
        read.map_err(|error| Error::io(Action::Read, &self.names.sums, error))?;
        Ok(sums::cut(self.file, &found).unwrap_or(0))
    }

    /// Remembers the identity of a truncation.
    pub fn set_cut(&self, cut: u64) -> Result<()> {
        let written = self.put_sums(Step::Head, 0, &sums::header(self.file, cut));
        written.map_err(|error| Error::io(Action::Write, &self.names.sums, error))
    }

    /// Takes room for blocks.
    pub fn reserve(&self, run: Run) -> Result<()> {
        self.stretches(run).try_for_each(|stretch| {
            let len = stretch.count as u64 * self.block as u64;
            let taken = sys::allocate(stretch.file, stretch.at, len);
            taken.map_err(|error| Error::io(Action::Reserve, stretch.path, error))
        })
    }

    /// Cuts off entries beyond the end, after clearing the ordered blocks that they are of.
    fn trim(&self, end: u64) -> Result<()> {
        let failed = |error| Error::io(Action::Resize, &self.names.sums, error);
        let blocks = end.div_ceil(self.block as u64);
        let file = self.sums().map_err(failed)?;
        if file.metadata().map_err(failed)?.len() <= sums::place(blocks) {
            return Ok(());
        }
        let beyond = self.ordered.as_ref().map_or(Vec::new(), |ordered| ordered.order.beyond(blocks));
        beyond.into_iter().try_for_each(|range| self.clear(range))?;
        let trimmed = self.ask(Step::Trim, 0).and_then(|_| file.set_len(sums::place(blocks)));
        trimmed.map_err(failed)
    }

    /// Clears the bytes beyond the end of its last block, if that is in order. The bytes of others go with the end.
    fn clear_within(&self, end: u64) -> Result<()> {
        let (block, kept) = (end / self.block as u64, end % self.block as u64);
        let Some(ordered) = self.ordered.as_ref().filter(|_| kept > 0) else { return Ok(()) };
        match ordered.order.place(block, 1).0 {
            Place::Ordered(at) => self.clear(at + kept..at + self.block as u64),
            Place::Plain => Ok(()),
        }
    }

    /// Makes bytes of the file beside zeros.
    fn clear(&self, range: Range<u64>) -> Result<()> {
        let Some(ordered) = &self.ordered else { return Ok(()) };
        let cleared = self.ask(Step::Clear, 0).and_then(|_| whole::clear(&ordered.data, range));
        cleared.map_err(|error| Error::io(Action::Write, &self.names.ordered, error))
    }

    fn resize(&self, end: u64) -> Result<()> {
        let resized = self.ask(Step::Resize, 0).and_then(|_| self.data.set_len(end));
        resized.map_err(|error| Error::io(Action::Resize, &self.names.data, error))
    }

    fn enter(&self, step: Step, first: u64, entries: impl Iterator<Item = Entry>) -> Result<()> {
        let entered = self.put_sums(step, sums::place(first), &sums::encode(entries));
        entered.map_err(|error| Error::io(Action::Write, &self.names.sums, error))
    }

    fn put_sums(&self, step: Step, at: u64, bytes: &[u8]) -> io::Result<()> {
        let allowed = self.ask(step, bytes.len())?;
        self.sums()?.write_all_at(&bytes[..allowed], at)?;
        all_of(allowed, bytes.len())
    }

    /// Where a block lies, with as many of those after it as follow it there.
    fn stretch(&self, block: u64, most: usize) -> Stretch<'_> {
        let found = self.ordered.as_ref().map(|ordered| (ordered, ordered.order.place(block, most as u64)));
        match found {
            Some((ordered, (Place::Ordered(at), count))) => {
                Stretch { file: &ordered.data, path: &self.names.ordered, at, count: count as usize }
            }
            plain => {
                let count = plain.map_or(most, |(_, (_, count))| count as usize);
                Stretch { file: &self.data, path: &self.names.data, at: block * self.block as u64, count }
            }
        }
    }

    /// Where the blocks of a run lie: all together, unless the part has an order of its own.
    fn stretches(&self, run: Run) -> impl Iterator<Item = Stretch<'_>> {
        let (mut block, mut left) = (run.first, run.count);
        std::iter::from_fn(move || {
            let stretch = (left > 0).then(|| self.stretch(block, left))?;
            (block, left) = (block + stretch.count as u64, left - stretch.count);
            Some(stretch)
        })
    }

    /// Writes blocks, the last of which may be shorter.
    fn put(&self, run: Run, mut blocks: Vec<&[u8]>) -> Result<()> {
        let failed = |path: &Path, error| Error::io(Action::Write, path, error);
        let len = blocks.iter().map(|block| block.len()).sum();
        let allowed = self.ask(Step::Data, len).map_err(|error| failed(&self.names.data, error))?;
        if allowed < len {
            shorten(&mut blocks, allowed);
        }
        let mut rest = blocks.as_slice();
        for stretch in self.stretches(run) {
            let (here, later) = rest.split_at(stretch.count);
            whole::put(stretch.file, stretch.at, here).map_err(|error| failed(stretch.path, error))?;
            rest = later;
        }
        all_of(allowed, len).map_err(|error| failed(&self.names.data, error))
    }

    /// Reads blocks; zeros beyond the end.
    fn fill(&self, run: Run, mut blocks: &mut [&mut [u8]]) -> Result<()> {
        for stretch in self.stretches(run) {
            let (here, later) = blocks.split_at_mut(stretch.count);
            let filled = whole::fill(stretch.file, stretch.at, here);
            filled.map_err(|error| Error::io(Action::Read, stretch.path, error))?;
            blocks = later;
        }
        Ok(())
    }

    fn entries(&self, run: Run) -> Result<Vec<Entry>> {
        let mut bytes = vec![0; run.count * sums::ENTRY];
        if let Some(file) = &self.sums {
            let (mut done, at) = (0, sums::place(run.first));
            while done < bytes.len() {
                match file.read_at(&mut bytes[done..], at + done as u64) {
                    Ok(0) => break,
                    Ok(got) => done += got,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(Error::io(Action::Read, &self.names.sums, error)),
                }
            }
        }
        Ok(sums::decode(&bytes))
    }

    /// Whether the system knows that nothing is stored there.
    fn is_hole(&self, run: Run) -> bool {
        self.stretches(run).all(|stretch| {
            let end = stretch.at + (stretch.count * self.block) as u64;
            sys::next_data(stretch.file, stretch.at).is_ok_and(|next| next.is_none_or(|at| at >= end))
        })
    }

    fn ask(&self, step: Step, bytes: usize) -> io::Result<usize> {
        self.steps.before(step, bytes).map_err(io::Error::from_raw_os_error)
    }

    fn sums(&self) -> io::Result<&File> {
        // Only a pair that may not be changed has none.
        self.sums.as_ref().ok_or_else(|| io::Error::from_raw_os_error(libc::EROFS))
    }
}

/// The disk is full if not all was written.
fn all_of(done: usize, len: usize) -> io::Result<()> {
    if done == len { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ENOSPC)) }
}

/// Cuts pieces to `len` bytes in all.
fn shorten(pieces: &mut [&[u8]], mut len: usize) {
    for piece in pieces {
        *piece = &piece[..piece.len().min(len)];
        len -= piece.len();
    }
}
