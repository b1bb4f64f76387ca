//! Errors of one plain file: the operation, the offset, and the system's own error number.

use pario_types::{ErrorKind, Offset};
use std::path::Path;
use std::sync::Arc;

/// The operation that the system refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOperation {
    /// Opening or creating the file.
    Open,
    /// Reading bytes.
    Read,
    /// Writing bytes.
    Write,
    /// Waiting for a byte-range lock.
    Lock,
    /// Asking for the size or the kind of the file.
    Inspect,
    /// Setting the size.
    Resize,
    /// Reserving space.
    Preallocate,
    /// Flushing to the storage.
    Sync,
    /// Removing the name.
    Delete,
}

impl FileOperation {
    fn words(self) -> &'static str {
        match self {
            FileOperation::Open => "cannot open",
            FileOperation::Read => "cannot read",
            FileOperation::Write => "cannot write",
            FileOperation::Lock => "cannot lock a range of",
            FileOperation::Inspect => "cannot inspect",
            FileOperation::Resize => "cannot set the size of",
            FileOperation::Preallocate => "cannot reserve space for",
            FileOperation::Sync => "cannot flush",
            FileOperation::Delete => "cannot delete",
        }
    }
}

/// A failed operation on a plain file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{}", system_text(*action, path, *at, *errno))]
    System {
        /// The operation.
        action: FileOperation,
        /// On which file.
        path: Arc<Path>,
        /// At which byte of it, where that has a meaning.
        at: Option<Offset>,
        /// The number of leading bytes of the request that are certainly done.
        done: u64,
        /// The system's error number.
        errno: i32,
    },
    /// A write call accepted no byte and gave no reason.
    #[error("cannot write {} at byte {at}: the system accepted no byte", path.display())]
    NoProgress {
        /// The file.
        path: Arc<Path>,
        /// The offset at which it stopped.
        at: Offset,
        /// The number of leading bytes of the request that are certainly done.
        done: u64,
    },
    /// The name is a directory, a pipe or a socket.
    #[error("{} is not a file; name a regular file", path.display())]
    NotAFile {
        /// The name.
        path: Arc<Path>,
    },
    /// A read on a file opened for writing only.
    #[error("{} is open for writing only", path.display())]
    NotReadable {
        /// The file.
        path: Arc<Path>,
    },
    /// A write on a file opened for reading only.
    #[error("{} is open for reading only", path.display())]
    NotWritable {
        /// The file.
        path: Arc<Path>,
    },
    /// The file system has no byte-range locks, and the operation cannot do without.
    #[error("the file system of {} has no byte-range locks, so atomic mode cannot be had there: {}", path.display(), reason(*errno))]
    NoLocks {
        /// The file.
        path: Arc<Path>,
        /// The system's error number.
        errno: i32,
    },
    /// The calling thread holds a lock guard that overlaps the range without covering it.
    #[error("{} at byte {at}: this thread holds a lock that overlaps the range but does not cover it", path.display())]
    WouldDeadlock {
        /// The file.
        path: Arc<Path>,
        /// Start of the range.
        at: Offset,
    },
    /// Another process held a lock on a part of the range until the time-out.
    #[error(
        "cannot lock a range of {} at byte {at}: {} kept a lock on it until the deadline; see whether that process is stopped \
         or hangs",
        path.display(),
        holder.map_or("another process".to_owned(), |pid| format!("process {pid} of this host"))
    )]
    LockHeld {
        /// The file.
        path: Arc<Path>,
        /// Start of the range.
        at: Offset,
        /// The process of this host that holds it, if that is known.
        holder: Option<u32>,
    },
    /// The request reaches beyond the largest offset a file can have, or its view shows no byte.
    #[error("{len} bytes from there do not fit any file ({})", path.display())]
    OutOfRange {
        /// The file.
        path: Arc<Path>,
        /// Bytes asked for.
        len: u64,
    },
    /// The memory given is shorter than the request.
    #[error("{len} bytes asked for, but the memory holds {held}")]
    ShortBuffer {
        /// Bytes asked for.
        len: u64,
        /// Bytes that the memory holds from the place given.
        held: u64,
    },
}

impl Error {
    pub(crate) fn system(action: FileOperation, path: &Arc<Path>, errno: i32) -> Error {
        Error::System { action, path: path.clone(), at: None, done: 0, errno }
    }

    /// The kind that the caller can act on.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::System { errno, .. } => ErrorKind::from_errno(*errno),
            Error::NoProgress { .. } => ErrorKind::Io,
            Error::NotAFile { .. } => ErrorKind::BadFile,
            Error::NotReadable { .. } => ErrorKind::Access,
            Error::NotWritable { .. } => ErrorKind::ReadOnly,
            Error::NoLocks { .. } => ErrorKind::UnsupportedOperation,
            Error::WouldDeadlock { .. } => ErrorKind::Intern,
            Error::LockHeld { .. } => ErrorKind::FileInUse,
            Error::OutOfRange { .. } => ErrorKind::Arg,
            Error::ShortBuffer { .. } => ErrorKind::Buffer,
        }
    }

    /// The number of leading bytes of the request that are certainly in the file (or in the memory, for a read).
    pub fn done(&self) -> u64 {
        match self {
            Error::System { done, .. } | Error::NoProgress { done, .. } => *done,
            _ => 0,
        }
    }

    /// The file offset, where it is known.
    pub fn at(&self) -> Option<Offset> {
        match self {
            Error::System { at, .. } => *at,
            Error::NoProgress { at, .. } | Error::WouldDeadlock { at, .. } | Error::LockHeld { at, .. } => {
                Some(*at)
            }
            _ => None,
        }
    }

    /// The system's error number, where there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::System { errno, .. } | Error::NoLocks { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    /// The same error after `more` leading bytes that were done before the failing part began.
    pub(crate) fn after(mut self, more: u64) -> Error {
        if let Error::System { done, .. } | Error::NoProgress { done, .. } = &mut self {
            *done += more;
        }
        self
    }

    /// The same error where nothing is known about the leading bytes.
    pub(crate) fn with_nothing_done(mut self) -> Error {
        if let Error::System { done, .. } | Error::NoProgress { done, .. } = &mut self {
            *done = 0;
        }
        self
    }
}

fn system_text(action: FileOperation, path: &Path, at: Option<Offset>, errno: i32) -> String {
    let place = at.map_or(String::new(), |at| format!(" at byte {at}"));
    format!("{} {}{place}: {}", action.words(), path.display(), reason(errno))
}

fn reason(errno: i32) -> std::io::Error {
    std::io::Error::from_raw_os_error(errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_where_and_why() {
        let path: Arc<Path> = Arc::from(Path::new("/data/x"));
        let e = Error::System {
            action: FileOperation::Write,
            path,
            at: Some(Offset(42)),
            done: 7,
            errno: libc::ENOSPC,
        };
        assert_eq!(e.to_string(), "cannot write /data/x at byte 42: No space left on device (os error 28)");
        assert_eq!((e.kind(), e.done(), e.errno()), (ErrorKind::NoSpace, 7, Some(28)));
        assert_eq!(e.clone().after(3).done(), 10);
        assert_eq!(e.with_nothing_done().done(), 0);
    }
}
