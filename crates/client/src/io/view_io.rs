//! Accesses through a view directly between the program's memory and mapped pools, block by block: one copy, however small
//! the pieces are.
//!
//! Rank and select find the bytes of a view that lie in one block, so the cost besides copying depends on the number of blocks and
//! not of pieces. Servers are asked for missing blocks in batches. For servers on other hosts messages name the view
//! ([`NamedView`]). Everything else (large pieces there, the end of the file, a block that is evicted again and again) is
//! accessed piece by piece, which always works.

use std::collections::BTreeMap;
use std::ops::Range;

use pario_buffer::UserBuffer;
use pario_cache::SlotRef;
use pario_layout::StripedView;
use pario_runtime::time::Instant;
use pario_types::{Offset, Pos, ServerId};
use pario_view::View;
use pario_wire::message::{AcquireIntent, BlockRange};
use pario_wire::{Reply, Request};

use crate::client_core::{succeeded, unexpected};
use crate::error::Result;
use crate::file::{File, check_view};
use crate::io::memory::Memory;
use crate::io::named_view::{NamedView, UserData, is_worth_naming};
use crate::io::plan::{ReplicaChoice, first_piece};
use crate::io::transfer::{starting_index, transfer};

/// The largest number of blocks in one request.
const ASKED: usize = 64;

/// A block that was evicted this often is accessed through a buffer.
const TRIES: usize = 4;

/// Bytes of the buffer for accesses that cannot be direct.
const STAGE: u64 = 4 << 20;

/// The part of an access in one block.
#[derive(Clone)]
struct BlockSpan {
    place: u16,
    /// Bytes of the block; `None` if the server has no pool for this client.
    size: Option<u64>,
    block: u64,
    /// Its range in the block, from its first to its last byte.
    within: Range<u64>,
    /// The file offset of its first byte.
    offset: Offset,
    /// Its position in the view, and the number of bytes.
    at: Pos,
    len: u64,
}

/// The program's memory in an access through a view.
#[derive(Clone, Copy)]
struct ViewIo<'a> {
    view: &'a View,
    at: Pos,
    len: u64,
    buffer: &'a UserBuffer,
    /// Its offset in the buffer's data.
    from: u64,
    write: bool,
}

impl File {
    /// Writes data bytes of the program's memory, from `from` on, through a view from `at` on.
    pub fn write_user_buffer(
        &self,
        view: &View,
        at: Pos,
        buffer: &UserBuffer,
        from: u64,
        len: u64,
    ) -> Result<()> {
        self.open().writes()?;
        self.through(&ViewIo { view, at, len, buffer, from, write: true }).map(|_| ())
    }

    /// Reads bytes that a view selects, from `at` on, to data bytes of the program's memory from `from` on: as many as
    /// there are before the first that lies beyond the end of the file.
    pub fn read_user_buffer(
        &self,
        view: &View,
        at: Pos,
        buffer: &UserBuffer,
        from: u64,
        len: u64,
    ) -> Result<u64> {
        self.open().reads()?;
        self.through(&ViewIo { view, at, len, buffer, from, write: false })
    }

    fn through(&self, access: &ViewIo<'_>) -> Result<u64> {
        check_view(access.view, access.at, access.len as usize)?;
        if let Some(done) = self.as_contiguous(access) {
            return done;
        }
        let placed = self.layout().table().is_some();
        let remote = if placed { None } else { self.open().remote()? };
        if placed && !self.is_all_mapped(access) {
            return self.copy_buffered(access, access.at, access.len);
        }
        if access.write || !self.layout().has_replicas() {
            return self.through_pools(access, remote);
        }
        let Some((first, end)) = access.view.bounds(access.at, access.len) else { return Ok(0) };
        self.open().read_verified(std::iter::once(first.0..end.0), || self.through_pools(access, None))
    }

    /// The same where pools are mapped.
    fn through_pools(&self, access: &ViewIo<'_>, remote: Option<Vec<bool>>) -> Result<u64> {
        if !access.view.is_monotone() || (remote.is_some() && !is_worth_naming(access.view, access.len)) {
            return self.copy_buffered(access, access.at, access.len);
        }
        let missed = self.copy_hits(access, remote.as_deref());
        let outcome = self.acquire_and_move(access, missed).and_then(|mut left| {
            let there = remote.map_or(Ok(access.len), |remote| self.by_named_view(access, remote))?;
            left.sort_unstable_by_key(|span| span.at);
            // The bytes are in order, and end at the end of the file: bytes read beyond it were zeros.
            for span in left {
                let moved = self.copy_buffered(access, span.at, span.len)?;
                if moved < span.len {
                    return Ok(there.min(span.at.0 - access.at.0 + moved));
                }
            }
            Ok(there)
        });
        if access.write {
            self.open().touch();
        }
        outcome
    }

    /// Moves the bytes on servers whose pools are not mapped; returns the number of leading bytes of the access that exist.
    fn by_named_view(&self, access: &ViewIo<'_>, remote: Vec<bool>) -> Result<u64> {
        let seen = StripedView::new(access.view, &self.striping()).expect("the view is monotone");
        let ViewIo { at, len, buffer, from, write, .. } = *access;
        let move_all = |data: UserData<'_>| {
            let viewed = NamedView::new(seen.clone(), at, len, data, remote.clone());
            transfer(self.open(), Memory::NamedView(viewed), 0).map(|moved| moved as u64)
        };
        let in_place = match write {
            true => buffer.with_bytes(from, len, |bytes| move_all(UserData::Write(bytes))),
            false => buffer.with_bytes_mut(from, len, |bytes| move_all(UserData::Read(bytes))),
        };
        in_place.unwrap_or_else(|| move_all(UserData::User { buffer, from, write }))
    }

    /// If file and memory are both contiguous, it is a plain access.
    fn as_contiguous(&self, access: &ViewIo<'_>) -> Option<Result<u64>> {
        let (first, end) = access.view.bounds(access.at, access.len)?;
        if end.0 - first.0 != access.len {
            return None;
        }
        let (from, len) = (access.from, access.len);
        match access.write {
            true => access.buffer.with_bytes(from, len, |bytes| self.write_at(bytes, first.0).map(|()| len)),
            false => access
                .buffer
                .with_bytes_mut(from, len, |bytes| self.read_at(bytes, first.0).map(|read| read as u64)),
        }
    }

    /// Moves the bytes in remembered slots of a pool; returns the rest, except bytes on servers without a pool.
    fn copy_hits(&self, access: &ViewIo<'_>, remote: Option<&[bool]>) -> Vec<BlockSpan> {
        let mut missed = Vec::new();
        let (mut at, end) = (access.at, Pos(access.at.0 + access.len));
        while at < end {
            let span = self.span(access.view, at, end);
            at = Pos(at.0 + span.len);
            let is_remote = remote.is_some_and(|remote| remote[usize::from(span.place)]);
            if !is_remote && !self.move_span(access, &span) {
                missed.push(span);
            }
        }
        missed
    }

    /// Whether all bytes of an access to a placed file are in mapped pools, and none would have to be written to several
    /// servers.
    fn is_all_mapped(&self, access: &ViewIo<'_>) -> bool {
        if !access.view.is_monotone() || (access.write && self.layout().has_replicas()) {
            return false;
        }
        let (mut at, end) = (access.at, Pos(access.at.0 + access.len));
        while at < end {
            let span = self.span(access.view, at, end);
            if span.size.is_none() {
                return false;
            }
            at = Pos(at.0 + span.len);
        }
        true
    }

    /// Returns the part of the view from `at` on that lies in one block, or in one stripe of a server without a pool. It is
    /// for a read if several servers have it.
    fn span(&self, view: &View, at: Pos, end: Pos) -> BlockSpan {
        let open = self.open();
        let offset = view.select(at).expect("checked against the view");
        let pick = |set| open.pick(set);
        let (place, local, together) =
            first_piece(&open.layout, ReplicaChoice::One(&pick), offset.0, usize::MAX);
        let place = place.expect("one is picked");
        let size = open.server_connection(place).pool().as_ref().map(|pool| pool.block());
        let (block, within, room) = match size {
            Some(size) => (local / size, local % size, (together as u64).min(size - local % size)),
            None => (0, 0, together as u64),
        };
        let upto = view.rank(Offset(offset.0.saturating_add(room))).min(end);
        let last = view.select(Pos(upto.0 - 1)).expect("checked against the view");
        BlockSpan {
            place,
            size,
            block,
            within: within..within + (last.0 - offset.0) + 1,
            offset,
            at,
            len: upto.0 - at.0,
        }
    }

    /// Moves a span's bytes if its block is in its remembered slot, and for reads if they are within the file.
    fn move_span(&self, access: &ViewIo<'_>, span: &BlockSpan) -> bool {
        let open = self.open();
        let mark = access.write.then(|| open.begin_write(span.place));
        let pool = open.server_connection(span.place).pool();
        let moved = pool.as_ref().is_some_and(|pool| {
            // A restarted server may have blocks of another size.
            let found = pool.find(open.file, span.block).filter(|_| span.size == Some(pool.block()));
            let Some(guard) = found else { return false };
            let range = span.within.start as u32..span.within.end as u32;
            let mut cursor = access.view.cursor(span.at, span.len);
            let from = access.from + (span.at.0 - access.at.0);
            if access.write {
                let written = guard.write_with(range, |block| {
                    access.buffer.scatter(from, span.len, &mut cursor, block, span.offset);
                });
                // A server that gave up its pool meanwhile may not have stored the write: it is repeated.
                return written.is_ok();
            } else {
                if range.end > guard.end() {
                    return false;
                }
                guard.read_with(range, |block| {
                    access.buffer.gather(from, span.len, &mut cursor, block, span.offset);
                });
            }
            true
        });
        drop(pool);
        mark.into_iter().for_each(|mark| open.has_written(mark));
        moved
    }

    /// Asks the servers for the slots of missing blocks and moves their bytes; returns the remaining ones.
    fn acquire_and_move(&self, access: &ViewIo<'_>, missed: Vec<BlockSpan>) -> Result<Vec<BlockSpan>> {
        let mut by_server: BTreeMap<ServerId, Vec<BlockSpan>> = BTreeMap::new();
        for span in missed {
            by_server.entry(self.open().server_connection(span.place).server).or_default().push(span);
        }
        let mut left = Vec::new();
        let servers: Vec<ServerId> = by_server.keys().copied().collect();
        let first = starting_index(&servers, self.open().starting_server());
        for server in servers[first..].iter().chain(&servers[..first]) {
            let spans = &by_server[server];
            let place = spans[0].place;
            for batch in spans.chunks(ASKED) {
                // Other clients may have requested the same blocks meanwhile.
                let mut batch = batch.to_vec();
                batch.retain(|span| !self.move_span(access, span));
                for _ in 0..TRIES {
                    if batch.is_empty() {
                        break;
                    }
                    match self.ask(place, access.write, &batch) {
                        Ok(()) => {}
                        // The pool may be full because nothing can be stored; messages can still read.
                        Err(_) if !access.write => break,
                        Err(e) => return Err(e),
                    }
                    batch.retain(|span| !self.move_span(access, span));
                }
                left.append(&mut batch);
            }
        }
        // The metadata server may have removed the file meanwhile: then its blocks are those of no file.
        if !servers.is_empty() {
            self.open().core.check_not_gone(self.open().file)?;
        }
        Ok(left)
    }

    /// Learns the slots of blocks of one server.
    fn ask(&self, place: u16, write: bool, spans: &[BlockSpan]) -> Result<()> {
        let open = self.open();
        let mut blocks: Vec<BlockRange> = Vec::new();
        for span in spans {
            match blocks.last_mut() {
                Some(run) if run.first + u64::from(run.count) == span.block => run.count += 1,
                Some(run) if run.first + u64::from(run.count) > span.block => {}
                _ => blocks.push(BlockRange { first: span.block, count: 1 }),
            }
        }
        let intent = if write { AcquireIntent::Modify } else { AcquireIntent::Read };
        let ahead = if write { open.ahead_of_growth(spans.len()) } else { 0 };
        let request = Request::Acquire { file: open.file, intent, blocks, ahead };
        let since = Instant::now();
        let server = open.server_connection(place).server;
        let deadline = since + open.core.options.deadline;
        let mut guard = open.core.acquire(server, deadline)?;
        let reply = succeeded(server, guard.call(open.core.next_request(), &request, since, deadline)?)?;
        let Reply::Slots(slots) = reply else { return Err(unexpected(server, &request, &reply)) };
        if let Some(pool) = &*open.server_connection(place).pool() {
            for slot in slots {
                let found = SlotRef { slot: slot.slot, generation: slot.generation };
                pool.remember(found, open.file, slot.block);
            }
        }
        Ok(())
    }

    /// Moves a part of the access piece by piece, through a buffer if it is not contiguous in memory.
    fn copy_buffered(&self, access: &ViewIo<'_>, at: Pos, len: u64) -> Result<u64> {
        let from = access.from + (at.0 - access.at.0);
        let in_place = match access.write {
            true => access
                .buffer
                .with_bytes(from, len, |bytes| self.write_pieces(access.view, at, bytes).map(|()| len)),
            false => access.buffer.with_bytes_mut(from, len, |bytes| {
                self.read_pieces(access.view, at, bytes).map(|read| read as u64)
            }),
        };
        if let Some(outcome) = in_place {
            return outcome;
        }
        let mut stage = vec![0; len.min(STAGE) as usize];
        let mut done = 0;
        while done < len {
            let here = (len - done).min(STAGE) as usize;
            let (bytes, pos) = (&mut stage[..here], Pos(at.0 + done));
            let from = access.from + (pos.0 - access.at.0);
            let moved = match access.write {
                true => {
                    access.buffer.pack(from, bytes);
                    self.write_pieces(access.view, pos, bytes)?;
                    here
                }
                false => {
                    let read = self.read_pieces(access.view, pos, bytes)?;
                    access.buffer.unpack(from, &bytes[..read]);
                    read
                }
            };
            done += moved as u64;
            if moved < here {
                break;
            }
        }
        Ok(done)
    }
}
