//! A pool in a directory of its own, and a store in memory behind it.
#![allow(dead_code, reason = "each test program uses a part of it")]

use pario_cache::{BlockFlush, Geometry, LedgerId, Lookup, Pin, Pool, PoolIdentity, PoolMapping};
use pario_types::{FileId, PartitionId, ServerId};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

pub const BLOCK: u32 = 4096;

pub const WHO: PoolIdentity = PoolIdentity { partition: PartitionId(77), server: ServerId(3) };

/// A directory in memory that is removed when this value is dropped.
pub struct Dir(PathBuf);

impl Dir {
    pub fn new() -> Dir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = Path::new("/dev/shm").join(format!("pario-cache-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Dir(path)
    }

    pub fn pool(&self) -> PathBuf {
        self.0.join("pool")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn create(dir: &Dir, slots: u32, ledgers: u32) -> Pool {
    Pool::create(&dir.pool(), Geometry { block: BLOCK, slots, ledgers }, WHO).unwrap()
}

/// A client in this process.
pub fn map(pool: &Pool) -> PoolMapping {
    let ledger: LedgerId = pool.take_ledger(std::process::id()).unwrap();
    PoolMapping::open(pool.descriptor().try_clone_to_owned().unwrap(), ledger).unwrap()
}

/// Files as they are stored: bytes from 0 on.
#[derive(Default)]
pub struct Store(Mutex<HashMap<FileId, Vec<u8>>>);

impl Store {
    pub fn end(&self, file: FileId) -> u64 {
        self.0.lock().unwrap().get(&file).map_or(0, |bytes| bytes.len() as u64)
    }

    pub fn set_end(&self, file: FileId, end: u64) {
        self.0.lock().unwrap().entry(file).or_default().resize(end as usize, 0);
    }

    pub fn write(&self, flush: &BlockFlush) {
        let mut files = self.0.lock().unwrap();
        let bytes = files.entry(flush.file()).or_default();
        let start = (flush.block() * u64::from(BLOCK)) as usize;
        let end = start + flush.end() as usize;
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        flush.copy_to(&mut bytes[start..end]);
    }

    /// Copies a block out; returns its number of bytes.
    pub fn read(&self, file: FileId, block: u64, to: &mut [u8]) -> u32 {
        let files = self.0.lock().unwrap();
        let bytes = files.get(&file).map_or(&[][..], |bytes| bytes);
        let rest = bytes.get((block * u64::from(BLOCK)) as usize..).unwrap_or(&[]);
        let len = rest.len().min(to.len());
        to[..len].copy_from_slice(&rest[..len]);
        len as u32
    }

    pub fn flush(&self, flushes: Vec<BlockFlush>) {
        for flush in flushes {
            self.write(&flush);
            flush.clean();
        }
    }
}

/// Returns a block filled from the store, as a server does; `None` if it is busy, or all slots are pinned.
pub fn load(pool: &Pool, store: &Store, file: FileId, block: u64) -> Option<Pin> {
    loop {
        match pool.get(file, block) {
            Lookup::Hit(pin) => return Some(pin),
            Lookup::Fill(mut fill) => {
                let end = fill.bytes(0..BLOCK, |bytes| store.read(file, block, bytes));
                return Some(fill.done(end));
            }
            Lookup::Busy => return None,
            Lookup::Full => match pool.next_dirty(2) {
                dirty if dirty.is_empty() => return None,
                dirty => store.flush(dirty),
            },
        }
    }
}
