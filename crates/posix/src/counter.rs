//! A counter that all ranks of one open file share: the shared file pointer of plain files.
//!
//! Nobody is asked and nothing is sent. The counter is a file whose name all ranks know (from an id that
//! one rank drew at open), made by whoever uses it first and full of zeros until then:
//! - ranks of one node map a page of shared memory and add atomically;
//! - ranks of several nodes lock and change eight bytes of a hidden file beside the data file.
//!
//! The value is the cell plus a base that all ranks know, so that a start other than zero needs no
//! first writer.
//!
//! Format of the cell, both places: 8 bytes, the value as u64 in native byte order, at offset 0.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use pario_units::ErrorKind;

const PAGE: usize = 4096;

/// Where the cell of a counter lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In shared memory of one node, under this name.
    Memory(PathBuf),
    /// In a file that all nodes see, changed under a lock.
    File(PathBuf),
}

impl Place {
    /// Shared memory for an open file with this id.
    pub fn memory(id: u128) -> Place {
        let dir = if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" };
        Place::Memory(Path::new(dir).join(format!("pario-pointer-{id:032x}")))
    }

    /// A hidden file beside `data` for an open file with this id.
    pub fn beside(data: &Path, id: u128) -> Place {
        let name = data.file_name().unwrap_or_default().to_string_lossy();
        // A file name has at most 255 bytes; the id alone keeps the name unique.
        let short: String = name.chars().take(40).collect();
        Place::File(data.with_file_name(format!(".{short}.pario-pointer-{id:032x}")))
    }

    fn path(&self) -> &Path {
        match self {
            Place::Memory(path) | Place::File(path) => path,
        }
    }
}

/// Why a shared counter could not be used.
#[derive(Debug)]
pub struct CounterError {
    path: PathBuf,
    source: io::Error,
}

impl CounterError {
    /// The kind for callers.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::from_errno(self.source.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl fmt::Display for CounterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the shared file pointer's cell {} cannot be used: {}; that directory must be writable",
            self.path.display(),
            self.source
        )
    }
}

impl std::error::Error for CounterError {}

/// The counter of one open file, as one rank sees it.
#[derive(Debug)]
pub struct SharedCounter {
    place: Place,
    base: AtomicU64,
    cell: Mutex<Option<Cell>>,
}

#[derive(Debug)]
enum Cell {
    Mapped(Page),
    Locked(File),
}

impl SharedCounter {
    /// A counter that starts at `base`. Nothing is created before the first use.
    pub fn new(place: Place, base: u64) -> SharedCounter {
        SharedCounter { place, base: AtomicU64::new(base), cell: Mutex::new(None) }
    }

    /// Whether this rank has used the cell, so that it may exist.
    pub fn touched(&self) -> bool {
        self.lock().is_some()
    }

    /// Adds `n` and returns the value before.
    pub fn fetch_add(&self, n: u64) -> Result<u64, CounterError> {
        self.change(|cell| cell.wrapping_add(n))
    }

    /// The value now.
    pub fn load(&self) -> Result<u64, CounterError> {
        self.change(|cell| cell)
    }

    /// Sets the value. The ranks must not use the counter meanwhile.
    pub fn store(&self, value: u64) -> Result<(), CounterError> {
        let base = self.base.load(Ordering::Relaxed);
        self.change(|_| value.wrapping_sub(base)).map(drop)
    }

    /// Starts again at zero where no rank has touched the cell: then the base is all there is.
    pub fn rebase_untouched(&self) {
        self.base.store(0, Ordering::Relaxed);
    }

    /// Removes the cell. One rank does this when no rank uses the counter any more.
    pub fn remove(&self) -> Result<(), CounterError> {
        match std::fs::remove_file(self.place.path()) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(self.error(e)),
            _ => Ok(()),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Cell>> {
        self.cell.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Replaces the cell by `f` of it and returns the value before.
    fn change(&self, f: impl Fn(u64) -> u64) -> Result<u64, CounterError> {
        let mut guard = self.lock();
        if guard.is_none() {
            *guard = Some(Cell::open(&self.place).map_err(|e| self.error(e))?);
        }
        let before = match guard.as_ref().expect("opened above") {
            Cell::Mapped(page) => page
                .word()
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |cell| Some(f(cell)))
                .unwrap_or_else(|cell| cell),
            Cell::Locked(file) => change_locked(file, f).map_err(|e| self.error(e))?,
        };
        Ok(self.base.load(Ordering::Relaxed).wrapping_add(before))
    }

    fn error(&self, source: io::Error) -> CounterError {
        CounterError { path: self.place.path().to_path_buf(), source }
    }
}

impl Cell {
    fn open(place: &Place) -> io::Result<Cell> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(place.path())?;
        match place {
            Place::Memory(_) => {
                file.set_len(PAGE as u64)?; // zeros at first; no change if it has its length already
                Page::map(&file).map(Cell::Mapped)
            }
            Place::File(_) => Ok(Cell::Locked(file)),
        }
    }
}

/// Reads, changes and writes the eight bytes under an exclusive lock of the open file description.
fn change_locked(file: &File, f: impl Fn(u64) -> u64) -> io::Result<u64> {
    lock_cell(file, libc::F_WRLCK)?;
    let changed = (|| {
        let mut bytes = [0u8; 8];
        let got = file.read_at(&mut bytes, 0)?;
        let cell = if got == 8 { u64::from_ne_bytes(bytes) } else { 0 };
        let new = f(cell);
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

/// One page of memory shared by the ranks of a node.
#[derive(Debug)]
struct Page(NonNull<u8>);

// SAFETY: the page is only ever used through the atomic word at its start.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    fn map(file: &File) -> io::Result<Page> {
        // SAFETY: a fresh mapping of an open file; no existing memory is touched.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(at.cast()).map(Page).ok_or_else(|| io::Error::other("mmap gave address 0"))
    }

    fn word(&self) -> &AtomicU64 {
        // SAFETY: the mapping is page-aligned, lives as long as self, and is used only atomically.
        unsafe { AtomicU64::from_ptr(self.0.as_ptr().cast()) }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length and is not used afterwards.
        unsafe { libc::munmap(self.0.as_ptr().cast(), PAGE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Vec<Place> {
        let id = crate::node::random_id().unwrap();
        let data = std::env::temp_dir().join("some data file");
        vec![Place::memory(id), Place::beside(&data, id)]
    }

    #[test]
    fn ranks_share_one_counter() {
        for place in places() {
            let a = SharedCounter::new(place.clone(), 10);
            let b = SharedCounter::new(place, 10);
            assert!(!a.touched());
            assert_eq!(a.fetch_add(5).unwrap(), 10);
            assert_eq!(b.fetch_add(1).unwrap(), 15);
            assert_eq!(a.load().unwrap(), 16);
            b.store(3).unwrap();
            assert_eq!(a.load().unwrap(), 3);
            a.remove().unwrap();
            a.remove().unwrap();
        }
    }

    #[test]
    fn threads_lose_no_addition() {
        for place in places() {
            let counters: Vec<_> = (0..4).map(|_| SharedCounter::new(place.clone(), 0)).collect();
            std::thread::scope(|scope| {
                for counter in &counters {
                    scope.spawn(|| (0..200).for_each(|_| drop(counter.fetch_add(3).unwrap())));
                }
            });
            assert_eq!(counters[0].load().unwrap(), 4 * 200 * 3);
            counters[0].remove().unwrap();
        }
    }

    #[test]
    fn a_place_that_cannot_be_written_is_an_error_with_its_path() {
        let counter = SharedCounter::new(Place::File("/no such directory/x".into()), 0);
        let error = counter.fetch_add(1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSuchFile);
        assert!(error.to_string().contains("/no such directory/x"), "{error}");
    }
}
