//! An exclusive lock on a file, for one server process at a time.

use std::io;
use std::path::Path;

use pario_runtime::fs::{self, File};

/// An exclusive lock on a file. It is released when this value is dropped or its process ends for any
/// reason.
///
/// The lock belongs to a separate file descriptor that is never passed on. A lock on a descriptor that
/// other processes receive or map would outlive its holder.
#[derive(Debug)]
pub struct ExclusiveLock {
    _held: File,
}

impl ExclusiveLock {
    /// Locks an existing file. Returns `None` if another process holds the lock.
    pub fn try_acquire(path: &Path) -> io::Result<Option<ExclusiveLock>> {
        let held = File::open(path)?;
        Ok(fs::try_lock_file(&held)?.then_some(ExclusiveLock { _held: held }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let path = Path::new("/dev/shm").join(format!("pario-test-claim-{}", std::process::id()));
        std::fs::write(&path, b"").unwrap();
        let one = ExclusiveLock::try_acquire(&path).unwrap();
        assert!(one.is_some());
        assert!(ExclusiveLock::try_acquire(&path).unwrap().is_none());
        drop(one);
        assert!(ExclusiveLock::try_acquire(&path).unwrap().is_some());
        std::fs::remove_file(&path).unwrap();
        assert!(ExclusiveLock::try_acquire(&path).is_err());
    }
}
