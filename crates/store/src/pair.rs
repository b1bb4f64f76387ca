//! The two open files of a part, and the steps in which they change.
//!
//! Against `kill -9` between any two steps: the entries of blocks are marked as in flux, with the new
//! checksums, before the blocks change, and entered as good afterwards. Entries beyond the end, which a cut
//! or a write can leave, are trimmed off when the pair is opened; after a failure it is closed, so that
//! this comes next.
//!
//! Callers hold the part's lock: shared for what reads, exclusive for what changes.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use pario_units::FileId;

use crate::directory::Names;
use crate::error::{Action, Error, Result};
use crate::index::Extent;
use crate::run::Run;
use crate::steps::{Step, Steps};
use crate::sums::{self, Entry, Verdict};
use crate::sys;

/// Data and checksums of a part.
pub struct Pair {
    file: FileId,
    block: usize,
    names: Names,
    data: File,
    /// `None`: missing, and may not be created.
    sums: Option<File>,
    /// Why it may only be read.
    refused: Option<i32>,
    steps: Arc<dyn Steps>,
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
        let done = sums.write_all_at(&sums::header(file), 0);
        done.map_err(|error| Error::io(Action::Write, &names.sums, error))?;
        let data = create(&names.data, Step::CreateData)?;
        Ok(Pair { file, block, names, data, sums: Some(sums), refused: None, steps })
    }

    /// Opens the files of a part that is there, for reading only if the system grants no more.
    pub fn open(file: FileId, block: usize, names: Names, steps: Arc<dyn Steps>) -> Result<Pair> {
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
        let pair = Pair { file, block, names, data, sums, refused, steps };
        pair.settle()?;
        Ok(pair)
    }

    /// Why it may only be read, if so.
    pub fn refused(&self) -> Option<Error> {
        let errno = self.refused?;
        Some(Error::Io { action: Action::Open, path: self.names.data.clone(), errno })
    }

    /// How long it is and what room it takes.
    pub fn extent(&self) -> Result<Extent> {
        let facts = self.data.metadata();
        let facts = facts.map_err(|error| Error::io(Action::Inspect, &self.names.data, error))?;
        Ok(Extent { end: facts.len(), used: facts.blocks() * 512 })
    }

    /// Brings all that was written to the medium.
    pub fn sync(&self) -> Result<()> {
        let sync =
            |file: &File, path: &Path| file.sync_data().map_err(|error| Error::io(Action::Sync, path, error));
        sync(&self.data, &self.names.data)?;
        self.sums.iter().try_for_each(|sums| sync(sums, &self.names.sums))
    }

    /// Reads blocks that begin below the end; how many of them are unverified.
    pub fn read(&self, run: Run, blocks: &mut [&mut [u8]]) -> Result<u64> {
        self.fill(run.start(), blocks)?;
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
        self.fill(run.start(), &mut blocks)?;
        for ((block, entry), bytes) in run.blocks().zip(entries).zip(blocks) {
            match entry.judge(self.file, block, bytes) {
                Verdict::Good => {}
                Verdict::GoodInFlux | Verdict::Unverified => found.in_flux.push(block),
                Verdict::Damaged => found.damaged.push(block),
            }
        }
        Ok(found)
    }

    /// Writes the bytes below `end` of blocks that begin below it; `sums` are theirs.
    pub fn write(&self, run: Run, blocks: &[&[u8]], sums: &[u32], end: u64) -> Result<()> {
        self.enter(Step::Mark, run.first, sums.iter().map(|sum| Entry::in_flux(*sum)))?;
        let kept = blocks.iter().enumerate().map(|(index, block)| &block[..run.kept(index, end)]);
        let put = self.put(run.start(), kept.collect());
        put.map_err(|error| Error::io(Action::Write, &self.names.data, error))?;
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
        let read = self.data.read_exact_at(&mut byte, at);
        read.map_err(|error| Error::io(Action::Read, &self.names.data, error))?;
        let written = self.data.write_all_at(&[!byte[0]], at);
        written.map_err(|error| Error::io(Action::Write, &self.names.data, error))
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
        self.fill(run.start(), &mut [&mut bytes])?;
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
        let wanted = sums::header(self.file);
        let read = file.read_exact_at(&mut found, 0);
        if read.is_err() || found != wanted {
            let written = self.put_sums(Step::Head, 0, &wanted);
            written.map_err(|error| Error::io(Action::Write, &self.names.sums, error))?;
        }
        self.trim(self.extent()?.end)
    }

    fn trim(&self, end: u64) -> Result<()> {
        let trimmed = self.trim_to(sums::place(end.div_ceil(self.block as u64)));
        trimmed.map_err(|error| Error::io(Action::Resize, &self.names.sums, error))
    }

    fn trim_to(&self, len: u64) -> io::Result<()> {
        let file = self.sums()?;
        if file.metadata()?.len() > len {
            self.ask(Step::Trim, 0)?;
            file.set_len(len)?;
        }
        Ok(())
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

    /// Writes pieces one after the other.
    fn put(&self, mut at: u64, mut pieces: Vec<&[u8]>) -> io::Result<()> {
        let len = pieces.iter().map(|piece| piece.len()).sum();
        let allowed = self.ask(Step::Data, len)?;
        if allowed < len {
            shorten(&mut pieces, allowed);
        }
        let mut pieces: Vec<_> = pieces.into_iter().map(IoSlice::new).collect();
        let (mut rest, mut left) = (pieces.as_mut_slice(), allowed);
        while left > 0 {
            let done = sys::pwritev(&self.data, rest, at)?;
            if done == 0 {
                return all_of(0, left);
            }
            IoSlice::advance_slices(&mut rest, done);
            (at, left) = (at + done as u64, left - done);
        }
        all_of(allowed, len)
    }

    /// Reads pieces one after the other; zeros beyond the end.
    fn fill(&self, mut at: u64, pieces: &mut [&mut [u8]]) -> Result<()> {
        let mut pieces: Vec<_> = pieces.iter_mut().map(|piece| IoSliceMut::new(piece)).collect();
        let mut rest = pieces.as_mut_slice();
        while !rest.is_empty() {
            let got = sys::preadv(&self.data, rest, at);
            let got = got.map_err(|error| Error::io(Action::Read, &self.names.data, error))?;
            if got == 0 {
                rest.iter_mut().for_each(|piece| piece.fill(0));
                break;
            }
            IoSliceMut::advance_slices(&mut rest, got);
            at += got as u64;
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
        sys::next_data(&self.data, run.start()).is_ok_and(|next| next.is_none_or(|at| at >= run.end()))
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
