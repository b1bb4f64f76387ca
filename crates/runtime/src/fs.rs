//! Files and directories: those of the standard library, and the system calls that it lacks.

use std::io::{self, IoSlice, IoSliceMut};

use rustix::fs::{FallocateFlags, FlockOperation, SeekFrom};
use rustix::io::Errno;

pub use std::fs::{
    DirBuilder, DirEntry, File, FileTimes, FileType, Metadata, OpenOptions, Permissions, ReadDir,
    canonicalize, create_dir, create_dir_all, exists, hard_link, metadata, read, read_dir, read_to_string,
    remove_dir, remove_dir_all, remove_file, rename, set_permissions, symlink_metadata, write,
};

/// A flag of opening: a named pipe is opened without waiting for its other end.
pub const NONBLOCKING: i32 = libc::O_NONBLOCK;

/// The largest number of buffers in one vectored call.
const MOST_PIECES: usize = 1024;

/// Reads once at this offset; returns 0 bytes only at the end.
#[inline]
pub fn read_vectored_at(file: &File, to: &mut [IoSliceMut<'_>], at: u64) -> io::Result<usize> {
    let most = to.len().min(MOST_PIECES);
    uninterrupted(|| rustix::io::preadv(file, &mut to[..most], at))
}

/// Writes once at this offset; returns the number of bytes written.
#[inline]
pub fn write_vectored_at(file: &File, from: &[IoSlice<'_>], at: u64) -> io::Result<usize> {
    let most = from.len().min(MOST_PIECES);
    uninterrupted(|| rustix::io::pwritev(file, &from[..most], at))
}

/// Allocates space for these bytes, also beyond the end, which does not move.
pub fn allocate(file: &File, at: u64, len: u64) -> io::Result<()> {
    uninterrupted(|| rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, at, len))
}

/// Replaces these bytes by a hole.
pub fn punch(file: &File, at: u64, len: u64) -> io::Result<()> {
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    uninterrupted(|| rustix::fs::fallocate(file, how, at, len))
}

/// The first byte at or after `at` that is not in a hole; `None` if there is none. It moves the position of the descriptor.
pub fn next_data(file: &File, at: u64) -> io::Result<Option<u64>> {
    match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Makes everything on the file system of an open file survive a loss of power.
pub fn sync_file_system(file: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(file)?)
}

/// The total space on the file system of an open file, and the space that an ordinary user may still allocate, in bytes.
pub fn space(file: &File) -> io::Result<(u64, u64)> {
    let stats = rustix::fs::fstatvfs(file)?;
    let bytes = |blocks: u64| blocks.saturating_mul(stats.f_frsize);
    Ok((bytes(stats.f_blocks), bytes(stats.f_bavail)))
}

/// Locks an open file for this process, until the file is closed or the process ends; `false` if another process has locked it.
pub fn try_lock_file(file: &File) -> io::Result<bool> {
    lock(file, FlockOperation::NonBlockingLockExclusive)
}

/// The same for a lock that several processes may have.
pub fn try_lock_file_shared(file: &File) -> io::Result<bool> {
    lock(file, FlockOperation::NonBlockingLockShared)
}

fn lock(file: &File, how: FlockOperation) -> io::Result<bool> {
    match rustix::fs::flock(file, how) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Repeats a call that a signal interrupts.
fn uninterrupted<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}
