//! Where the bytes of an open file are: in a plain file, or striped over the servers of a partition.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use pario_buffer::UserBuffer;
use pario_client as client;
use pario_posix::counter::{Change, Keeper};
use pario_posix::{How, Linux, OwnedRange, PlainFile, Tuning};
use pario_units::{ErrorKind, Offset, Pos, ServerId};
use pario_view::View;

use crate::env::env;
use crate::error::{Error, Result};
use crate::name::Name;
use crate::worker::held;

/// An open file's storage.
pub(crate) enum Storage {
    Plain(Arc<PlainFile>),
    Partition(client::File),
}

impl Storage {
    /// Opens a file, on the file system that a test asks to pretend if it does. Accesses begin with the server at
    /// place `start`, counted round.
    pub fn open(name: &Name, how: &How, start: u32) -> Result<Storage> {
        match name {
            Name::Plain(path) => Ok(Storage::Plain(Arc::new(open_plain(path, how)?))),
            Name::Partition { partition, path } => {
                let mut options = client::OpenOptions::new();
                options
                    .read(how.read)
                    .write(how.write)
                    .create(how.create)
                    .create_new(how.exclusive)
                    .mode(how.mode & !umask());
                if let Some(striping) = &how.striping {
                    striping.unit.map(|unit| options.stripe(unit));
                    striping
                        .count
                        .map(|count| options.stripe_count(u16::try_from(count).unwrap_or(u16::MAX)));
                    striping
                        .first
                        .map(|first| options.first_server(u16::try_from(first).unwrap_or(u16::MAX)));
                }
                let file = partition_named(partition)?.open(path, &options)?;
                file.set_start(start);
                Ok(Storage::Partition(file))
            }
        }
    }

    /// The server that keeps the shared pointer of ranks on several nodes, if the file is on a partition.
    pub fn keeper(&self) -> Option<ServerId> {
        match self {
            Storage::Plain(_) => None,
            Storage::Partition(file) => file.striping().holders().next(),
        }
    }

    /// Removes a file.
    pub fn delete(name: &Name) -> Result<()> {
        match name {
            Name::Plain(path) => Ok(pario_posix::delete(path)?),
            Name::Partition { partition, path } => Ok(partition_named(partition)?.remove_file(path)?),
        }
    }

    /// The plain file, if it is one.
    pub fn plain(&self) -> Option<&Arc<PlainFile>> {
        match self {
            Storage::Plain(plain) => Some(plain),
            Storage::Partition(_) => None,
        }
    }

    pub fn size(&self) -> Result<u64> {
        match self {
            Storage::Plain(plain) => Ok(plain.size()?),
            Storage::Partition(file) => Ok(file.len()?),
        }
    }

    pub fn set_size(&self, size: u64) -> Result<()> {
        match self {
            Storage::Plain(plain) => Ok(plain.set_size(size)?),
            Storage::Partition(file) => Ok(file.set_len(size)?),
        }
    }

    pub fn preallocate(&self, size: u64) -> Result<()> {
        match self {
            Storage::Plain(plain) => Ok(plain.preallocate(size)?),
            // Stripes are sparse; what counts to the program is that the file has that many bytes.
            Storage::Partition(file) => match file.len()? < size {
                true => Ok(file.set_len(size)?),
                false => Ok(()),
            },
        }
    }

    pub fn sync(&self) -> Result<()> {
        match self {
            Storage::Plain(plain) => Ok(plain.sync()?),
            Storage::Partition(file) => Ok(file.sync()?),
        }
    }

    /// At close: what was written is in storage, or somebody hears that it is not.
    pub fn settle(&self) -> Result<()> {
        match self {
            Storage::Plain(_) => Ok(()),
            Storage::Partition(file) => Ok(file.flush()?),
        }
    }

    /// Reads bytes of a view into the program's memory; how many there were before the end of the file.
    pub fn read(&self, view: &View, at: Pos, buffer: &UserBuffer, len: u64, tuning: &Tuning) -> Result<u64> {
        match self {
            Storage::Plain(plain) => Ok(plain.read(view, at, buffer, 0, len, tuning)?),
            Storage::Partition(file) => in_turn(file, view, at, len, false, tuning, || {
                Ok(file.read_through(view, at, buffer, 0, len)?)
            }),
        }
    }

    /// Writes bytes of the program's memory to a view.
    pub fn write(&self, view: &View, at: Pos, buffer: &UserBuffer, len: u64, tuning: &Tuning) -> Result<u64> {
        match self {
            Storage::Plain(plain) => Ok(plain.write(view, at, buffer, 0, len, tuning)?),
            Storage::Partition(file) => in_turn(file, view, at, len, true, tuning, || {
                file.write_through(view, at, buffer, 0, len)?;
                Ok(len)
            }),
        }
    }

    /// Reads a window of a collective access.
    pub fn read_window(&self, at: u64, to: &mut [u8]) -> Result<usize> {
        match self {
            Storage::Plain(plain) => Ok(plain.read_window(Offset(at), to)? as usize),
            Storage::Partition(file) => Ok(file.read_at(to, at)?),
        }
    }

    /// Writes one; `locked` if [`try_lock`](Storage::try_lock) gave its range.
    pub fn write_window(&self, at: u64, from: &[u8], locked: bool, tuning: &Tuning) -> Result<()> {
        match self {
            Storage::Plain(plain) if locked => Ok(plain.write_locked(Offset(at), from)?),
            Storage::Plain(plain) => Ok(plain.write_bytes_tuned(Offset(at), from, tuning)?),
            Storage::Partition(file) => Ok(file.write_at(from, at)?),
        }
    }

    pub fn is_hole(&self, range: Range<u64>) -> Result<bool> {
        match self {
            Storage::Plain(plain) => Ok(plain.is_hole(Offset(range.start)..Offset(range.end))?),
            Storage::Partition(_) => Ok(false),
        }
    }

    /// Keeps others from a range while it is read, changed and written; `Some(None)` where there are no locks.
    pub fn try_lock(&self, range: Range<u64>) -> Result<Option<Option<OwnedRange>>> {
        let Storage::Plain(plain) = self else { return Ok(Some(None)) };
        match plain.try_lock_owned(Offset(range.start)..Offset(range.end), true) {
            Ok(guard) => Ok(guard.map(Some)),
            Err(pario_posix::Error::NoLocks { .. }) => Ok(Some(None)),
            Err(e) => Err(e.into()),
        }
    }
}

/// A shared file pointer that a server keeps for ranks on several nodes.
pub(crate) struct KeptPointer {
    counter: client::Counter,
    /// Who made it ends it.
    is_mine: bool,
}

impl KeptPointer {
    /// One that rank 0 has made; `None` for a plain file.
    pub fn find(name: &Name, server: ServerId, id: u128) -> Result<Option<KeptPointer>> {
        match name {
            Name::Plain(_) => Ok(None),
            Name::Partition { partition, .. } => {
                let counter = partition_named(partition)?.counter(server, id);
                Ok(Some(KeptPointer { counter, is_mine: false }))
            }
        }
    }

    /// A new one.
    pub fn make(name: &Name, server: ServerId, id: u128) -> Result<Option<KeptPointer>> {
        let mut pointer = KeptPointer::find(name, server, id)?;
        if let Some(pointer) = &mut pointer {
            pointer.counter.set(0)?;
            pointer.is_mine = true;
        }
        Ok(pointer)
    }
}

impl Keeper for KeptPointer {
    fn change(&self, change: Change) -> std::result::Result<u64, (ErrorKind, String)> {
        let changed = match change {
            Change::Add(n) => self.counter.add(n),
            Change::Set(value) => self.counter.set(value),
        };
        changed.map_err(|e| (e.kind(), e.to_string()))
    }
}

impl Drop for KeptPointer {
    /// By then all ranks have closed the file, or could not open it.
    fn drop(&mut self) {
        if self.is_mine {
            // Should the server not hear of it, it forgets the pointer with the connection.
            let _ = self.counter.remove();
        }
    }
}

/// In atomic mode an access has its range for itself, or shared by readers.
fn in_turn(
    file: &client::File,
    view: &View,
    at: Pos,
    len: u64,
    exclusive: bool,
    tuning: &Tuning,
    access: impl FnOnce() -> Result<u64>,
) -> Result<u64> {
    match view.bounds(at, len).filter(|_| tuning.atomic && len > 0) {
        None => access(),
        Some((first, end)) => {
            let lock = file.lock(first.0..end.0, exclusive)?;
            let moved = access()?;
            lock.unlock()?;
            Ok(moved)
        }
    }
}

/// The permission bits that the user does not want on new files.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o022)
}

fn open_plain(path: &Path, how: &How) -> Result<PlainFile> {
    Ok(match env().pretend {
        Some(fs) => PlainFile::open_with(path, how, Arc::new(Linux), Some(fs))?,
        None => PlainFile::open(path, how)?,
    })
}

/// A partition; connections to its servers are shared by all files of the process.
fn partition_named(name: &str) -> Result<client::Partition> {
    static KNOWN: OnceLock<Mutex<HashMap<String, client::Partition>>> = OnceLock::new();
    let mut known = held(KNOWN.get_or_init(Mutex::default));
    if let Some(partition) = known.get(name) {
        return Ok(partition.clone());
    }
    let registry = env().registry.as_ref().ok_or(Error::Usage(
        ErrorKind::BadFile,
        "partitions are looked up in PARIO_HOME or ~/.pario, and neither PARIO_HOME nor HOME is set",
    ))?;
    let options = client::Options { far: env().is_far(), ..client::Options::default() };
    let partition = client::Partition::open_by_name(registry, name, options)?;
    known.insert(name.to_owned(), partition.clone());
    Ok(partition)
}
