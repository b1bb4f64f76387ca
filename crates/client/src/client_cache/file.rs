//! A file in tier 1: accesses, block by block.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pario_runtime::time::Instant;

use super::lease::Hold;
use super::server_io::ServerIo;
use super::state::{Key, State, most_ranges};
use super::{Guard, Shared};
use crate::error::{Error, Result};
use crate::file::check;

/// A block that was recalled this often before it could be used is accessed at the servers.
const TRIES: u32 = 8;

/// A file whose blocks are cached in this process. Threads may use it at the same time.
///
/// The caller guarantees that no other process of the team uses the blocks that it uses here.
pub struct TierFile {
    shared: Arc<Shared>,
    key: Key,
    block: u64,
    servers: Arc<dyn ServerIo>,
    is_closed: bool,
}

/// A part of an access that lies in one block.
struct Piece {
    index: u64,
    within: Range<u64>,
}

/// Bytes to write to a block, and their offset in it.
type Part<'a> = (Range<u64>, &'a [u8]);

/// An access of one block.
struct Visit {
    index: u64,
    /// The range of the bytes that are still to be accessed.
    ahead: Range<u64>,
    since: Instant,
    tries: u32,
}

impl TierFile {
    pub(super) fn new(shared: Arc<Shared>, key: Key, block: u64, servers: Arc<dyn ServerIo>) -> TierFile {
        TierFile { shared, key, block, servers, is_closed: false }
    }

    /// Bytes of a block.
    pub fn block(&self) -> u64 {
        self.block
    }

    /// Writes into blocks here. Waits for servers only for leases, or if the memory is full of dirty blocks.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.write_vectored_at(&[(offset, bytes)])
    }

    /// Writes several segments, each an offset and bytes; fast if they are in order.
    pub fn write_vectored_at(&self, segments: &[(u64, &[u8])]) -> Result<()> {
        self.servers.may_access(true)?;
        segments.iter().try_for_each(|(offset, bytes)| check(*offset, bytes.len()))?;
        let end = segments.iter().map(|(offset, bytes)| offset + bytes.len() as u64).max().unwrap_or(0);
        let (mut index, mut parts): (u64, Vec<Part<'_>>) = (0, Vec::new());
        for (offset, bytes) in segments {
            let mut rest = *bytes;
            for piece in self.pieces(*offset..*offset + bytes.len() as u64) {
                if piece.index != index && !parts.is_empty() {
                    self.write_block(index, &std::mem::take(&mut parts), end)?;
                }
                let (here, after) = rest.split_at((piece.within.end - piece.within.start) as usize);
                parts.push((piece.within, here));
                (index, rest) = (piece.index, after);
            }
        }
        if parts.is_empty() { Ok(()) } else { self.write_block(index, &parts, end) }
    }

    /// Reads, first from the cache; the rest is fetched in whole blocks and cached. Returns the number of bytes before the
    /// file's end: the furthest that the servers know of or that was written here.
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize> {
        self.read_vectored_at(&mut [(offset, bytes)])
    }

    /// Reads several segments, each an offset and memory, which are in order. Counts the bytes up to the first that
    /// lies beyond the file's end; memory beyond gets zeros.
    pub fn read_vectored_at(&self, segments: &mut [(u64, &mut [u8])]) -> Result<usize> {
        self.servers.may_access(false)?;
        segments.iter().try_for_each(|(offset, bytes)| check(*offset, bytes.len()))?;
        let range = |(offset, bytes): &(u64, &mut [u8])| *offset..*offset + bytes.len() as u64;
        let ranges: Vec<Range<u64>> = segments.iter().map(range).collect();
        let mut is_within = true;
        let mut absent: Vec<(u64, &mut [u8])> = Vec::new();
        for (range, (_, bytes)) in ranges.iter().zip(segments) {
            let mut rest = &mut **bytes;
            for piece in self.pieces(range.clone()) {
                let len = (piece.within.end - piece.within.start) as usize;
                let (here, after) = std::mem::take(&mut rest).split_at_mut(len);
                rest = after;
                match self.servers.is_local() && !self.is_here(piece.index) {
                    true => absent.push((piece.index * self.block + piece.within.start, here)),
                    false => is_within &= self.read_piece(&piece, here, &ranges)?,
                }
            }
        }
        is_within &= self.read_past(absent)?;
        if is_within {
            return Ok(ranges.iter().map(|range| (range.end - range.start) as usize).sum());
        }
        // The order matters: bytes that are staged meanwhile are known to the servers.
        let here = self.shared.lock().file(self.key).dirty_end();
        let size = self.servers.size()?.max(here);
        let mut leading = 0;
        for range in ranges {
            leading += size.saturating_sub(range.start).min(range.end - range.start);
            if size < range.end {
                break;
            }
        }
        Ok(leading as usize)
    }

    /// Leases the blocks of a range. No recall takes them until the result is dropped.
    pub fn hold(&self, range: Range<u64>) -> Result<Hold> {
        check(range.start, range.end.saturating_sub(range.start) as usize)?;
        self.shared.hold(self.key, &self.servers, &range)
    }

    /// Waits until the servers have all written bytes, not necessarily on disk. Bytes that could not be staged before are
    /// tried again; the error is that of the first failure since. Blocks and leases stay.
    pub fn flush(&self) -> Result<()> {
        self.shared.flush(self.key, self.patience())
    }

    /// The furthest end of the bytes written here since it was opened; 0 if there are none.
    pub fn end(&self) -> u64 {
        self.shared.lock().file(self.key).end
    }

    /// The number of bytes staged since it was opened, and of recalls.
    pub fn staged_and_recalled(&self) -> (u64, u64) {
        let mut state = self.shared.lock();
        let file = state.file(self.key);
        (file.staged, file.recalled)
    }

    /// Drops the bytes beyond a size, also if they were never staged. The caller sets the size at the servers.
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

    /// Flushes and closes. With `retain` clean blocks stay for a later use by the same team, as long as there is memory and
    /// no other client requests them. If the flush fails, unstored bytes are lost.
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
        file.servers = None;
        match retain && !file.is_dirty() {
            true => state.drop_if_unused(self.key),
            false => state.forget(self.key),
        }
        self.shared.work.notify_all();
        flushed
    }

    fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = Piece> + use<> {
        let (block, mut at) = (self.block, range.start);
        std::iter::from_fn(move || {
            let (index, start) = (at / block, at % block);
            let len = (block - start).min(range.end - at);
            at += len;
            (len > 0).then_some(Piece { index, within: start..start + len })
        })
    }

    /// The time to wait for the staging thread: it sees a server's deadline first, and has the reason.
    fn patience(&self) -> Duration {
        self.servers.deadline() * 4
    }

    fn visit(&self, piece: &Piece, end: u64) -> Visit {
        let ahead = piece.index * self.block + piece.within.start..end;
        Visit { index: piece.index, ahead, since: Instant::now(), tries: 0 }
    }

    /// Whether the cache has bytes of a block, or will have.
    fn is_here(&self, index: u64) -> bool {
        self.shared.lock().file(self.key).blocks.contains_key(&index)
    }

    /// Reads bytes of uncached blocks from the servers' caches, which are in memory of this host, too: neither a copy nor a
    /// lease would gain anything. Returns whether all of them certainly lie within the file.
    fn read_past(&self, mut segments: Vec<(u64, &mut [u8])>) -> Result<bool> {
        let (Some(first), Some(last)) = (segments.first(), segments.last()) else { return Ok(true) };
        let (span, wanted) =
            (first.0..last.0 + last.1.len() as u64, segments.iter().map(|one| one.1.len()).sum());
        self.shared.lock().counters.direct += segments.len() as u64;
        let mut left = self.servers.read(&mut segments)?;
        if left < wanted {
            // Other clients may cache bytes beyond the end that the servers know of, until a client requests all of it.
            self.shared.lease(self.key, &self.servers, &span)?;
            left = self.servers.read(&mut segments)?;
        }
        let mut is_within = true;
        for (_, bytes) in segments {
            let there = left.min(bytes.len());
            left -= there;
            is_within &= there == bytes.len();
            bytes[there..].fill(0);
        }
        Ok(is_within)
    }

    fn write_block(&self, index: u64, parts: &[Part<'_>], end: u64) -> Result<()> {
        let place = (self.key, index);
        let offset = |within: &Range<u64>| index * self.block + within.start;
        let mut visit = self.visit(&Piece { index, within: parts[0].0.clone() }, end);
        let most = most_ranges(self.block);
        let (mut is_hit, mut done) = (true, 0);
        let mut state = self.shared.lock();
        while let Some((within, _)) = parts.get(done) {
            visit.ahead.start = offset(within);
            let Some(leased) = self.leased(state, &mut visit)? else {
                let segments: Vec<_> = parts[done..].iter().map(|(at, bytes)| (offset(at), *bytes)).collect();
                self.servers.write_direct(&segments)?;
                state = self.shared.lock();
                state.wrote(
                    self.key,
                    index * self.block + parts.iter().map(|one| one.0.end).max().unwrap_or(0),
                );
                return Ok(());
            };
            state = leased;
            let memory = match state.block(place) {
                Some(block) if block.staging => {
                    state = self.shared.wait_until(state, visit.since, self.servers.deadline(), self.key)?;
                    continue;
                }
                Some(block) if block.is_too_scattered(within, most) => {
                    state = self.shared.stage_block(state, self.key, index)?;
                    continue;
                }
                Some(block) if block.bytes.is_some() => None,
                _ => {
                    let found = self.shared.allocate(state, self.block, self.key.1, self.patience())?;
                    state = found.0;
                    is_hit = false;
                    Some(found.1)
                }
            };
            if let Some(memory) = memory {
                // The lock may have been released meanwhile.
                let file = state.file(self.key);
                let is_leased = file.has_lease(file.range_of(index));
                let has_bytes = file.blocks.get(&index).is_some_and(|block| block.bytes.is_some());
                if !is_leased || has_bytes {
                    state.give_back(memory);
                    continue;
                }
                state.entry(place).bytes = Some(Arc::new(memory));
            }
            let was_clean = state.dirty_bytes == 0;
            let mut reached = 0;
            state.change(place, true, |block| {
                while let Some((within, bytes)) =
                    parts.get(done).filter(|one| !block.is_too_scattered(&one.0, most))
                {
                    block.write(within.clone(), bytes);
                    reached = reached.max(within.end);
                    done += 1;
                }
            });
            state.wrote(self.key, index * self.block + reached);
            if was_clean || state.is_above_high() {
                self.shared.work.notify_one();
            }
        }
        state.count(is_hit);
        Ok(())
    }

    /// Returns whether all of the piece certainly lies within the file.
    fn read_piece(&self, piece: &Piece, bytes: &mut [u8], all: &[Range<u64>]) -> Result<bool> {
        let place = (self.key, piece.index);
        let end = all.last().map_or(0, |last| last.end);
        let mut visit = self.visit(piece, end);
        let mut is_hit = true;
        let mut state = self.shared.lock();
        loop {
            let Some(leased) = self.leased(state, &mut visit)? else {
                let read = self.servers.read_direct(bytes, visit.ahead.start)?;
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
                    state = self.shared.wait_until(state, visit.since, self.servers.deadline(), self.key)?;
                }
                _ => {
                    drop(state);
                    is_hit = false;
                    let rest = all.iter().map(|one| one.start.max(visit.ahead.start)..one.end);
                    self.shared.fetch(self.key, &self.servers, rest)?;
                    state = self.shared.lock();
                }
            }
        }
    }

    /// Makes sure that the block is leased, while the lock is held. `None`: others request it all the time, and none of it
    /// is cached, so that it is better accessed at the servers.
    fn leased<'a>(&'a self, mut state: Guard<'a>, visit: &mut Visit) -> Result<Option<Guard<'a>>> {
        loop {
            let file = state.file(self.key);
            let waited = visit.since.elapsed();
            if file.has_lease(file.range_of(visit.index)) {
                if state.is_good(self.key, visit.index) {
                    return Ok(Some(state));
                }
                let patience = self.servers.deadline();
                if waited >= patience {
                    return Err(Error::Silent { file: self.key.1, waited });
                }
                state = self.shared.wait(state, patience - waited);
                continue;
            }
            if visit.tries >= TRIES && !file.blocks.contains_key(&visit.index) {
                state.counters.direct += 1;
                return Ok(None);
            }
            if waited >= self.servers.deadline() {
                return Err(Error::Contended { file: self.key.1, waited });
            }
            visit.tries += 1;
            drop(state);
            self.shared.lease(self.key, &self.servers, &visit.ahead)?;
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
        if !self.is_closed && self.finish(false).is_err() {
            // A drop cannot report an error, but a sync or close afterwards can.
            self.servers.report_loss();
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
