//! Parts in memory, for tests.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use pario_runtime::sync::{Mutex, MutexGuard};
use pario_types::FileId;

use crate::error::{Error, Result, StoreAction};
use crate::order::BlockOrder;
use crate::run::{self, BlockRun};
use crate::table;
use crate::{CorruptByte, PartInfo, Store, StoreSpace, VerifyReport};

/// A store in memory, which is gone when it is dropped.
pub struct MemoryStore {
    block: usize,
    capacity: u64,
    highest: AtomicU64,
    parts: Mutex<BTreeMap<FileId, MemoryPart>>,
}

/// A part.
#[derive(Default)]
struct MemoryPart {
    end: u64,
    /// The highest id of a truncation.
    cut: u64,
    blocks: BTreeMap<u64, MemoryBlock>,
}

/// A block that was written, with zeros behind the part's end.
struct MemoryBlock {
    bytes: Box<[u8]>,
    sum: u32,
}

impl MemoryBlock {
    fn fits(&self, file: FileId, block: u64) -> bool {
        self.sum == table::sum(file, block, &self.bytes, self.bytes.len())
    }
}

impl MemoryStore {
    /// Creates a store that is limited only by memory.
    pub fn new(block_size: usize) -> Result<MemoryStore> {
        MemoryStore::with_capacity(block_size, i64::MAX as u64)
    }

    /// Creates a store that is full when its blocks take so many bytes.
    pub fn with_capacity(block_size: usize, capacity: u64) -> Result<MemoryStore> {
        run::check_block_size(block_size)?;
        Ok(MemoryStore { block: block_size, capacity, highest: AtomicU64::new(0), parts: Mutex::default() })
    }

    fn parts(&self) -> MutexGuard<'_, BTreeMap<FileId, MemoryPart>> {
        self.parts.lock()
    }

    /// Returns a part, and creates it if it does not exist.
    fn make<'a>(&self, parts: &'a mut BTreeMap<FileId, MemoryPart>, file: FileId) -> &'a mut MemoryPart {
        self.highest.fetch_max(file.0, Ordering::Relaxed);
        parts.entry(file).or_default()
    }

    fn used(&self, parts: &BTreeMap<FileId, MemoryPart>) -> u64 {
        parts.values().map(|part| part.blocks.len() as u64).sum::<u64>() * self.block as u64
    }
}

impl MemoryPart {
    /// Stores the first bytes of a block, unless there is no more space for a new one.
    fn put(&mut self, file: FileId, block: u64, bytes: &[u8], kept: usize, free: &mut u64) -> Result<()> {
        if !self.blocks.contains_key(&block) {
            let left = free.checked_sub(bytes.len() as u64);
            *free = left.ok_or_else(full)?;
        }
        let mut bytes: Box<[u8]> = bytes.into();
        bytes[kept..].fill(0);
        let sum = table::sum(file, block, &bytes, kept);
        self.blocks.insert(block, MemoryBlock { bytes, sum });
        Ok(())
    }

    /// Remembers the id of a truncation; returns whether it was new.
    fn fence(&mut self, cut: u64) -> bool {
        let new = cut > self.cut;
        self.cut = self.cut.max(cut);
        new
    }

    fn cut(&mut self, file: FileId, size: usize, end: u64) {
        self.blocks.split_off(&end.div_ceil(size as u64));
        let (block, kept) = (end / size as u64, (end % size as u64) as usize);
        if let Some(stored) = self.blocks.get_mut(&block) {
            let fits = stored.fits(file, block);
            stored.bytes[kept..].fill(0);
            if fits {
                stored.sum = table::sum(file, block, &stored.bytes, kept);
            }
        }
    }
}

fn full() -> Error {
    Error::Io { action: StoreAction::Write, path: PathBuf::from("memory"), errno: libc::ENOSPC }
}

impl Store for MemoryStore {
    fn block_size(&self) -> usize {
        self.block
    }

    fn read(&self, file: FileId, first: u64, blocks: &mut [&mut [u8]]) -> Result<()> {
        run::check_sizes(blocks, self.block);
        let run = BlockRun::new(file, self.block, first, blocks.len())?;
        let parts = self.parts();
        for (block, to) in run.blocks().zip(blocks) {
            match parts.get(&file).and_then(|part| part.blocks.get(&block)) {
                None => to.fill(0),
                Some(stored) if stored.fits(file, block) => to.copy_from_slice(&stored.bytes),
                Some(_) => return Err(Error::Damaged { file, block }),
            }
        }
        Ok(())
    }

    fn write(&self, file: FileId, first: u64, blocks: &[&[u8]], end: u64) -> Result<()> {
        run::check_sizes(blocks, self.block);
        let run = BlockRun::new(file, self.block, first, blocks.len())?;
        let mut parts = self.parts();
        let mut free = self.capacity.saturating_sub(self.used(&parts));
        let stored = parts.get(&file).map_or(0, |part| part.end);
        let new = run.end_after(stored, end);
        if new == 0 {
            return Ok(());
        }
        let part = self.make(&mut parts, file);
        for (index, block) in run.below(new).blocks().enumerate() {
            part.put(file, block, blocks[index], run.kept(index, new), &mut free)?;
            part.end = part.end.max(new.min((block + 1) * self.block as u64));
        }
        part.end = new;
        Ok(())
    }

    fn arrange(&self, file: FileId, runs: &[Range<u64>]) -> Result<()> {
        BlockOrder::new(self.block, runs).ok_or(Error::Order { file })?;
        self.make(&mut self.parts(), file);
        Ok(())
    }

    fn contiguous_blocks(&self, _: FileId, _: u64, most: u64) -> Result<u64> {
        Ok(most)
    }

    fn end(&self, file: FileId) -> Result<u64> {
        Ok(self.parts().get(&file).map_or(0, |part| part.end))
    }

    fn set_end(&self, file: FileId, end: u64, cut: u64) -> Result<bool> {
        let end = run::sound_end(file, end)?;
        let mut parts = self.parts();
        if end == 0 && cut == 0 && !parts.contains_key(&file) {
            return Ok(true);
        }
        let part = self.make(&mut parts, file);
        if cut > 0 && !part.fence(cut) {
            return Ok(false);
        }
        if end < part.end {
            part.cut(file, self.block, end);
        }
        part.end = end;
        Ok(true)
    }

    fn fence(&self, file: FileId, cut: u64) -> Result<bool> {
        Ok(cut > 0 && self.make(&mut self.parts(), file).fence(cut))
    }

    fn last_truncation(&self, file: FileId) -> Result<u64> {
        Ok(self.parts().get(&file).map_or(0, |part| part.cut))
    }

    fn reserve(&self, file: FileId, blocks: Range<u64>) -> Result<()> {
        let mut parts = self.parts();
        let free = self.capacity.saturating_sub(self.used(&parts));
        let part = self.make(&mut parts, file);
        let old = if blocks.is_empty() { 0 } else { part.blocks.range(blocks.clone()).count() as u64 };
        let new = (blocks.end.saturating_sub(blocks.start) - old).saturating_mul(self.block as u64);
        if new > free { Err(full()) } else { Ok(()) }
    }

    fn remove(&self, file: FileId) -> Result<()> {
        self.parts().remove(&file);
        Ok(())
    }

    fn reclaim(&self) -> Result<()> {
        Ok(())
    }

    fn sync(&self, _: FileId) -> Result<()> {
        Ok(())
    }

    fn sync_all(&self) -> Result<()> {
        Ok(())
    }

    fn sync_failure(&self, _: FileId) -> Result<()> {
        Ok(())
    }

    fn list(&self, after: FileId, most: usize) -> Result<Vec<PartInfo>> {
        let parts = self.parts();
        let rest = parts.range((Bound::Excluded(after), Bound::Unbounded)).take(most);
        Ok(rest.map(|(file, part)| PartInfo { file: *file, end: part.end }).collect())
    }

    fn verify(&self, file: FileId, from: u64, most: u64) -> Result<VerifyReport> {
        let parts = self.parts();
        let Some(part) = parts.get(&file) else { return Ok(VerifyReport::default()) };
        let count = part.end.div_ceil(self.block as u64);
        let stop = from.saturating_add(most);
        let looked_at = part.blocks.range(from..stop.max(from));
        let damaged = looked_at.filter(|(block, stored)| !stored.fits(file, **block));
        let damaged = damaged.map(|(block, _)| *block).collect();
        Ok(VerifyReport { damaged, repaired: 0, next: (stop < count).then_some(stop) })
    }

    fn accept(&self, file: FileId, blocks: &[u64]) -> Result<()> {
        let mut parts = self.parts();
        let Some(part) = parts.get_mut(&file) else { return Ok(()) };
        for block in blocks {
            if let Some(stored) = part.blocks.get_mut(block) {
                stored.sum = table::sum(file, *block, &stored.bytes, self.block);
            }
        }
        Ok(())
    }

    fn room(&self) -> Result<StoreSpace> {
        let parts = self.parts();
        let used = self.used(&parts);
        let free = self.capacity.saturating_sub(used);
        Ok(StoreSpace { total: self.capacity, free, used, parts: parts.len() as u64 })
    }

    fn highest_file_id(&self) -> FileId {
        FileId(self.highest.load(Ordering::Relaxed))
    }

    fn unverified(&self) -> u64 {
        0
    }
}

impl CorruptByte for MemoryStore {
    fn flip_byte(&self, file: FileId, at: u64) -> Result<()> {
        let mut parts = self.parts();
        let part = parts.entry(file).or_default();
        assert!(at < part.end, "no byte {at} in a part of {}", part.end);
        let (block, within) = (at / self.block as u64, (at % self.block as u64) as usize);
        let hole = || {
            let bytes: Box<[u8]> = vec![0; self.block].into();
            MemoryBlock { sum: table::sum(file, block, &bytes, self.block), bytes }
        };
        let byte = &mut part.blocks.entry(block).or_insert_with(hole).bytes[within];
        *byte = !*byte;
        Ok(())
    }
}
