//! File metadata: attributes, directory entries, and how files are opened and closed. The messages of `wire` and the
//! name space share these types.
#![forbid(unsafe_code)]

use pario_types::{FileId, Stamp};

use pario_layout::{PlacementMapId, Striping};

/// The access that an open file allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenAccess {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Reading and writing.
    Both,
}

impl OpenAccess {
    /// Whether it includes reading.
    pub fn reads(self) -> bool {
        self != OpenAccess::Write
    }

    /// Whether it includes writing.
    pub fn writes(self) -> bool {
        self != OpenAccess::Read
    }
}

/// Whether an open may or must create the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateMode {
    /// The file must exist.
    Never,
    /// The file is created if it does not exist.
    Missing,
    /// The file must not exist.
    Exclusive,
}

/// The requested layout of a new file; 0 and `None` stand for the partition's defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayoutRequest {
    /// Bytes of a stripe.
    pub stripe: u64,
    /// The number of servers; all of them if there are fewer.
    pub count: u16,
    /// The server of the first stripe.
    pub first: Option<u16>,
    /// The placement map, if the file is to be placed; unplaced bytes are striped.
    pub table: Option<PlacementMapId>,
}

/// The report of a writer when it closes the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseReport {
    /// The size, if the writer has asked all servers since it opened, and after its own last write and cut.
    pub size: Option<u64>,
    /// The time of its last write.
    pub modified: Stamp,
}

/// The kind of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InodeKind {
    /// A file.
    File,
    /// A directory.
    Directory,
}

/// A file's size, as far as the name space knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSize {
    /// The size; no client has the file open for writing.
    Known(u64),
    /// The storage servers know the size.
    Ask {
        /// A number that changes whenever the size may have changed.
        seen: u64,
    },
}

/// The attributes of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Its id, which is never reused.
    pub file: FileId,
    /// File or directory.
    pub kind: InodeKind,
    /// Permission bits.
    pub mode: u32,
    /// The size; 0 for a directory.
    pub size: FileSize,
    /// The time of the last read that a client reported.
    pub accessed: Stamp,
    /// The time of the last change of its content.
    pub modified: Stamp,
    /// The time of the last change of content or attributes.
    pub changed: Stamp,
    /// The time of its creation.
    pub created: Stamp,
    /// The striping; meaningless for a directory.
    pub striping: Striping,
    /// The placement map, if the file is placed.
    pub table: Option<PlacementMapId>,
    /// In a list of inodes: the size of a truncation that has begun and not ended. Elsewhere `None`.
    pub truncating: Option<u64>,
    /// The number of clients that have it open.
    pub opens: u32,
    /// The number of entries of a directory.
    pub entries: u64,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name.
    pub name: String,
    /// The attributes of the file or directory.
    pub attributes: Attributes,
}

/// An inode with its place in the directory tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Its directory; the root is its own parent; 0 if it has no name any more.
    pub parent: FileId,
    /// Its name in that directory.
    pub name: String,
    /// Its attributes.
    pub attributes: Attributes,
}
