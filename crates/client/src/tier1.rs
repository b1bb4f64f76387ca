//! STUB, replaced by a merge.
#![allow(missing_docs, dead_code, unused)]
use crate::{File, FileId, Partition, Result};
use std::ops::Range;
use std::time::Duration;
#[derive(Clone, Debug)]
pub struct TierOptions { pub bytes: u64, pub block: u64, pub high: u8, pub low: u8, pub settle: Duration }
impl Default for TierOptions { fn default() -> Self { TierOptions { bytes: 64 << 20, block: 65536, high: 50, low: 25, settle: Duration::from_millis(20) } } }
#[derive(Clone, Copy, Debug, Default)]
pub struct TierCounters { pub staged_bytes: u64, pub recalls: u64 }
pub struct Tier1;
pub struct TierFile(File);
pub struct Hold;
impl Partition { pub fn tier1(&self) -> &Tier1 { &Tier1 } }
impl Tier1 {
    pub fn open(&self, file: &File, team: u128, options: &TierOptions) -> Result<TierFile> { Ok(TierFile(file.clone())) }
    pub fn retained(&self, file: FileId) -> Option<u128> { None }
}
impl TierFile {
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> { self.0.write_at(bytes, offset) }
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize> { self.0.read_at(bytes, offset) }
    pub fn hold(&self, range: Range<u64>) -> Result<Hold> { Ok(Hold) }
    pub fn flush(&self) -> Result<()> { self.0.flush() }
    pub fn cut(&self, size: u64) {}
    pub fn counters(&self) -> TierCounters { TierCounters::default() }
    pub fn close(self, retain: bool) -> Result<()> { self.0.flush() }
}
