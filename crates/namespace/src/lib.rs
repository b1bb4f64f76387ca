//! A partition's name space: directories, files and what is known of them, kept by its metadata server.
//!
//! Everything is in memory ([`Namespace`]); every change is one record of a journal that is written before
//! the change is made and acknowledged, so that a server killed at any instant loses nothing that it has
//! answered. Now and then a snapshot of the whole state takes the journal's place. The format is in
//! `docs/NAMESPACE.md`.
//!
//! - A change is planned on the state, written, applied. Recovery applies what was written by the same code.
//! - Who repeats a request (same [`Caller`]) gets the first answer, also from the server's successor.
//! - Who has what open is not written down: clients tell a new server ([`Namespace::reopen`]). Only that a
//!   file's size is no longer certain is in the journal, before the first writer gets the file.
//! - This crate knows no clock and no network: callers bring the time and act on
//!   [`Namespace::take_truncations`] and [`Namespace::take_orphans`]. Its files are reached through [`Disk`].
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

pub use attributes::Opened;
pub use disk::{Directory, Disk, DiskFile};
pub use error::{Action, Error};
pub use namespace::{Caller, Config, Counts, Namespace, Recovered};
pub use pario_metadata::{
    Attributes, CloseReport, CreateMode, DirectoryEntry, FileSize, Inode, InodeKind, LayoutRequest,
    OpenAccess,
};
pub use path::{LONGEST_NAME, LONGEST_PATH};
pub use truncations::Unfinished;

use pario_types::FileId;

/// The root directory.
pub const ROOT: FileId = FileId(1);
