//! Replacing a file so that a crash at any moment leaves the old one or the new one, whole.
//!
//! The new text goes to a file beside it, and to the medium, before it takes the name; then the directory
//! goes to the medium, so that a change that was reported done outlives a power failure. The file beside it
//! has a fixed name: the caller holds a lock, and what a crash leaves there is overwritten by the next.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::error::Error;

/// What is about to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make the new file, empty.
    Create,
    /// Write the first half of it.
    WriteHalf,
    /// Write the rest.
    WriteRest,
    /// Bring it to the medium.
    Sync,
    /// Give it the name.
    Rename,
    /// Bring the directory to the medium.
    SyncDirectory,
}

/// Asked before each step; an error ends the work right there, as a crash would.
pub type Check = dyn Fn(Step) -> io::Result<()> + Send + Sync;

/// Puts these bytes in the place of the file's; only this user can read them.
pub fn replace(path: &Path, bytes: &[u8], check: &Check) -> Result<(), Error> {
    let draft = path.with_extension("new");
    let failed = || Error::io("write", &draft);
    let (first, rest) = bytes.split_at(bytes.len() / 2);
    check(Step::Create).map_err(failed())?;
    let mut file = create(&draft).map_err(failed())?;
    check(Step::WriteHalf).and_then(|()| file.write_all(first)).map_err(failed())?;
    check(Step::WriteRest).and_then(|()| file.write_all(rest)).map_err(failed())?;
    check(Step::Sync).and_then(|()| file.sync_all()).map_err(failed())?;
    check(Step::Rename).and_then(|()| std::fs::rename(&draft, path)).map_err(Error::io("replace", path))?;
    let directory = path.parent().unwrap_or(Path::new("."));
    let synced = check(Step::SyncDirectory).and_then(|()| File::open(directory)?.sync_all());
    synced.map_err(Error::io("sync", directory))
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}
