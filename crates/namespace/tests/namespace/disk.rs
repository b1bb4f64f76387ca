//! A disk in memory. Every step that changes something is counted, and can be made the last or a failing one.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use pario_namespace::{Disk, DiskFile};

pub const ENOSPC: i32 = 28;
pub const EIO: i32 = 5;

/// What is to go wrong.
#[derive(Clone, Copy, Debug, Default)]
pub enum Fault {
    #[default]
    None,
    /// The process is killed at this step: a write still takes some bytes, nothing happens afterwards.
    Stop { step: u64, part: usize },
    /// These steps fail; a write takes some bytes before, never all.
    Fail { from: u64, steps: u64, part: usize, errno: i32 },
}

#[derive(Clone, Debug, Default)]
struct Contents {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    /// Room taken.
    room: u64,
}

type Shared = Arc<Mutex<Contents>>;

/// A change of names that has not been flushed.
#[derive(Clone)]
enum Naming {
    Put(String, Shared),
    Move(String, String, Shared),
    Remove(String),
}

#[derive(Default)]
struct Inner {
    files: BTreeMap<String, Shared>,
    durable: BTreeMap<String, Shared>,
    unflushed: Vec<Naming>,
    steps: u64,
    fault: Fault,
    capacity: Option<u64>,
}

#[derive(Clone, Default)]
pub struct MemoryDisk(Arc<Mutex<Inner>>);

struct MemoryFile(MemoryDisk, Shared);

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().expect("no test panics in here")
}

fn system(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

impl MemoryDisk {
    pub fn new() -> MemoryDisk {
        MemoryDisk::default()
    }

    pub fn boxed(&self) -> Box<dyn Disk> {
        Box::new(self.clone())
    }

    pub fn set_fault(&self, fault: Fault) {
        lock(&self.0).fault = fault;
    }

    pub fn set_capacity(&self, capacity: Option<u64>) {
        lock(&self.0).capacity = capacity;
    }

    pub fn steps(&self) -> u64 {
        lock(&self.0).steps
    }

    /// What a successor of a killed process finds: everything that was written.
    pub fn after_kill(&self) -> MemoryDisk {
        self.copy(|contents| contents.bytes.clone(), None)
    }

    /// What is found after a loss of power: what was flushed, and any of the last changes of names.
    pub fn after_power_loss(&self, kept: u32) -> MemoryDisk {
        self.copy(|contents| contents.durable.clone(), Some(kept))
    }

    /// How many changes of names have not been flushed.
    pub fn unflushed(&self) -> u32 {
        lock(&self.0).unflushed.len() as u32
    }

    fn copy(&self, bytes: impl Fn(&Contents) -> Vec<u8>, durable: Option<u32>) -> MemoryDisk {
        let inner = lock(&self.0);
        let mut names = inner.files.clone();
        if let Some(kept) = durable {
            names = inner.durable.clone();
            for (at, change) in inner.unflushed.iter().enumerate() {
                match change.clone() {
                    _ if kept & (1 << at) == 0 => {}
                    Naming::Put(name, file) => drop(names.insert(name, file)),
                    Naming::Remove(name) => drop(names.remove(&name)),
                    Naming::Move(from, to, file) => {
                        names.remove(&from);
                        names.insert(to, file);
                    }
                }
            }
        }
        let files: BTreeMap<_, _> = names
            .iter()
            .map(|(name, file)| {
                let bytes = bytes(&lock(file));
                let contents = Contents { room: bytes.len() as u64, durable: bytes.clone(), bytes };
                (name.clone(), Arc::new(Mutex::new(contents)))
            })
            .collect();
        let durable = files.clone();
        MemoryDisk(Arc::new(Mutex::new(Inner {
            files,
            durable,
            capacity: inner.capacity,
            ..Inner::default()
        })))
    }

    pub fn names(&self) -> Vec<String> {
        lock(&self.0).files.keys().cloned().collect()
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        lock(&lock(&self.0).files[name]).bytes.clone()
    }

    /// Puts other bytes in place of a file's, as some accident would.
    pub fn overwrite(&self, name: &str, bytes: Vec<u8>) {
        let file = Contents { durable: bytes.clone(), room: bytes.len() as u64, bytes };
        lock(&self.0).files.insert(name.into(), Arc::new(Mutex::new(file)));
    }

    /// Counts a step; how many bytes a write takes, and then what it answers if not that.
    fn step(&self) -> Result<(), (usize, io::Error)> {
        let mut inner = lock(&self.0);
        let step = inner.steps;
        inner.steps += 1;
        match inner.fault {
            Fault::Stop { step: last, part } if step == last => Err((part, system(EIO))),
            Fault::Stop { step: last, .. } if step > last => Err((0, system(EIO))),
            Fault::Fail { from, steps, part, errno } if (from..from + steps).contains(&step) => {
                Err((part, system(errno)))
            }
            _ => Ok(()),
        }
    }

    /// How many bytes a write that goes wrong leaves out at least.
    fn spares(&self) -> usize {
        usize::from(matches!(lock(&self.0).fault, Fault::Fail { .. }))
    }

    fn plain_step(&self) -> io::Result<()> {
        self.step().map_err(|(_, error)| error)
    }

    fn free(&self) -> u64 {
        let inner = lock(&self.0);
        let used: u64 = inner.files.values().map(|file| lock(file).room).sum();
        inner.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(used))
    }
}

impl Disk for MemoryDisk {
    fn place(&self) -> &Path {
        Path::new("memory")
    }

    fn list(&mut self) -> io::Result<Vec<String>> {
        Ok(self.names())
    }

    fn open(&mut self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = lock(&self.0).files.get(name).cloned().ok_or(system(2))?;
        Ok(Box::new(MemoryFile(self.clone(), file)))
    }

    fn create(&mut self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.plain_step()?;
        let file = Shared::default();
        let mut inner = lock(&self.0);
        inner.files.insert(name.into(), file.clone());
        inner.unflushed.push(Naming::Put(name.into(), file.clone()));
        drop(inner);
        Ok(Box::new(MemoryFile(self.clone(), file)))
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.plain_step()?;
        let mut inner = lock(&self.0);
        let file = inner.files.remove(from).ok_or(system(2))?;
        inner.files.insert(to.into(), file.clone());
        inner.unflushed.push(Naming::Move(from.into(), to.into(), file));
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.plain_step()?;
        let mut inner = lock(&self.0);
        inner.files.remove(name).ok_or(system(2))?;
        inner.unflushed.push(Naming::Remove(name.into()));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.plain_step()?;
        let mut inner = lock(&self.0);
        inner.durable = inner.files.clone();
        inner.unflushed.clear();
        Ok(())
    }
}

impl DiskFile for MemoryFile {
    fn length(&mut self) -> io::Result<u64> {
        Ok(lock(&self.1).bytes.len() as u64)
    }

    fn read_at(&mut self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let contents = lock(&self.1);
        let rest = contents.bytes.get(at as usize..).unwrap_or_default();
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<usize> {
        let (taken, error) = match self.0.step() {
            Ok(()) => (bytes.len(), None),
            Err((part, error)) => (part.min(bytes.len() - self.0.spares()), Some(error)),
        };
        let free = self.0.free();
        let mut contents = lock(&self.1);
        let end = (at + taken as u64).min(contents.room.saturating_add(free));
        let taken = end.saturating_sub(at) as usize;
        if taken == 0 && error.is_none() {
            return Err(system(ENOSPC));
        }
        let len = contents.bytes.len().max(end as usize);
        contents.bytes.resize(len, 0);
        contents.bytes[at as usize..at as usize + taken].copy_from_slice(&bytes[..taken]);
        contents.room = contents.room.max(end);
        error.map_or(Ok(taken), Err)
    }

    fn resize(&mut self, len: u64) -> io::Result<()> {
        self.0.plain_step()?;
        let mut contents = lock(&self.1);
        contents.bytes.resize(len as usize, 0);
        contents.room = len;
        Ok(())
    }

    fn reserve(&mut self, from: u64, len: u64) -> io::Result<()> {
        self.0.plain_step()?;
        let free = self.0.free();
        let mut contents = lock(&self.1);
        if from + len > contents.room.saturating_add(free) {
            return Err(system(ENOSPC));
        }
        contents.room = contents.room.max(from + len);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.plain_step()?;
        let mut contents = lock(&self.1);
        contents.durable = contents.bytes.clone();
        Ok(())
    }
}
