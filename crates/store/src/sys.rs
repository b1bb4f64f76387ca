//! The system calls that std does not have, each as a safe function.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::AsRawFd;

/// The most pieces of memory that one vectored call takes.
pub const MOST_PIECES: usize = 1024;

/// Reads into several pieces of memory from offset `at`; how many bytes it got, 0 at the end.
pub fn preadv(file: &File, to: &mut [IoSliceMut<'_>], at: u64) -> io::Result<usize> {
    let at = signed(at)?;
    let pieces = to.len().min(MOST_PIECES) as libc::c_int;
    loop {
        // SAFETY: std promises that IoSliceMut has the layout of iovec; the pieces are borrowed for writing
        // and outlive the call.
        let got = unsafe { libc::preadv64(file.as_raw_fd(), to.as_mut_ptr().cast(), pieces, at) };
        if let Some(result) = counted(got) {
            return result;
        }
    }
}

/// Writes several pieces of memory to offset `at`; how many bytes it took.
pub fn pwritev(file: &File, from: &[IoSlice<'_>], at: u64) -> io::Result<usize> {
    let at = signed(at)?;
    let pieces = from.len().min(MOST_PIECES) as libc::c_int;
    loop {
        // SAFETY: std promises that IoSlice has the layout of iovec; the pieces are borrowed and outlive
        // the call.
        let got = unsafe { libc::pwritev64(file.as_raw_fd(), from.as_ptr().cast(), pieces, at) };
        if let Some(result) = counted(got) {
            return result;
        }
    }
}

/// Takes the file for this process alone, until the descriptor is closed; `false` if somebody else has it.
pub fn lock(file: &File) -> io::Result<bool> {
    // SAFETY: no memory involved.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::EWOULDBLOCK) { Ok(false) } else { Err(error) }
}

/// Brings everything on the file's file system to the medium.
pub fn sync_file_system(file: &File) -> io::Result<()> {
    // SAFETY: no memory involved.
    if unsafe { libc::syncfs(file.as_raw_fd()) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Total and free bytes of the file's file system; free are those that an ordinary user may take.
pub fn space(file: &File) -> io::Result<(u64, u64)> {
    // SAFETY: all-zero is a valid statvfs, which the call fills.
    let mut facts: libc::statvfs64 = unsafe { std::mem::zeroed() };
    // SAFETY: the structure outlives the call.
    if unsafe { libc::fstatvfs64(file.as_raw_fd(), &mut facts) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let unit = facts.f_frsize;
    Ok((facts.f_blocks.saturating_mul(unit), facts.f_bavail.saturating_mul(unit)))
}

/// The first byte at or after `at` that is not in a hole; `None` if there is none.
pub fn next_data(file: &File, at: u64) -> io::Result<Option<u64>> {
    // SAFETY: no memory involved; nobody uses the descriptor's own position.
    let found = unsafe { libc::lseek64(file.as_raw_fd(), signed(at)?, libc::SEEK_DATA) };
    if found >= 0 {
        return Ok(Some(found as u64));
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ENXIO) { Ok(None) } else { Err(error) }
}

/// Makes these bytes zeros that take no room; `false` where the file system has no such call.
pub fn punch(file: &File, at: u64, len: u64) -> io::Result<bool> {
    let (at, len) = (signed(at)?, signed(len)?);
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    loop {
        // SAFETY: no memory involved.
        if unsafe { libc::fallocate64(file.as_raw_fd(), mode, at, len) } == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => return Ok(false),
            _ => return Err(error),
        }
    }
}

/// Takes room for these bytes, also beyond the end, which stays where it is.
pub fn allocate(file: &File, at: u64, len: u64) -> io::Result<()> {
    let (at, len) = (signed(at)?, signed(len)?);
    if len == 0 {
        return Ok(());
    }
    loop {
        // SAFETY: no memory involved.
        if unsafe { libc::fallocate64(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, at, len) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// How many descriptors this process may have.
pub fn descriptor_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure outlives the call.
    let done = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    if done == 0 { limit.rlim_cur } else { 1024 }
}

fn signed(at: u64) -> io::Result<i64> {
    i64::try_from(at).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))
}

/// The result of a call that returns a count; `None` if a signal came first.
fn counted(got: isize) -> Option<io::Result<usize>> {
    if let Ok(got) = usize::try_from(got) {
        return Some(Ok(got));
    }
    let error = io::Error::last_os_error();
    (error.kind() != io::ErrorKind::Interrupted).then_some(Err(error))
}
