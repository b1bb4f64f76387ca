//! What can go wrong with mounts.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why something was not mounted or unmounted.
#[derive(Debug)]
pub enum Error {
    /// There is no `/dev/fuse`, or it is not for this user.
    Device(io::Error),
    /// The directory cannot be used.
    Directory {
        /// Which.
        dir: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// There is something in the directory, which would be hidden.
    Occupied(PathBuf),
    /// Something is mounted there.
    Taken(PathBuf),
    /// The system did not mount it.
    Mount {
        /// Where.
        dir: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// No partition is mounted there.
    NotMounted(PathBuf),
    /// It is in use.
    Busy(PathBuf),
    /// The system did not unmount it.
    Unmount {
        /// Where.
        dir: PathBuf,
        /// Why.
        why: String,
    },
    /// The list of mounts or a pipe was not to be had.
    System(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Device(cause) => write!(
                f,
                "/dev/fuse cannot be used ({cause}): load the kernel's module (modprobe fuse); in a container, \
                 start that with --device /dev/fuse --cap-add SYS_ADMIN"
            ),
            Error::Directory { dir, cause } => write!(f, "cannot mount at {}: {cause}", dir.display()),
            Error::Occupied(dir) => {
                write!(f, "cannot mount at {}: it is not empty; use another directory", dir.display())
            }
            Error::Taken(dir) => write!(
                f,
                "something is mounted at {} already; 'pario umount' ends it if it is a partition",
                dir.display()
            ),
            Error::Mount { dir, cause } if cause.kind() == io::ErrorKind::NotFound => write!(
                f,
                "cannot mount at {}: there is no fusermount3, which users other than root need; \
                 install the package fuse3",
                dir.display()
            ),
            Error::Mount { dir, cause } => {
                let cause = cause.to_string();
                write!(f, "cannot mount at {}: {}", dir.display(), cause.trim().replace('\n', "; "))
            }
            Error::NotMounted(dir) => write!(f, "no partition is mounted at {}", dir.display()),
            Error::Busy(dir) => write!(
                f,
                "{} is in use: end what uses it (fuser -vm shows what), or say --lazy",
                dir.display()
            ),
            Error::Unmount { dir, why } => write!(f, "cannot unmount {}: {why}", dir.display()),
            Error::System(cause) => write!(f, "the system does not play along: {cause}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Device(cause)
            | Error::Directory { cause, .. }
            | Error::Mount { cause, .. }
            | Error::System(cause) => Some(cause),
            _ => None,
        }
    }
}
