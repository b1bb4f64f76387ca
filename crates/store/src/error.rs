//! Errors of storage: the operation, the file, and the system's own error number.

use std::io;
use std::path::{Path, PathBuf};

use pario_types::{ErrorKind, FileId};

/// The result of a call on a store.
pub type Result<T> = std::result::Result<T, Error>;

/// The operation that the system refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreAction {
    /// Opening a file or directory.
    Open,
    /// Creating a file or directory.
    Create,
    /// Locking the directory for this server.
    Lock,
    /// Reading the names in a directory.
    List,
    /// Querying sizes or space.
    Inspect,
    /// Reading bytes.
    Read,
    /// Writing bytes.
    Write,
    /// Setting a size.
    Resize,
    /// Allocating space.
    Reserve,
    /// Bringing bytes to the medium.
    Sync,
    /// Removing a name.
    Remove,
}

impl StoreAction {
    fn words(self) -> &'static str {
        match self {
            StoreAction::Open => "cannot open",
            StoreAction::Create => "cannot create",
            StoreAction::Lock => "cannot lock",
            StoreAction::List => "cannot list",
            StoreAction::Inspect => "cannot inspect",
            StoreAction::Read => "cannot read",
            StoreAction::Write => "cannot write",
            StoreAction::Resize => "cannot set the size of",
            StoreAction::Reserve => "cannot reserve room in",
            StoreAction::Sync => "cannot flush",
            StoreAction::Remove => "cannot remove",
        }
    }
}

/// A failed call on a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A block's bytes differ from those that were written.
    #[error("block {block} of file {file} is damaged: its checksum differs; write it anew or accept it")]
    Damaged {
        /// The file of the part.
        file: FileId,
        /// The block.
        block: u64,
    },
    /// A system call failed.
    #[error("{} {}: {}", .action.words(), .path.display(), io::Error::from_raw_os_error(*.errno))]
    Io {
        /// The operation.
        action: StoreAction,
        /// The file or directory.
        path: PathBuf,
        /// The system's error number.
        errno: i32,
    },
    /// An offset beyond 2^63 - 1.
    #[error("an offset in file {file} is beyond 2^63 - 1; ask for less")]
    TooFar {
        /// The file of the part.
        file: FileId,
    },
    /// An order with duplicate or impossible blocks.
    #[error("the order of blocks of file {file} names one twice or one that cannot be")]
    Order {
        /// The file of the part.
        file: FileId,
    },
    /// The checksums of a part are missing or unreadable: none of its bytes can be verified any more.
    #[error(
        "the stored part of file {file} is lost: {} is missing or damaged; put it back and restart the server, or accept the \
         loss with `pario check --repair --accept-damaged`",
        .path.display()
    )]
    Lost {
        /// The file of the part.
        file: FileId,
        /// The path of the checksums.
        path: PathBuf,
    },
    /// The list of the parts that must exist is missing or damaged.
    #[error(
        "{0} is missing or damaged: it is not known which parts there must be; put it back, or accept the parts that are \
         there by making an empty file {0}.rebuild",
        .path.display()
    )]
    NoManifest {
        /// The path of the list.
        path: PathBuf,
    },
    /// A block size that is not a power of two from 4 KiB to 1 GiB.
    #[error("a block size of {bytes} bytes; take a power of two from 4 KiB to 1 GiB")]
    BlockSize {
        /// The size.
        bytes: usize,
    },
    /// Another server uses the directory.
    #[error("{} is in use by another server; stop it or give another directory", .path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The directory is another store than the expected one.
    #[error("{} belongs to another store: {what} is {found}, not {wanted}; give another directory", .path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// The property that differs.
        what: &'static str,
        /// Its value in the directory.
        found: String,
        /// The expected value.
        wanted: String,
    },
    /// The directory has parts of files, but its format file is missing or invalid.
    #[error("{} is missing or damaged; restore it, or give another directory", .path.display())]
    NoFormat {
        /// The format file.
        path: PathBuf,
    },
}

impl Error {
    /// The error of a system call.
    pub(crate) fn io(action: StoreAction, path: &Path, error: io::Error) -> Error {
        Error::Io { action, path: path.to_owned(), errno: error.raw_os_error().unwrap_or(libc::EIO) }
    }

    /// The kind, on which a caller can act.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Damaged { .. } | Error::Lost { .. } => ErrorKind::Damaged,
            Error::NoFormat { .. } | Error::NoManifest { .. } => ErrorKind::Damaged,
            Error::Io { errno, .. } => ErrorKind::from_errno(*errno),
            Error::TooFar { .. } | Error::BlockSize { .. } | Error::Order { .. } => ErrorKind::Arg,
            Error::InUse { .. } => ErrorKind::FileInUse,
            Error::Foreign { .. } => ErrorKind::Protocol,
        }
    }

    /// The system's error number; 0 if there is none.
    pub fn errno(&self) -> i32 {
        match self {
            Error::Io { errno, .. } => *errno,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_kinds_and_one_line() {
        let path = PathBuf::from("/data/parts/01/x");
        let full = Error::Io { action: StoreAction::Write, path: path.clone(), errno: libc::ENOSPC };
        assert_eq!((full.kind(), full.errno()), (ErrorKind::NoSpace, libc::ENOSPC));
        let damaged = Error::Damaged { file: FileId(7), block: 3 };
        assert_eq!((damaged.kind(), damaged.errno()), (ErrorKind::Damaged, 0));
        let foreign = Error::Foreign { path, what: "server", found: "1".into(), wanted: "2".into() };
        assert_eq!(foreign.kind(), ErrorKind::Protocol);
        for error in [full, damaged, foreign] {
            assert!(!error.to_string().contains('\n'));
        }
    }
}
