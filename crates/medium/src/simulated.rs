//! A file system in memory with all faults of storage, from a seed: a [`StorageModel`] behind the interface of a [`Medium`].

use std::io::{self, IoSlice, IoSliceMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pario_runtime::sync::{Mutex, MutexGuard};
pub use pario_storage_model::InjectedFault;
use pario_storage_model::{InodeNumber, NodeKind, NodeStats, StorageModel};
use rustix::io::Errno;

use crate::{FileStats, Medium, MediumDirectory, MediumFile, OpenMode, SpaceUsage};

/// A simulated file system. Clones share its state.
#[derive(Clone)]
pub struct SimulatedMedium(Arc<Mutex<StorageModel>>);

struct OpenFile {
    medium: SimulatedMedium,
    inode: InodeNumber,
    writable: bool,
}

struct OpenDirectory {
    medium: SimulatedMedium,
    path: PathBuf,
}

impl SimulatedMedium {
    /// An empty one.
    pub fn new(seed: u64) -> SimulatedMedium {
        SimulatedMedium(Arc::new(Mutex::new(StorageModel::new(seed))))
    }

    /// One with these directories. All others have to be created, and a loss of power may take them.
    pub fn with_directories(seed: u64, directories: &[&str]) -> SimulatedMedium {
        let model = StorageModel::with_directories(seed, directories.iter().copied());
        SimulatedMedium(Arc::new(Mutex::new(model)))
    }

    /// The number of operations that have changed something.
    pub fn changes(&self) -> u64 {
        self.model().changes()
    }

    /// Plans a fault for the first operation of its kind after so many more that change something.
    pub fn plan(&self, after: u64, fault: InjectedFault) {
        self.model().plan(after, fault);
    }

    /// Removes planned faults; returns whether any of them had occurred.
    pub fn clear_faults(&self) -> bool {
        self.model().clear_faults()
    }

    /// Whether the process was killed.
    pub fn is_dead(&self) -> bool {
        self.model().is_dead()
    }

    /// Kills the process now.
    pub fn kill(&self) {
        self.model().kill();
    }

    /// A new process may use it; only planned faults are dropped.
    pub fn restart(&self) {
        self.model().restart();
    }

    /// The machine stops and starts again: any subset of the unsynced data survives.
    pub fn lose_power(&self) {
        self.model().lose_power();
    }

    /// Memory is short: sectors that the system has dropped are evicted.
    pub fn evict(&self) {
        self.model().evict();
    }

    /// Inverts bits of a byte that is stored.
    pub fn rot(&self, path: &Path, at: u64, bits: u8) -> bool {
        self.model().rot(path, at, bits)
    }

    /// All names of files.
    pub fn files(&self) -> Vec<PathBuf> {
        self.model().files()
    }

    fn model(&self) -> MutexGuard<'_, StorageModel> {
        self.0.lock()
    }
}

impl Medium for SimulatedMedium {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn MediumFile>> {
        let mut model = self.model();
        let inode = match (model.find(path)?, mode) {
            (Some(inode), OpenMode::Read | OpenMode::Write | OpenMode::Create) => inode,
            (Some(inode), OpenMode::New) => {
                model.set_len(inode, 0)?;
                inode
            }
            (None, OpenMode::Read | OpenMode::Write) => return Err(Errno::NOENT.into()),
            (None, OpenMode::Create | OpenMode::New) => model.create(path, NodeKind::File, 0o600)?,
        };
        Ok(Box::new(OpenFile { medium: self.clone(), inode, writable: mode != OpenMode::Read }))
    }

    fn open_directory(&self, path: &Path) -> io::Result<Box<dyn MediumDirectory>> {
        self.model().find(path)?;
        Ok(Box::new(OpenDirectory { medium: self.clone(), path: path.to_owned() }))
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        let mut model = self.model();
        match model.find(path)? {
            None if model.has_directories() => model.create(path, NodeKind::Directory, 0o700).map(drop),
            _ => Ok(()),
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let names = self.model().list(path)?.into_iter();
        Ok(names.filter_map(|(name, _)| Some(name.file_name()?.to_string_lossy().into_owned())).collect())
    }

    fn inspect(&self, path: &Path) -> io::Result<FileStats> {
        let model = self.model();
        let inode = model.find(path)?.ok_or(Errno::NOENT)?;
        model.stats(inode).map(stats)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.model().rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.model().remove(path, NodeKind::File)
    }

    fn boot(&self) -> u64 {
        self.model().boot()
    }
}

impl MediumFile for OpenFile {
    fn stats(&self) -> io::Result<FileStats> {
        self.medium.model().stats(self.inode).map(stats)
    }

    fn read_at(&self, to: &mut [IoSliceMut<'_>], at: u64) -> io::Result<usize> {
        self.medium.model().read(self.inode, to, at)
    }

    fn write_at(&self, from: &[IoSlice<'_>], at: u64) -> io::Result<usize> {
        let bytes: Vec<u8> = from.iter().flat_map(|piece| piece.iter().copied()).collect();
        self.writable()?.write(self.inode, &bytes, at)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.writable()?.set_len(self.inode, len)
    }

    fn allocate(&self, at: u64, len: u64) -> io::Result<()> {
        self.writable()?.allocate(self.inode, at, len)
    }

    fn punch(&self, at: u64, len: u64) -> io::Result<bool> {
        self.writable()?.punch(self.inode, at, len).map(|()| true)
    }

    fn next_data(&self, at: u64) -> io::Result<Option<u64>> {
        self.medium.model().next_data(self.inode, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.medium.model().sync(self.inode)
    }
}

impl OpenFile {
    fn writable(&self) -> io::Result<MutexGuard<'_, StorageModel>> {
        if self.writable { Ok(self.medium.model()) } else { Err(Errno::BADF.into()) }
    }
}

impl MediumDirectory for OpenDirectory {
    fn lock(&self) -> io::Result<bool> {
        self.medium.model().find(&self.path).map(|_| true)
    }

    fn sync(&self) -> io::Result<()> {
        self.medium.model().sync_directory(&self.path)
    }

    fn sync_file_system(&self) -> io::Result<()> {
        self.medium.model().sync_all()
    }

    fn space(&self) -> io::Result<SpaceUsage> {
        let model = self.medium.model();
        model.find(&self.path)?;
        Ok(SpaceUsage { total: model.capacity(), free: model.capacity().saturating_sub(model.used()) })
    }
}

fn stats(node: NodeStats) -> FileStats {
    FileStats { len: node.len, used: node.used }
}
