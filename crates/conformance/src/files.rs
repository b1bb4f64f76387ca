//! Scratch directories that clean up after themselves, and byte comparison of files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A temporary directory, removed when dropped unless `PARIO_TEST_KEEP` is set.
#[derive(Debug)]
pub struct Scratch {
    dir: PathBuf,
}

/// Makes a fresh scratch directory.
pub fn scratch() -> Scratch {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let base = std::env::temp_dir();
    loop {
        let serial = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = base.join(format!("pario-test-{}-{serial}", std::process::id()));
        match fs::create_dir(&dir) {
            Ok(()) => return Scratch { dir },
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => panic!("cannot make the scratch directory {}: {e}", dir.display()),
        }
    }
}

impl Scratch {
    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// A path inside the directory.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if std::env::var_os("PARIO_TEST_KEEP").is_some() {
            eprintln!("kept {}", self.dir.display());
        } else if let Err(e) = fs::remove_dir_all(&self.dir) {
            eprintln!("cannot remove {}: {e}", self.dir.display());
        }
    }
}

/// Panics with the first differing offset unless both files hold the same bytes.
#[track_caller]
pub fn same_file(a: impl AsRef<Path>, b: impl AsRef<Path>) {
    let (a, b) = (a.as_ref(), b.as_ref());
    let names = format!("{} and {}", a.display(), b.display());
    same_bytes(&names, &read(a), &read(b));
}

/// Panics unless both directories hold the same files, at least one, with the same bytes; their names.
#[track_caller]
pub fn same_directory(a: &Path, b: &Path) -> Vec<String> {
    let [names, others] = [a, b].map(names);
    assert!(!names.is_empty() && names == others, "{}: {names:?}, {}: {others:?}", a.display(), b.display());
    for name in &names {
        same_file(a.join(name), b.join(name));
    }
    names
}

#[track_caller]
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap_or_else(|e| panic!("cannot read {}: {e}", dir.display()));
    let mut names: Vec<String> = entries
        .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_, _>>()
        .unwrap_or_else(|e| panic!("cannot read {}: {e}", dir.display()));
    names.sort();
    names
}

/// Panics with the first differing offset unless both byte strings are equal.
#[track_caller]
pub fn same_bytes(names: &str, a: &[u8], b: &[u8]) {
    let common = a.len().min(b.len());
    if let Some(at) = (0..common).find(|&i| a[i] != b[i]) {
        let end = common.min(at + 16);
        let differing = (at..common).filter(|&i| a[i] != b[i]).count();
        panic!(
            "{names} differ at byte {at}: {:02x?} against {:02x?} ({differing} of {common} bytes differ)",
            &a[at..end],
            &b[at..end]
        );
    }
    assert!(a.len() == b.len(), "{names} differ in size: {} against {} bytes", a.len(), b.len());
}

#[track_caller]
fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()))
}
