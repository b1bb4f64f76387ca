//! Named files in a memory file system, of which segments are made.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use pario_runtime::fs::OpenOptions;

/// Creates a file that only its user may access, and that must not exist yet.
pub(crate) fn create(path: &Path) -> io::Result<OwnedFd> {
    open_with(OpenOptions::new().create_new(true), path)
}

/// Opens an existing file.
pub(crate) fn open(path: &Path) -> io::Result<OwnedFd> {
    open_with(&mut OpenOptions::new(), path)
}

fn open_with(options: &mut OpenOptions, path: &Path) -> io::Result<OwnedFd> {
    Ok(options.read(true).write(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(path)?.into())
}
