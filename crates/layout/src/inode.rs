//! What there is to know of a file, and how one is opened: the words that messages and the name space share.

use pario_types::{FileId, Stamp};

use crate::striping::Striping;
use crate::table::TableId;

/// What an open file may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Reading and writing.
    Both,
}

impl Access {
    /// Whether it includes reading.
    pub fn reads(self) -> bool {
        self != Access::Write
    }

    /// Whether it includes writing.
    pub fn writes(self) -> bool {
        self != Access::Read
    }
}

/// Whether an open may or must create the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Create {
    /// The file has to be there.
    Never,
    /// If it is not there.
    Missing,
    /// The file must not be there.
    Exclusive,
}

/// How a new file is to be laid out; 0 and `None`: as the partition says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Bytes of a stripe.
    pub stripe: u64,
    /// Over how many servers; all of them if there are fewer.
    pub count: u16,
    /// The server of the first stripe.
    pub first: Option<u16>,
    /// The table by which it is placed; what that leaves out is striped.
    pub table: Option<TableId>,
}

/// What a writer says when it closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The size, if the writer has asked all servers since it opened, and after its own last write and cut.
    pub size: Option<u64>,
    /// When it wrote last.
    pub modified: Stamp,
}

/// What sort of thing a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A directory.
    Directory,
}

/// A file's size, as far as the name space knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Nobody has it open for writing, and this is it.
    Known(u64),
    /// Ask the servers.
    Ask {
        /// Changes with whatever may have changed the size.
        seen: u64,
    },
}

/// What there is to know of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Its number, never used again.
    pub file: FileId,
    /// What it is.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    /// Of a directory: 0.
    pub size: Size,
    /// Last read, as far as somebody said so.
    pub accessed: Stamp,
    /// When its content changed.
    pub modified: Stamp,
    /// When content or attributes changed.
    pub changed: Stamp,
    /// When it was made.
    pub created: Stamp,
    /// Of a directory: meaningless.
    pub striping: Striping,
    /// The table by which it is placed, if it is.
    pub table: Option<TableId>,
    /// In a list of inodes: the size of a truncation that has begun and not ended. Elsewhere `None`.
    pub truncating: Option<u64>,
    /// How many have it open.
    pub opens: u32,
    /// Entries of a directory.
    pub entries: u64,
}

/// A directory's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name there.
    pub name: String,
    /// What it stands for.
    pub attributes: Attributes,
}

/// An inode and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Its directory; the root is its own; 0 if it has no name any more.
    pub parent: FileId,
    /// Its name there.
    pub name: String,
    /// What it is.
    pub attributes: Attributes,
}
