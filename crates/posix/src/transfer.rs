//! Transfers of whole ranges: repeats interrupted calls, continues after short counts and keeps each call below the
//! kernel's limit.

use crate::sys::{Errno, MOST_PER_CALL, Syscalls};
use std::os::fd::RawFd;

/// A transfer that stopped early, after `done` bytes. A write call that accepted no byte has no error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartialTransfer {
    pub done: u64,
    pub errno: Option<Errno>,
}

/// Positioned I/O on a descriptor through the given system calls.
#[derive(Clone, Copy)]
pub(crate) struct PositionedIo<'a> {
    pub sys: &'a dyn Syscalls,
    pub fd: RawFd,
}

/// Repeats `step(done)` until `len` bytes are done or it returns 0.
fn repeat(len: u64, mut step: impl FnMut(u64) -> Result<usize, Errno>) -> Result<u64, PartialTransfer> {
    let mut done = 0;
    while done < len {
        match step(done) {
            Ok(0) => break,
            Ok(n) => done += n as u64,
            Err(Errno(libc::EINTR)) => {}
            Err(errno) => return Err(PartialTransfer { done, errno: Some(errno) }),
        }
    }
    Ok(done)
}

fn whole(done: u64, len: u64) -> Result<(), PartialTransfer> {
    if done == len { Ok(()) } else { Err(PartialTransfer { done, errno: None }) }
}

impl PositionedIo<'_> {
    /// Reads until `len` bytes or the end of the file; returns how many.
    ///
    /// # Safety
    /// `to` must be valid for writing `len` bytes.
    pub unsafe fn read(&self, to: *mut u8, len: u64, at: u64) -> Result<u64, PartialTransfer> {
        repeat(len, |done| {
            let part = (len - done).min(MOST_PER_CALL as u64) as usize;
            // SAFETY: `done + part <= len`, and the caller vouches for `len` bytes.
            unsafe { self.sys.pread(self.fd, to.add(done as usize), part, at + done) }
        })
    }

    /// Writes all of `len` bytes.
    ///
    /// # Safety
    /// `from` must be valid for reading `len` bytes.
    pub unsafe fn write(&self, from: *const u8, len: u64, at: u64) -> Result<(), PartialTransfer> {
        let done = repeat(len, |done| {
            let part = (len - done).min(MOST_PER_CALL as u64) as usize;
            // SAFETY: `done + part <= len`, and the caller vouches for `len` bytes.
            unsafe { self.sys.pwrite(self.fd, from.add(done as usize), part, at + done) }
        })?;
        whole(done, len)
    }

    /// Fills a slice; returns how many bytes there were.
    pub fn read_slice(&self, to: &mut [u8], at: u64) -> Result<u64, PartialTransfer> {
        // SAFETY: the slice is valid for its length.
        unsafe { self.read(to.as_mut_ptr(), to.len() as u64, at) }
    }

    /// Writes a slice.
    pub fn write_slice(&self, from: &[u8], at: u64) -> Result<(), PartialTransfer> {
        // SAFETY: the slice is valid for its length.
        unsafe { self.write(from.as_ptr(), from.len() as u64, at) }
    }

    /// Reads into pieces of memory until they are full or the file ends. The pieces are used up.
    ///
    /// # Safety
    /// Every piece must be valid for writing.
    pub unsafe fn read_pieces(&self, pieces: &mut [libc::iovec], at: u64) -> Result<u64, PartialTransfer> {
        let mut pieces = Pieces::new(pieces);
        repeat(pieces.len(), |done| {
            // SAFETY: parts of pieces that the caller vouches for.
            let got = unsafe { self.sys.preadv(self.fd, pieces.left(), at + done) }?;
            pieces.advance(got);
            Ok(got)
        })
    }

    /// Writes pieces of memory. The pieces are used up.
    ///
    /// # Safety
    /// Every piece must be valid for reading.
    pub unsafe fn write_pieces(&self, pieces: &mut [libc::iovec], at: u64) -> Result<(), PartialTransfer> {
        let mut pieces = Pieces::new(pieces);
        let len = pieces.len();
        let done = repeat(len, |done| {
            // SAFETY: parts of pieces that the caller vouches for.
            let put = unsafe { self.sys.pwritev(self.fd, pieces.left(), at + done) }?;
            pieces.advance(put);
            Ok(put)
        })?;
        whole(done, len)
    }
}

/// Pieces of memory of which some leading bytes are done.
struct Pieces<'a> {
    all: &'a mut [libc::iovec],
    first: usize,
}

impl Pieces<'_> {
    fn new(all: &mut [libc::iovec]) -> Pieces<'_> {
        Pieces { all, first: 0 }
    }

    fn len(&self) -> u64 {
        self.all.iter().map(|piece| piece.iov_len as u64).sum()
    }

    fn left(&self) -> &[libc::iovec] {
        &self.all[self.first..]
    }

    fn advance(&mut self, mut bytes: usize) {
        while bytes > 0 && self.first < self.all.len() {
            let piece = &mut self.all[self.first];
            let part = bytes.min(piece.iov_len);
            piece.iov_base = piece.iov_base.cast::<u8>().wrapping_add(part).cast();
            piece.iov_len -= part;
            bytes -= part;
            if piece.iov_len == 0 {
                self.first += 1;
            }
        }
    }
}
