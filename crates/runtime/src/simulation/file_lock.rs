//! Locks on files that simulated processes hold.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use super::scheduler;

/// Locks an open file for the current process, until the process ends; `false` if another process has locked it.
pub fn try_lock_file(file: &impl AsFd) -> io::Result<bool> {
    scheduler::point();
    let status = File::from(file.as_fd().try_clone_to_owned()?).metadata()?;
    let key = (status.dev(), status.ino());
    scheduler::with(|scheduler| {
        let owner = scheduler.owner();
        let holder = scheduler.file_locks.get(&key).copied();
        let is_held = holder.is_some_and(|holder| holder != owner && scheduler.is_alive(holder));
        if !is_held {
            scheduler.file_locks.insert(key, owner);
        }
        Ok(!is_held)
    })
}
