//! Directories and files of this user alone: they are created so, and checked before they are trusted.

use pario_runtime::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use crate::error::{Error, UnsafePath};

/// Whether links are followed in a check.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Links are followed: the user may have moved the directory.
    Followed,
    /// Links are not followed: others can create them here.
    Refused,
}

/// Makes sure that a directory exists that only this user can use; those above it are created as well.
pub fn directory(path: &Path, links: Links) -> Result<(), Error> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound && links == Links::Followed => {
            DirBuilder::new().mode(0o700).recursive(true).create(path).map_err(Error::io("make", path))?;
        }
        Err(error) => return Err(Error::io("make", path)(error)),
    }
    let metadata = match links {
        Links::Followed => fs::metadata(path),
        Links::Refused => fs::symlink_metadata(path),
    };
    let metadata = metadata.map_err(Error::io("look at", path))?;
    if !metadata.is_dir() {
        return Err(Error::Unsafe { path: path.to_owned(), reason: UnsafePath::NotADirectory });
    }
    private(path, &metadata)
}

/// Checks that a file or directory belongs to this user and gives others no rights.
pub fn private(path: &Path, metadata: &Metadata) -> Result<(), Error> {
    let unsafe_by = |reason| Err(Error::Unsafe { path: path.to_owned(), reason });
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return unsafe_by(UnsafePath::Owner(metadata.uid()));
    }
    if metadata.mode() & 0o077 != 0 {
        return unsafe_by(UnsafePath::Mode(metadata.mode() & 0o7777));
    }
    Ok(())
}
