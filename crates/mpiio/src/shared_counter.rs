//! A counter that all ranks of one open file share: the shared file pointer.
//!
//! The location of its cell depends on which ranks share it:
//! - a single rank keeps the cell in its own memory;
//! - ranks of one node add atomically to a word of shared memory;
//! - ranks of several nodes lock and change eight bytes of a hidden file beside the data file, which the first user
//!   creates;
//! - for a file on a partition, a server holds the cell.
//!
//! The value is the cell plus a base that all ranks know. So a start other than zero needs no first writer.
//!
//! Format of the cell in memory and in the file: 8 bytes, the value as u64 in native byte order, at offset 0.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pario_posix::with_exclusive_lock;
use pario_types::ErrorKind;
use parking_lot::Mutex;

/// A word in shared memory, initially zero.
pub(crate) trait SharedWord: Send + Sync {
    /// The word.
    fn word(&self) -> &AtomicU64;
}

/// An update of a cell.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CounterUpdate {
    /// Adds, modulo 2^64.
    Add(u64),
    /// Replaces the value.
    Set(u64),
}

impl CounterUpdate {
    fn apply(self, cell: u64) -> u64 {
        match self {
            CounterUpdate::Add(n) => cell.wrapping_add(n),
            CounterUpdate::Set(value) => value,
        }
    }
}

/// A server that holds a cell, initially zero, for all ranks.
pub(crate) trait CounterServer: Send + Sync {
    /// Updates the cell and returns its previous value, or the kind and text of the failure.
    fn update(&self, update: CounterUpdate) -> Result<u64, (ErrorKind, String)>;
}

/// The location of the cell of a counter.
pub(crate) enum CounterLocation {
    /// In the memory of its only user.
    Private(AtomicU64),
    /// In memory that the ranks of one node share.
    Memory(Arc<dyn SharedWord>),
    /// In a file that all nodes see, changed under a lock.
    File(PathBuf),
    /// On a server.
    Server(Box<dyn CounterServer>),
}

impl CounterLocation {
    /// In the memory of its only user.
    pub fn private() -> CounterLocation {
        CounterLocation::Private(AtomicU64::new(0))
    }

    /// A hidden file beside `data` for an open file with this id.
    pub fn file_beside(data: &Path, id: u128) -> CounterLocation {
        let name = data.file_name().unwrap_or_default().to_string_lossy();
        // A file name has at most 255 bytes; the id alone makes the name unique.
        let short: String = name.chars().take(40).collect();
        CounterLocation::File(data.with_file_name(format!(".{short}.pario-pointer-{id:032x}")))
    }
}

/// A failed access to a shared counter.
#[derive(Debug, thiserror::Error)]
pub enum CounterError {
    /// The file that holds the cell failed.
    #[error(
        "the shared file pointer's cell {} cannot be used: {source}; that directory must be writable",
        path.display()
    )]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The server that holds the cell failed: the kind of the error and its text.
    #[error("{1}")]
    Server(ErrorKind, String),
}

impl CounterError {
    /// The kind for callers.
    pub fn kind(&self) -> ErrorKind {
        match self {
            CounterError::File { source, .. } => {
                ErrorKind::from_errno(source.raw_os_error().unwrap_or(libc::EIO))
            }
            CounterError::Server(kind, _) => *kind,
        }
    }
}

/// One rank's handle of the counter of an open file.
pub(crate) struct SharedCounter {
    location: CounterLocation,
    base: AtomicU64,
    touched: AtomicBool,
    /// The file that holds the cell, once it has been used.
    file: Mutex<Option<File>>,
}

impl SharedCounter {
    /// A counter that starts at `base`.
    pub fn new(location: CounterLocation, base: u64) -> SharedCounter {
        SharedCounter {
            location,
            base: AtomicU64::new(base),
            touched: AtomicBool::new(false),
            file: Mutex::new(None),
        }
    }

    /// Whether this rank has used the cell.
    pub fn touched(&self) -> bool {
        self.touched.load(Ordering::Relaxed)
    }

    /// Adds `n` and returns the value before.
    pub fn fetch_add(&self, n: u64) -> Result<u64, CounterError> {
        self.update(CounterUpdate::Add(n))
    }

    /// The value now.
    pub fn load(&self) -> Result<u64, CounterError> {
        self.update(CounterUpdate::Add(0))
    }

    /// Sets the value. The ranks must not use the counter meanwhile.
    pub fn store(&self, value: u64) -> Result<(), CounterError> {
        let base = self.base.load(Ordering::Relaxed);
        self.update(CounterUpdate::Set(value.wrapping_sub(base))).map(drop)
    }

    /// Sets the value to zero. No rank may have used the cell: the base alone is changed.
    pub fn rebase_untouched(&self) {
        self.base.store(0, Ordering::Relaxed);
    }

    /// Removes the file that holds the cell. One rank does this when no rank uses the counter any more.
    pub fn remove(&self) -> Result<(), CounterError> {
        match &self.location {
            CounterLocation::File(path) => match std::fs::remove_file(path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    Err(CounterError::File { path: path.clone(), source })
                }
                _ => Ok(()),
            },
            CounterLocation::Private(_) | CounterLocation::Memory(_) | CounterLocation::Server(_) => Ok(()),
        }
    }

    /// Updates the cell and returns the previous value.
    fn update(&self, change: CounterUpdate) -> Result<u64, CounterError> {
        self.touched.store(true, Ordering::Relaxed);
        let before = match &self.location {
            CounterLocation::Private(word) => change_word(word, change),
            CounterLocation::Memory(shared) => change_word(shared.word(), change),
            CounterLocation::File(path) => self
                .change_file(path, change)
                .map_err(|source| CounterError::File { path: path.clone(), source })?,
            CounterLocation::Server(server) => {
                server.update(change).map_err(|(kind, text)| CounterError::Server(kind, text))?
            }
        };
        Ok(self.base.load(Ordering::Relaxed).wrapping_add(before))
    }

    fn change_file(&self, path: &Path, change: CounterUpdate) -> io::Result<u64> {
        let mut file = self.file.lock();
        if file.is_none() {
            *file = Some(open_private(path, true)?);
        }
        change_locked(file.as_ref().expect("opened above"), change)
    }
}

fn change_word(word: &AtomicU64, change: CounterUpdate) -> u64 {
    match change {
        CounterUpdate::Add(n) => word.fetch_add(n, Ordering::SeqCst),
        CounterUpdate::Set(value) => word.swap(value, Ordering::SeqCst),
    }
}

fn open_private(path: &Path, create: bool) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(create)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
}

/// Reads, changes and writes the eight bytes under an exclusive lock.
fn change_locked(file: &File, change: CounterUpdate) -> io::Result<u64> {
    with_exclusive_lock(file, 0..8, || {
        let mut bytes = [0u8; 8];
        let got = file.read_at(&mut bytes, 0)?;
        let cell = if got == 8 { u64::from_ne_bytes(bytes) } else { 0 };
        let new = change.apply(cell);
        if new != cell {
            file.write_all_at(&new.to_ne_bytes(), 0)?;
        }
        Ok(cell)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::random_id;

    struct Local(AtomicU64);

    /// A server that may lose its cell.
    struct TestServer(Arc<AtomicU64>);

    impl CounterServer for TestServer {
        fn update(&self, change: CounterUpdate) -> Result<u64, (ErrorKind, String)> {
            match self.0.load(Ordering::SeqCst) {
                u64::MAX => Err((ErrorKind::Io, "it is lost".into())),
                _ => Ok(change_word(&self.0, change)),
            }
        }
    }

    impl SharedWord for Local {
        fn word(&self) -> &AtomicU64 {
            &self.0
        }
    }

    /// For each kind of location, one for each of `n` ranks.
    fn locations(n: usize) -> Vec<Vec<CounterLocation>> {
        let id = random_id().unwrap();
        let shared: Arc<dyn SharedWord> = Arc::new(Local(AtomicU64::new(0)));
        let memory = (0..n).map(|_| CounterLocation::Memory(shared.clone())).collect();
        let data = std::env::temp_dir().join("some data file");
        let cell = Arc::new(AtomicU64::new(0));
        let kept = (0..n).map(|_| CounterLocation::Server(Box::new(TestServer(cell.clone())))).collect();
        vec![memory, (0..n).map(|_| CounterLocation::file_beside(&data, id)).collect(), kept]
    }

    fn counters(places: Vec<CounterLocation>, base: u64) -> Vec<SharedCounter> {
        places.into_iter().map(|place| SharedCounter::new(place, base)).collect()
    }

    #[test]
    fn ranks_share_one_counter() {
        for places in locations(2) {
            let ranks = counters(places, 10);
            let (a, b) = (&ranks[0], &ranks[1]);
            assert!(!a.touched());
            assert_eq!(a.fetch_add(5).unwrap(), 10);
            assert_eq!(b.fetch_add(1).unwrap(), 15);
            assert_eq!(a.load().unwrap(), 16);
            b.store(3).unwrap();
            assert_eq!(a.load().unwrap(), 3);
            assert!(a.touched() && b.touched());
            a.remove().unwrap();
            a.remove().unwrap();
        }
        let alone = SharedCounter::new(CounterLocation::private(), 7);
        assert_eq!((alone.fetch_add(2).unwrap(), alone.load().unwrap()), (7, 9));
    }

    #[test]
    fn threads_lose_no_addition() {
        for places in locations(4) {
            let ranks = counters(places, 0);
            std::thread::scope(|scope| {
                for counter in &ranks {
                    scope.spawn(|| (0..200).for_each(|_| assert!(counter.fetch_add(3).is_ok())));
                }
            });
            assert_eq!(ranks[0].load().unwrap(), 4 * 200 * 3);
            ranks[0].remove().unwrap();
        }
    }

    #[test]
    fn a_location_that_cannot_be_written_is_an_error_with_its_path() {
        let counter = SharedCounter::new(CounterLocation::File("/no such directory/x".into()), 0);
        let error = counter.fetch_add(1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSuchFile);
        assert!(error.to_string().contains("/no such directory/x"), "{error}");
        let counter = SharedCounter::new(
            CounterLocation::Server(Box::new(TestServer(Arc::new(AtomicU64::new(u64::MAX))))),
            0,
        );
        let error = counter.load().unwrap_err();
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::Io, "it is lost".into()));
    }
}
