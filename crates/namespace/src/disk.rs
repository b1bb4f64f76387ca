//! The storage of journal and snapshots: a directory of a few flat files, behind a trait so that tests can stop between any
//! two steps and make any of them fail.

use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use pario_runtime::fs::{self, File, OpenOptions};
use rustix::io::Errno;

/// A directory of flat files.
pub trait Disk: Send + Sync {
    /// Its path, for messages.
    fn place(&self) -> &Path;
    /// Returns the names in it.
    fn list(&mut self) -> io::Result<Vec<String>>;
    /// Opens a file for reading and writing.
    fn open(&mut self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Creates an empty file, and replaces any file of this name.
    fn create(&mut self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Renames a file atomically, and replaces any file of the new name.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&mut self, name: &str) -> io::Result<()>;
    /// Makes the present names survive a loss of power.
    fn sync(&mut self) -> io::Result<()>;
    /// The id of the host's boot; 0 if it is unknown. Bytes written in the same boot are still there, flushed or not.
    fn boot(&self) -> u128;
}

/// An open file of a [`Disk`].
pub trait DiskFile: Send + Sync {
    /// Its length.
    fn length(&mut self) -> io::Result<u64>;
    /// Reads once at this offset; returns 0 bytes only at the end.
    fn read_at(&mut self, buffer: &mut [u8], at: u64) -> io::Result<usize>;
    /// Writes once at this offset; returns the number of bytes written.
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<usize>;
    /// Sets its length.
    fn resize(&mut self, len: u64) -> io::Result<()>;
    /// Allocates space for these bytes, also beyond the end, which does not move.
    fn reserve(&mut self, from: u64, len: u64) -> io::Result<()>;
    /// Makes the present contents survive a loss of power.
    fn sync(&mut self) -> io::Result<()>;
}

/// A real directory, locked for this process as long as this value exists. The kernel releases the lock when the process
/// ends.
pub struct DiskDirectory {
    path: PathBuf,
    handle: File,
    _lock: File,
}

const LOCK: &str = "lock";

impl DiskDirectory {
    /// Locks a directory that exists. `WouldBlock`: another process has locked it.
    pub fn open(path: &Path) -> io::Result<DiskDirectory> {
        let handle = File::open(path)?;
        let mut how = OpenOptions::new();
        let lock = how.write(true).create(true).truncate(false).mode(0o600).open(path.join(LOCK))?;
        match fs::try_lock_file(&lock) {
            Ok(true) => {}
            Ok(false) => return Err(io::ErrorKind::WouldBlock.into()),
            // Some file systems have no locks.
            Err(error) if is_without_locks(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(DiskDirectory { path: path.to_path_buf(), handle, _lock: lock })
    }
}

fn is_without_locks(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK))
}

impl Disk for DiskDirectory {
    fn place(&self) -> &Path {
        &self.path
    }

    fn list(&mut self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(&self.path)?;
        let names = entries.map(|entry| entry.map(|entry| entry.file_name().into_string().ok()));
        names.filter_map(Result::transpose).collect()
    }

    fn open(&mut self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(OpenOptions::new().read(true).write(true).open(self.path.join(name))?))
    }

    fn create(&mut self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut how = OpenOptions::new();
        how.read(true).write(true).create(true).truncate(true).mode(0o600);
        Ok(Box::new(how.open(self.path.join(name))?))
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync(&mut self) -> io::Result<()> {
        self.handle.sync_all()
    }

    fn boot(&self) -> u128 {
        let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        u128::from_str_radix(&text.trim().replace('-', ""), 16).unwrap_or(0)
    }
}

impl DiskFile for File {
    fn length(&mut self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&mut self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, at)
    }

    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, at)
    }

    fn resize(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn reserve(&mut self, from: u64, len: u64) -> io::Result<()> {
        fs::allocate(self, from, len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Writes all of the bytes, in one call if the system takes them.
pub(crate) fn write_all(file: &mut dyn DiskFile, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(done) => {
                bytes = &bytes[done..];
                at += done as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Fills the buffer from this offset as far as the file reaches; returns the number of bytes.
pub(crate) fn read_full(file: &mut dyn DiskFile, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], at + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
