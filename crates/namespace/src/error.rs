//! What can go wrong in the name space.

use std::fmt;
use std::path::PathBuf;

use pario_types::{ErrorKind, FileId};

/// What was being done with a file of the journal when the system said no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Looking for what is there.
    List,
    /// Taking the directory for this process alone.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A path that cannot be one.
    BadPath {
        /// The path, or its beginning.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A path or a part of it is too long.
    TooLong {
        /// Its beginning.
        path: String,
    },
    /// Nothing has this name.
    NotFound {
        /// The path, as far as the first name that is missing.
        path: String,
    },
    /// A file where a directory has to be.
    NotADirectory {
        /// The path of the file.
        path: String,
    },
    /// A directory where a file has to be.
    IsADirectory {
        /// Its path.
        path: String,
    },
    /// The name is taken.
    Exists {
        /// The path.
        path: String,
    },
    /// A directory that is to go has entries.
    NotEmpty {
        /// Its path.
        path: String,
    },
    /// The permission bits of a file or directory say no.
    Denied {
        /// Its path.
        path: String,
        /// Which permission is missing.
        needs: &'static str,
    },
    /// A directory cannot become part of itself.
    IntoItself {
        /// The directory.
        from: String,
        /// Its new name.
        to: String,
    },
    /// Not to be done with the root directory.
    Root,
    /// A file that is no longer there, or never was.
    Gone {
        /// Its id.
        file: FileId,
    },
    /// The client does not have the file open, or not for writing.
    NotOpen {
        /// The file.
        file: FileId,
    },
    /// The file is in the middle of a truncation.
    BeingTruncated {
        /// The file.
        file: FileId,
    },
    /// A truncation that its client did not end in time: the metadata server has resolved it, or is about to.
    TruncationLost {
        /// The file.
        file: FileId,
    },
    /// The client has too many files open.
    TooManyOpens {
        /// How many it may have.
        most: usize,
    },
    /// A size beyond what a file can have.
    TooLarge {
        /// The size.
        size: u64,
    },
    /// A striping that cannot be.
    BadStriping {
        /// Bytes of a stripe.
        stripe: u64,
        /// The first server.
        first: u16,
        /// How many servers there are.
        servers: u16,
    },
    /// A table that is none, or names other servers than there are.
    BadTable {
        /// How many servers there are.
        servers: u16,
    },
    /// A table that is not there: it was never put, or forgotten because no file had it.
    NoTable {
        /// Its hash.
        hash: u128,
    },
    /// The number of this request was used by the same client for something else.
    OtherRequest {
        /// The request.
        request: u64,
    },
    /// A file of the journal could not be used.
    Io {
        /// What was tried.
        action: Action,
        /// With which file.
        file: PathBuf,
        /// The system's number; 0 if it gave none.
        errno: i32,
    },
    /// Another process has the name space open.
    InUse {
        /// Its directory.
        dir: PathBuf,
    },
    /// A file of the journal is damaged.
    Damaged {
        /// The file.
        file: PathBuf,
        /// Where the first damaged record begins.
        offset: u64,
        /// What was found.
        why: &'static str,
    },
    /// A file of the journal is missing.
    Missing {
        /// The file.
        file: PathBuf,
    },
    /// There is no name space, though there was one before.
    Lost {
        /// Where it was.
        dir: PathBuf,
    },
    /// The name space is older than the files' bytes that are stored beside it.
    Older {
        /// Where it is.
        dir: PathBuf,
        /// It has given out numbers of files below this.
        next: FileId,
        /// The largest number of a file that is stored.
        stored: FileId,
    },
    /// A file of the journal is of another version or another partition.
    Foreign {
        /// The file.
        file: PathBuf,
        /// What is different.
        why: &'static str,
    },
}

impl Error {
    pub(crate) fn io(action: Action, file: impl Into<PathBuf>, error: &std::io::Error) -> Error {
        Error::Io { action, file: file.into(), errno: error.raw_os_error().unwrap_or(0) }
    }

    /// The kind that the caller can act on.
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

    /// The number by which POSIX knows this, for callers that are file systems; 0 if it has none.
    pub fn errno(&self) -> i32 {
        // Fixed on every architecture of Linux.
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::BadPath { path, why } => write!(f, "{path:?} is no path: {why}"),
            Error::TooLong { path } => write!(f, "{path:?}…: path or name too long"),
            Error::NotFound { path } => write!(f, "{path}: no such file or directory"),
            Error::NotADirectory { path } => write!(f, "{path}: not a directory"),
            Error::IsADirectory { path } => write!(f, "{path}: is a directory"),
            Error::Exists { path } => write!(f, "{path}: exists"),
            Error::NotEmpty { path } => write!(f, "{path}: directory not empty"),
            Error::Denied { path, needs } => write!(f, "{path}: no {needs} permission"),
            Error::IntoItself { from, to } => write!(f, "{from}: cannot become {to}, a part of itself"),
            Error::Root => write!(f, "/: not to be done with the root directory"),
            Error::Gone { file } => write!(f, "file {file} is gone"),
            Error::NotOpen { file } => write!(f, "file {file} is not open here, or not for this use"),
            Error::BeingTruncated { file } => {
                write!(f, "file {file} is in the middle of a truncation; try again")
            }
            Error::TruncationLost { file } => write!(
                f,
                "the truncation of file {file} was not ended in time and is void; look at its size and truncate it again"
            ),
            Error::TooManyOpens { most } => {
                write!(f, "too many open files: this client has {most}; close some")
            }
            Error::TooLarge { size } => write!(f, "{size} bytes are more than a file can have"),
            Error::BadStriping { stripe, first, servers } => write!(
                f,
                "no striping with {stripe} bytes from server {first}: stripes have 1 byte to 1 TiB, \
                 servers count from 0 to {}",
                servers.saturating_sub(1)
            ),
            Error::BadTable { servers } => {
                write!(
                    f,
                    "no table of a file's extents, or not one for servers 0 to {}",
                    servers.saturating_sub(1)
                )
            }
            Error::NoTable { hash } => write!(f, "table {hash:032x} of a file's extents is not there"),
            Error::OtherRequest { request } => {
                write!(f, "request {request} of this client was something else before")
            }
            Error::Io { action, file, errno } => {
                let why = std::io::Error::from_raw_os_error(*errno);
                match errno {
                    0 => write!(f, "{} {}", action.words(), file.display()),
                    _ => write!(f, "{} {}: {why}", action.words(), file.display()),
                }
            }
            Error::InUse { dir } => write!(f, "{}: another server has this name space open", dir.display()),
            Error::Damaged { file, offset, why } => {
                write!(f, "{} is damaged at byte {offset}: {why}; put back a copy of it", file.display())?;
                let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                let current = file.with_file_name(crate::current::NAME);
                match name.starts_with("journal.") {
                    true => write!(
                        f,
                        ", or go on without what follows by truncate -s {offset} {} && truncate -s 0 {}",
                        file.display(),
                        current.display()
                    ),
                    false if name == crate::current::NAME => write!(
                        f,
                        ", or accept the files beside it as they are by truncate -s 0 {}",
                        current.display()
                    ),
                    false => Ok(()),
                }
            }
            Error::Missing { file } => {
                write!(f, "{} is missing, others of its set are there; put it back", file.display())?;
                match file.file_name().is_some_and(|name| name == crate::current::NAME) {
                    true => write!(f, ", or accept the others as they are by touch {}", file.display()),
                    false => Ok(()),
                }
            }
            Error::Lost { dir } => write!(
                f,
                "{} holds no name space, though the partition has been in use: put back its files (journal.*, \
                 snapshot.*, current); names cannot be made again from the stored bytes",
                dir.display()
            ),
            Error::Older { dir, next, stored } => write!(
                f,
                "the name space in {} is older than the data beside it: file {stored} is stored, and it knows of numbers \
                 below {next} only; put back its latest files (journal.*, snapshot.*, current)",
                dir.display()
            ),
            Error::Foreign { file, why } => {
                write!(f, "{}: {why}; start the server that it belongs to", file.display())
            }
        }
    }
}

impl std::error::Error for Error {}
