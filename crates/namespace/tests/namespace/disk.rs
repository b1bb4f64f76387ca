//! A disk in memory. It counts every step that changes something, and can stop or fail at any of them.
//!
//! After a loss of power any of the unflushed changes are there, in whole sectors, and the others are not. A flush that
//! fails loses its bytes for good: the next flush does not bring them back, as with Linux.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use pario_namespace::{Disk, DiskFile};

pub const ENOSPC: i32 = 28;
pub const EIO: i32 = 5;

/// The fault to inject.
#[derive(Clone, Copy, Debug, Default)]
pub enum Fault {
    #[default]
    None,
    /// The process is killed at this step: a write still takes some bytes, nothing happens afterwards.
    Stop { step: u64, part: usize },
    /// These steps fail; a write takes some bytes before, never all.
    Fail { from: u64, steps: u64, part: usize, errno: i32 },
}

/// The size of an atomic write.
const SECTOR: usize = 512;

/// A change of a file's bytes that has not been flushed.
#[derive(Clone, Debug)]
enum Edit {
    Write(usize, Vec<u8>),
    Resize(usize),
}

#[derive(Clone, Debug, Default)]
struct Contents {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    unflushed: Vec<Edit>,
    /// Allocated space.
    room: u64,
}

impl Contents {
    fn new(bytes: Vec<u8>) -> Contents {
        Contents { room: bytes.len() as u64, durable: bytes.clone(), bytes, unflushed: Vec::new() }
    }

    /// Returns the content after some of the unflushed changes have reached the medium.
    fn after_power_loss(&self, rng: &mut Rng) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for edit in &self.unflushed {
            match edit {
                Edit::Write(at, new) => {
                    let mut done = 0;
                    while done < new.len() {
                        let len = (SECTOR - (at + done) % SECTOR).min(new.len() - done);
                        if rng.coin() {
                            let range = at + done..at + done + len;
                            bytes.resize(bytes.len().max(range.end), 0);
                            bytes[range].copy_from_slice(&new[done..done + len]);
                        }
                        done += len;
                    }
                }
                Edit::Resize(len) => {
                    if rng.coin() {
                        bytes.resize(*len, 0);
                    }
                }
            }
        }
        bytes
    }
}

/// Pseudorandom numbers (xorshift).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn coin(&mut self) -> bool {
        self.next() & 1 == 0
    }
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
    boot: u128,
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

    /// Returns the disk that a killed process leaves: everything that was written.
    pub fn after_kill(&self) -> MemoryDisk {
        let inner = lock(&self.0);
        // Unflushed bytes are still unflushed.
        let copy = |file: &Shared| Arc::new(Mutex::new(lock(file).clone()));
        let files: BTreeMap<_, _> =
            inner.files.iter().map(|(name, file)| (name.clone(), copy(file))).collect();
        let durable: BTreeMap<_, _> = inner
            .durable
            .iter()
            .map(|(name, file)| {
                let alive = inner.files.iter().find(|(_, other)| Arc::ptr_eq(other, file));
                (name.clone(), alive.map_or_else(|| copy(file), |(alive, _)| files[alive].clone()))
            })
            .collect();
        let moved = |name: &String, file: &Shared| {
            let alive = inner.files.iter().find(|(_, other)| Arc::ptr_eq(other, file));
            alive.map_or_else(
                || durable.get(name).cloned().unwrap_or_else(|| copy(file)),
                |(n, _)| files[n].clone(),
            )
        };
        let unflushed = inner.unflushed.iter().map(|change| match change {
            Naming::Put(name, file) => Naming::Put(name.clone(), moved(name, file)),
            Naming::Move(from, to, file) => Naming::Move(from.clone(), to.clone(), moved(from, file)),
            Naming::Remove(name) => Naming::Remove(name.clone()),
        });
        let unflushed = unflushed.collect();
        let (capacity, boot) = (inner.capacity, inner.boot);
        MemoryDisk(Arc::new(Mutex::new(Inner {
            files,
            durable,
            unflushed,
            capacity,
            boot,
            ..Inner::default()
        })))
    }

    /// Returns the disk after a loss of power: all flushed changes, and any of the others.
    pub fn after_power_loss(&self, seed: u64) -> MemoryDisk {
        let mut rng = Rng::new(seed);
        let inner = lock(&self.0);
        let mut names = inner.durable.clone();
        for change in &inner.unflushed {
            match change.clone() {
                _ if rng.coin() => {}
                Naming::Put(name, file) => drop(names.insert(name, file)),
                Naming::Remove(name) => drop(names.remove(&name)),
                Naming::Move(from, to, file) => {
                    names.remove(&from);
                    names.insert(to, file);
                }
            }
        }
        let mut files = BTreeMap::new();
        for (name, file) in &names {
            let contents = Contents::new(lock(file).after_power_loss(&mut rng));
            files.insert(name.clone(), Arc::new(Mutex::new(contents)));
        }
        let (durable, capacity, boot) = (files.clone(), inner.capacity, inner.boot + 1);
        MemoryDisk(Arc::new(Mutex::new(Inner { files, durable, capacity, boot, ..Inner::default() })))
    }

    /// The host is booted again; nothing was lost.
    pub fn reboot(&self) {
        lock(&self.0).boot += 1;
    }

    pub fn names(&self) -> Vec<String> {
        lock(&self.0).files.keys().cloned().collect()
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        lock(&lock(&self.0).files[name]).bytes.clone()
    }

    /// Replaces a file's bytes, as an accident would.
    pub fn overwrite(&self, name: &str, bytes: Vec<u8>) {
        lock(&self.0).files.insert(name.into(), Arc::new(Mutex::new(Contents::new(bytes))));
    }

    /// NamespaceCounts a step. On a fault returns the number of bytes that a write stores, and its error.
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

    /// The smallest number of bytes that a failing write leaves out.
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

    fn boot(&self) -> u128 {
        lock(&self.0).boot + 1
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
        contents.unflushed.push(Edit::Write(at as usize, bytes[..taken].to_vec()));
        error.map_or(Ok(taken), Err)
    }

    fn resize(&mut self, len: u64) -> io::Result<()> {
        self.0.plain_step()?;
        let mut contents = lock(&self.1);
        contents.bytes.resize(len as usize, 0);
        contents.unflushed.push(Edit::Resize(len as usize));
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
        let step = self.0.plain_step();
        let loses = step.is_ok() || matches!(lock(&self.0.0).fault, Fault::Fail { .. });
        let mut contents = lock(&self.1);
        let edits = if loses { std::mem::take(&mut contents.unflushed) } else { Vec::new() };
        step?;
        for edit in edits {
            match edit {
                Edit::Resize(len) => contents.durable.resize(len, 0),
                Edit::Write(at, bytes) => {
                    let end = contents.durable.len().max(at + bytes.len());
                    contents.durable.resize(end, 0);
                    contents.durable[at..at + bytes.len()].copy_from_slice(&bytes);
                }
            }
        }
        Ok(())
    }
}
