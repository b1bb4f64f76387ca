//! The attributes of simulated files.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::time::{Duration, SystemTime};

use pario_storage_model::{NodeKind, NodeStats};

use super::clock::BOOT;
use super::file_system::{Device, FileIdentity};
use super::scheduler;

/// The attributes of a file or directory.
#[derive(Clone, Debug)]
pub struct SimulatedMetadata {
    identity: FileIdentity,
    stats: NodeStats,
}

impl SimulatedMetadata {
    pub(crate) fn of(identity: FileIdentity) -> io::Result<SimulatedMetadata> {
        scheduler::with(|scheduler| {
            let files = scheduler.files_of(identity.host);
            let mut stats = files.device(identity.device).stats(identity.inode)?;
            let segment = files.segments.get(&identity.inode).filter(|_| identity.device == Device::Memory);
            if let Some(segment) = segment {
                stats.len = real_len(segment.as_raw_fd())?;
                stats.used = stats.len;
            }
            Ok(SimulatedMetadata { identity, stats })
        })
    }

    /// The length.
    #[expect(clippy::len_without_is_empty, reason = "as in std::fs::Metadata")]
    pub fn len(&self) -> u64 {
        self.stats.len
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.stats.kind == NodeKind::Directory
    }

    /// Whether it is a file.
    pub fn is_file(&self) -> bool {
        self.stats.kind == NodeKind::File
    }

    /// Whether it is a symbolic link: there are none.
    pub fn is_symlink(&self) -> bool {
        false
    }

    /// The kind.
    pub fn file_type(&self) -> SimulatedFileType {
        SimulatedFileType(self.stats.kind)
    }

    /// The permission bits.
    pub fn permissions(&self) -> SimulatedPermissions {
        SimulatedPermissions(self.stats.mode)
    }

    /// The time of the last change of the content.
    pub fn modified(&self) -> io::Result<SystemTime> {
        Ok(SystemTime::UNIX_EPOCH + Duration::from_nanos(BOOT + self.stats.modified))
    }

    /// The time of the last read, which is not recorded.
    pub fn accessed(&self) -> io::Result<SystemTime> {
        self.modified()
    }
}

fn real_len(descriptor: i32) -> io::Result<u64> {
    // SAFETY: all-zero is a valid stat, which the call fills.
    let mut stat: libc::stat64 = unsafe { std::mem::zeroed() };
    // SAFETY: the structure outlives the call.
    match unsafe { libc::fstat64(descriptor, &mut stat) } {
        0 => Ok(stat.st_size as u64),
        _ => Err(io::Error::last_os_error()),
    }
}

impl MetadataExt for SimulatedMetadata {
    fn dev(&self) -> u64 {
        u64::from(self.identity.host.0) << 8 | self.identity.device as u64
    }

    fn ino(&self) -> u64 {
        self.identity.inode.0 as u64 + 1
    }

    fn mode(&self) -> u32 {
        let kind = if self.is_dir() { libc::S_IFDIR } else { libc::S_IFREG };
        kind | self.stats.mode
    }

    fn nlink(&self) -> u64 {
        1
    }

    fn uid(&self) -> u32 {
        // SAFETY: no memory involved.
        unsafe { libc::geteuid() }
    }

    fn gid(&self) -> u32 {
        // SAFETY: no memory involved.
        unsafe { libc::getegid() }
    }

    fn rdev(&self) -> u64 {
        0
    }

    fn size(&self) -> u64 {
        self.stats.len
    }

    fn atime(&self) -> i64 {
        self.mtime()
    }

    fn atime_nsec(&self) -> i64 {
        self.mtime_nsec()
    }

    fn mtime(&self) -> i64 {
        ((BOOT + self.stats.modified) / 1_000_000_000) as i64
    }

    fn mtime_nsec(&self) -> i64 {
        ((BOOT + self.stats.modified) % 1_000_000_000) as i64
    }

    fn ctime(&self) -> i64 {
        self.mtime()
    }

    fn ctime_nsec(&self) -> i64 {
        self.mtime_nsec()
    }

    fn blksize(&self) -> u64 {
        pario_storage_model::PAGE
    }

    fn blocks(&self) -> u64 {
        self.stats.used / 512
    }
}

/// The kind of a simulated file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimulatedFileType(NodeKind);

impl SimulatedFileType {
    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.0 == NodeKind::Directory
    }

    /// Whether it is a file.
    pub fn is_file(&self) -> bool {
        self.0 == NodeKind::File
    }

    /// Whether it is a symbolic link: there are none.
    pub fn is_symlink(&self) -> bool {
        false
    }
}

impl FileTypeExt for SimulatedFileType {
    fn is_block_device(&self) -> bool {
        false
    }

    fn is_char_device(&self) -> bool {
        false
    }

    fn is_fifo(&self) -> bool {
        false
    }

    fn is_socket(&self) -> bool {
        false
    }
}

/// Permission bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedPermissions(u32);

impl SimulatedPermissions {
    pub(crate) fn bits(&self) -> u32 {
        self.0
    }
}

impl PermissionsExt for SimulatedPermissions {
    fn mode(&self) -> u32 {
        self.0
    }

    fn set_mode(&mut self, mode: u32) {
        self.0 = mode;
    }

    fn from_mode(mode: u32) -> SimulatedPermissions {
        SimulatedPermissions(mode)
    }
}
