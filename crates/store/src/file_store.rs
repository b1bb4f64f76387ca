//! Parts as files in a directory.
//!
//! Every call about a part holds its lock ([`crate::parts`]), shared to read and exclusive to change;
//! checksums of what is written are computed before. What there is and how long it is stands in memory
//! ([`crate::index`]), the descriptors used last stay open, and the steps of a change are in
//! [`crate::pair`].

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pario_units::FileId;

use crate::directory::{Directory, Names};
use crate::error::{Action, Error, Result};
use crate::format::{Format, Identity};
use crate::index::{Extent, Index};
use crate::order::Order;
use crate::pair::{Inspected, Pair};
use crate::parts::Parts;
use crate::run::{self, Run};
use crate::steps::{Plain, Step, Steps};
use crate::{Part, Room, Store, Tamper, Verified, sums, sys};

/// Bytes that a verification looks at before it lets go of the part's lock.
const VERIFY_AT_ONCE: usize = 1 << 20;

/// A store in a directory, which it has for itself until it is dropped.
pub struct FileStore {
    block: usize,
    directory: Directory,
    index: Index,
    parts: Parts,
    unverified: AtomicU64,
    steps: Arc<dyn Steps>,
}

impl FileStore {
    /// Opens the store in a directory, or makes one there; the directory, too, if only its parent is there.
    /// All names in it are read once, and other things in it are left alone.
    ///
    /// Refuses a directory of another partition, server, version or block size, and one that is in use.
    pub fn open(directory: &Path, block_size: usize, identity: Identity) -> Result<FileStore> {
        run::check_block_size(block_size)?;
        let directory = Directory::open(directory, &Format::new(identity, block_size))?;
        let index = directory.scan()?;
        // A quarter of what the process may have, two each (three with an order); the rest is for its connections.
        let most = (sys::descriptor_limit() / 8).clamp(8, 512) as usize;
        let (parts, unverified, steps) = (Parts::new(most), AtomicU64::new(0), Arc::new(Plain));
        Ok(FileStore { block: block_size, directory, index, parts, unverified, steps })
    }

    /// Keeps the files of so many parts open; up to 512 if not said, fewer where descriptors are scarce.
    pub fn with_open_parts(self, most: usize) -> FileStore {
        FileStore { parts: Parts::new(most), ..self }
    }

    #[cfg(test)]
    pub(crate) fn with_steps(self, steps: Arc<dyn Steps>) -> FileStore {
        FileStore { steps, ..self }
    }

    /// Does something with a part and its end that changes neither; `None` if it is not there.
    fn reading<R>(&self, file: FileId, act: impl FnOnce(&Arc<Pair>, u64) -> Result<R>) -> Result<Option<R>> {
        let part = self.parts.get(file);
        loop {
            let held = part.read();
            let Some(end) = self.index.end(file) else { return Ok(None) };
            if let Some(pair) = &*held {
                return act(pair, end).map(Some);
            }
            drop(held);
            let mut held = part.write();
            if held.is_none() && self.index.end(file).is_some() {
                *held = Some(self.open_pair(file)?);
            }
        }
    }

    /// Does something with a part and its end that may change them; `None` if it is not there and `create`
    /// does not say to make it.
    fn changing<R>(
        &self,
        file: FileId,
        create: bool,
        act: impl FnOnce(&Pair, u64) -> Result<R>,
    ) -> Result<Option<R>> {
        let part = self.parts.get(file);
        let mut held = part.write();
        let end = match self.index.end(file) {
            None if !create => return Ok(None),
            None => {
                *held = Some(self.create_pair(file)?);
                0
            }
            Some(end) => {
                if held.as_ref().is_none_or(|pair| pair.refused().is_some()) {
                    *held = Some(self.open_pair(file)?);
                }
                end
            }
        };
        let pair = Arc::clone(held.as_ref().expect("just opened"));
        if let Some(refused) = pair.refused() {
            return Err(refused);
        }
        let result = act(&pair, end);
        let extent = pair.extent();
        if let Ok(extent) = extent {
            self.index.set(file, extent);
        }
        if result.is_err() || extent.is_err() {
            *held = None;
        }
        result.and_then(|result| extent.map(|_| Some(result)))
    }

    fn create_pair(&self, file: FileId) -> Result<Arc<Pair>> {
        let pair = self.with_descriptors(|| {
            Pair::create(file, self.block, self.directory.names(file), Arc::clone(&self.steps))
        });
        self.directory.changed(file);
        pair
    }

    fn open_pair(&self, file: FileId) -> Result<Arc<Pair>> {
        let ordered = self.index.extent(file).is_some_and(|extent| extent.ordered);
        self.with_descriptors(|| {
            Pair::open(file, self.block, self.directory.names(file), ordered, Arc::clone(&self.steps))
        })
    }

    /// Opens files; where descriptors have run out, closes others and tries again.
    fn with_descriptors(&self, open: impl Fn() -> Result<Pair>) -> Result<Arc<Pair>> {
        let opened = match open() {
            Err(error) if matches!(error.errno(), libc::EMFILE | libc::ENFILE) && self.parts.let_go() => {
                open()
            }
            opened => opened,
        };
        opened.map(Arc::new)
    }

    /// Empties a part, which needs no order then.
    fn disarrange(&self, file: FileId, names: &Names) -> Result<()> {
        let asked = self.steps.before(Step::Resize, 0).map_err(io::Error::from_raw_os_error);
        let emptied = asked.and_then(|_| File::options().write(true).open(&names.data)?.set_len(0));
        emptied.map_err(|error| Error::io(Action::Resize, &names.data, error))?;
        self.index.set(file, Extent { end: 0, used: 0, ordered: true });
        self.unlink(&names.ordered, Step::RemoveOrdered)?;
        self.index.set(file, Extent::default());
        Ok(())
    }

    fn unlink(&self, path: &Path, step: Step) -> Result<()> {
        let asked = self.steps.before(step, 0).map_err(io::Error::from_raw_os_error);
        match asked.and_then(|_| fs::remove_file(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result.map_err(|error| Error::io(Action::Remove, path, error)),
        }
    }

    fn run(&self, file: FileId, first: u64, count: usize) -> Result<Run> {
        Run::new(file, self.block, first, count)
    }
}

impl Store for FileStore {
    fn block_size(&self) -> usize {
        self.block
    }

    fn read(&self, file: FileId, first: u64, blocks: &mut [&mut [u8]]) -> Result<()> {
        run::check_sizes(blocks, self.block);
        let run = self.run(file, first, blocks.len())?;
        let read = self.reading(file, |pair, end| {
            let there = run.below(end);
            let unverified = pair.read(there, &mut blocks[..there.count])?;
            self.unverified.fetch_add(unverified, Ordering::Relaxed);
            Ok(there.count)
        })?;
        blocks[read.unwrap_or(0)..].iter_mut().for_each(|block| block.fill(0));
        Ok(())
    }

    fn write(&self, file: FileId, first: u64, blocks: &[&[u8]], end: u64) -> Result<()> {
        run::check_sizes(blocks, self.block);
        let run = self.run(file, first, blocks.len())?;
        let sum =
            |index: usize, end| sums::sum(file, first + index as u64, blocks[index], run.kept(index, end));
        let mut sums: Vec<_> = (0..run.count).map(|index| sum(index, end)).collect();
        self.changing(file, run.end_after(0, end) > 0, |pair, stored| {
            let new = run.end_after(stored, end);
            let there = run.below(new);
            if there.count == 0 {
                return pair.set_end(new, stored);
            }
            for index in (0..there.count).filter(|index| run.kept(*index, new) != run.kept(*index, end)) {
                sums[index] = sum(index, new);
            }
            pair.write(there, &blocks[..there.count], &sums[..there.count], new, stored)
        })?;
        Ok(())
    }

    fn arrange(&self, file: FileId, runs: &[Range<u64>]) -> Result<()> {
        let order = Order::new(self.block, runs).ok_or(Error::Order { file })?;
        let part = self.parts.get(file);
        let mut held = part.write();
        let pair = match self.index.extent(file) {
            Some(extent) if extent.end > 0 || extent.ordered => return Ok(()),
            Some(_) => self.open_pair(file)?,
            None => self.create_pair(file)?,
        };
        if let Some(refused) = pair.refused() {
            return Err(refused);
        }
        let extent = pair.extent()?;
        self.index.set(file, extent);
        if order.is_plain() {
            return Ok(());
        }
        // Opened anew by whoever needs it next, with its order.
        *held = None;
        pair.arrange(&order)?;
        self.directory.changed(file);
        self.index.set(file, Extent { ordered: true, ..extent });
        let pair = self.open_pair(file)?;
        self.index.set(file, pair.extent()?);
        *held = Some(pair);
        Ok(())
    }

    fn together(&self, file: FileId, first: u64, most: u64) -> Result<u64> {
        match self.index.extent(file) {
            Some(extent) if extent.ordered => {
                let together = self.reading(file, |pair, _| Ok(pair.together(first, most)))?;
                Ok(together.unwrap_or(most))
            }
            _ => Ok(most),
        }
    }

    fn end(&self, file: FileId) -> Result<u64> {
        Ok(self.index.end(file).unwrap_or(0))
    }

    fn set_end(&self, file: FileId, end: u64, cut: u64) -> Result<bool> {
        let end = run::sound_end(file, end)?;
        let done = self.changing(file, end > 0 || cut > 0, |pair, stored| {
            if cut > 0 && cut <= pair.cut()? {
                return Ok(false);
            }
            pair.set_end(end, stored)?;
            if cut > 0 {
                pair.set_cut(cut)?;
            }
            Ok(true)
        })?;
        Ok(done.unwrap_or(true))
    }

    fn fence(&self, file: FileId, cut: u64) -> Result<bool> {
        let done = self.changing(file, cut > 0, |pair, _| {
            let new = cut > pair.cut()?;
            if new {
                pair.set_cut(cut)?;
            }
            Ok(new)
        })?;
        Ok(done.unwrap_or(false))
    }

    fn last_cut(&self, file: FileId) -> Result<u64> {
        Ok(self.reading(file, |pair, _| pair.cut())?.unwrap_or(0))
    }

    fn reserve(&self, file: FileId, blocks: Range<u64>) -> Result<()> {
        let count = blocks.end.saturating_sub(blocks.start);
        let run = self.run(file, blocks.start, usize::try_from(count).unwrap_or(usize::MAX))?;
        self.changing(file, true, |pair, _| pair.reserve(run))?;
        Ok(())
    }

    fn remove(&self, file: FileId) -> Result<()> {
        let part = self.parts.get(file);
        let mut held = part.write();
        let names = self.directory.names(file);
        if self.index.extent(file).is_some_and(|extent| extent.ordered) {
            *held = None;
            self.disarrange(file, &names)?;
        }
        self.unlink(&names.data, Step::RemoveData)?;
        *held = None;
        self.index.remove(file);
        self.unlink(&names.sums, Step::RemoveSums)
    }

    fn sync(&self, file: FileId) -> Result<()> {
        // Not under the lock: it takes long, and others may go on.
        if let Some(pair) = self.reading(file, |pair, _| Ok(Arc::clone(pair)))? {
            pair.sync()?;
        }
        self.directory.sync(file)
    }

    fn sync_all(&self) -> Result<()> {
        let done = sys::sync_file_system(self.directory.handle());
        done.map_err(|error| Error::io(Action::Sync, self.directory.root(), error))
    }

    fn list(&self, after: FileId, most: usize) -> Result<Vec<Part>> {
        Ok(self.index.list(after, most))
    }

    fn verify(&self, file: FileId, from: u64, most: u64) -> Result<Verified> {
        let at_once = (VERIFY_AT_ONCE / self.block).max(1) as u64;
        let stop = from.saturating_add(most);
        let (mut verified, mut scratch) = (Verified::default(), Vec::new());
        let mut at = from;
        while at < stop {
            let inspect = |pair: &Arc<Pair>, end: u64| {
                let blocks = end.div_ceil(self.block as u64);
                let count = at_once.min(stop - at).min(blocks.saturating_sub(at));
                if count == 0 {
                    return Ok((0, Inspected::default()));
                }
                let mut found = pair.inspect(self.run(file, at, count as usize)?, &mut scratch)?;
                if pair.refused().is_some() {
                    found.in_flux.clear();
                }
                Ok((count, found))
            };
            let Some((count, found)) = self.reading(file, inspect)?.filter(|(count, _)| *count > 0) else {
                return Ok(verified);
            };
            verified.damaged.extend(found.damaged);
            for block in found.in_flux {
                verified.mended +=
                    u64::from(self.changing(file, false, |pair, _| pair.mend(block))? == Some(true));
            }
            at += count;
        }
        let more = at < self.end(file)?.div_ceil(self.block as u64);
        verified.next = more.then_some(at);
        Ok(verified)
    }

    fn accept(&self, file: FileId, blocks: &[u64]) -> Result<()> {
        for block in blocks {
            self.changing(file, false, |pair, end| match *block < end.div_ceil(self.block as u64) {
                true => pair.accept(*block),
                false => Ok(()),
            })?;
        }
        Ok(())
    }

    fn room(&self) -> Result<Room> {
        let space = sys::space(self.directory.handle());
        let (total, free) =
            space.map_err(|error| Error::io(Action::Inspect, self.directory.root(), error))?;
        let (used, parts) = self.index.total();
        Ok(Room { total, free, used, parts })
    }

    fn highest_file_id(&self) -> FileId {
        self.index.highest()
    }

    fn unverified(&self) -> u64 {
        self.unverified.load(Ordering::Relaxed)
    }
}

impl Tamper for FileStore {
    fn flip(&self, file: FileId, at: u64) -> Result<()> {
        let end = self.end(file)?;
        assert!(at < end, "no byte {at} in a part of {end}");
        self.changing(file, false, |pair, _| pair.flip(at)).map(drop)
    }
}
