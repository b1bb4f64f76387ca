//! Staging: a background thread writes dirty bytes back to the servers.
//!
//! It stages from the high to the low watermark, blocks that have not been modified for a while, and when a thread waits for
//! memory or for a flush. The least recently modified block comes first. Only dirty bytes are written, several blocks at a
//! time. A block cannot be modified while it is being staged.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pario_runtime::time::Instant;
use pario_types::ErrorKind;

use super::ranges::Ranges;
use super::server_io::ServerIo;
use super::state::{Block, CachedFile, Key, State, most_ranges};
use super::{Guard, Shared};
use crate::error::{Error, Result};

/// The largest number of blocks and bytes that are staged at once; at least one block.
const BLOCKS: usize = 64;
const BYTES: u64 = 4 << 20;

/// Blocks that are being staged.
pub(super) struct Load {
    key: Key,
    servers: Arc<dyn ServerIo>,
    block: u64,
    parts: Vec<Part>,
}

struct Part {
    index: u64,
    bytes: Arc<Vec<u8>>,
    dirty: Ranges,
}

/// The next step of the staging thread.
enum Next {
    Stage(Load),
    /// Nothing to do before that time.
    At(Instant),
    Sleep,
}

/// The staging thread.
pub(super) fn run(shared: &Shared) {
    let mut state = shared.lock();
    while !state.over && !state.files.is_empty() {
        match state.next(Instant::now()) {
            Next::Stage(load) => state = shared.stage(state, load).0,
            Next::At(time) => {
                shared.work.wait_until(&mut state, time);
            }
            Next::Sleep => shared.work.wait(&mut state),
        }
    }
    state.has_staging_thread = false;
}

impl Shared {
    /// Stages blocks, and records the error of the file if that fails. Refused bytes have arrived, too.
    fn stage<'a>(&'a self, state: Guard<'a>, load: Load) -> (Guard<'a>, Option<ErrorKind>) {
        drop(state);
        let outcome = load.run_io();
        let failed = outcome.as_ref().err().filter(|error| error.cut_off_at().is_none()).map(Error::kind);
        let mut state = self.lock();
        state.arrived(load, outcome);
        self.changed.notify_all();
        (state, failed)
    }

    /// Stages a block at once, for a thread that waits for it.
    pub(super) fn stage_block<'a>(&'a self, mut state: Guard<'a>, key: Key, index: u64) -> Result<Guard<'a>> {
        let load = state.load(key, std::iter::once(index));
        state = self.stage(state, load).0;
        let file = state.file(key);
        match file.error.clone().filter(|_| file.paused) {
            Some(cause) => Err(Error::Unstaged { file: key.1, cause }),
            None => Ok(state),
        }
    }

    /// Waits until nothing of a file is dirty.
    pub(super) fn flush(&self, key: Key, patience: Duration) -> Result<()> {
        let mut state = self.lock();
        let file = state.file(key);
        file.flushing += 1;
        (file.paused, file.error) = (false, None);
        self.work.notify_one();
        let (mut since, mut staged) = (Instant::now(), state.counters.staged_blocks);
        let outcome = loop {
            let file = state.file(key);
            if !file.is_dirty() {
                break Ok(());
            }
            if let Some(cause) = file.error.clone().filter(|_| file.paused) {
                break Err(Error::Unstaged { file: key.1, cause });
            }
            if since.elapsed() >= patience {
                break Err(Error::NoRoom { file: key.1, waited: since.elapsed() });
            }
            state = self.wait(state, patience);
            if state.counters.staged_blocks > staged {
                (since, staged) = (Instant::now(), state.counters.staged_blocks);
            }
        };
        let file = state.file(key);
        file.flushing -= 1;
        outcome?;
        file.error = None;
        match file.lost.take() {
            Some(server) => Err(Error::LeaseLost { file: key.1, server }),
            None => Ok(()),
        }
    }

    /// Stages the dirty bytes of these blocks, and removes all of the blocks. If that fails they stay, with only their
    /// dirty bytes.
    pub(super) fn empty<'a>(
        &'a self,
        mut state: Guard<'a>,
        key: Key,
        blocks: &[u64],
    ) -> (Guard<'a>, Option<ErrorKind>) {
        let mut failed = None;
        loop {
            state = self.landed(state, key, blocks);
            let Some(file) = state.files.get(&key) else { return (state, None) };
            let is_dirty = |index: &&u64| file.blocks.get(index).is_some_and(|block| !block.dirty.is_empty());
            let dirty: Vec<u64> = blocks.iter().filter(is_dirty).copied().collect();
            if dirty.is_empty() || failed.is_some() {
                break;
            }
            let load = state.load(key, dirty.into_iter());
            (state, failed) = self.stage(state, load);
        }
        state.take_out(key, blocks);
        (state, failed)
    }

    /// Waits until none of these blocks is being staged.
    pub(super) fn landed<'a>(&'a self, mut state: Guard<'a>, key: Key, blocks: &[u64]) -> Guard<'a> {
        loop {
            let on_its_way =
                |file: &CachedFile, index| file.blocks.get(index).is_some_and(|block| block.staging);
            let file = state.files.get(&key);
            if !file.is_some_and(|file| blocks.iter().any(|index| on_its_way(file, index))) {
                return state;
            }
            state = self.wait_for_ever(state);
        }
    }
}

impl State {
    /// Removes blocks; dirty ones stay, with only their dirty bytes.
    pub fn take_out(&mut self, key: Key, blocks: &[u64]) {
        for index in blocks {
            let place = (key, *index);
            match self.block(place).map(|block| block.dirty.is_empty()) {
                Some(true) => self.discard(place),
                Some(false) => {
                    self.renew(place);
                    self.change(place, false, Block::keep_dirty);
                }
                None => {}
            }
        }
    }

    fn next(&mut self, now: Instant) -> Next {
        let (low, settle) = (self.percent(self.limits.low), self.limits.settle);
        self.draining = self.dirty_bytes > if self.draining { low } else { self.percent(self.limits.high) };
        // A waiting thread needs memory soon, and the other dirty blocks may be modified again.
        let mut excess = match self.draining {
            true => self.dirty_bytes - low,
            false => u64::from(self.memory_waiters > 0),
        };
        let (mut chosen, mut soonest): (Option<Key>, Option<Instant>) = (None, None);
        let mut indices = Vec::new();
        for ((key, index), file, block) in self.dirty_in_order() {
            let is_other = chosen.is_some_and(|chosen| chosen != key);
            if is_other || file.paused || block.staging || block.pins > 0 {
                continue;
            }
            let due = block.modified + settle;
            if excess > 0 || file.flushing > 0 || due <= now {
                chosen = Some(key);
                indices.push(index);
                excess = excess.saturating_sub(file.block);
            } else {
                soonest = Some(soonest.map_or(due, |soonest| soonest.min(due)));
            }
            if indices.len() == BLOCKS {
                break;
            }
        }
        match chosen {
            Some(key) => Next::Stage(self.load(key, indices.into_iter())),
            None => soonest.map_or(Next::Sleep, Next::At),
        }
    }

    /// Sends the dirty bytes of some of these blocks, from the first on.
    fn load(&mut self, key: Key, indices: impl Iterator<Item = u64>) -> Load {
        let most = BYTES.min(self.limits.bytes / 4);
        let file: &mut CachedFile = self.file(key);
        let servers = Arc::clone(file.servers.as_ref().expect("a file with dirty bytes is open"));
        let size = file.block;
        let most = (most / size).max(1) as usize;
        let mut parts: Vec<Part> = indices
            .take(most)
            .map(|index| {
                let block = file.blocks.get_mut(&index).expect("a dirty block is there");
                block.staging = true;
                let bytes = block.bytes.as_ref().expect("a dirty block has bytes");
                Part { index, bytes: Arc::clone(bytes), dirty: block.dirty.clone() }
            })
            .collect();
        parts.sort_unstable_by_key(|part| part.index);
        Load { key, servers, block: size, parts }
    }

    fn arrived(&mut self, load: Load, outcome: Result<()>) {
        let Load { key, parts, block, .. } = load;
        let most = most_ranges(block);
        let refused = outcome.as_ref().err().and_then(Error::cut_off_at);
        if let Some(server) = refused {
            self.drop_leases(key.0, server);
        }
        for Part { index, bytes, dirty: staged } in parts {
            drop(bytes);
            self.block((key, index)).expect("a block stays until it is staged").staging = false;
            if let Some(server) = refused
                && self.file(key).is_at(index, server)
            {
                self.lose((key, index), server);
            }
            if outcome.is_ok() {
                let gone = |range: Range<u64>, block: &mut Block| block.dirty.remove(&range);
                self.change((key, index), false, |block| {
                    staged.iter().for_each(|range| gone(range, block));
                    if block.valid.len() > most {
                        block.keep_dirty();
                    }
                });
                self.counters.staged_blocks += 1;
                let bytes = staged.iter().map(|range| range.end - range.start).sum::<u64>();
                self.counters.staged_bytes += bytes;
                self.file(key).staged += bytes;
            }
        }
        let file = self.file(key);
        // Refused bytes are lost; the rest can be staged.
        file.paused = outcome.is_err() && refused.is_none();
        if let Err(error) = outcome
            && refused.is_none()
        {
            file.error.get_or_insert(Arc::new(error));
        }
    }
}

impl Load {
    fn run_io(&self) -> Result<()> {
        let mut segments = Vec::new();
        for Part { index, bytes, dirty } in &self.parts {
            for range in dirty.iter() {
                let offset = index * self.block + range.start;
                segments.push((offset, &bytes[range.start as usize..range.end as usize]));
            }
        }
        self.servers.write(&segments)
    }
}

impl Block {
    /// Drops the bytes that the servers have, too.
    fn keep_dirty(&mut self) {
        self.valid = self.dirty.clone();
        self.reach = self.dirty.span().map_or(0, |span| span.end);
    }
}
