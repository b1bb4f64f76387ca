//! Errors of the name space.

use std::fmt;
use std::path::{Path, PathBuf};

use pario_types::{ErrorKind, FileId};

/// The operation on a file of the journal that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Listing the directory.
    List,
    /// Locking the directory for this process.
    Lock,
    /// Opening a file.
    Open,
    /// Creating a file.
    Create,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Setting a length.
    Resize,
    /// Flushing to the medium.
    Sync,
    /// Giving a file its final name.
    Rename,
}

impl Action {
    fn words(self) -> &'static str {
        match self {
            Action::List => "cannot list",
            Action::Lock => "cannot lock",
            Action::Open => "cannot open",
            Action::Create => "cannot create",
            Action::Read => "cannot read",
            Action::Write => "cannot write",
            Action::Resize => "cannot set the length of",
            Action::Sync => "cannot flush",
            Action::Rename => "cannot rename",
        }
    }
}

/// A failed operation on the name space. Unless it says otherwise nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A text that is no path.
    #[error("{path:?} is no path: {why}")]
    BadPath {
        /// The path, or its beginning.
        path: String,
        /// The reason.
        why: &'static str,
    },
    /// A path or a part of it is too long.
    #[error("{path:?}…: path or name too long")]
    TooLong {
        /// Its beginning.
        path: String,
    },
    /// Nothing has this name.
    #[error("{path}: no such file or directory")]
    NotFound {
        /// The path, as far as the first name that is missing.
        path: String,
    },
    /// A file where a directory has to be.
    #[error("{path}: not a directory")]
    NotADirectory {
        /// The path of the file.
        path: String,
    },
    /// A directory where a file has to be.
    #[error("{path}: is a directory")]
    IsADirectory {
        /// Its path.
        path: String,
    },
    /// The name is taken.
    #[error("{path}: exists")]
    Exists {
        /// The path.
        path: String,
    },
    /// A directory that is to be removed has entries.
    #[error("{path}: directory not empty")]
    NotEmpty {
        /// Its path.
        path: String,
    },
    /// The permission bits of a file or directory forbid it.
    #[error("{path}: no {needs} permission")]
    Denied {
        /// Its path.
        path: String,
        /// Which permission is missing.
        needs: &'static str,
    },
    /// A directory cannot be moved into itself.
    #[error("{from}: cannot become {to}, a part of itself")]
    IntoItself {
        /// The directory.
        from: String,
        /// Its new name.
        to: String,
    },
    /// The operation is not possible on the root directory.
    #[error("/: not to be done with the root directory")]
    Root,
    /// A file that no longer exists, or never did.
    #[error("file {file} is gone")]
    Gone {
        /// Its id.
        file: FileId,
    },
    /// The client does not have the file open, or not for writing.
    #[error("file {file} is not open here, or not for this use")]
    NotOpen {
        /// The file.
        file: FileId,
    },
    /// The file is being truncated.
    #[error("file {file} is in the middle of a truncation; try again")]
    BeingTruncated {
        /// The file.
        file: FileId,
    },
    /// A truncation that its client did not end in time: the metadata server has resolved it, or is about to.
    #[error(
        "the truncation of file {file} was not ended in time and is void; look at its size and truncate it again"
    )]
    TruncationLost {
        /// The file.
        file: FileId,
    },
    /// The client has too many files open.
    #[error("too many open files: this client has {most}; close some")]
    TooManyOpens {
        /// The limit.
        most: usize,
    },
    /// A size beyond the limit of a file.
    #[error("{size} bytes are more than a file can have")]
    TooLarge {
        /// The size.
        size: u64,
    },
    /// An invalid striping.
    #[error(
        "no striping with {stripe} bytes from server {first}: stripes have 1 byte to 1 TiB, servers count from 0 to {}",
        servers.saturating_sub(1)
    )]
    BadStriping {
        /// Bytes of a stripe.
        stripe: u64,
        /// The first server.
        first: u16,
        /// The number of servers.
        servers: u16,
    },
    /// An invalid table, or one that names servers which do not exist.
    #[error("no table of a file's extents, or not one for servers 0 to {}", servers.saturating_sub(1))]
    BadTable {
        /// The number of servers.
        servers: u16,
    },
    /// An unknown table: it was never stored, or dropped because no file had it.
    #[error("table {hash:032x} of a file's extents is not there")]
    NoTable {
        /// Its hash.
        hash: u128,
    },
    /// The client used the id of this request for something else.
    #[error("request {request} of this client was something else before")]
    OtherRequest {
        /// The request.
        request: u64,
    },
    /// A file of the journal could not be used.
    #[error(fmt = fmt_io)]
    Io {
        /// The operation.
        action: Action,
        /// The file.
        file: PathBuf,
        /// The system's error number; 0 if it gave none.
        errno: i32,
    },
    /// Another process has the name space open.
    #[error("{}: another server has this name space open", dir.display())]
    InUse {
        /// Its directory.
        dir: PathBuf,
    },
    /// A file of the journal is damaged.
    #[error(fmt = fmt_damaged)]
    Damaged {
        /// The file.
        file: PathBuf,
        /// The offset of the first damaged record.
        offset: u64,
        /// The reason.
        why: &'static str,
    },
    /// A file of the journal is missing.
    #[error(fmt = fmt_missing)]
    Missing {
        /// The file.
        file: PathBuf,
    },
    /// The name space is missing, although the partition has been used.
    #[error(
        "{} holds no name space, though the partition has been in use: put back its files (journal.*, \
         snapshot.*, current); names cannot be made again from the stored bytes",
        dir.display()
    )]
    Lost {
        /// Its directory.
        dir: PathBuf,
    },
    /// The name space is older than the data beside it.
    #[error(
        "the name space in {} is older than the data beside it: file {stored} is stored, and it knows of numbers \
         below {next} only; put back its latest files (journal.*, snapshot.*, current)",
        dir.display()
    )]
    Older {
        /// Its directory.
        dir: PathBuf,
        /// It has assigned ids of files below this.
        next: FileId,
        /// The largest id of a stored file.
        stored: FileId,
    },
    /// A file of the journal is of another version or another partition.
    #[error("{}: {why}; start the server that it belongs to", file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
        /// The difference.
        why: &'static str,
    },
}

impl Error {
    pub(crate) fn io(action: Action, file: impl Into<PathBuf>, error: &std::io::Error) -> Error {
        Error::Io { action, file: file.into(), errno: error.raw_os_error().unwrap_or(0) }
    }

    /// The kind, on which the caller can act.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::BadPath { .. }
            | Error::TooLong { .. }
            | Error::NotADirectory { .. }
            | Error::IsADirectory { .. }
            | Error::Root => ErrorKind::BadFile,
            Error::NotFound { .. } | Error::Gone { .. } => ErrorKind::NoSuchFile,
            Error::Exists { .. } => ErrorKind::FileExists,
            Error::NotEmpty { .. } => ErrorKind::NotEmpty,
            Error::Denied { .. } => ErrorKind::Access,
            Error::IntoItself { .. }
            | Error::BadStriping { .. }
            | Error::BadTable { .. }
            | Error::TooLarge { .. } => ErrorKind::Arg,
            Error::NotOpen { .. } => ErrorKind::File,
            Error::BeingTruncated { .. } | Error::InUse { .. } => ErrorKind::FileInUse,
            Error::TruncationLost { .. } => ErrorKind::Io,
            Error::TooManyOpens { .. } => ErrorKind::NoMem,
            Error::OtherRequest { .. } | Error::NoTable { .. } | Error::Foreign { .. } => ErrorKind::Protocol,
            Error::Io { errno, .. } => match ErrorKind::from_errno(*errno) {
                kind @ (ErrorKind::NoSpace | ErrorKind::Quota | ErrorKind::ReadOnly | ErrorKind::NoMem) => {
                    kind
                }
                _ => ErrorKind::Io,
            },
            Error::Damaged { .. } | Error::Missing { .. } | Error::Lost { .. } | Error::Older { .. } => {
                ErrorKind::Damaged
            }
        }
    }

    /// The error number of POSIX, for callers that are file systems; 0 if it has none.
    pub fn errno(&self) -> i32 {
        // These numbers are the same on every architecture of Linux.
        match self {
            Error::NotFound { .. } | Error::Gone { .. } => 2,
            Error::NotOpen { .. } => 9,
            Error::Denied { .. } => 13,
            Error::Root | Error::BeingTruncated { .. } => 16,
            Error::Exists { .. } => 17,
            Error::NotADirectory { .. } => 20,
            Error::IsADirectory { .. } => 21,
            Error::BadPath { .. }
            | Error::IntoItself { .. }
            | Error::BadStriping { .. }
            | Error::BadTable { .. } => 22,
            Error::TooManyOpens { .. } => 24,
            Error::TooLarge { .. } => 27,
            Error::TooLong { .. } => 36,
            Error::NotEmpty { .. } => 39,
            Error::Io { errno, .. } => *errno,
            Error::TruncationLost { .. } => 5,
            Error::OtherRequest { .. }
            | Error::NoTable { .. }
            | Error::InUse { .. }
            | Error::Damaged { .. }
            | Error::Missing { .. }
            | Error::Lost { .. }
            | Error::Older { .. }
            | Error::Foreign { .. } => 0,
        }
    }
}

fn fmt_io(action: &Action, file: &Path, errno: &i32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let why = std::io::Error::from_raw_os_error(*errno);
    match errno {
        0 => write!(f, "{} {}", action.words(), file.display()),
        _ => write!(f, "{} {}: {why}", action.words(), file.display()),
    }
}

fn fmt_damaged(file: &Path, offset: &u64, why: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{} is damaged at byte {offset}: {why}; put back a copy of it", file.display())?;
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let current = file.with_file_name(crate::current::NAME);
    if name.starts_with("journal.") {
        write!(
            f,
            ", or go on without what follows by truncate -s {offset} {} && truncate -s 0 {}",
            file.display(),
            current.display()
        )
    } else if name == crate::current::NAME {
        write!(f, ", or accept the files beside it as they are by truncate -s 0 {}", current.display())
    } else {
        Ok(())
    }
}

fn fmt_missing(file: &Path, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{} is missing, others of its set are there; put it back", file.display())?;
    if file.file_name().is_some_and(|name| name == crate::current::NAME) {
        write!(f, ", or accept the others as they are by touch {}", file.display())?;
    }
    Ok(())
}
