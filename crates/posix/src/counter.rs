//! A counter that all ranks of one open file share: the shared file pointer.
//!
//! Where it lies depends on who shares it:
//! - one rank alone keeps it to itself;
//! - ranks of one node add atomically to a word of memory that they share;
//! - ranks of several nodes lock and change eight bytes of a hidden file beside the data file, which is made
//!   by whoever uses it first;
//! - or somebody keeps the cell for all of them.
//!
//! The value is the cell plus a base that all ranks know, so that a start other than zero needs no
//! first writer.
//!
//! Format of the cell in memory and in the file: 8 bytes, the value as u64 in native byte order, at offset 0.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pario_types::ErrorKind;

/// A word, zero at first, in memory that all its users share.
pub trait Word: Send + Sync {
    /// The word.
    fn word(&self) -> &AtomicU64;
}

/// What becomes of a cell.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// So much more, modulo 2^64.
    Add(u64),
    /// This.
    Set(u64),
}

impl Change {
    fn of(self, cell: u64) -> u64 {
        match self {
            Change::Add(n) => cell.wrapping_add(n),
            Change::Set(value) => value,
        }
    }
}

/// Who keeps a cell, zero at first, for all ranks.
pub trait Keeper: Send + Sync {
    /// Changes it and returns what it was before, or why that did not work.
    fn change(&self, change: Change) -> Result<u64, (ErrorKind, String)>;
}

/// Where the cell of a counter lies.
pub enum Place {
    /// With its only user.
    Own(AtomicU64),
    /// In memory that the ranks of one node share.
    Memory(Arc<dyn Word>),
    /// In a file that all nodes see, changed under a lock.
    File(PathBuf),
    /// With somebody whom all ranks can ask.
    Kept(Box<dyn Keeper>),
}

impl Place {
    /// With its only user.
    pub fn own() -> Place {
        Place::Own(AtomicU64::new(0))
    }

    /// A hidden file beside `data` for an open file with this id.
    pub fn beside(data: &Path, id: u128) -> Place {
        let name = data.file_name().unwrap_or_default().to_string_lossy();
        // A file name has at most 255 bytes; the id alone keeps the name unique.
        let short: String = name.chars().take(40).collect();
        Place::File(data.with_file_name(format!(".{short}.pario-pointer-{id:032x}")))
    }
}

/// Why a shared counter could not be used.
#[derive(Debug)]
pub enum CounterError {
    /// The cell's file.
    File {
        /// Where it is.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// Who keeps it; the kind of error, and what they said.
    Keeper(ErrorKind, String),
}

impl CounterError {
    /// The kind for callers.
    pub fn kind(&self) -> ErrorKind {
        match self {
            CounterError::File { source, .. } => {
                ErrorKind::from_errno(source.raw_os_error().unwrap_or(libc::EIO))
            }
            CounterError::Keeper(kind, _) => *kind,
        }
    }
}

impl fmt::Display for CounterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CounterError::File { path, source } => write!(
                f,
                "the shared file pointer's cell {} cannot be used: {source}; that directory must be writable",
                path.display()
            ),
            CounterError::Keeper(_, text) => f.write_str(text),
        }
    }
}

impl std::error::Error for CounterError {}

/// The counter of one open file, as one rank sees it.
pub struct SharedCounter {
    place: Place,
    base: AtomicU64,
    touched: AtomicBool,
    /// The cell's file, if it lies in one and has been used.
    file: Mutex<Option<File>>,
}

impl SharedCounter {
    /// A counter that starts at `base`.
    pub fn new(place: Place, base: u64) -> SharedCounter {
        SharedCounter {
            place,
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
        self.change(Change::Add(n))
    }

    /// The value now.
    pub fn load(&self) -> Result<u64, CounterError> {
        self.change(Change::Add(0))
    }

    /// Sets the value. The ranks must not use the counter meanwhile.
    pub fn store(&self, value: u64) -> Result<(), CounterError> {
        let base = self.base.load(Ordering::Relaxed);
        self.change(Change::Set(value.wrapping_sub(base))).map(drop)
    }

    /// Starts again at zero where no rank has touched the cell: then the base is all there is.
    pub fn rebase_untouched(&self) {
        self.base.store(0, Ordering::Relaxed);
    }

    /// Removes what would outlive the counter. One rank does this when no rank uses it any more.
    pub fn remove(&self) -> Result<(), CounterError> {
        match &self.place {
            Place::File(path) => match std::fs::remove_file(path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    Err(CounterError::File { path: path.clone(), source })
                }
                _ => Ok(()),
            },
            Place::Own(_) | Place::Memory(_) | Place::Kept(_) => Ok(()),
        }
    }

    /// Changes the cell and returns the value before.
    fn change(&self, change: Change) -> Result<u64, CounterError> {
        self.touched.store(true, Ordering::Relaxed);
        let before = match &self.place {
            Place::Own(word) => change_word(word, change),
            Place::Memory(shared) => change_word(shared.word(), change),
            Place::File(path) => self
                .change_file(path, change)
                .map_err(|source| CounterError::File { path: path.clone(), source })?,
            Place::Kept(keeper) => {
                keeper.change(change).map_err(|(kind, text)| CounterError::Keeper(kind, text))?
            }
        };
        Ok(self.base.load(Ordering::Relaxed).wrapping_add(before))
    }

    fn change_file(&self, path: &Path, change: Change) -> io::Result<u64> {
        let mut file = self.file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if file.is_none() {
            *file = Some(open_private(path, true)?);
        }
        change_locked(file.as_ref().expect("opened above"), change)
    }
}

fn change_word(word: &AtomicU64, change: Change) -> u64 {
    match change {
        Change::Add(n) => word.fetch_add(n, Ordering::SeqCst),
        Change::Set(value) => word.swap(value, Ordering::SeqCst),
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

/// Reads, changes and writes the eight bytes under an exclusive lock of the open file description.
fn change_locked(file: &File, change: Change) -> io::Result<u64> {
    lock_cell(file, libc::F_WRLCK)?;
    let changed = (|| {
        let mut bytes = [0u8; 8];
        let got = file.read_at(&mut bytes, 0)?;
        let cell = if got == 8 { u64::from_ne_bytes(bytes) } else { 0 };
        let new = change.of(cell);
        if new != cell {
            file.write_all_at(&new.to_ne_bytes(), 0)?;
        }
        Ok(cell)
    })();
    lock_cell(file, libc::F_UNLCK)?;
    changed
}

fn lock_cell(file: &File, kind: i32) -> io::Result<()> {
    loop {
        // SAFETY: an all-zero flock is a valid value of that plain C struct.
        let mut region: libc::flock = unsafe { std::mem::zeroed() };
        region.l_type = kind as i16;
        region.l_whence = libc::SEEK_SET as i16;
        region.l_len = 8;
        // SAFETY: the descriptor is open and `region` outlives the call.
        let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLKW, &region) };
        if done == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::random_id;

    struct Local(AtomicU64);

    /// One who keeps a cell for others, and may lose it.
    struct Kept(Arc<AtomicU64>);

    impl Keeper for Kept {
        fn change(&self, change: Change) -> Result<u64, (ErrorKind, String)> {
            match self.0.load(Ordering::SeqCst) {
                u64::MAX => Err((ErrorKind::Io, "it is lost".into())),
                _ => Ok(change_word(&self.0, change)),
            }
        }
    }

    impl Word for Local {
        fn word(&self) -> &AtomicU64 {
            &self.0
        }
    }

    /// For each kind of place, one for each of `n` ranks.
    fn places(n: usize) -> Vec<Vec<Place>> {
        let id = random_id().unwrap();
        let shared: Arc<dyn Word> = Arc::new(Local(AtomicU64::new(0)));
        let memory = (0..n).map(|_| Place::Memory(shared.clone())).collect();
        let data = std::env::temp_dir().join("some data file");
        let cell = Arc::new(AtomicU64::new(0));
        let kept = (0..n).map(|_| Place::Kept(Box::new(Kept(cell.clone())))).collect();
        vec![memory, (0..n).map(|_| Place::beside(&data, id)).collect(), kept]
    }

    fn counters(places: Vec<Place>, base: u64) -> Vec<SharedCounter> {
        places.into_iter().map(|place| SharedCounter::new(place, base)).collect()
    }

    #[test]
    fn ranks_share_one_counter() {
        for places in places(2) {
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
        let alone = SharedCounter::new(Place::own(), 7);
        assert_eq!((alone.fetch_add(2).unwrap(), alone.load().unwrap()), (7, 9));
    }

    #[test]
    fn threads_lose_no_addition() {
        for places in places(4) {
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
    fn a_place_that_cannot_be_written_is_an_error_with_its_path() {
        let counter = SharedCounter::new(Place::File("/no such directory/x".into()), 0);
        let error = counter.fetch_add(1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSuchFile);
        assert!(error.to_string().contains("/no such directory/x"), "{error}");
        let counter = SharedCounter::new(Place::Kept(Box::new(Kept(Arc::new(AtomicU64::new(u64::MAX))))), 0);
        let error = counter.load().unwrap_err();
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::Io, "it is lost".into()));
    }
}
