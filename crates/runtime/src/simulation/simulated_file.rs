//! Open files of simulated processes.

use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pario_storage_model::{InodeNumber, NodeKind, StorageModel};

use super::file_system::{FileIdentity, FileLock, pause};
use super::fs::{absolute, fail, with_device};
use super::limits::{self, LimitedResource};
use super::scheduler;
use super::simulated_metadata::{SimulatedMetadata, SimulatedPermissions};

/// An open file or directory.
#[derive(Clone, Debug)]
pub struct SimulatedFile(Arc<OpenDescription>);

/// What all duplicates of a descriptor share.
#[derive(Debug)]
struct OpenDescription {
    number: u64,
    identity: FileIdentity,
    path: PathBuf,
    is_directory: bool,
    options: SimulatedOpenOptions,
    position: AtomicU64,
    /// The syncs that lost bytes before this descriptor was opened, or that it has reported.
    losing_syncs: AtomicU64,
}

impl Drop for OpenDescription {
    fn drop(&mut self) {
        if scheduler::is_active() {
            scheduler::with(|scheduler| {
                if let Some(locks) = scheduler.files.locks.get_mut(&self.identity) {
                    locks.retain(|lock| lock.holder != self.number);
                }
            });
        }
    }
}

/// How a file is opened.
#[derive(Clone, Debug, Default)]
pub struct SimulatedOpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    mode: Option<u32>,
}

macro_rules! option {
    ($($name:ident)*) => {
        $(
            /// As in `std::fs::OpenOptions`.
            pub fn $name(&mut self, value: bool) -> &mut SimulatedOpenOptions {
                self.$name = value;
                self
            }
        )*
    };
}

impl SimulatedOpenOptions {
    /// Nothing is allowed.
    pub fn new() -> SimulatedOpenOptions {
        SimulatedOpenOptions::default()
    }

    option!(read write append truncate create create_new);

    fn writes(&self) -> bool {
        self.write || self.append
    }

    /// Opens a file.
    #[track_caller]
    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<SimulatedFile> {
        limits::take(LimitedResource::Descriptors, "open")?;
        let path = absolute(path.as_ref());
        if !self.read && !self.writes() || self.truncate && !self.write || self.create && !self.writes() {
            return fail(libc::EINVAL);
        }
        let (identity, kind, losing_syncs) = with_device(&path, |model, host, device| {
            let inode = match model.find(&path)? {
                Some(_) if self.create_new => return fail(libc::EEXIST),
                Some(inode) => inode,
                None if self.create || self.create_new => {
                    model.create(&path, NodeKind::File, self.mode.unwrap_or(0o666))?
                }
                None => return fail(libc::ENOENT),
            };
            let kind = model.stats(inode)?.kind;
            if kind == NodeKind::Directory && self.writes() {
                return fail(libc::EISDIR);
            }
            if self.truncate && model.stats(inode)?.len > 0 {
                model.set_len(inode, 0)?;
            }
            Ok((FileIdentity { host, device, inode }, kind, model.losing_syncs()))
        })?;
        let number = scheduler::with(|scheduler| {
            scheduler.files.opened += 1;
            scheduler.files.opened
        });
        Ok(SimulatedFile(Arc::new(OpenDescription {
            number,
            identity,
            path,
            is_directory: kind == NodeKind::Directory,
            options: self.clone(),
            position: AtomicU64::new(0),
            losing_syncs: AtomicU64::new(losing_syncs),
        })))
    }
}

impl OpenOptionsExt for SimulatedOpenOptions {
    fn mode(&mut self, mode: u32) -> &mut SimulatedOpenOptions {
        self.mode = Some(mode);
        self
    }

    fn custom_flags(&mut self, _flags: i32) -> &mut SimulatedOpenOptions {
        self
    }
}

impl SimulatedFile {
    /// Opens a file for reading.
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> io::Result<SimulatedFile> {
        SimulatedOpenOptions::new().read(true).open(path)
    }

    /// Opens a file for writing, empty, in place of an existing one.
    #[track_caller]
    pub fn create(path: impl AsRef<Path>) -> io::Result<SimulatedFile> {
        SimulatedOpenOptions::new().write(true).create(true).truncate(true).open(path)
    }

    /// Creates a file that does not exist.
    #[track_caller]
    pub fn create_new(path: impl AsRef<Path>) -> io::Result<SimulatedFile> {
        SimulatedOpenOptions::new().read(true).write(true).create_new(true).open(path)
    }

    /// How a file is opened.
    pub fn options() -> SimulatedOpenOptions {
        SimulatedOpenOptions::new()
    }

    /// Another descriptor of the same open file.
    pub fn try_clone(&self) -> io::Result<SimulatedFile> {
        Ok(self.clone())
    }

    /// The attributes.
    #[track_caller]
    pub fn metadata(&self) -> io::Result<SimulatedMetadata> {
        SimulatedMetadata::of(self.0.identity)
    }

    /// Changes the permission bits.
    #[track_caller]
    pub fn set_permissions(&self, permissions: SimulatedPermissions) -> io::Result<()> {
        self.act(|model, inode| model.set_mode(inode, permissions.bits()))
    }

    /// Sets the length.
    #[track_caller]
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(|model, inode| model.set_len(inode, len))
    }

    /// Makes the content and length survive a loss of power; of a directory, its names.
    #[track_caller]
    pub fn sync_all(&self) -> io::Result<()> {
        self.act(|model, inode| match self.0.is_directory {
            true => model.sync_directory(&self.0.path),
            false => model.sync(inode),
        })
    }

    /// The same.
    #[track_caller]
    pub fn sync_data(&self) -> io::Result<()> {
        self.sync_all()
    }

    #[track_caller]
    pub(super) fn act<T>(
        &self,
        act: impl FnOnce(&mut StorageModel, InodeNumber) -> io::Result<T>,
    ) -> io::Result<T> {
        let FileIdentity { host, device, inode } = self.0.identity;
        pause(device);
        scheduler::with(|scheduler| act(scheduler.files_of(host).device(device), inode))
    }

    #[track_caller]
    fn change<T>(&self, act: impl FnOnce(&mut StorageModel, InodeNumber) -> io::Result<T>) -> io::Result<T> {
        if self.0.options.writes() { self.act(act) } else { fail(libc::EBADF) }
    }

    #[track_caller]
    fn read_pieces(&self, to: &mut [IoSliceMut<'_>], at: u64) -> io::Result<usize> {
        match (self.0.options.read, self.0.is_directory) {
            (false, _) => fail(libc::EBADF),
            (true, true) => fail(libc::EISDIR),
            (true, false) => self.act(|model, inode| model.read(inode, to, at)),
        }
    }

    /// Moves the position by the bytes that an operation there moved.
    #[track_caller]
    fn at_position(&self, act: impl FnOnce(u64) -> io::Result<usize>) -> io::Result<usize> {
        let at = self.0.position.load(Ordering::SeqCst);
        let done = act(at)?;
        self.0.position.store(at + done as u64, Ordering::SeqCst);
        Ok(done)
    }
}

impl FileExt for SimulatedFile {
    #[track_caller]
    fn read_at(&self, to: &mut [u8], at: u64) -> io::Result<usize> {
        self.read_pieces(&mut [IoSliceMut::new(to)], at)
    }

    #[track_caller]
    fn write_at(&self, from: &[u8], at: u64) -> io::Result<usize> {
        self.change(|model, inode| model.write(inode, from, at))
    }
}

impl Read for &SimulatedFile {
    #[track_caller]
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.at_position(|at| self.read_at(to, at))
    }
}

impl Write for &SimulatedFile {
    #[track_caller]
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        if self.0.options.append {
            return self.change(|model, inode| {
                let end = model.stats(inode)?.len;
                model.write(inode, from, end)
            });
        }
        self.at_position(|at| self.write_at(from, at))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &SimulatedFile {
    #[track_caller]
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (from, by) = match to {
            SeekFrom::Start(at) => (at, 0),
            SeekFrom::End(by) => (self.metadata()?.len(), by),
            SeekFrom::Current(by) => (self.0.position.load(Ordering::SeqCst), by),
        };
        let Some(at) = from.checked_add_signed(by) else { return fail(libc::EINVAL) };
        self.0.position.store(at, Ordering::SeqCst);
        Ok(at)
    }
}

impl Read for SimulatedFile {
    #[track_caller]
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        (&*self).read(to)
    }
}

impl Write for SimulatedFile {
    #[track_caller]
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        (&*self).write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for SimulatedFile {
    #[track_caller]
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}

/// Reads once at this offset; returns 0 bytes only at the end.
#[track_caller]
pub fn read_vectored_at(file: &SimulatedFile, to: &mut [IoSliceMut<'_>], at: u64) -> io::Result<usize> {
    file.read_pieces(to, at)
}

/// Writes once at this offset; returns the number of bytes written.
#[track_caller]
pub fn write_vectored_at(file: &SimulatedFile, from: &[IoSlice<'_>], at: u64) -> io::Result<usize> {
    match from {
        [piece] => file.write_at(piece, at),
        pieces => {
            let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
            file.write_at(&bytes, at)
        }
    }
}

/// Allocates space for these bytes, also beyond the end, which does not move.
#[track_caller]
pub fn allocate(file: &SimulatedFile, at: u64, len: u64) -> io::Result<()> {
    file.change(|model, inode| model.allocate(inode, at, len))
}

/// Replaces these bytes by a hole.
#[track_caller]
pub fn punch(file: &SimulatedFile, at: u64, len: u64) -> io::Result<()> {
    file.change(|model, inode| model.punch(inode, at, len))
}

/// The first byte at or after `at` that is not in a hole; `None` if there is none.
#[track_caller]
pub fn next_data(file: &SimulatedFile, at: u64) -> io::Result<Option<u64>> {
    file.act(|model, inode| model.next_data(inode, at))
}

/// Makes everything on the file system of an open file survive a loss of power.
#[track_caller]
pub fn sync_file_system(file: &SimulatedFile) -> io::Result<()> {
    file.act(|model, _| {
        let outcome = model.sync_all();
        let lost = model.losing_syncs();
        let is_reported = file.0.losing_syncs.swap(lost, Ordering::Relaxed) == lost;
        if is_reported { outcome } else { outcome.and(Err(io::Error::from_raw_os_error(libc::EIO))) }
    })
}

/// The total space on the file system of an open file, and the space that may still be allocated, in bytes.
#[track_caller]
pub fn space(file: &SimulatedFile) -> io::Result<(u64, u64)> {
    file.act(|model, _| Ok((model.capacity(), model.capacity().saturating_sub(model.used()))))
}

/// Locks an open file for this process, until the file is closed or the process ends; `false` if another process has locked it.
pub fn try_lock_file(file: &SimulatedFile) -> io::Result<bool> {
    lock(file, false)
}

/// The same for a lock that several processes may have.
pub fn try_lock_file_shared(file: &SimulatedFile) -> io::Result<bool> {
    lock(file, true)
}

fn lock(file: &SimulatedFile, is_shared: bool) -> io::Result<bool> {
    scheduler::point();
    scheduler::with(|scheduler| {
        let process = scheduler.owner();
        let mut locks = scheduler.files.locks.remove(&file.0.identity).unwrap_or_default();
        locks.retain(|lock| scheduler.is_alive(lock.process) && lock.holder != file.0.number);
        let is_free = locks.iter().all(|lock| lock.is_shared && is_shared);
        if is_free {
            locks.push(FileLock { holder: file.0.number, process, is_shared });
        }
        scheduler.files.locks.insert(file.0.identity, locks);
        Ok(is_free)
    })
}
