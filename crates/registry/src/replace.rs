//! Replacing a file so that a crash at any moment leaves the complete old one or new one.
//!
//! The new text is written to a file beside it, and synced, before the rename; then the directory is synced, so that a
//! reported change survives a power failure. The file beside it has a fixed name: the caller holds a lock, and the next
//! call overwrites a file that a crash has left.

use pario_runtime::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::error::Error;

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Create the new file, empty.
    Create,
    /// Write the first half of it.
    WriteHalf,
    /// Write the rest.
    WriteRest,
    /// Sync it.
    Sync,
    /// Rename it.
    Rename,
    /// Sync the directory.
    SyncDirectory,
}

/// Called before each step; an error ends the work there, as a crash would.
pub type Check = dyn Fn(Step) -> io::Result<()> + Send + Sync;

/// Replaces the content of the file; only this user can read it.
pub fn replace(path: &Path, bytes: &[u8], check: &Check) -> Result<(), Error> {
    let is_in_place = pario_runtime::is_planted("registry-written-in-place");
    let draft = if is_in_place { path.to_owned() } else { path.with_extension("new") };
    let failed = || Error::io("write", &draft);
    let (first, rest) = bytes.split_at(bytes.len() / 2);
    check(Step::Create).map_err(failed())?;
    let mut file = create(&draft).map_err(failed())?;
    check(Step::WriteHalf).and_then(|()| file.write_all(first)).map_err(failed())?;
    check(Step::WriteRest).and_then(|()| file.write_all(rest)).map_err(failed())?;
    check(Step::Sync).and_then(|()| file.sync_all()).map_err(failed())?;
    check(Step::Rename)
        .and_then(|()| pario_runtime::fs::rename(&draft, path))
        .map_err(Error::io("replace", path))?;
    let directory = path.parent().unwrap_or(Path::new("."));
    let synced = check(Step::SyncDirectory).and_then(|()| File::open(directory)?.sync_all());
    synced.map_err(Error::io("sync", directory))
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}
