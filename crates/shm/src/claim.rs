//! A file that only one process may serve at a time.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// The right to be the one who serves a file, held until this is dropped or its process ends, however it
/// ends.
///
/// It is a lock of a descriptor of its own, which nobody else gets: a lock of a descriptor that is passed on,
/// or mapped by others, would outlive its holder.
#[derive(Debug)]
pub struct Claim {
    _held: OwnedFd,
}

impl Claim {
    /// Claims an existing file; `None` if another holds it.
    pub fn take(path: &Path) -> io::Result<Option<Claim>> {
        let held = OwnedFd::from(std::fs::File::open(path)?);
        // SAFETY: no memory involved.
        if unsafe { libc::flock(held.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return Ok(Some(Claim { _held: held }));
        }
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            error => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let path = Path::new("/dev/shm").join(format!("pario-test-claim-{}", std::process::id()));
        std::fs::write(&path, b"").unwrap();
        let one = Claim::take(&path).unwrap();
        assert!(one.is_some());
        assert!(Claim::take(&path).unwrap().is_none());
        drop(one);
        assert!(Claim::take(&path).unwrap().is_some());
        std::fs::remove_file(&path).unwrap();
        assert!(Claim::take(&path).is_err());
    }
}
