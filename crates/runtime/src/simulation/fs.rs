//! Files and directories of simulated hosts, with the interface of `std::fs`. Every operation is a scheduling point.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pario_storage_model::{NodeKind, StorageModel};

use super::file_system::{Device, FileIdentity, pause};
pub use super::file_times::SimulatedFileTimes as FileTimes;
use super::process::HostId;
use super::scheduler;
pub use super::simulated_file::{
    SimulatedFile as File, SimulatedOpenOptions as OpenOptions, allocate, next_data, punch, read_vectored_at,
    space, sync_file_system, try_lock_file, try_lock_file_shared, write_vectored_at,
};
pub use super::simulated_metadata::{
    SimulatedFileType as FileType, SimulatedMetadata as Metadata, SimulatedPermissions as Permissions,
};

/// The path without `.` and doubled separators, from the root.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    Path::new("/").join(path).components().collect()
}

/// A flag of opening, without meaning here.
pub const NONBLOCKING: i32 = libc::O_NONBLOCK;

/// A file system that all hosts share, on the disk of a host that never fails.
const SHARED: (&str, HostId) = ("/home", HostId(0));

/// Uses the file system of a path, on the host of the current process or on the one that all share.
#[track_caller]
pub(crate) fn with_device<T>(path: &Path, act: impl FnOnce(&mut StorageModel, HostId, Device) -> T) -> T {
    let device = Device::of(path);
    pause(device);
    scheduler::with(|scheduler| {
        let (shared, server) = SHARED;
        let host = if path.starts_with(shared) { server } else { scheduler.host(scheduler.owner()) };
        act(scheduler.files_of(host).device(device), host, device)
    })
}

#[track_caller]
fn with_model<T>(path: &Path, act: impl FnOnce(&mut StorageModel) -> T) -> T {
    with_device(path, |model, _, _| act(model))
}

pub(crate) fn fail<T>(errno: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(errno))
}

/// The attributes of a file or directory.
#[track_caller]
pub fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let path = absolute(path.as_ref());
    let identity = with_device(&path, |model, host, device| match model.find(&path)? {
        Some(inode) => Ok(FileIdentity { host, device, inode }),
        None => fail(libc::ENOENT),
    })?;
    Metadata::of(identity)
}

/// The same: simulated file systems have no symbolic links.
#[track_caller]
pub fn symlink_metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    metadata(path)
}

/// Whether a name exists.
#[track_caller]
pub fn exists(path: impl AsRef<Path>) -> io::Result<bool> {
    let path = absolute(path.as_ref());
    with_model(&path, |model| Ok(model.find(&path)?.is_some()))
}

/// The path from the root of something that exists.
pub fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    metadata(&path).map(|_| absolute(path.as_ref()))
}

/// Reads a whole file.
#[track_caller]
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut File::open(path)?, &mut bytes)?;
    Ok(bytes)
}

/// Reads a whole file of text.
#[track_caller]
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Writes a whole file, in place of an existing one.
#[track_caller]
pub fn write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    io::Write::write_all(&mut File::create(path)?, bytes.as_ref())
}

/// Creates a directory.
#[track_caller]
pub fn create_dir(path: impl AsRef<Path>) -> io::Result<()> {
    DirBuilder::new().create(path)
}

/// Creates a directory and those above it.
#[track_caller]
pub fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    DirBuilder::new().recursive(true).create(path)
}

/// Renames atomically, and replaces any file of the new name.
#[track_caller]
pub fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let (from, to) = (absolute(from.as_ref()), absolute(to.as_ref()));
    if Device::of(&from) != Device::of(&to) {
        return fail(libc::EXDEV);
    }
    with_model(&to, |model| model.rename(&from, &to))
}

/// Gives a file another name.
#[track_caller]
pub fn hard_link(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let (from, to) = (absolute(from.as_ref()), absolute(to.as_ref()));
    if Device::of(&from) != Device::of(&to) {
        return fail(libc::EXDEV);
    }
    with_model(&to, |model| model.link(&from, &to))
}

/// Removes a name of a file.
#[track_caller]
pub fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    let path = absolute(path.as_ref());
    with_model(&path, |model| model.remove(&path, NodeKind::File))
}

/// Removes an empty directory.
#[track_caller]
pub fn remove_dir(path: impl AsRef<Path>) -> io::Result<()> {
    let path = absolute(path.as_ref());
    with_model(&path, |model| model.remove(&path, NodeKind::Directory))
}

/// Removes a directory and everything in it.
#[track_caller]
pub fn remove_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    for entry in read_dir(&path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() { remove_dir_all(entry.path())? } else { remove_file(entry.path())? }
    }
    remove_dir(path)
}

/// Changes the permission bits.
#[track_caller]
pub fn set_permissions(path: impl AsRef<Path>, permissions: Permissions) -> io::Result<()> {
    let path = absolute(path.as_ref());
    with_model(&path, |model| match model.find(&path)? {
        Some(inode) => model.set_mode(inode, permissions.bits()),
        None => fail(libc::ENOENT),
    })
}

/// Creates a file that stands for a segment of shared memory behind a descriptor.
pub fn create_segment(path: &Path, memory: OwnedFd) -> io::Result<()> {
    let path = absolute(path);
    let (inode, host) = with_device(&path, |model, host, device| {
        assert_eq!(device, Device::Memory, "segments are in memory file systems");
        Ok::<_, io::Error>((model.create(&path, NodeKind::File, 0o600)?, host))
    })?;
    scheduler::with(|scheduler| scheduler.files_of(host).segments.insert(inode, Arc::new(memory)));
    Ok(())
}

/// A descriptor of the segment of shared memory for which a file stands.
pub fn open_segment(path: &Path) -> io::Result<OwnedFd> {
    let path = absolute(path);
    let (inode, host) = with_device(&path, |model, host, _| Ok::<_, io::Error>((model.find(&path)?, host)))?;
    let Some(inode) = inode else { return fail(libc::ENOENT) };
    let memory = scheduler::with(|scheduler| scheduler.files_of(host).segments.get(&inode).cloned());
    memory.map_or_else(|| fail(libc::ENODEV), |memory| memory.try_clone())
}

/// Creates directories.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedDirBuilder {
    is_recursive: bool,
    mode: u32,
}

pub use SimulatedDirBuilder as DirBuilder;

impl Default for SimulatedDirBuilder {
    fn default() -> SimulatedDirBuilder {
        SimulatedDirBuilder { is_recursive: false, mode: 0o777 }
    }
}

impl SimulatedDirBuilder {
    /// One that creates one directory.
    pub fn new() -> SimulatedDirBuilder {
        SimulatedDirBuilder::default()
    }

    /// Whether it creates the directories above, too, and accepts an existing one.
    pub fn recursive(&mut self, is_recursive: bool) -> &mut SimulatedDirBuilder {
        self.is_recursive = is_recursive;
        self
    }

    /// Creates a directory.
    pub fn create(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = absolute(path.as_ref());
        let above = path.parent().filter(|_| self.is_recursive);
        if let Some(above) = above.filter(|above| !matches!(exists(above), Ok(true))) {
            self.create(above)?;
        }
        match with_model(&path, |model| model.create(&path, NodeKind::Directory, self.mode).map(drop)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && self.is_recursive => {
                if metadata(&path)?.is_dir() { Ok(()) } else { Err(error) }
            }
            made => made,
        }
    }
}

impl DirBuilderExt for SimulatedDirBuilder {
    fn mode(&mut self, mode: u32) -> &mut SimulatedDirBuilder {
        self.mode = mode;
        self
    }
}

/// A name in a directory.
#[derive(Clone, Debug)]
pub struct SimulatedDirEntry {
    path: PathBuf,
    identity: FileIdentity,
}

pub use SimulatedDirEntry as DirEntry;

impl SimulatedDirEntry {
    /// The path.
    pub fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// The name.
    pub fn file_name(&self) -> OsString {
        self.path.file_name().unwrap_or_default().to_owned()
    }

    /// The attributes.
    pub fn metadata(&self) -> io::Result<Metadata> {
        Metadata::of(self.identity)
    }

    /// The kind.
    pub fn file_type(&self) -> io::Result<FileType> {
        self.metadata().map(|metadata| metadata.file_type())
    }
}

/// The names in a directory.
#[derive(Debug)]
pub struct SimulatedReadDir(std::vec::IntoIter<SimulatedDirEntry>);

pub use SimulatedReadDir as ReadDir;

impl Iterator for SimulatedReadDir {
    type Item = io::Result<SimulatedDirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(Ok)
    }
}

/// Lists a directory.
#[track_caller]
pub fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let path = absolute(path.as_ref());
    with_device(&path, |model, host, device| {
        let Some(inode) = model.find(&path)? else { return fail(libc::ENOENT) };
        if model.stats(inode)?.kind != NodeKind::Directory {
            return fail(libc::ENOTDIR);
        }
        let entry =
            |(path, inode)| SimulatedDirEntry { path, identity: FileIdentity { host, device, inode } };
        let entries: Vec<_> = model.list(&path)?.into_iter().map(entry).collect();
        Ok(SimulatedReadDir(entries.into_iter()))
    })
}
