//! A directory of one test, deleted when the test is over.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(0);

/// An empty directory; in memory where possible.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates one.
    pub fn new() -> Scratch {
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = base.join(format!("pario-store-test-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).expect("a fresh directory");
        Scratch(path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
