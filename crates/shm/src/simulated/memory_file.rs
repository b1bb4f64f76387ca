//! Named segments of a simulated host: the names are simulated, the memory is real.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;

use pario_runtime::fs;
use pario_runtime::simulation::limits::{self, LimitedResource};

/// Creates a file that must not exist yet.
pub(crate) fn create(path: &Path) -> io::Result<OwnedFd> {
    limits::take(LimitedResource::Memory, "memory")?;
    // SAFETY: the name is a C string that outlives the call.
    let memory = unsafe { libc::memfd_create(c"pario".as_ptr(), libc::MFD_CLOEXEC) };
    if memory < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor without another owner.
    let memory = unsafe { OwnedFd::from_raw_fd(memory) };
    fs::create_segment(path, memory.try_clone()?)?;
    Ok(memory)
}

/// Opens an existing file.
pub(crate) fn open(path: &Path) -> io::Result<OwnedFd> {
    fs::open_segment(path)
}
