//! Errors of mounting and unmounting.

use std::io;
use std::path::PathBuf;

/// The reason why a partition was not mounted or unmounted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no `/dev/fuse`, or this user has no access to it.
    #[error(
        "/dev/fuse cannot be used ({0}): load the kernel's module (modprobe fuse); in a container, start that with --device \
         /dev/fuse --cap-add SYS_ADMIN"
    )]
    Device(#[source] io::Error),
    /// The directory cannot be used.
    #[error("cannot mount at {}: {cause}", dir.display())]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// The reason.
        #[source]
        cause: io::Error,
    },
    /// The directory is not empty; its content would be hidden.
    #[error("cannot mount at {}: it is not empty; use another directory", .0.display())]
    Occupied(PathBuf),
    /// Something is mounted there already.
    #[error("something is mounted at {} already; 'pario umount' ends it if it is a partition", .0.display())]
    Taken(PathBuf),
    /// The system refused to mount it.
    #[error("cannot mount at {}: {}", dir.display(), mount_cause(cause))]
    Mount {
        /// The directory.
        dir: PathBuf,
        /// The reason.
        #[source]
        cause: io::Error,
    },
    /// No partition is mounted there.
    #[error("no partition is mounted at {}", .0.display())]
    NotMounted(PathBuf),
    /// It is in use.
    #[error("{} is in use: end what uses it (fuser -vm shows what), or say --lazy", .0.display())]
    Busy(PathBuf),
    /// The system refused to unmount it.
    #[error("cannot unmount {}: {why}", dir.display())]
    Unmount {
        /// The directory.
        dir: PathBuf,
        /// The reason.
        why: String,
    },
    /// The list of mounts or a pipe was not available.
    #[error("the system does not play along: {0}")]
    System(#[source] io::Error),
}

fn mount_cause(cause: &io::Error) -> String {
    match cause.kind() {
        io::ErrorKind::NotFound => {
            "there is no fusermount3, which users other than root need; install the package fuse3".to_owned()
        }
        _ => cause.to_string().trim().replace('\n', "; "),
    }
}
