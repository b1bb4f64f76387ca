//! An open plain file: opening, size, space, flushing, locks, deleting. Data access is in `read` and `write`.

use crate::cost::Costs;
use crate::error::{Action, Error};
use crate::filesystem::FileSystem;
use crate::locks::{RangeGuard, Refusal, Table, Want, means_unsupported};
use crate::scratch::Scratch;
use crate::sys::{Errno, Linux, Syscalls, errno};
use crate::transfer::{Pipe, Stop};
use pario_units::Offset;
use std::ffi::CString;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// How to open a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct How {
    /// The program will read.
    pub read: bool,
    /// The program will write.
    pub write: bool,
    /// Make the file if there is none.
    pub create: bool,
    /// With `create`: fail if there is one.
    pub exclusive: bool,
    /// Permission bits of a new file, before the process's mask.
    pub mode: u32,
}

impl Default for How {
    fn default() -> How {
        How { read: true, write: false, create: false, exclusive: false, mode: 0o666 }
    }
}

/// One open plain file. Any number of threads may use it at once.
pub struct PlainFile {
    pub(crate) path: Arc<Path>,
    fd: OwnedFd,
    sys: Arc<dyn Syscalls>,
    may_read: bool,
    may_write: bool,
    /// The descriptor can read, whatever the program asked for.
    readable: bool,
    fs: FileSystem,
    pub(crate) costs: Arc<Costs>,
    pub(crate) operations: AtomicU32,
    table: Table,
    kernel_locks: AtomicU8,
}

/// What is known about the kernel's locks on the file.
const UNKNOWN: u8 = 0;
const WORKING: u8 = 1;
const REFUSED: u8 = 2;

impl PlainFile {
    /// Opens a file.
    pub fn open(path: &Path, how: &How) -> Result<PlainFile, Error> {
        PlainFile::open_with(path, how, Arc::new(Linux), None)
    }

    /// Opens a file with other system calls than the real ones, and perhaps a pretended file system.
    pub fn open_with(
        path: &Path,
        how: &How,
        sys: Arc<dyn Syscalls>,
        fs: Option<FileSystem>,
    ) -> Result<PlainFile, Error> {
        let path: Arc<Path> = Arc::from(path);
        let failed = |action, errno: Errno| Error::system(action, &path, errno.0);
        let (fd, readable) = open_descriptor(&path, how).map_err(|errno| failed(Action::Open, errno))?;
        let device = check_is_file(&fd, &path)?;
        let (fs, costs) = match fs {
            Some(fs) => (fs, Arc::new(Costs::new(&fs))),
            None => {
                let fs = FileSystem::of(fd.as_raw_fd()).map_err(|errno| failed(Action::Inspect, errno))?;
                (fs, Costs::of_device(device, &fs))
            }
        };
        Ok(PlainFile {
            costs,
            path,
            fd,
            sys,
            may_read: how.read,
            may_write: how.write,
            readable,
            fs,
            operations: AtomicU32::new(0),
            table: Table::default(),
            kernel_locks: AtomicU8::new(UNKNOWN),
        })
    }

    /// The name it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file system it lies on.
    pub fn filesystem(&self) -> FileSystem {
        self.fs
    }

    /// Whether writes can be sieved at all: that needs reading, which the permissions may not allow.
    pub fn can_sieve_writes(&self) -> bool {
        self.may_write && self.readable && self.kernel_locks.load(Ordering::Relaxed) != REFUSED
    }

    pub(crate) fn readable(&self) -> bool {
        self.readable
    }

    pub(crate) fn pipe(&self) -> Pipe<'_> {
        Pipe { sys: &*self.sys, fd: self.fd.as_raw_fd() }
    }

    pub(crate) fn check_read(&self) -> Result<(), Error> {
        if self.may_read { Ok(()) } else { Err(Error::NotReadable { path: self.path.clone() }) }
    }

    pub(crate) fn check_write(&self) -> Result<(), Error> {
        if self.may_write { Ok(()) } else { Err(Error::NotWritable { path: self.path.clone() }) }
    }

    pub(crate) fn failed(&self, action: Action, errno: Errno) -> Error {
        Error::system(action, &self.path, errno.0)
    }

    /// The error for a transfer from `at` that stopped.
    pub(crate) fn stopped(&self, action: Action, at: u64, stop: Stop) -> Error {
        let (path, done, at) = (self.path.clone(), stop.done, Offset(at + stop.done));
        match stop.errno {
            Some(Errno(errno)) => Error::System { action, path, at: Some(at), done, errno },
            None => Error::NoProgress { path, at, done },
        }
    }

    pub(crate) fn scratch(&self, len: u64) -> Result<Scratch, Error> {
        let memory = usize::try_from(len).ok().and_then(Scratch::of);
        memory.ok_or_else(|| self.failed(Action::Read, Errno(libc::ENOMEM)))
    }

    /// The size in bytes.
    pub fn size(&self) -> Result<u64, Error> {
        self.sys.size(self.raw()).map_err(|errno| self.failed(Action::Inspect, errno))
    }

    /// Sets the size: cuts the file, or extends it with a hole.
    pub fn set_size(&self, size: u64) -> Result<(), Error> {
        self.check_write()?;
        retry(|| self.sys.truncate(self.raw(), size)).map_err(|errno| self.failed(Action::Resize, errno))
    }

    /// Makes sure that the first `size` bytes have space. Grows a shorter file to `size`, never shrinks one,
    /// never changes a byte.
    pub fn preallocate(&self, size: u64) -> Result<(), Error> {
        self.check_write()?;
        if size == 0 {
            return Ok(());
        }
        // Space first and size afterwards, so that a full disk leaves the size alone.
        let reserved = retry(|| self.sys.allocate(self.raw(), true, 0, size))
            .and_then(|()| retry(|| self.sys.allocate(self.raw(), false, 0, size)));
        match reserved {
            Ok(()) => Ok(()),
            Err(Errno(libc::EOPNOTSUPP | libc::ENOSYS)) => self.fill_holes(size),
            Err(errno) => Err(self.failed(Action::Preallocate, errno)),
        }
    }

    /// Reserves space by writing zeros where there is nothing yet, while all others are locked out.
    fn fill_holes(&self, size: u64) -> Result<(), Error> {
        let (guard, _) = self.lock_unless_refused(0..size, true, true)?;
        let old = self.size()?;
        let mut at = 0;
        while at < old.min(size) {
            // Where holes cannot be told from data, all is data and there is nothing to fill.
            let hole = self.sys.seek(self.raw(), at, true).unwrap_or(old).min(size);
            let data = self.sys.seek(self.raw(), hole, false).unwrap_or(old).min(size);
            self.write_zeros(hole.min(old)..data.min(old))?;
            at = data.max(at + 1);
        }
        self.write_zeros(old.min(size)..size)?;
        self.unlock(guard, 0)
    }

    fn write_zeros(&self, range: Range<u64>) -> Result<(), Error> {
        let zeros = [0u8; 32 << 10];
        let mut at = range.start;
        while at < range.end {
            let part = (range.end - at).min(zeros.len() as u64);
            let written = self.pipe().write_slice(&zeros[..part as usize], at);
            written.map_err(|stop| self.stopped(Action::Preallocate, at, stop).with_nothing_done())?;
            at += part;
        }
        Ok(())
    }

    /// Whether nothing was ever written in this range, so that it need not be read to know it is zeros: it
    /// lies beyond the end, or (if `ask`) the file system says that it is a hole.
    pub(crate) fn is_hole(&self, range: &Range<u64>, ask: bool) -> Result<bool, Error> {
        if self.size()? <= range.start {
            return Ok(true);
        }
        if !ask || !self.fs.tells_holes() {
            return Ok(false);
        }
        Ok(match self.sys.seek(self.raw(), range.start, false) {
            Ok(data) => data >= range.end,
            Err(errno) => errno == Errno(libc::ENXIO), // nothing from here to the end
        })
    }

    /// Flushes data and metadata to the storage.
    pub fn sync(&self) -> Result<(), Error> {
        retry(|| self.sys.sync(self.raw())).map_err(|errno| self.failed(Action::Sync, errno))
    }

    /// Locks a range against other processes and other threads; waits for it. While the guard lives, this
    /// thread may access the range as usual; an access that sticks out of it is refused if it needs a lock. An
    /// access elsewhere may wait for a second lock: whoever does that takes ranges in ascending order.
    pub fn lock(&self, range: Range<Offset>, exclusive: bool) -> Result<RangeGuard<'_>, Error> {
        self.lock_range(range.start.0..range.end.0, exclusive, true)
    }

    pub(crate) fn lock_range(
        &self,
        range: Range<u64>,
        exclusive: bool,
        kernel: bool,
    ) -> Result<RangeGuard<'_>, Error> {
        // A range of no bytes is locked as one byte: the kernel would take it for one without end.
        let range = range.start..range.end.max(range.start.saturating_add(1));
        let at = Offset(range.start);
        // A shared lock needs a descriptor that can read.
        let exclusive = exclusive || (kernel && !self.readable);
        match self.table.take(&*self.sys, self.raw(), Want { range, exclusive, kernel }) {
            Ok(guard) => {
                if kernel {
                    self.kernel_locks.store(WORKING, Ordering::Relaxed);
                }
                Ok(guard)
            }
            Err(Refusal::OwnThread) => Err(Error::WouldDeadlock { path: self.path.clone(), at }),
            Err(Refusal::System(errno)) => Err(self.lock_failed(errno, at)),
        }
    }

    fn lock_failed(&self, errno: Errno, at: Offset) -> Error {
        let worked = self.kernel_locks.load(Ordering::Relaxed) == WORKING;
        if means_unsupported(errno) && !worked {
            self.kernel_locks.store(REFUSED, Ordering::Relaxed);
            return Error::NoLocks { path: self.path.clone(), errno: errno.0 };
        }
        let path = self.path.clone();
        Error::System { action: Action::Lock, path, at: Some(at), done: 0, errno: errno.0 }
    }

    /// Like `lock_range`, but where the file system has no locks at all: the process's own table only, and
    /// `false` beside the guard.
    pub(crate) fn lock_unless_refused(
        &self,
        range: Range<u64>,
        exclusive: bool,
        kernel: bool,
    ) -> Result<(RangeGuard<'_>, bool), Error> {
        let known = self.kernel_locks.load(Ordering::Relaxed) == REFUSED;
        if kernel && !known {
            match self.lock_range(range.clone(), exclusive, true) {
                Err(Error::NoLocks { .. }) => {}
                other => return other.map(|guard| (guard, true)),
            }
        }
        let guard = self.lock_range(range, exclusive, false)?;
        Ok((guard, !kernel))
    }

    /// Lets a lock go after an access of `done` bytes. Failing at that would leave the others waiting.
    pub(crate) fn unlock(&self, guard: RangeGuard<'_>, done: u64) -> Result<(), Error> {
        guard.release().map_err(|errno| self.failed(Action::Lock, errno).after(done))
    }

    fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Repeats a call as long as signals interrupt it.
fn retry(mut call: impl FnMut() -> Result<(), Errno>) -> Result<(), Errno> {
    loop {
        match call() {
            Err(Errno(libc::EINTR)) => {}
            result => return result,
        }
    }
}

/// Opens and says whether the descriptor can read. A file for writing only is opened for reading too where
/// that is allowed, so that writes can be sieved.
fn open_descriptor(path: &Path, how: &How) -> Result<(OwnedFd, bool), Errno> {
    let mut flags = libc::O_CLOEXEC;
    if how.create {
        flags |= libc::O_CREAT;
        if how.exclusive {
            flags |= libc::O_EXCL;
        }
    }
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno(libc::ENOENT))?;
    if !how.write {
        return open_once(&name, flags | libc::O_RDONLY, how.mode).map(|fd| (fd, true));
    }
    match open_once(&name, flags | libc::O_RDWR, how.mode) {
        Ok(fd) => Ok((fd, true)),
        Err(Errno(libc::EACCES | libc::EPERM)) if !how.read => {
            open_once(&name, flags | libc::O_WRONLY, how.mode).map(|fd| (fd, false))
        }
        Err(errno) => Err(errno),
    }
}

fn open_once(name: &CString, flags: i32, mode: u32) -> Result<OwnedFd, Errno> {
    // Opening a pipe would wait for its other end; without waiting, it is seen and refused. Only a file
    // that another process is giving up a lease on says "again", and for that one waiting is right.
    let mut wait = libc::O_NONBLOCK;
    loop {
        // SAFETY: the name is a C string that outlives the call.
        let fd = unsafe { libc::open64(name.as_ptr(), flags | wait, mode as libc::c_uint) };
        if fd >= 0 {
            // SAFETY: a fresh descriptor that nobody else owns.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        match errno() {
            Errno(libc::EINTR) => {}
            Errno(libc::EWOULDBLOCK) if wait != 0 => wait = 0,
            errno => return Err(errno),
        }
    }
}

/// Refuses what is not a file; returns the device that it lies on.
fn check_is_file(fd: &OwnedFd, path: &Arc<Path>) -> Result<u64, Error> {
    // SAFETY: all-zero is a valid stat, which the call fills.
    let mut stat: libc::stat64 = unsafe { std::mem::zeroed() };
    // SAFETY: the structure outlives the call.
    if unsafe { libc::fstat64(fd.as_raw_fd(), &mut stat) } != 0 {
        return Err(Error::system(Action::Inspect, path, errno().0));
    }
    match stat.st_mode & libc::S_IFMT {
        libc::S_IFDIR | libc::S_IFIFO | libc::S_IFSOCK => Err(Error::NotAFile { path: path.clone() }),
        _ => Ok(stat.st_dev),
    }
}

/// Removes a file's name.
pub fn delete(path: &Path) -> Result<(), Error> {
    let Err(error) = std::fs::remove_file(path) else { return Ok(()) };
    let path: Arc<Path> = Arc::from(path);
    if path.is_dir() {
        return Err(Error::NotAFile { path });
    }
    Err(Error::system(Action::Delete, &path, error.raw_os_error().unwrap_or(libc::ENOENT)))
}
