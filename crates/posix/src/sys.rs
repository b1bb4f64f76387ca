//! The system calls of this crate as one trait, so that tests can inject faults where they happen in production.
//!
//! The default of every call is Linux's own; [`Linux`] changes nothing. Everything above (retries, short counts,
//! fallbacks) is written against [`Syscalls`] and tested with implementations that fail on purpose, or that pretend to
//! be a file system that is not there.
//!
//! The calls go through libc and not through a crate that enters the kernel directly, because profilers such as Darshan
//! intercept the symbols of libc and must see Pario's file accesses.

use crate::filesystem::FileSystem;
use std::ffi::CStr;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// The system's error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

/// The most that one read or write call of Linux moves.
pub const MOST_PER_CALL: usize = 0x7fff_f000;

/// The operation on a byte range in the kernel's lock table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOp {
    /// Take it together with readers only.
    Shared,
    /// Take it alone.
    Exclusive,
    /// Let it go.
    Release,
}

/// The expected use of a byte range, as told to the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessAdvice {
    /// It will be read soon.
    WillNeed,
    /// It will not be used again soon.
    DontNeed,
    /// It will be read in ascending order.
    Sequential,
    /// It will be read in no order.
    Random,
}

/// The system calls on an open descriptor, and opening one.
pub trait Syscalls: Send + Sync {
    /// Opens a file.
    fn open(&self, path: &CStr, flags: i32, mode: u32) -> Result<OwnedFd, Errno> {
        // SAFETY: the name is a C string that outlives the call.
        let fd = unsafe { libc::open64(path.as_ptr(), flags, mode as libc::c_uint) };
        if fd < 0 {
            return Err(errno());
        }
        // SAFETY: a fresh descriptor without another owner.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// The file system of a file or directory.
    fn file_system(&self, fd: RawFd) -> Result<FileSystem, Errno> {
        // SAFETY: all-zero is a valid statfs, which the call fills.
        let mut facts: libc::statfs64 = unsafe { std::mem::zeroed() };
        // SAFETY: the structure outlives the call.
        done(unsafe { libc::fstatfs64(fd, &mut facts) })?;
        Ok(FileSystem::recognise(facts.f_type as i64, facts.f_bsize as i64))
    }

    /// Reads up to `len` bytes at file offset `at`.
    ///
    /// # Safety
    /// `to` must be valid for writing `len` bytes.
    unsafe fn pread(&self, fd: RawFd, to: *mut u8, len: usize, at: u64) -> Result<usize, Errno> {
        let at = signed(at)?;
        // SAFETY: the caller vouches for the memory.
        counted(unsafe { libc::pread64(fd, to.cast(), len, at) })
    }

    /// Writes up to `len` bytes at file offset `at`.
    ///
    /// # Safety
    /// `from` must be valid for reading `len` bytes.
    unsafe fn pwrite(&self, fd: RawFd, from: *const u8, len: usize, at: u64) -> Result<usize, Errno> {
        let at = signed(at)?;
        // SAFETY: the caller vouches for the memory.
        counted(unsafe { libc::pwrite64(fd, from.cast(), len, at) })
    }

    /// Reads into several pieces of memory from file offset `at`.
    ///
    /// # Safety
    /// Every piece must be valid for writing.
    unsafe fn preadv(&self, fd: RawFd, to: &[libc::iovec], at: u64) -> Result<usize, Errno> {
        let at = signed(at)?;
        // SAFETY: the caller vouches for the memory; the array is a slice.
        counted(unsafe { libc::preadv64(fd, to.as_ptr(), to.len() as i32, at) })
    }

    /// Writes several pieces of memory to file offset `at`.
    ///
    /// # Safety
    /// Every piece must be valid for reading.
    unsafe fn pwritev(&self, fd: RawFd, from: &[libc::iovec], at: u64) -> Result<usize, Errno> {
        let at = signed(at)?;
        // SAFETY: the caller vouches for the memory; the array is a slice.
        counted(unsafe { libc::pwritev64(fd, from.as_ptr(), from.len() as i32, at) })
    }

    /// Locks or releases `[start, start + len)`; `len` 0 means without end. Waits, or returns `EAGAIN`.
    fn lock(&self, fd: RawFd, op: LockOp, wait: bool, start: u64, len: u64) -> Result<(), Errno> {
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
        done(unsafe { libc::fcntl(fd, if wait { libc::F_OFD_SETLKW } else { libc::F_OFD_SETLK }, &range) })
    }

    /// The size of the file.
    fn size(&self, fd: RawFd) -> Result<u64, Errno> {
        // SAFETY: all-zero is a valid stat, which the call fills.
        let mut stat: libc::stat64 = unsafe { std::mem::zeroed() };
        // SAFETY: the structure outlives the call.
        done(unsafe { libc::fstat64(fd, &mut stat) })?;
        if stat.st_mode & libc::S_IFMT == libc::S_IFBLK {
            // SAFETY: no memory involved; the descriptor's own position is not used.
            return counted(unsafe { libc::lseek64(fd, 0, libc::SEEK_END) } as isize).map(|n| n as u64);
        }
        Ok(stat.st_size as u64)
    }

    /// Sets the size of the file.
    fn truncate(&self, fd: RawFd, size: u64) -> Result<(), Errno> {
        let size = signed(size)?;
        // SAFETY: no memory involved.
        done(unsafe { libc::ftruncate64(fd, size) })
    }

    /// Reserves space for a range, growing the file over it unless `keep_size`.
    fn allocate(&self, fd: RawFd, keep_size: bool, at: u64, len: u64) -> Result<(), Errno> {
        let (at, len) = (signed(at)?, signed(len)?);
        let mode = if keep_size { libc::FALLOC_FL_KEEP_SIZE } else { 0 };
        // SAFETY: no memory involved.
        done(unsafe { libc::fallocate64(fd, mode, at, len) })
    }

    /// The first hole at or after `at` (`hole`), or the first data; the end of the file counts as a hole.
    fn seek(&self, fd: RawFd, at: u64, hole: bool) -> Result<u64, Errno> {
        let whence = if hole { libc::SEEK_HOLE } else { libc::SEEK_DATA };
        let at = signed(at)?;
        // SAFETY: no memory involved; the descriptor's own position is not used.
        counted(unsafe { libc::lseek64(fd, at, whence) } as isize).map(|n| n as u64)
    }

    /// Flushes data and metadata to the storage.
    fn sync(&self, fd: RawFd) -> Result<(), Errno> {
        // SAFETY: no memory involved.
        done(unsafe { libc::fsync(fd) })
    }

    /// Tells the system what to expect about `[at, at + len)`; `len` 0 means to the end of the file.
    fn advise(&self, fd: RawFd, advice: AccessAdvice, at: u64, len: u64) -> Result<(), Errno> {
        let (at, len) = (signed(at)?, signed(len)?);
        let advice = match advice {
            AccessAdvice::WillNeed => libc::POSIX_FADV_WILLNEED,
            AccessAdvice::DontNeed => libc::POSIX_FADV_DONTNEED,
            AccessAdvice::Sequential => libc::POSIX_FADV_SEQUENTIAL,
            AccessAdvice::Random => libc::POSIX_FADV_RANDOM,
        };
        // SAFETY: no memory involved.
        match unsafe { libc::posix_fadvise64(fd, at, len, advice) } {
            0 => Ok(()),
            errno => Err(Errno(errno)),
        }
    }

    /// Whether the byte at `at` can be read without waiting for storage; `false` where that cannot be told.
    fn is_in_memory(&self, fd: RawFd, at: u64) -> bool {
        let Ok(at) = signed(at) else { return false };
        let mut byte = 0u8;
        let piece = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        // SAFETY: one piece of one byte, which outlives the call.
        unsafe { libc::preadv2(fd, &piece, 1, at, libc::RWF_NOWAIT) == 1 }
    }

    /// Reads an extended attribute; returns its length.
    fn attribute(&self, fd: RawFd, name: &CStr, to: &mut [u8]) -> Result<usize, Errno> {
        // SAFETY: the name is a C string and the slice is valid for its length.
        counted(unsafe { libc::fgetxattr(fd, name.as_ptr(), to.as_mut_ptr().cast(), to.len()) })
    }

    /// Gives a new file of Lustre that has no objects yet its layout: a `lov_user_md_v1`.
    fn set_lustre_layout(&self, fd: RawFd, layout: &[u8; 32]) -> Result<(), Errno> {
        /// `LL_IOC_LOV_SETSTRIPE`, which is `_IOW('f', 154, long)`.
        const SET_STRIPE: libc::c_ulong = libc::_IOW::<libc::c_long>(b'f' as u32, 154);
        // SAFETY: the call reads a structure of this size; another file system that has a call of this
        // number gets one that it does not know.
        done(unsafe { libc::ioctl(fd, SET_STRIPE as libc::Ioctl, layout.as_ptr()) })
    }
}

/// The system calls of Linux.
#[derive(Clone, Copy, Debug, Default)]
pub struct Linux;

impl Syscalls for Linux {}

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
