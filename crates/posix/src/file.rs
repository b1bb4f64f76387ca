//! An open plain file: size, preallocation, flushing, locks and access advice. Data access is in `read`, `write` and
//! `window`.

use crate::cost::CostModel;
use crate::error::{Error, FileOperation};
use crate::filesystem::{FileSystem, FsKind};
use crate::hinted_ranges::HintedRanges;
use crate::locks::{
    HeldLock, LockRefusal, LockRequest, LockingHandle, OwnedRangeGuard, RangeGuard, means_unsupported,
};
use crate::lustre;
use crate::open::{self, PlainOpenOptions};
use crate::scratch::Scratch;
use crate::striping::{FsStriping, StripingOutcome};
use crate::sys::{AccessAdvice, Errno, Linux, Syscalls};
use crate::transfer::{PartialTransfer, PositionedIo};
use pario_types::Offset;
use std::ops::Range;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// One open plain file. Any number of threads may use it at once.
pub struct PlainFile {
    pub(crate) path: Arc<Path>,
    pub(crate) handle: Arc<LockingHandle>,
    may_read: bool,
    may_write: bool,
    /// The descriptor can read, whatever the program asked for.
    readable: bool,
    fs: FileSystem,
    pub(crate) costs: Arc<CostModel>,
    pub(crate) operations: AtomicU32,
    outcome: StripingOutcome,
    kernel_locks: AtomicU8,
    pub(crate) hinted: HintedRanges,
}

/// The known state of the kernel's locks on the file.
const UNKNOWN: u8 = 0;
const WORKING: u8 = 1;
const REFUSED: u8 = 2;

impl PlainFile {
    /// Opens a file.
    pub fn open(path: &Path, how: &PlainOpenOptions) -> Result<PlainFile, Error> {
        PlainFile::open_with(path, how, Arc::new(Linux), None)
    }

    /// Opens a file with other system calls than the real ones, and perhaps a pretended file system.
    pub fn open_with(
        path: &Path,
        how: &PlainOpenOptions,
        sys: Arc<dyn Syscalls>,
        fs: Option<FileSystem>,
    ) -> Result<PlainFile, Error> {
        let path: Arc<Path> = Arc::from(path);
        let failed = |action, errno: Errno| Error::system(action, &path, errno.0);
        let opened =
            open::open(&path, how, &*sys, fs.as_ref()).map_err(|errno| failed(FileOperation::Open, errno))?;
        let device = open::check_is_file(&opened.fd, &path)?;
        let handle = LockingHandle::new(path.clone(), sys, opened.fd);
        let (fs, costs) = match fs {
            Some(fs) => (fs, Arc::new(CostModel::new(&fs))),
            None => {
                let fs = handle.sys.file_system(handle.raw());
                let fs = fs.map_err(|errno| failed(FileOperation::Inspect, errno))?;
                (fs, CostModel::of_device(device, &fs))
            }
        };
        Ok(PlainFile {
            costs,
            path,
            handle: Arc::new(handle),
            may_read: how.read,
            may_write: how.write,
            readable: opened.readable,
            fs,
            operations: AtomicU32::new(0),
            outcome: opened.outcome,
            kernel_locks: AtomicU8::new(UNKNOWN),
            hinted: HintedRanges::default(),
        })
    }

    /// The name it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file system of the file.
    pub fn filesystem(&self) -> FileSystem {
        self.fs
    }

    /// The striping of the file over the servers of its file system; `None` if there is none or it is
    /// unknown. Asks the file system each time.
    pub fn striping(&self) -> Option<FsStriping> {
        match self.fs.kind {
            _ if self.fs.striping.is_some() => self.fs.striping,
            FsKind::Lustre => {
                let mut layout = vec![0; lustre::LARGEST_LAYOUT];
                let len = self.handle.sys.attribute(self.raw(), lustre::LAYOUT, &mut layout).ok()?;
                lustre::striping(layout.get(..len)?)
            }
            FsKind::Gpfs | FsKind::BeeGfs => Some(FsStriping { unit: self.fs.block, count: None }),
            _ => None,
        }
    }

    /// The result of the striping request when the file was opened.
    pub fn striping_outcome(&self) -> StripingOutcome {
        self.outcome
    }

    /// Whether writes can be sieved at all: that needs reading, which the permissions may not allow.
    pub fn can_sieve_writes(&self) -> bool {
        self.may_write && self.readable && self.kernel_locks.load(Ordering::Relaxed) != REFUSED
    }

    pub(crate) fn readable(&self) -> bool {
        self.readable
    }

    pub(crate) fn io(&self) -> PositionedIo<'_> {
        PositionedIo { sys: &*self.handle.sys, fd: self.raw() }
    }

    pub(crate) fn check_read(&self) -> Result<(), Error> {
        if self.may_read { Ok(()) } else { Err(Error::NotReadable { path: self.path.clone() }) }
    }

    pub(crate) fn check_write(&self) -> Result<(), Error> {
        if self.may_write { Ok(()) } else { Err(Error::NotWritable { path: self.path.clone() }) }
    }

    pub(crate) fn failed(&self, action: FileOperation, errno: Errno) -> Error {
        Error::system(action, &self.path, errno.0)
    }

    /// The error for a transfer from `at` that stopped.
    pub(crate) fn stopped(&self, action: FileOperation, at: u64, stop: PartialTransfer) -> Error {
        let (path, done, at) = (self.path.clone(), stop.done, Offset(at + stop.done));
        match stop.errno {
            Some(Errno(errno)) => Error::System { action, path, at: Some(at), done, errno },
            None => Error::NoProgress { path, at, done },
        }
    }

    pub(crate) fn scratch(&self, len: u64) -> Result<Scratch, Error> {
        let memory = usize::try_from(len).ok().and_then(Scratch::of);
        memory.ok_or_else(|| self.failed(FileOperation::Read, Errno(libc::ENOMEM)))
    }

    /// The size in bytes.
    pub fn size(&self) -> Result<u64, Error> {
        self.handle.sys.size(self.raw()).map_err(|errno| self.failed(FileOperation::Inspect, errno))
    }

    /// Sets the size: cuts the file, or extends it with a hole.
    pub fn set_size(&self, size: u64) -> Result<(), Error> {
        self.check_write()?;
        retry(|| self.handle.sys.truncate(self.raw(), size))
            .map_err(|errno| self.failed(FileOperation::Resize, errno))
    }

    /// Makes sure that the first `size` bytes have space. Grows a shorter file to `size`, never shrinks one,
    /// never changes a byte.
    pub fn preallocate(&self, size: u64) -> Result<(), Error> {
        self.check_write()?;
        if size == 0 {
            return Ok(());
        }
        // Space first and size afterwards, so that a full disk leaves the size alone.
        let reserved = retry(|| self.handle.sys.allocate(self.raw(), true, 0, size))
            .and_then(|()| retry(|| self.handle.sys.allocate(self.raw(), false, 0, size)));
        match reserved {
            Ok(()) => Ok(()),
            Err(Errno(libc::EOPNOTSUPP | libc::ENOSYS)) => self.fill_holes(size),
            Err(errno) => Err(self.failed(FileOperation::Preallocate, errno)),
        }
    }

    /// Reserves space by writing zeros where there is nothing yet, while all others are locked out.
    fn fill_holes(&self, size: u64) -> Result<(), Error> {
        let (guard, _) = self.lock_unless_refused(0..size, true, true)?;
        let old = self.size()?;
        let mut at = 0;
        while at < old.min(size) {
            // If holes cannot be distinguished from data, all is data and there is nothing to fill.
            let hole = self.handle.sys.seek(self.raw(), at, true).unwrap_or(old).min(size);
            let data = self.handle.sys.seek(self.raw(), hole, false).unwrap_or(old).min(size);
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
            let written = self.io().write_slice(&zeros[..part as usize], at);
            written.map_err(|stop| self.stopped(FileOperation::Preallocate, at, stop).with_nothing_done())?;
            at += part;
        }
        Ok(())
    }

    /// Whether nothing was ever written in this range, so that it need not be read to know it is zeros.
    /// `false` also where the file system cannot tell.
    pub fn is_hole(&self, range: Range<Offset>) -> Result<bool, Error> {
        self.lacks_data(&(range.start.0..range.end.0), true)
    }

    /// Whether the range lies beyond the end, or (if `ask`) the file system reports a hole.
    pub(crate) fn lacks_data(&self, range: &Range<u64>, ask: bool) -> Result<bool, Error> {
        if self.size()? <= range.start {
            return Ok(true);
        }
        if !ask || !self.fs.tells_holes() {
            return Ok(false);
        }
        Ok(match self.handle.sys.seek(self.raw(), range.start, false) {
            Ok(data) => data >= range.end,
            Err(errno) => errno == Errno(libc::ENXIO), // nothing from here to the end
        })
    }

    /// Flushes data and metadata to the storage.
    pub fn sync(&self) -> Result<(), Error> {
        retry(|| self.handle.sys.sync(self.raw())).map_err(|errno| self.failed(FileOperation::Sync, errno))
    }

    /// Whether the byte at an offset can be read without waiting for storage; `false` where that cannot be told.
    pub fn is_in_memory(&self, at: Offset) -> bool {
        self.handle.sys.is_in_memory(self.raw(), at.0)
    }

    /// Asks the system to get a range into memory before it is read. `false`: it was refused.
    pub fn prefetch(&self, range: Range<Offset>) -> bool {
        self.advise(AccessAdvice::WillNeed, range)
    }

    /// Tells the system that a range is not needed in memory any more. `false`: it does not care.
    pub fn release(&self, range: Range<Offset>) -> bool {
        self.advise(AccessAdvice::DontNeed, range)
    }

    /// Tells the system that the file will be read in ascending order.
    pub fn expect_sequential(&self) -> bool {
        self.advise(AccessAdvice::Sequential, Offset(0)..Offset(i64::MAX as u64))
    }

    /// Tells the system that the file will be read in no order.
    pub fn expect_random(&self) -> bool {
        self.advise(AccessAdvice::Random, Offset(0)..Offset(i64::MAX as u64))
    }

    fn advise(&self, advice: AccessAdvice, range: Range<Offset>) -> bool {
        let Some(len) = range.end.0.checked_sub(range.start.0).filter(|len| *len > 0) else { return false };
        self.handle.sys.advise(self.raw(), advice, range.start.0, len).is_ok()
    }

    /// Locks a range against other processes and other threads; waits for it. While the guard lives, this
    /// thread may access the range as usual; an access that sticks out of it is refused if it needs a lock. An
    /// access elsewhere may wait for a second lock: to avoid deadlock, threads take ranges in ascending order.
    pub fn lock(&self, range: Range<Offset>, exclusive: bool) -> Result<RangeGuard<'_>, Error> {
        self.lock_range(range.start.0..range.end.0, exclusive, true)
    }

    /// Locks a range as [`PlainFile::lock`] does, with a guard that borrows nothing. It is let go before
    /// waiting for another process; a second one is taken at higher offsets only.
    pub fn lock_owned(&self, range: Range<Offset>, exclusive: bool) -> Result<OwnedRangeGuard, Error> {
        let lock = self.acquire(range.start.0..range.end.0, exclusive, true)?;
        Ok(OwnedRangeGuard::new(self.handle.clone(), lock))
    }

    /// Tries to lock a range without waiting; `None` if another owner holds a part of it.
    pub fn try_lock_owned(
        &self,
        range: Range<Offset>,
        exclusive: bool,
    ) -> Result<Option<OwnedRangeGuard>, Error> {
        let want = self.want(range.start.0..range.end.0, exclusive, true);
        let at = range.start;
        match self.handle.acquire(want, false) {
            Err(LockRefusal::Busy) => Ok(None),
            taken => {
                let lock = self.check_acquired(taken, true, at)?;
                Ok(Some(OwnedRangeGuard::new(self.handle.clone(), lock)))
            }
        }
    }

    pub(crate) fn lock_range(
        &self,
        range: Range<u64>,
        exclusive: bool,
        kernel: bool,
    ) -> Result<RangeGuard<'_>, Error> {
        let lock = self.acquire(range, exclusive, kernel)?;
        Ok(RangeGuard::new(&self.handle, lock))
    }

    fn acquire(&self, range: Range<u64>, exclusive: bool, kernel: bool) -> Result<HeldLock, Error> {
        let at = Offset(range.start);
        self.check_acquired(self.handle.acquire(self.want(range, exclusive, kernel), true), kernel, at)
    }

    fn want(&self, range: Range<u64>, exclusive: bool, kernel: bool) -> LockRequest {
        // A range of no bytes is locked as one byte: the kernel would take it for one without end.
        let range = range.start..range.end.max(range.start.saturating_add(1));
        // A shared lock needs a descriptor that can read.
        LockRequest { range, exclusive: exclusive || (kernel && !self.readable), kernel }
    }

    /// Records whether kernel locks work on this file, and turns a refusal into an error.
    fn check_acquired(
        &self,
        result: Result<HeldLock, LockRefusal>,
        kernel: bool,
        at: Offset,
    ) -> Result<HeldLock, Error> {
        match result {
            Ok(lock) => {
                if kernel {
                    self.kernel_locks.store(WORKING, Ordering::Relaxed);
                }
                Ok(lock)
            }
            Err(LockRefusal::OwnThread) => Err(Error::WouldDeadlock { path: self.path.clone(), at }),
            Err(LockRefusal::TimedOut(holder)) => {
                Err(Error::LockHeld { path: self.path.clone(), at, holder })
            }
            Err(LockRefusal::Busy) => Err(self.lock_failed(Errno(libc::EAGAIN), at)),
            Err(LockRefusal::System(errno)) => Err(self.lock_failed(errno, at)),
        }
    }

    fn lock_failed(&self, errno: Errno, at: Offset) -> Error {
        let worked = self.kernel_locks.load(Ordering::Relaxed) == WORKING;
        if means_unsupported(errno) && !worked {
            self.kernel_locks.store(REFUSED, Ordering::Relaxed);
            return Error::NoLocks { path: self.path.clone(), errno: errno.0 };
        }
        let path = self.path.clone();
        Error::System { action: FileOperation::Lock, path, at: Some(at), done: 0, errno: errno.0 }
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
        guard.release().map_err(|errno| self.failed(FileOperation::Lock, errno).after(done))
    }

    fn raw(&self) -> RawFd {
        self.handle.raw()
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
