//! The file system of a file, by the number from `statfs`, and its properties.

use crate::striping::FsStriping;

/// The file systems that are distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FsKind {
    /// ext2, ext3, ext4.
    Ext4,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
    /// Memory: tmpfs, ramfs.
    Tmpfs,
    /// An overlay of local file systems, as in containers.
    Overlay,
    /// NFS of any version.
    Nfs,
    /// Lustre: locks at its servers.
    Lustre,
    /// IBM Storage Scale (GPFS): locks by tokens.
    Gpfs,
    /// BeeGFS.
    BeeGfs,
    /// A file system in user space.
    Fuse,
    /// Any other, with its number.
    Other(i64),
}

/// A file system as far as access to one of its files cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// Which one.
    pub kind: FsKind,
    /// Its preferred block size in bytes, at least 1.
    pub block: u64,
    /// The striping that every file reports, where the file system is only simulated.
    pub(crate) striping: Option<FsStriping>,
}

impl FileSystem {
    /// A file system made of these facts.
    pub fn new(kind: FsKind, block: u64) -> FileSystem {
        FileSystem::pretend(kind, block, None)
    }

    /// A file system that a test wants to be on, whose files are all striped like this.
    pub fn pretend(kind: FsKind, block: u64, striping: Option<FsStriping>) -> FileSystem {
        let striping = striping.map(|s| FsStriping { unit: s.unit.max(1), ..s });
        FileSystem { kind, block: block.max(1), striping }
    }

    /// The file system that `statfs` describes by type and block size.
    pub fn recognise(f_type: i64, block: i64) -> FileSystem {
        // The kernel gives 32-bit numbers that some architectures sign-extend.
        let kind = match f_type as u32 {
            0xEF53 => FsKind::Ext4,
            0x5846_5342 => FsKind::Xfs,
            0x9123_683E => FsKind::Btrfs,
            0x0102_1994 | 0x8584_58F6 => FsKind::Tmpfs,
            0x794C_7630 => FsKind::Overlay,
            0x6969 => FsKind::Nfs,
            0x0BD0_0BD0 => FsKind::Lustre,
            0x4750_4653 => FsKind::Gpfs,
            0x1983_0326 => FsKind::BeeGfs,
            0x6573_5546 => FsKind::Fuse,
            _ => FsKind::Other(f_type),
        };
        FileSystem::new(kind, u64::try_from(block).unwrap_or(1))
    }

    /// Whether it tells holes from data exactly, data that is still in memory included.
    pub(crate) fn tells_holes(&self) -> bool {
        matches!(self.kind, FsKind::Ext4 | FsKind::Xfs | FsKind::Tmpfs)
    }

    /// Whether its bytes come from this host's own page cache, so that calls are cheap.
    pub fn is_local(&self) -> bool {
        match self.kind {
            FsKind::Ext4 | FsKind::Xfs | FsKind::Btrfs | FsKind::Tmpfs | FsKind::Overlay => true,
            FsKind::Nfs | FsKind::Lustre | FsKind::Gpfs | FsKind::BeeGfs | FsKind::Fuse => false,
            // SMB (three numbers), Ceph, 9P, AFS, OrangeFS, PanFS are the remote ones among the others.
            FsKind::Other(number) => !matches!(
                number as u32,
                0xFF53_4D42
                    | 0xFE53_4D42
                    | 0x517B
                    | 0x00C3_6400
                    | 0x0102_1997
                    | 0x5346_414F
                    | 0x2003_0528
                    | 0xAAD7_AAEA
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{Linux, Syscalls};

    #[test]
    fn file_system_types_have_names() {
        assert_eq!(FileSystem::recognise(0xEF53, 4096), FileSystem::new(FsKind::Ext4, 4096));
        assert_eq!(FileSystem::recognise(0x9123_683Eu32 as i32 as i64, 4096).kind, FsKind::Btrfs);
        assert_eq!(FileSystem::recognise(0x0BD0_0BD0, 1 << 20).kind, FsKind::Lustre);
        assert_eq!(FileSystem::recognise(7, -1), FileSystem::new(FsKind::Other(7), 1));
        assert!(!FileSystem::new(FsKind::Nfs, 1).is_local());
    }

    #[test]
    fn the_file_system_here_has_blocks() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let fs = Linux.file_system(std::os::fd::AsRawFd::as_raw_fd(&file)).unwrap();
        assert!(fs.block >= 1);
    }
}
