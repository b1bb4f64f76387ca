//! A file in tier 1: accesses, block by block.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::door::Door;
use super::lease::Hold;
use super::state::{Key, State, most_ranges};
use super::{Guard, Shared};
use crate::error::{Error, Result};
use crate::file::check;

/// A block that others took away so often before it could be used is accessed at the servers.
const TRIES: u32 = 8;

/// A file whose blocks are kept in this process. Threads may use it at the same time.
///
/// The caller promises that no other process of the team uses the blocks that it uses here.
pub struct TierFile {
    shared: Arc<Shared>,
    key: Key,
    block: u64,
    door: Arc<dyn Door>,
    is_closed: bool,
}

/// A part of an access that lies in one block.
struct Piece {
    index: u64,
    within: Range<u64>,
    /// Where in memory.
    at: Range<usize>,
}

/// An access of one block.
struct Visit<'a> {
    piece: &'a Piece,
    /// All that is still to be accessed.
    ahead: Range<u64>,
    since: Instant,
    tries: u32,
}

impl TierFile {
    pub(super) fn new(shared: Arc<Shared>, key: Key, block: u64, door: Arc<dyn Door>) -> TierFile {
        TierFile { shared, key, block, door, is_closed: false }
    }

    /// Bytes of a block.
    pub fn block(&self) -> u64 {
        self.block
    }

    /// Writes into blocks here. Waits for servers only for leases, or if the memory is full of dirty blocks.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.door.may_access(true)?;
        check(offset, bytes.len())?;
        let end = offset + bytes.len() as u64;
        self.pieces(offset..end).try_for_each(|piece| self.write_piece(&piece, &bytes[piece.at.clone()], end))
    }

    /// Reads, first what is here; the rest is fetched in whole blocks and kept. As many bytes as there are before
    /// the file's end: the furthest that the servers know of or that was written here.
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize> {
        self.door.may_access(false)?;
        check(offset, bytes.len())?;
        let end = offset + bytes.len() as u64;
        let mut is_within = true;
        for piece in self.pieces(offset..end) {
            is_within &= self.read_piece(&piece, &mut bytes[piece.at.clone()], end)?;
        }
        if is_within {
            return Ok(bytes.len());
        }
        // In this order: what is staged meanwhile the servers know.
        let here = self.shared.lock().file(self.key).dirty_end();
        let size = self.door.size()?.max(here);
        Ok(size.saturating_sub(offset).min(bytes.len() as u64) as usize)
    }

    /// Leases the blocks of a range. Until the result is dropped no recall takes them away.
    pub fn hold(&self, range: Range<u64>) -> Result<Hold> {
        check(range.start, range.end.saturating_sub(range.start) as usize)?;
        self.shared.hold(self.key, &self.door, &range)
    }

    /// Waits until the servers have all that was written, not necessarily on disk. What could not be staged before
    /// is tried again; the error is that of the first failure since. Blocks and leases stay.
    pub fn flush(&self) -> Result<()> {
        self.shared.flush(self.key, self.patience())
    }

    /// The furthest end of what was written here since it was opened; 0 if nothing was.
    pub fn end(&self) -> u64 {
        self.shared.lock().file(self.key).end
    }

    /// How many bytes of it went to servers since it was opened, and how often it was recalled.
    pub fn staged_and_recalled(&self) -> (u64, u64) {
        let mut state = self.shared.lock();
        let file = state.file(self.key);
        (file.staged, file.recalled)
    }

    /// Forgets what lies beyond a size, also if it was never staged. The caller sets the size at the servers.
    pub fn cut(&self, size: u64) {
        let mut state = self.shared.lock();
        let beyond: Vec<u64> = loop {
            let file = state.file(self.key);
            let mut beyond = file.blocks.range(size / self.block..);
            if beyond.all(|(_, block)| !block.staging) {
                break file.blocks.range(size / self.block..).map(|(index, _)| *index).collect();
            }
            state = self.shared.wait_for_ever(state);
        };
        for index in beyond {
            let place = (self.key, index);
            let within = size.saturating_sub(index * self.block);
            let has_bytes = state.block(place).is_some_and(|block| block.bytes.is_some());
            match within == 0 || !has_bytes {
                true => state.discard(place),
                false => {
                    state.renew(place);
                    state.change(place, false, |block| block.cut(within));
                }
            }
        }
        let file = state.file(self.key);
        file.end = file.end.min(size);
        self.shared.changed.notify_all();
    }

    /// Flushes and closes. With `retain` clean blocks stay for a later use by the same team, as long as there is
    /// room and nobody wants them. If the flush fails, what was not stored is lost.
    pub fn close(mut self, retain: bool) -> Result<()> {
        self.finish(retain)
    }

    fn finish(&mut self, retain: bool) -> Result<()> {
        self.is_closed = true;
        let flushed = self.flush();
        let mut state = self.shared.lock();
        while state.is_busy(self.key) {
            state = self.shared.wait_for_ever(state);
        }
        let file = state.file(self.key);
        file.door = None;
        match retain && !file.is_dirty() {
            true => state.drop_if_unused(self.key),
            false => state.forget(self.key),
        }
        self.shared.work.notify_all();
        flushed
    }

    fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = Piece> + use<> {
        let (block, first) = (self.block, range.start);
        let mut at = range.start;
        std::iter::from_fn(move || {
            let (index, start) = (at / block, at % block);
            let len = (block - start).min(range.end - at);
            let memory = (at - first) as usize..(at - first + len) as usize;
            at += len;
            (len > 0).then_some(Piece { index, within: start..start + len, at: memory })
        })
    }

    /// How long to wait for the staging thread: it hears of a server's deadline first, and knows why.
    fn patience(&self) -> Duration {
        self.door.deadline() * 4
    }

    fn visit<'a>(&self, piece: &'a Piece, end: u64) -> Visit<'a> {
        let ahead = piece.index * self.block + piece.within.start..end;
        Visit { piece, ahead, since: Instant::now(), tries: 0 }
    }

    fn write_piece(&self, piece: &Piece, bytes: &[u8], end: u64) -> Result<()> {
        let place = (self.key, piece.index);
        let mut visit = self.visit(piece, end);
        let mut is_hit = true;
        let mut state = self.shared.lock();
        loop {
            let Some(leased) = self.leased(state, &mut visit)? else {
                self.door.write_straight(bytes, visit.ahead.start)?;
                self.shared.lock().wrote(self.key, visit.ahead.start + bytes.len() as u64);
                return Ok(());
            };
            state = leased;
            let memory = match state.block(place) {
                Some(block) if block.staging => {
                    state = self.shared.wait_until(state, visit.since, self.door.deadline(), self.key)?;
                    continue;
                }
                Some(block) if block.is_too_scattered(&piece.within, most_ranges(self.block)) => {
                    state = self.shared.stage_block(state, self.key, piece.index)?;
                    continue;
                }
                Some(block) if block.bytes.is_some() => None,
                _ => {
                    let found = self.shared.room(state, self.block, self.key.1, self.patience())?;
                    state = found.0;
                    is_hit = false;
                    Some(found.1)
                }
            };
            if let Some(memory) = memory {
                // The lock may have been let go.
                let file = state.file(self.key);
                let is_leased = file.has_lease(file.range_of(piece.index));
                let has_bytes = file.blocks.get(&piece.index).is_some_and(|block| block.bytes.is_some());
                if !is_leased || has_bytes {
                    state.give_back(memory);
                    continue;
                }
                state.entry(place).bytes = Some(Arc::new(memory));
            }
            let was_clean = state.dirty_bytes == 0;
            state.change(place, true, |block| block.write(piece.within.clone(), bytes));
            state.count(is_hit);
            state.wrote(self.key, visit.ahead.start + bytes.len() as u64);
            if was_clean || state.is_above_high() {
                self.shared.work.notify_one();
            }
            return Ok(());
        }
    }

    /// Whether all of the piece certainly lies within the file.
    fn read_piece(&self, piece: &Piece, bytes: &mut [u8], end: u64) -> Result<bool> {
        let place = (self.key, piece.index);
        let mut visit = self.visit(piece, end);
        let mut is_hit = true;
        let mut state = self.shared.lock();
        loop {
            let Some(leased) = self.leased(state, &mut visit)? else {
                let read = self.door.read_straight(bytes, visit.ahead.start)?;
                bytes[read..].fill(0);
                return Ok(read == bytes.len());
            };
            state = leased;
            match state.block(place) {
                Some(block) if block.valid.contains(&piece.within) => {
                    let here = block.bytes.as_ref().expect("valid bytes are there");
                    bytes.copy_from_slice(&here[piece.within.start as usize..piece.within.end as usize]);
                    let (reach, is_clean) = (block.reach, block.dirty.is_empty());
                    if is_clean {
                        state.change(place, true, |_| {});
                    }
                    state.count(is_hit);
                    return Ok(piece.within.end <= reach);
                }
                Some(block) if block.staging => {
                    state = self.shared.wait_until(state, visit.since, self.door.deadline(), self.key)?;
                }
                _ => {
                    drop(state);
                    is_hit = false;
                    self.shared.fetch(self.key, &self.door, &visit.ahead)?;
                    state = self.shared.lock();
                }
            }
        }
    }

    /// Makes sure that the block is leased, while the lock is held. `None`: others want it all the time, and nothing
    /// of it is here, so that it is better accessed at the servers.
    fn leased<'a>(&'a self, mut state: Guard<'a>, visit: &mut Visit<'_>) -> Result<Option<Guard<'a>>> {
        loop {
            let file = state.file(self.key);
            if file.has_lease(file.range_of(visit.piece.index)) {
                return Ok(Some(state));
            }
            if visit.tries >= TRIES && !file.blocks.contains_key(&visit.piece.index) {
                state.counters.straight += 1;
                return Ok(None);
            }
            let waited = visit.since.elapsed();
            if waited >= self.door.deadline() {
                return Err(Error::Contended { file: self.key.1, waited });
            }
            visit.tries += 1;
            drop(state);
            self.shared.lease(self.key, &self.door, &visit.ahead)?;
            state = self.shared.lock();
        }
    }
}

impl State {
    fn count(&mut self, is_hit: bool) {
        match is_hit {
            true => self.counters.hits += 1,
            false => self.counters.misses += 1,
        }
    }

    fn wrote(&mut self, key: Key, end: u64) {
        let file = self.file(key);
        file.end = file.end.max(end);
    }

    fn is_above_high(&self) -> bool {
        self.dirty_bytes > self.percent(self.limits.high)
    }
}

impl Drop for TierFile {
    fn drop(&mut self) {
        if !self.is_closed {
            // Who drops it does not ask.
            let _ = self.finish(false);
        }
    }
}

impl std::fmt::Debug for TierFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TierFile")
            .field("id", &self.key.1)
            .field("block", &self.block)
            .finish_non_exhaustive()
    }
}
