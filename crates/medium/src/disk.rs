//! The real file system: every operation is a system call.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use pario_runtime::fs::{self, DirBuilder, File, OpenOptions};
use rustix::io::Errno;

use crate::{FileStats, Medium, MediumDirectory, MediumFile, OpenMode, SpaceUsage};

/// The system's own file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostFileSystem;

struct DiskFile(File);

struct DiskDirectory(File);

impl Medium for HostFileSystem {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn MediumFile>> {
        let mut options = OpenOptions::new();
        options.read(true).mode(0o600);
        match mode {
            OpenMode::Read => &mut options,
            OpenMode::Write => options.write(true),
            OpenMode::Create => options.write(true).create(true).truncate(false),
            OpenMode::New => options.write(true).create(true).truncate(true),
        };
        Ok(Box::new(DiskFile(options.open(path)?)))
    }

    fn open_directory(&self, path: &Path) -> io::Result<Box<dyn MediumDirectory>> {
        Ok(Box::new(DiskDirectory(File::open(path)?)))
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(_) if fs::metadata(path).is_ok_and(|found| found.is_dir()) => Ok(()),
            made => made,
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let names = fs::read_dir(path)?;
        names.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn inspect(&self, path: &Path) -> io::Result<FileStats> {
        fs::symlink_metadata(path).map(stats)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn boot(&self) -> u64 {
        let Ok(text) = fs::read_to_string("/proc/sys/kernel/random/boot_id") else { return 0 };
        let digits = text.chars().filter_map(|letter| letter.to_digit(16));
        digits.fold(0u64, |number, digit| number.rotate_left(5) ^ u64::from(digit)).max(1)
    }
}

impl MediumFile for DiskFile {
    fn stats(&self) -> io::Result<FileStats> {
        self.0.metadata().map(stats)
    }

    fn read_at(&self, to: &mut [IoSliceMut<'_>], at: u64) -> io::Result<usize> {
        fs::read_vectored_at(&self.0, to, at)
    }

    fn write_at(&self, from: &[IoSlice<'_>], at: u64) -> io::Result<usize> {
        fs::write_vectored_at(&self.0, from, at)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn allocate(&self, at: u64, len: u64) -> io::Result<()> {
        if len == 0 { Ok(()) } else { fs::allocate(&self.0, at, len) }
    }

    fn punch(&self, at: u64, len: u64) -> io::Result<bool> {
        match fs::punch(&self.0, at, len) {
            Ok(()) => Ok(true),
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::OPNOTSUPP | Errno::NOSYS)) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn next_data(&self, at: u64) -> io::Result<Option<u64>> {
        // The descriptor's own position is not used.
        fs::next_data(&self.0, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

impl MediumDirectory for DiskDirectory {
    fn lock(&self) -> io::Result<bool> {
        fs::try_lock_file(&self.0)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn sync_file_system(&self) -> io::Result<()> {
        fs::sync_file_system(&self.0)
    }

    fn space(&self) -> io::Result<SpaceUsage> {
        let (total, free) = fs::space(&self.0)?;
        Ok(SpaceUsage { total, free })
    }
}

fn stats(metadata: fs::Metadata) -> FileStats {
    FileStats { len: metadata.len(), used: metadata.blocks() * 512 }
}
