//! The bytes of one file: live, stable, and the versions of sectors in between.

use std::collections::{BTreeMap, BTreeSet};

use crate::{PAGE, SECTOR};

#[derive(Default)]
pub(crate) struct Contents {
    pub live: Vec<u8>,
    stable: Vec<u8>,
    /// For sectors to be written: all versions since the stable one.
    pub dirty: BTreeMap<usize, Vec<[u8; SECTOR]>>,
    /// Sectors that are live, not stable, and that no sync will write.
    pub forgotten: BTreeSet<usize>,
    /// The length that survives a loss of power, and those that the file had since.
    pub stable_len: usize,
    pub lengths: Vec<usize>,
    pub pages: BTreeSet<u64>,
    /// A sync of the whole medium lost bytes of this file. The next sync of the file reports it, as Linux does.
    pub is_loss_unreported: bool,
}

impl Contents {
    pub fn used(&self) -> u64 {
        self.pages.len() as u64 * PAGE
    }

    fn sector(&self, sector: usize) -> [u8; SECTOR] {
        let mut bytes = [0; SECTOR];
        let start = (sector * SECTOR).min(self.live.len());
        let end = (start + SECTOR).min(self.live.len());
        bytes[..end - start].copy_from_slice(&self.live[start..end]);
        bytes
    }

    fn touch(&mut self, from: usize, to: usize) {
        for sector in from / SECTOR..to.div_ceil(SECTOR) {
            let now = self.sector(sector);
            self.dirty.entry(sector).or_default().push(now);
            self.forgotten.remove(&sector);
        }
    }

    pub fn write(&mut self, bytes: &[u8], at: usize) {
        if bytes.is_empty() {
            return;
        }
        let end = at + bytes.len();
        if end > self.live.len() {
            self.live.resize(end, 0);
            self.lengths.push(end);
        }
        self.live[at..end].copy_from_slice(bytes);
        self.pages.extend(at as u64 / PAGE..(end as u64).div_ceil(PAGE));
        self.touch(at, end);
    }

    pub fn set_len(&mut self, len: usize) {
        let before = self.live.len();
        self.live.resize(len, 0);
        self.lengths.push(len);
        self.pages.split_off(&(len as u64).div_ceil(PAGE));
        if len < before {
            self.touch(len, before);
        }
    }

    pub fn punch(&mut self, at: usize, len: usize) {
        let end = (at + len).min(self.live.len());
        if at < end {
            self.live[at..end].fill(0);
            self.touch(at, end);
        }
        let whole = (at as u64).div_ceil(PAGE)..(at + len) as u64 / PAGE;
        self.pages.retain(|page| !whole.contains(page));
    }

    /// A sector's bytes reach the medium; the file's length there is separate.
    pub fn make_stable(&mut self, sector: usize, bytes: &[u8; SECTOR]) {
        let end = (sector + 1) * SECTOR;
        if self.stable.len() < end {
            self.stable.resize(end, 0);
        }
        self.stable[end - SECTOR..end].copy_from_slice(bytes);
    }

    /// The length reaches the medium.
    pub fn make_len_stable(&mut self) {
        self.stable_len = self.live.len();
        self.stable.resize(self.stable_len, 0);
        self.lengths.clear();
    }

    /// The sector is read from the medium again. A hole stays one: no page is there to be read.
    pub fn revert(&mut self, sector: usize) {
        let start = sector * SECTOR;
        if !self.pages.contains(&(start as u64 / PAGE)) {
            return;
        }
        let end = (start + SECTOR).min(self.live.len());
        for at in start..end {
            self.live[at] = self.stable.get(at).copied().unwrap_or(0);
        }
    }

    pub fn evict(&mut self) {
        for sector in std::mem::take(&mut self.forgotten) {
            self.revert(sector);
        }
    }

    pub fn start_over(&mut self, len: usize) {
        self.stable_len = len;
        self.stable.resize(len, 0);
        self.live = self.stable.clone();
        self.dirty.clear();
        self.forgotten.clear();
        self.lengths.clear();
        self.is_loss_unreported = false;
        self.pages = (0..(len as u64).div_ceil(PAGE)).collect();
    }

    pub fn rot(&mut self, at: usize, bits: u8) -> bool {
        for bytes in [&mut self.live, &mut self.stable] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= bits;
            }
        }
        at < self.live.len()
    }
}
