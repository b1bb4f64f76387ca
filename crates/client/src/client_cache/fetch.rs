//! Fetching: reads whole blocks from the servers, several at a time, and merges them under newer local bytes.
//!
//! While a block is being fetched, its entry stays in the cache and records what is written meanwhile. If the entry or the
//! lease is gone when the bytes arrive, the bytes are discarded: another client may have written since.

use std::ops::Range;
use std::sync::Arc;

use super::Shared;
use super::server_io::ServerIo;
use super::state::{Key, State};
use crate::error::Result;

/// The largest number of bytes that are fetched at once; at least one block.
const BYTES: u64 = 4 << 20;

/// A block that is being fetched.
struct FetchingBlock {
    index: u64,
    serial: u64,
    bytes: Vec<u8>,
}

impl Shared {
    /// Fetches the first blocks of ranges, which are in order, that are not complete, as far as they are leased.
    pub(super) fn fetch(
        &self,
        key: Key,
        servers: &Arc<dyn ServerIo>,
        ranges: impl Iterator<Item = Range<u64>>,
    ) -> Result<()> {
        let mut state = self.lock();
        let size = state.file(key).block;
        let (mut state, first) = self.allocate(state, size, key.1, servers.deadline() * 4)?;
        let mut coming = state.choose(key, ranges, first);
        drop(state);
        let mut segments: Vec<(u64, &mut [u8])> =
            coming.iter_mut().map(|block| (block.index * size, &mut block.bytes[..])).collect();
        let outcome = match segments.is_empty() {
            true => Ok(0),
            false => servers.read(&mut segments),
        };
        drop(segments);
        let mut state = self.lock();
        let mut left = *outcome.as_ref().unwrap_or(&0);
        for mut block in coming {
            let reach = left.min(block.bytes.len());
            left -= reach;
            block.bytes[reach..].fill(0);
            state.arrive(key, block, outcome.is_ok().then_some(reach as u64));
        }
        self.changed.notify_all();
        self.work.notify_one();
        outcome.map(|_| ())
    }
}

impl State {
    /// Returns the blocks to fetch: as many as there is memory for.
    fn choose(
        &mut self,
        key: Key,
        ranges: impl Iterator<Item = Range<u64>>,
        first: Vec<u8>,
    ) -> Vec<FetchingBlock> {
        let mut coming: Vec<FetchingBlock> = Vec::new();
        let mut memory = Some(first);
        let size = self.file(key).block;
        let most = (BYTES.min(self.limits.bytes / 4) / size).max(1) as usize;
        let blocks = ranges.filter(|range| !range.is_empty()).flat_map(|range| {
            (range.start / size..range.end.div_ceil(size)).map(move |index| (index, range.clone()))
        });
        for (index, range) in blocks {
            if coming.len() == most {
                break;
            }
            if coming.last().is_some_and(|last| last.index == index) {
                continue;
            }
            let file = self.file(key);
            let whole = file.range_of(index);
            if !file.has_lease(whole.clone()) {
                break;
            }
            let wanted = range.start.max(whole.start) - whole.start..range.end.min(whole.end) - whole.start;
            match file.blocks.get(&index) {
                Some(block) if block.valid.contains(&wanted) => continue,
                Some(block) if block.staging => break,
                _ => {}
            }
            let Some(bytes) = memory.take().or_else(|| self.try_allocate(size)) else { break };
            let entry = self.entry((key, index));
            entry.pins += 1;
            coming.push(FetchingBlock { index, serial: entry.serial, bytes });
        }
        if let Some(unused) = memory {
            self.give_back(unused);
        }
        coming
    }

    /// A block has arrived, of which `reach` bytes lie within the file; or the fetch failed.
    fn arrive(&mut self, key: Key, coming: FetchingBlock, reach: Option<u64>) {
        let place = (key, coming.index);
        let Some(file) = self.files.get(&key) else { return self.give_back(coming.bytes) };
        let has_lease = file.has_lease(file.range_of(coming.index));
        let Some(block) = self.block(place).filter(|block| block.serial == coming.serial) else {
            return self.give_back(coming.bytes);
        };
        block.pins -= 1;
        let mut unused = Some(coming.bytes);
        if let Some(reach) = reach
            && has_lease
            && !block.staging
        {
            self.change(place, true, |block| {
                unused = block.merge(unused.take().expect("it has come"), reach);
            });
            self.counters.fetched_blocks += 1;
        } else if block.bytes.is_none() && block.pins == 0 {
            self.file(key).blocks.remove(&coming.index);
        }
        if let Some(unused) = unused {
            self.give_back(unused);
        }
    }
}
