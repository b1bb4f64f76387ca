//! The system calls this crate makes, as one trait, so that faults can come in where they come from in life.
//!
//! [`Linux`] is the real thing. Everything above it (retries, short counts, fallbacks) is written against
//! [`Syscalls`] and proven with an implementation that fails on purpose.

use std::os::fd::RawFd;

/// The system's error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

/// The most that one read or write call of Linux moves.
pub const MOST_PER_CALL: usize = 0x7fff_f000;

/// What to do with a byte range in the kernel's lock table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOp {
    /// Wait until readers only hold it.
    Shared,
    /// Wait until nobody holds it.
    Exclusive,
    /// Let it go.
    Release,
}

/// The system calls on an open descriptor.
pub trait Syscalls: Send + Sync {
    /// Reads up to `len` bytes at file offset `at`.
    ///
    /// # Safety
    /// `to` must be valid for writing `len` bytes.
    unsafe fn pread(&self, fd: RawFd, to: *mut u8, len: usize, at: u64) -> Result<usize, Errno>;

    /// Writes up to `len` bytes at file offset `at`.
    ///
    /// # Safety
    /// `from` must be valid for reading `len` bytes.
    unsafe fn pwrite(&self, fd: RawFd, from: *const u8, len: usize, at: u64) -> Result<usize, Errno>;

    /// Reads into several pieces of memory from file offset `at`.
    ///
    /// # Safety
    /// Every piece must be valid for writing.
    unsafe fn preadv(&self, fd: RawFd, to: &[libc::iovec], at: u64) -> Result<usize, Errno>;

    /// Writes several pieces of memory to file offset `at`.
    ///
    /// # Safety
    /// Every piece must be valid for reading.
    unsafe fn pwritev(&self, fd: RawFd, from: &[libc::iovec], at: u64) -> Result<usize, Errno>;

    /// Locks or releases `[start, start + len)`; `len` 0 means without end. Waits.
    fn lock(&self, fd: RawFd, op: LockOp, start: u64, len: u64) -> Result<(), Errno>;

    /// The size of the file.
    fn size(&self, fd: RawFd) -> Result<u64, Errno>;

    /// Sets the size of the file.
    fn truncate(&self, fd: RawFd, size: u64) -> Result<(), Errno>;

    /// Reserves space for a range, growing the file over it unless `keep_size`.
    fn allocate(&self, fd: RawFd, keep_size: bool, at: u64, len: u64) -> Result<(), Errno>;

    /// The first hole at or after `at` (`hole`), or the first data; the end of the file counts as a hole.
    fn seek(&self, fd: RawFd, at: u64, hole: bool) -> Result<u64, Errno>;

    /// Flushes data and metadata to the storage.
    fn sync(&self, fd: RawFd) -> Result<(), Errno>;
}

/// The system calls of Linux.
#[derive(Clone, Copy, Debug, Default)]
pub struct Linux;

pub(crate) fn errno() -> Errno {
    // SAFETY: the location is this thread's own and always valid.
    Errno(unsafe { *libc::__errno_location() })
}

fn counted(result: isize) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| errno())
}

fn done(result: i32) -> Result<(), Errno> {
    if result == 0 { Ok(()) } else { Err(errno()) }
}

fn signed(offset: u64) -> Result<i64, Errno> {
    i64::try_from(offset).map_err(|_| Errno(libc::EFBIG))
}

impl Syscalls for Linux {
    unsafe fn pread(&self, fd: RawFd, to: *mut u8, len: usize, at: u64) -> Result<usize, Errno> {
        let at = signed(at)?;
        // SAFETY: the caller vouches for the memory.
        counted(unsafe { libc::pread64(fd, to.cast(), len, at) })
    }

    unsafe fn pwrite(&self, fd: RawFd, from: *const u8, len: usize, at: u64) -> Result<usize, Errno> {
        let at = signed(at)?;
        // SAFETY: the caller vouches for the memory.
        counted(unsafe { libc::pwrite64(fd, from.cast(), len, at) })
    }

    unsafe fn preadv(&self, fd: RawFd, to: &[libc::iovec], at: u64) -> Result<usize, Errno> {
        let at = signed(at)?;
        // SAFETY: the caller vouches for the memory; the array is a slice.
        counted(unsafe { libc::preadv64(fd, to.as_ptr(), to.len() as i32, at) })
    }

    unsafe fn pwritev(&self, fd: RawFd, from: &[libc::iovec], at: u64) -> Result<usize, Errno> {
        let at = signed(at)?;
        // SAFETY: the caller vouches for the memory; the array is a slice.
        counted(unsafe { libc::pwritev64(fd, from.as_ptr(), from.len() as i32, at) })
    }

    fn lock(&self, fd: RawFd, op: LockOp, start: u64, len: u64) -> Result<(), Errno> {
        // SAFETY: all-zero is a valid flock; open-file-description locks want l_pid 0.
        let mut range: libc::flock64 = unsafe { std::mem::zeroed() };
        range.l_type = match op {
            LockOp::Shared => libc::F_RDLCK,
            LockOp::Exclusive => libc::F_WRLCK,
            LockOp::Release => libc::F_UNLCK,
        } as i16;
        range.l_whence = libc::SEEK_SET as i16;
        range.l_start = signed(start)?;
        range.l_len = signed(len)?;
        // SAFETY: the structure outlives the call.
        done(unsafe { libc::fcntl(fd, libc::F_OFD_SETLKW, &range) })
    }

    fn size(&self, fd: RawFd) -> Result<u64, Errno> {
        // SAFETY: all-zero is a valid stat, which the call fills.
        let mut stat: libc::stat64 = unsafe { std::mem::zeroed() };
        // SAFETY: the structure outlives the call.
        done(unsafe { libc::fstat64(fd, &mut stat) })?;
        if stat.st_mode & libc::S_IFMT == libc::S_IFBLK {
            // SAFETY: no memory involved; nobody uses the descriptor's own position.
            return counted(unsafe { libc::lseek64(fd, 0, libc::SEEK_END) } as isize).map(|n| n as u64);
        }
        Ok(stat.st_size as u64)
    }

    fn truncate(&self, fd: RawFd, size: u64) -> Result<(), Errno> {
        let size = signed(size)?;
        // SAFETY: no memory involved.
        done(unsafe { libc::ftruncate64(fd, size) })
    }

    fn allocate(&self, fd: RawFd, keep_size: bool, at: u64, len: u64) -> Result<(), Errno> {
        let (at, len) = (signed(at)?, signed(len)?);
        let mode = if keep_size { libc::FALLOC_FL_KEEP_SIZE } else { 0 };
        // SAFETY: no memory involved.
        done(unsafe { libc::fallocate64(fd, mode, at, len) })
    }

    fn seek(&self, fd: RawFd, at: u64, hole: bool) -> Result<u64, Errno> {
        let whence = if hole { libc::SEEK_HOLE } else { libc::SEEK_DATA };
        let at = signed(at)?;
        // SAFETY: no memory involved; nobody uses the descriptor's own position.
        counted(unsafe { libc::lseek64(fd, at, whence) } as isize).map(|n| n as u64)
    }

    fn sync(&self, fd: RawFd) -> Result<(), Errno> {
        // SAFETY: no memory involved.
        done(unsafe { libc::fsync(fd) })
    }
}
