//! Open files on this host or in a partition, with the same operations.

use crate::endpoint::{Endpoint, host_info, io_error};
use crate::error::Error;
use pario_runtime::fs;
use std::io;
use std::os::unix::fs::FileExt;

/// An open file. Threads may use it at the same time.
pub enum OpenFile {
    /// On this host.
    Host(fs::File),
    /// In a partition.
    Partition(pario_client::File),
}

/// Why an operation on an open file failed; the caller adds the name.
pub enum OpenFileError {
    /// On this host.
    Host(io::Error),
    /// In a partition.
    Partition(pario_client::Error),
}

impl OpenFileError {
    /// The error with the attempted action and the file.
    pub fn at(self, action: &'static str, file: &Endpoint) -> Error {
        match self {
            OpenFileError::Host(cause) => io_error(action, file)(cause),
            OpenFileError::Partition(cause) => Error::in_partition(action, file.show())(cause),
        }
    }
}

impl From<io::Error> for OpenFileError {
    fn from(error: io::Error) -> OpenFileError {
        OpenFileError::Host(error)
    }
}

impl From<pario_client::Error> for OpenFileError {
    fn from(error: pario_client::Error) -> OpenFileError {
        OpenFileError::Partition(error)
    }
}

impl OpenFile {
    /// Identifies the file on this host or in its partition.
    pub fn id(&self) -> Result<(u64, u64), OpenFileError> {
        Ok(match self {
            OpenFile::Host(file) => host_info(&file.metadata()?).id,
            OpenFile::Partition(file) => (0, file.id().0),
        })
    }

    /// Reads until the buffer is full or the file ends; returns the number of bytes.
    pub fn read_at(&self, bytes: &mut [u8], at: u64) -> Result<usize, OpenFileError> {
        match self {
            OpenFile::Host(file) => Ok(read_full(file, bytes, at)?),
            OpenFile::Partition(file) => Ok(file.read_at(bytes, at)?),
        }
    }

    /// Writes all bytes.
    pub fn write_at(&self, bytes: &[u8], at: u64) -> Result<(), OpenFileError> {
        match self {
            OpenFile::Host(file) => Ok(file.write_all_at(bytes, at)?),
            OpenFile::Partition(file) => Ok(file.write_at(bytes, at)?),
        }
    }

    /// Sets the size, unless the file has it.
    pub fn set_len(&self, size: u64) -> Result<(), OpenFileError> {
        match self {
            OpenFile::Host(file) => Ok(file.set_len(size)?),
            OpenFile::Partition(file) if file.len()? == size => Ok(()),
            OpenFile::Partition(file) => Ok(file.set_len(size)?),
        }
    }

    /// Syncs what was written.
    pub fn sync(&self) -> Result<(), OpenFileError> {
        match self {
            OpenFile::Host(file) => Ok(file.sync_all()?),
            OpenFile::Partition(file) => Ok(file.sync()?),
        }
    }

    /// Closes the file, and returns an error if anything that was written could not be stored.
    pub fn close(self) -> Result<(), OpenFileError> {
        match self {
            OpenFile::Host(_) => Ok(()),
            OpenFile::Partition(file) => Ok(file.close()?),
        }
    }

    /// The first byte from `at` on that is not in a hole, as far as the file system tells; `size` if all of the rest is
    /// a hole.
    pub fn next_data(&self, at: u64, size: u64) -> u64 {
        let OpenFile::Host(file) = self else { return at };
        match fs::next_data(file, at) {
            Ok(Some(data)) => data.clamp(at, size),
            Ok(None) => size,
            Err(_) => at,
        }
    }

    /// The block size for holes: aligned blocks of zeros of this size are not written.
    pub fn hole_size(&self) -> usize {
        match self {
            OpenFile::Host(_) => 4 << 10,
            OpenFile::Partition(_) => 64 << 10,
        }
    }
}

fn read_full(file: &fs::File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], at + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}
