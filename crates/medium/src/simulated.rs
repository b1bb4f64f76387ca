//! A file system in memory with all faults of storage, from a seed.
//!
//! Every file has *live* content (which a read returns, as from the page cache) and *stable* content (which survives a loss
//! of power), and for every sector all versions between the two. A loss of power selects any of these versions for each
//! sector separately, any of the lengths that the file had since its last sync, and any subset of the changes of names
//! since the last sync of their directory. A failed sync makes some sectors stable and drops others from the list of
//! unwritten ones: those stay readable until they are evicted, and no later sync writes them.
//!
//! [`InjectedFault`]s are planned for the n-th operation that changes something. An [`InjectedFault::Kill`] does a part of that
//! operation and then refuses everything until [`SimulatedMedium::restart`] or [`SimulatedMedium::lose_power`].

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice, IoSliceMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pario_runtime::sync::{Mutex, MutexGuard};
use rustix::io::Errno;

use crate::{FileStats, Medium, MediumDirectory, MediumFile, OpenMode, SpaceUsage};

/// The unit of an atomic write of the medium.
const SECTOR: usize = 512;
const PAGE: u64 = 4096;

/// The fault of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// The process is killed in the middle of it.
    Kill,
    /// It fails with this error number; of a write, the beginning may be done.
    Fail(i32),
    /// A sync fails, and the system drops the data that it could not write.
    FailSync,
    /// A write is reported as done and never happens.
    Lose,
    /// A write is reported as done, and only its beginning was.
    Tear,
    /// A write is reported as done, and happens elsewhere in the file.
    Misdirect,
}

/// A simulated file system. Clones share its state.
#[derive(Clone)]
pub struct SimulatedMedium(Arc<Mutex<SimulatedState>>);

struct SimulatedState {
    dice: u64,
    boot: u64,
    dead: bool,
    /// The number of operations that changed something.
    changes: u64,
    planned: Vec<(u64, InjectedFault)>,
    names: BTreeMap<PathBuf, usize>,
    stable: BTreeMap<PathBuf, usize>,
    renamed: Vec<NameChange>,
    files: Vec<SimulatedFile>,
}

/// A change of names in a directory since its last sync: the inode of each name afterwards.
struct NameChange {
    directory: PathBuf,
    names: Vec<(PathBuf, Option<usize>)>,
}

#[derive(Default)]
struct SimulatedFile {
    live: Vec<u8>,
    stable: Vec<u8>,
    /// For sectors to be written: all versions since the stable one.
    dirty: BTreeMap<usize, Vec<[u8; SECTOR]>>,
    /// Sectors that are live, not stable, and that no sync will write.
    forgotten: BTreeSet<usize>,
    /// The length that survives a loss of power, and those that the file had since.
    stable_len: usize,
    lengths: Vec<usize>,
    pages: BTreeSet<u64>,
}

struct OpenFile {
    world: SimulatedMedium,
    node: usize,
    writable: bool,
}

struct OpenDirectory {
    world: SimulatedMedium,
    path: PathBuf,
}

impl SimulatedMedium {
    /// An empty one.
    pub fn new(seed: u64) -> SimulatedMedium {
        SimulatedMedium(Arc::new(Mutex::new(SimulatedState {
            dice: seed,
            boot: 1,
            dead: false,
            changes: 0,
            planned: Vec::new(),
            names: BTreeMap::new(),
            stable: BTreeMap::new(),
            renamed: Vec::new(),
            files: Vec::new(),
        })))
    }

    /// The number of operations that have changed something.
    pub fn changes(&self) -> u64 {
        self.world().changes
    }

    /// Plans a fault for the first operation of its kind after so many more that change something.
    pub fn plan(&self, after: u64, fault: InjectedFault) {
        let mut world = self.world();
        let at = world.changes + after;
        world.planned.push((at, fault));
    }

    /// Removes planned faults; returns whether any of them had occurred.
    pub fn clear_faults(&self) -> bool {
        let mut world = self.world();
        let came = world.planned.is_empty();
        world.planned.clear();
        came
    }

    /// Whether the process was killed.
    pub fn is_dead(&self) -> bool {
        self.world().dead
    }

    /// Kills the process now.
    pub fn kill(&self) {
        self.world().dead = true;
    }

    /// A new process may use it; only planned faults are dropped.
    pub fn restart(&self) {
        let mut world = self.world();
        world.dead = false;
        world.planned.clear();
    }

    /// The machine stops and starts again: any subset of the unsynced data survives.
    pub fn lose_power(&self) {
        let mut world = self.world();
        world.dead = false;
        world.planned.clear();
        world.boot += 1;
        world.lose_power();
    }

    /// Memory is short: sectors that the system has dropped are evicted.
    pub fn evict(&self) {
        let mut world = self.world();
        world.files.iter_mut().for_each(SimulatedFile::evict);
    }

    /// Inverts bits of a byte that is stored.
    pub fn rot(&self, path: &Path, at: u64, bits: u8) -> bool {
        let mut world = self.world();
        let Some(node) = world.names.get(path).copied() else { return false };
        world.files[node].rot(at as usize, bits)
    }

    /// All names of files.
    pub fn files(&self) -> Vec<PathBuf> {
        self.world().names.keys().cloned().collect()
    }

    fn world(&self) -> MutexGuard<'_, SimulatedState> {
        self.0.lock()
    }
}

impl SimulatedState {
    /// The next random number below `n` (splitmix64).
    fn below(&mut self, n: usize) -> usize {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.dice;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }

    fn alive(&self) -> io::Result<()> {
        if self.dead { Err(Errno::IO.into()) } else { Ok(()) }
    }

    /// Counts an operation that changes something; returns the fault that was planned for it.
    fn change(&mut self, fits: impl Fn(InjectedFault) -> bool) -> io::Result<Option<InjectedFault>> {
        self.alive()?;
        self.changes += 1;
        let due = |(at, fault): &(u64, InjectedFault)| *at < self.changes && fits(*fault);
        let found = self.planned.iter().position(due);
        let fault = found.map(|index| self.planned.remove(index).1);
        self.dead |= fault == Some(InjectedFault::Kill);
        Ok(fault)
    }

    /// The same for an operation that is done completely or fails.
    fn step(&mut self) -> io::Result<()> {
        match self.change(|fault| matches!(fault, InjectedFault::Kill | InjectedFault::Fail(_)))? {
            Some(InjectedFault::Fail(errno)) => Err(io::Error::from_raw_os_error(errno)),
            Some(_) if self.below(2) == 0 => Err(Errno::IO.into()),
            _ => Ok(()),
        }
    }

    fn rename(&mut self, directory: &Path, names: Vec<(PathBuf, Option<usize>)>) {
        for (name, node) in &names {
            set(&mut self.names, name, *node);
        }
        self.renamed.push(NameChange { directory: directory.to_owned(), names });
    }

    fn sync_names(&mut self, of: impl Fn(&Path) -> bool) {
        for change in std::mem::take(&mut self.renamed) {
            if of(&change.directory) {
                change.names.iter().for_each(|(name, node)| set(&mut self.stable, name, *node));
            } else {
                self.renamed.push(change);
            }
        }
    }

    /// Syncs files, or fails and drops some of the data.
    fn sync(&mut self, nodes: std::ops::Range<usize>) -> io::Result<()> {
        let fault = self.change(|fault| {
            matches!(fault, InjectedFault::Kill | InjectedFault::Fail(_) | InjectedFault::FailSync)
        })?;
        for node in nodes {
            for (sector, versions) in std::mem::take(&mut self.files[node].dirty) {
                let last = versions[versions.len() - 1];
                match fault {
                    Some(InjectedFault::FailSync) => match self.below(3) {
                        0 => self.files[node].make_stable(sector, &last),
                        1 => drop(self.files[node].forgotten.insert(sector)),
                        _ => self.files[node].revert(sector),
                    },
                    Some(_) if self.below(2) == 0 => drop(self.files[node].dirty.insert(sector, versions)),
                    _ => self.files[node].make_stable(sector, &last),
                }
            }
            if fault.is_none() {
                let file = &mut self.files[node];
                file.stable_len = file.live.len();
                file.stable.resize(file.stable_len, 0);
                file.lengths.clear();
            }
        }
        match fault {
            None => Ok(()),
            Some(InjectedFault::Fail(errno)) => Err(io::Error::from_raw_os_error(errno)),
            Some(_) => Err(Errno::IO.into()),
        }
    }

    fn lose_power(&mut self) {
        // Nothing, everything, whole files, or sector by sector.
        let way = self.below(4);
        for change in std::mem::take(&mut self.renamed) {
            if way == 1 || way > 1 && self.below(2) == 0 {
                change.names.iter().for_each(|(name, node)| set(&mut self.stable, name, *node));
            }
        }
        self.names = self.stable.clone();
        for node in 0..self.files.len() {
            let all = way == 1 || way == 2 && self.below(2) == 0;
            for (sector, versions) in std::mem::take(&mut self.files[node].dirty) {
                let count = versions.len();
                let taken = if all {
                    count
                } else if way == 3 {
                    self.below(count + 1)
                } else {
                    0
                };
                if let Some(version) = taken.checked_sub(1).map(|index| versions[index]) {
                    self.files[node].make_stable(sector, &version);
                }
            }
            let mut lengths = vec![self.files[node].stable_len];
            lengths.append(&mut self.files[node].lengths);
            let index = if all {
                lengths.len() - 1
            } else if way == 3 {
                self.below(lengths.len())
            } else {
                0
            };
            self.files[node].start_over(lengths[index]);
        }
    }

    fn write(&mut self, node: usize, bytes: &[u8], at: u64) -> io::Result<usize> {
        // False success concerns whole blocks: a lost change of a few bytes could not be detected.
        let block = bytes.len() as u64 >= PAGE;
        let fault = self.change(|fault| match fault {
            InjectedFault::Lose | InjectedFault::Tear | InjectedFault::Misdirect => block,
            fault => fault != InjectedFault::FailSync,
        })?;
        let some = match fault {
            None => bytes.len(),
            Some(InjectedFault::Lose) => 0,
            Some(InjectedFault::Misdirect) => {
                let end = self.files[node].live.len() / SECTOR;
                let elsewhere = self.below(end.max(1)) * SECTOR;
                self.files[node].write(bytes, elsewhere);
                return Ok(bytes.len());
            }
            Some(_) => self.below(bytes.len() + 1),
        };
        // A sector that the system has begun to copy is copied completely.
        let some = match some == bytes.len() {
            true => some,
            false => ((at as usize + some) / SECTOR * SECTOR).saturating_sub(at as usize),
        };
        self.files[node].write(&bytes[..some], at as usize);
        match fault {
            None | Some(InjectedFault::Lose | InjectedFault::Tear) => Ok(bytes.len()),
            Some(InjectedFault::Fail(_)) if some > 0 => Ok(some),
            Some(InjectedFault::Fail(errno)) => Err(io::Error::from_raw_os_error(errno)),
            _ => Err(Errno::IO.into()),
        }
    }
}

impl SimulatedFile {
    fn sector(&self, sector: usize) -> [u8; SECTOR] {
        let mut bytes = [0; SECTOR];
        let start = (sector * SECTOR).min(self.live.len());
        let end = (start + SECTOR).min(self.live.len());
        bytes[..end - start].copy_from_slice(&self.live[start..end]);
        bytes
    }

    fn touch(&mut self, from: usize, to: usize) {
        for sector in from / SECTOR..to.div_ceil(SECTOR) {
            let now = self.sector(sector);
            self.dirty.entry(sector).or_default().push(now);
            self.forgotten.remove(&sector);
        }
    }

    fn write(&mut self, bytes: &[u8], at: usize) {
        if bytes.is_empty() {
            return;
        }
        let end = at + bytes.len();
        if end > self.live.len() {
            self.live.resize(end, 0);
            self.lengths.push(end);
        }
        self.live[at..end].copy_from_slice(bytes);
        self.pages.extend(at as u64 / PAGE..(end as u64).div_ceil(PAGE));
        self.touch(at, end);
    }

    fn set_len(&mut self, len: usize) {
        let before = self.live.len();
        self.live.resize(len, 0);
        self.lengths.push(len);
        self.pages.split_off(&(len as u64).div_ceil(PAGE));
        if len < before {
            self.touch(len, before);
        }
    }

    fn punch(&mut self, at: usize, len: usize) {
        let end = (at + len).min(self.live.len());
        if at < end {
            self.live[at..end].fill(0);
            self.touch(at, end);
        }
        let whole = (at as u64).div_ceil(PAGE)..(at + len) as u64 / PAGE;
        self.pages.retain(|page| !whole.contains(page));
    }

    /// A sector's bytes reach the medium; the file's length there is separate.
    fn make_stable(&mut self, sector: usize, bytes: &[u8; SECTOR]) {
        let end = (sector + 1) * SECTOR;
        if self.stable.len() < end {
            self.stable.resize(end, 0);
        }
        self.stable[end - SECTOR..end].copy_from_slice(bytes);
    }

    fn revert(&mut self, sector: usize) {
        let start = sector * SECTOR;
        let end = (start + SECTOR).min(self.live.len());
        for at in start..end {
            self.live[at] = self.stable.get(at).copied().unwrap_or(0);
        }
    }

    fn evict(&mut self) {
        for sector in std::mem::take(&mut self.forgotten) {
            self.revert(sector);
        }
    }

    fn start_over(&mut self, len: usize) {
        self.stable_len = len;
        self.stable.resize(len, 0);
        self.live = self.stable.clone();
        self.dirty.clear();
        self.forgotten.clear();
        self.lengths.clear();
        self.pages = (0..(len as u64).div_ceil(PAGE)).collect();
    }

    fn rot(&mut self, at: usize, bits: u8) -> bool {
        for bytes in [&mut self.live, &mut self.stable] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= bits;
            }
        }
        at < self.live.len()
    }

    fn stats(&self) -> FileStats {
        FileStats { len: self.live.len() as u64, used: self.pages.len() as u64 * PAGE }
    }
}

impl Medium for SimulatedMedium {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn MediumFile>> {
        let mut world = self.world();
        world.alive()?;
        let writable = mode != OpenMode::Read;
        let node = match (world.names.get(path).copied(), mode) {
            (Some(node), OpenMode::Read | OpenMode::Write | OpenMode::Create) => node,
            (Some(node), OpenMode::New) => {
                world.step()?;
                world.files[node].set_len(0);
                node
            }
            (None, OpenMode::Read | OpenMode::Write) => return Err(Errno::NOENT.into()),
            (None, OpenMode::Create | OpenMode::New) => {
                world.step()?;
                world.files.push(SimulatedFile::default());
                let node = world.files.len() - 1;
                world.rename(parent(path), vec![(path.to_owned(), Some(node))]);
                node
            }
        };
        Ok(Box::new(OpenFile { world: self.clone(), node, writable }))
    }

    fn open_directory(&self, path: &Path) -> io::Result<Box<dyn MediumDirectory>> {
        self.world().alive()?;
        Ok(Box::new(OpenDirectory { world: self.clone(), path: path.to_owned() }))
    }

    fn make_directory(&self, _: &Path) -> io::Result<()> {
        self.world().alive()
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let world = self.world();
        world.alive()?;
        let here = world.names.keys().filter(|name| parent(name) == path);
        Ok(here.filter_map(|name| Some(name.file_name()?.to_string_lossy().into_owned())).collect())
    }

    fn inspect(&self, path: &Path) -> io::Result<FileStats> {
        let world = self.world();
        world.alive()?;
        let node = *world.names.get(path).ok_or(Errno::NOENT)?;
        Ok(world.files[node].stats())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.step()?;
        let node = *world.names.get(from).ok_or(Errno::NOENT)?;
        world.rename(parent(to), vec![(from.to_owned(), None), (to.to_owned(), Some(node))]);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.alive()?;
        if !world.names.contains_key(path) {
            return Err(Errno::NOENT.into());
        }
        world.step()?;
        world.rename(parent(path), vec![(path.to_owned(), None)]);
        Ok(())
    }

    fn boot(&self) -> u64 {
        self.world().boot
    }
}

impl MediumFile for OpenFile {
    fn stats(&self) -> io::Result<FileStats> {
        let world = self.world.world();
        world.alive()?;
        Ok(world.files[self.node].stats())
    }

    fn read_at(&self, to: &mut [IoSliceMut<'_>], at: u64) -> io::Result<usize> {
        let world = self.world.world();
        world.alive()?;
        let live = &world.files[self.node].live;
        let (mut from, mut done) = ((at as usize).min(live.len()), 0);
        for piece in to {
            let some = piece.len().min(live.len() - from);
            piece[..some].copy_from_slice(&live[from..from + some]);
            (from, done) = (from + some, done + some);
        }
        Ok(done)
    }

    fn write_at(&self, from: &[IoSlice<'_>], at: u64) -> io::Result<usize> {
        let bytes: Vec<u8> = from.iter().flat_map(|piece| piece.iter().copied()).collect();
        self.writable()?.write(self.node, &bytes, at)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut world = self.writable()?;
        world.step()?;
        world.files[self.node].set_len(len as usize);
        Ok(())
    }

    fn allocate(&self, at: u64, len: u64) -> io::Result<()> {
        let mut world = self.writable()?;
        world.step()?;
        world.files[self.node].pages.extend(at / PAGE..(at + len).div_ceil(PAGE));
        Ok(())
    }

    fn punch(&self, at: u64, len: u64) -> io::Result<bool> {
        let mut world = self.writable()?;
        world.step()?;
        world.files[self.node].punch(at as usize, len as usize);
        Ok(true)
    }

    fn next_data(&self, at: u64) -> io::Result<Option<u64>> {
        let world = self.world.world();
        world.alive()?;
        let node = &world.files[self.node];
        let page = node.pages.range(at / PAGE..).next().map(|page| (page * PAGE).max(at));
        Ok(page.filter(|at| *at < node.live.len() as u64))
    }

    fn sync(&self) -> io::Result<()> {
        self.world.world().sync(self.node..self.node + 1)
    }
}

impl OpenFile {
    fn writable(&self) -> io::Result<MutexGuard<'_, SimulatedState>> {
        if self.writable { Ok(self.world.world()) } else { Err(Errno::BADF.into()) }
    }
}

impl MediumDirectory for OpenDirectory {
    fn lock(&self) -> io::Result<bool> {
        self.world.world().alive().map(|()| true)
    }

    fn sync(&self) -> io::Result<()> {
        let mut world = self.world.world();
        world.step()?;
        world.sync_names(|directory| directory == self.path);
        Ok(())
    }

    fn sync_file_system(&self) -> io::Result<()> {
        let mut world = self.world.world();
        let count = world.files.len();
        world.sync(0..count)?;
        world.sync_names(|_| true);
        Ok(())
    }

    fn space(&self) -> io::Result<SpaceUsage> {
        let world = self.world.world();
        world.alive()?;
        let used: u64 = world.names.values().map(|node| world.files[*node].stats().used).sum();
        Ok(SpaceUsage { total: 1 << 40, free: (1 << 40) - used })
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

fn set(names: &mut BTreeMap<PathBuf, usize>, name: &Path, node: Option<usize>) {
    match node {
        Some(node) => drop(names.insert(name.to_owned(), node)),
        None => drop(names.remove(name)),
    }
}
