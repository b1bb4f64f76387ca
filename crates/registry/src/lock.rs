//! A lock between processes, on this host and on others that share the file system: `flock` on a file that names its
//! holder. The kernel releases it when its holder ends, for whatever reason.

use pario_runtime::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pario_runtime::time::Instant;
use pario_runtime::{host, process};

use crate::error::Error;

/// The interval between attempts to take a held lock. The kernel can wait for a lock, but not with a deadline.
const PAUSE: Duration = Duration::from_millis(5);

/// A lock that is held until this is dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock in that file; `what` names its purpose.
    pub fn take(path: &Path, what: &str, deadline: Duration) -> Result<Lock, Error> {
        let begun = Instant::now();
        loop {
            let file = open(path).map_err(Error::io("open the lock", path))?;
            if try_lock(&file).map_err(Error::io("lock", path))? {
                // The previous holder may have removed the file meanwhile: then a newer one is used.
                if is_at(&file, path).map_err(Error::io("look at", path))? {
                    let mut lock = Lock { file, path: path.to_owned() };
                    // This is only for the error messages of others: the lock is valid without it.
                    let _ = lock.sign();
                    return Ok(lock);
                }
                continue;
            }
            let waited = begun.elapsed();
            if waited >= deadline {
                return Err(Error::Locked { what: what.to_owned(), holder: holder(path), waited });
            }
            pario_runtime::thread::sleep(PAUSE.min(deadline - waited));
        }
    }

    /// Whether its file still has its name.
    pub fn is_there(&self) -> bool {
        is_at(&self.file, &self.path).unwrap_or(true)
    }

    /// The process of this host that holds the lock in that file; `None` if there is none. 0 if the holder has not written
    /// its id.
    pub fn holder(path: &Path) -> Result<Option<u32>, Error> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(Error::io("open the lock", path))?,
        };
        if try_lock(&file).map_err(Error::io("lock", path))? {
            return Ok(None);
        }
        let holder = holder(path);
        let pid = holder.strip_prefix("process ").and_then(|rest| rest.split(' ').next()?.parse().ok());
        Ok(Some(pid.unwrap_or(0)))
    }

    /// Releases it and removes its file.
    pub fn remove(self) -> Result<(), Error> {
        pario_runtime::fs::remove_file(&self.path).map_err(Error::io("remove", &self.path))
    }

    fn sign(&mut self) -> io::Result<()> {
        let text = format!("process {} on {}\n", process::id(), host::name());
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(text.as_bytes())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // So that no other process reads the name of a former holder. Closing the file releases the lock.
        let _ = self.file.set_len(0);
    }
}

/// Takes the file's lock for this open file alone; `false` if another has it. Closing the file releases it.
fn try_lock(file: &File) -> io::Result<bool> {
    fs::try_lock_file(file)
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(there) => Ok((held.dev(), held.ino()) == (there.dev(), there.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The holder that the lock's file names.
fn holder(path: &Path) -> String {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(300).read_to_string(&mut text));
    match text.lines().next() {
        Some(line) if read.is_ok() && !line.is_empty() => line.escape_debug().to_string(),
        _ => "another process".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::tests::Scratch;

    #[test]
    fn a_lock_excludes_and_names_its_holder() {
        let scratch = Scratch::new("lock");
        let path = scratch.path("a.lock");
        let lock = Lock::take(&path, "the thing", Duration::ZERO).expect("free");
        let error = Lock::take(&path, "the thing", Duration::from_millis(20)).expect_err("taken");
        let text = error.to_string();
        assert!(text.contains(&format!("the thing is in use by process {}", std::process::id())), "{text}");
        drop(lock);
        Lock::take(&path, "the thing", Duration::ZERO).expect("free again").remove().expect("removed");
        assert!(!path.exists());
        Lock::take(&path, "the thing", Duration::ZERO).expect("free, with a new file");
    }

    #[test]
    fn a_lock_whose_file_is_removed_has_one_holder() {
        let scratch = Scratch::new("lock-removed");
        let path = scratch.path("a.lock");
        let inside = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let lock = Lock::take(&path, "it", Duration::from_secs(9)).expect("in time");
                        assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                        inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        lock.remove().expect("removed");
                    }
                });
            }
        });
    }
}
