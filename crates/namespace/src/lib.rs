//! A partition's name space: directories, files and their metadata, kept by its metadata server.
//!
//! Everything is in memory ([`Namespace`]). Every change is a record of a journal that is written before the change is
//! applied and acknowledged, so that a server killed at any instant loses nothing that it has acknowledged. From time to
//! time a snapshot of the whole state replaces the journal. The format is in `docs/NAMESPACE.md`.
//!
//! - A change is planned on the state, written, applied. Recovery applies the records by the same code.
//! - A repeated request (same [`Caller`]) gets the first answer, also from the server's successor.
//! - The journal does not contain the opens: clients report them to a new server ([`Namespace::reopen`]). It only notes
//!   that a file's size is no longer certain, before the first writer gets the file.
//! - This crate has no clock and no network: callers provide the time and act on [`Namespace::take_truncations`] and
//!   [`Namespace::take_orphans`]. It reaches its files through [`Disk`].
#![forbid(unsafe_code)]

mod attributes;
mod change;
mod codec;
mod current;
mod disk;
mod error;
mod files;
mod frames;
mod inodes;
mod invariants;
mod journal;
mod listing;
mod names;
mod namespace;
mod opens;
mod path;
mod requests;
mod snapshot;
mod state;
mod tables;
mod truncations;

pub use attributes::OpenedFile;
pub use disk::{Disk, DiskDirectory, DiskFile};
pub use error::{Action, Error};
pub use namespace::{Caller, Namespace, NamespaceConfig, NamespaceCounts, RecoveryReport};
pub use pario_metadata::{
    Attributes, CloseReport, CreateMode, DirectoryEntry, FileSize, Inode, InodeKind, LayoutRequest,
    OpenAccess,
};
pub use path::{LONGEST_NAME, LONGEST_PATH};
pub use truncations::UnfinishedTruncation;

use pario_types::FileId;

/// The root directory.
pub const ROOT: FileId = FileId(1);
