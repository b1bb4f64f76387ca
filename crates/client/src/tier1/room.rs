//! Memory for blocks: as much as was asked for, over all files. Who needs some takes that of clean blocks, and
//! waits only if all blocks are dirty.

use std::time::{Duration, Instant};

use pario_units::FileId;

use super::state::State;
use super::{Guard, Shared};
use crate::error::{Error, Result};

impl Shared {
    /// Memory for a block of this size. The lock may be let go meanwhile.
    pub(super) fn room<'a>(
        &'a self,
        mut state: Guard<'a>,
        size: u64,
        file: FileId,
        patience: Duration,
    ) -> Result<(Guard<'a>, Vec<u8>)> {
        if let Some(memory) = state.room_now(size) {
            return Ok((state, memory));
        }
        let since = Instant::now();
        // What could not be staged may be by now.
        state.files.values_mut().for_each(|file| file.paused = false);
        state.wanting += 1;
        self.work.notify_one();
        let found = loop {
            if let Some(failed) = state.is_stuck() {
                break Err(failed);
            }
            let waited = since.elapsed();
            if waited >= patience {
                break Err(Error::NoRoom { file, waited });
            }
            state = self.wait(state, patience - waited);
            if let Some(memory) = state.room_now(size) {
                break Ok(memory);
            }
        };
        state.wanting -= 1;
        state.counters.waited_ns += since.elapsed().as_nanos() as u64;
        found.map(|memory| (state, memory))
    }
}

impl State {
    /// Memory for a block, if there is some or a clean block can go.
    pub fn room_now(&mut self, size: u64) -> Option<Vec<u8>> {
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

    /// Gives up clean blocks, if there is less memory than before.
    pub fn shrink(&mut self) {
        while self.used > self.limits.bytes
            && let Some(place) = self.least_used()
        {
            self.discard(place);
        }
    }

    /// Memory that is not needed after all.
    pub fn give_back(&mut self, memory: Vec<u8>) {
        self.used -= memory.len() as u64;
    }

    /// The error, if all there is in memory could not be staged.
    fn is_stuck(&self) -> Option<Error> {
        let mut failed = None;
        for ((_, id), file) in &self.files {
            match (&file.error, file.paused) {
                (Some(cause), true) => failed = Some((*id, cause)),
                _ if !file.blocks.is_empty() => return None,
                _ => {}
            }
        }
        failed.map(|(file, cause)| Error::Unstaged { file, cause: std::sync::Arc::clone(cause) })
    }
}
