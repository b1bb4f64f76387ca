//! Windows of collective accesses: the collective buffers of an aggregator, filled by many processes.
//!
//! A window in which every byte is new is written like any other bytes
//! ([`write_bytes_tuned`](PlainFile::write_bytes_tuned)). A window with gaps is locked, read, filled by the ranks and
//! written back by the last rank; the rank that read it holds the lock until then (see `write`).

use crate::error::{Error, FileOperation};
use crate::file::PlainFile;
use pario_types::Offset;
use std::ops::Range;

impl PlainFile {
    /// Reads bytes at an offset for a window, also of a file that the program opened for writing only;
    /// returns how many there were before the end of the file.
    pub fn read_window(&self, at: Offset, to: &mut [u8]) -> Result<u64, Error> {
        if !self.readable() {
            return Err(Error::NotReadable { path: self.path.clone() });
        }
        self.io().read_slice(to, at.0).map_err(|stop| self.stopped(FileOperation::Read, at.0, stop))
    }

    /// Writes bytes of a range that is locked for this write already, by whichever thread or process: takes
    /// no lock.
    pub fn write_locked(&self, at: Offset, from: &[u8]) -> Result<(), Error> {
        self.check_write()?;
        let len = from.len() as u64;
        at.checked_add(len).ok_or_else(|| Error::OutOfRange { path: self.path.clone(), len })?;
        self.io().write_slice(from, at.0).map_err(|stop| self.stopped(FileOperation::Write, at.0, stop))
    }

    /// Reads the bytes that the file has in a window; returns how many, without reading if (`ask`) the file
    /// system says that there are none.
    pub(crate) fn read_old(&self, range: &Range<u64>, window: &mut [u8], ask: bool) -> Result<usize, Error> {
        if self.lacks_data(range, ask)? {
            return Ok(0);
        }
        let got = self.io().read_slice(window, range.start);
        let got =
            got.map_err(|stop| self.stopped(FileOperation::Read, range.start, stop).with_nothing_done())?;
        Ok(got as usize)
    }

    /// Writes a modified window.
    pub(crate) fn write_back(&self, at: u64, window: &[u8]) -> Result<(), Error> {
        let put = self.io().write_slice(window, at);
        put.map_err(|stop| self.stopped(FileOperation::Write, at, stop).with_nothing_done())
    }
}
