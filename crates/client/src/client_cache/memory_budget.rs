//! The memory budget for blocks of all files. An allocation evicts clean blocks, and waits only if all blocks are dirty.

use std::sync::Arc;
use std::time::Duration;

use pario_runtime::time::Instant;
use pario_types::FileId;

use super::state::{CachedFile, Key, State};
use super::{Guard, Shared};
use crate::error::{Error, Result};

impl Shared {
    /// Returns memory for a block of this size. The lock may be released meanwhile.
    pub(super) fn allocate<'a>(
        &'a self,
        mut state: Guard<'a>,
        size: u64,
        file: FileId,
        patience: Duration,
    ) -> Result<(Guard<'a>, Vec<u8>)> {
        if let Some(memory) = state.try_allocate(size) {
            return Ok((state, memory));
        }
        let since = Instant::now();
        // Blocks that could not be staged before may be by now.
        state.files.values_mut().for_each(|file| file.paused = false);
        state.memory_waiters += 1;
        self.work.notify_one();
        let found = loop {
            if let Some(failed) = state.stuck() {
                break Err(failed);
            }
            let waited = since.elapsed();
            if waited >= patience {
                break Err(state.failure().unwrap_or(Error::NoRoom { file, waited }));
            }
            state = self.wait(state, patience - waited);
            if let Some(memory) = state.try_allocate(size) {
                break Ok(memory);
            }
        };
        state.memory_waiters -= 1;
        state.counters.waited_ns += since.elapsed().as_nanos() as u64;
        found.map(|memory| (state, memory))
    }
}

impl State {
    /// Returns memory for a block, if there is some or a clean block can be evicted.
    pub fn try_allocate(&mut self, size: u64) -> Option<Vec<u8>> {
        loop {
            if self.used + size <= self.limits.bytes {
                self.used += size;
                self.counters.peak_bytes = self.counters.peak_bytes.max(self.used);
                return Some(vec![0; size as usize]);
            }
            let place = self.least_used()?;
            let memory = self.take(place).expect("a clean block has bytes");
            if memory.len() as u64 == size {
                return Some(memory);
            }
            self.give_back(memory);
        }
    }

    /// Evicts clean blocks, if the budget has become smaller.
    pub fn shrink(&mut self) {
        while self.used > self.limits.bytes
            && let Some(place) = self.least_used()
        {
            self.discard(place);
        }
    }

    /// Returns memory that is not needed after all.
    pub fn give_back(&mut self, memory: Vec<u8>) {
        self.used -= memory.len() as u64;
    }

    /// The reason why a block could not be staged, if there is one.
    fn failure(&self) -> Option<Error> {
        let failed = |((_, file), kept): (&Key, &CachedFile)| {
            Some(Error::Unstaged { file: *file, cause: Arc::clone(kept.error.as_ref()?) })
        };
        self.files.iter().find_map(failed)
    }

    /// The same, if it concerns all blocks in memory.
    fn stuck(&self) -> Option<Error> {
        let mut used = self.files.values().filter(|file| !file.blocks.is_empty());
        if used.all(|file| file.paused) { self.failure() } else { None }
    }
}
