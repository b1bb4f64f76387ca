//! The attributes of a file or directory, as `stat` shows them.

use fuser::{FileAttr, FileType, INodeNo};
use pario_client::Metadata;

/// The recommended size of requests: the largest that the kernel passes on in one piece.
pub(crate) const BLOCK: u32 = 1 << 20;

/// The owner of all files: the user who mounted the partition, because servers accept no other.
#[derive(Clone, Copy)]
pub(crate) struct Owner {
    pub user: u32,
    pub group: u32,
}

impl Owner {
    pub fn this_process() -> Owner {
        Owner { user: rustix::process::getuid().as_raw(), group: rustix::process::getgid().as_raw() }
    }
}

/// Converts metadata to the attributes that `stat` shows.
pub(crate) fn attributes(metadata: &Metadata, owner: Owner) -> FileAttr {
    FileAttr {
        ino: INodeNo(metadata.id().0),
        size: metadata.len(),
        blocks: metadata.len().div_ceil(512),
        atime: metadata.accessed(),
        mtime: metadata.modified(),
        ctime: metadata.changed(),
        crtime: metadata.created(),
        kind: if metadata.is_dir() { FileType::Directory } else { FileType::RegularFile },
        perm: (metadata.mode() & 0o7777) as u16,
        // Also for directories: 1 means that the number of directories in it is not counted.
        nlink: 1,
        uid: owner.user,
        gid: owner.group,
        rdev: 0,
        blksize: BLOCK,
        flags: 0,
    }
}
