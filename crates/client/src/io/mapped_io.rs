//! An access through a mapped pool, block by block. The server is asked only where missing blocks are.

use std::collections::VecDeque;

use pario_cache::{BlockGuard, SlotRef};
use pario_types::FileId;
use pario_wire::Request;
use pario_wire::message::{AcquireIntent, BlockRange, BlockSlot};

use crate::connection::mapped_pool::MappedPool;
use crate::io::memory::Access;
use crate::io::plan::{Chunk, Group, group};

/// The largest number of blocks in one request.
const ASKED: usize = 64;

/// A block that was evicted this often before it could be pinned is accessed by messages.
const TRIES: u8 = 8;

/// The blocks of an access at one server.
pub(crate) struct MappedIo {
    file: FileId,
    block: u64,
    chunks: Vec<Chunk>,
    groups: Vec<Group>,
    /// The number of times that each group's block was evicted before it could be pinned.
    tries: Vec<u8>,
    /// Groups that are not done: those that write all of their block, and the others.
    whole: VecDeque<usize>,
    parts: VecDeque<usize>,
    /// Groups that have to be accessed by messages.
    fallback: Vec<usize>,
}

/// The result of an attempt to move a group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GroupOutcome {
    Moved,
    /// Its bytes may lie beyond the end of the file.
    NeedsSize,
    /// Its block is no longer in its slot.
    Gone,
}

impl MappedIo {
    /// Moves the bytes that are in the pool at once.
    pub fn start(
        local: &MappedPool,
        file: FileId,
        chunks: &[Chunk],
        access: &mut Access<'_, '_>,
    ) -> MappedIo {
        let (chunks, groups) = group(chunks, local.block());
        let tries = vec![0; groups.len()];
        let (whole, parts, fallback) = (VecDeque::new(), VecDeque::new(), Vec::new());
        let mut mapped =
            MappedIo { file, block: local.block(), chunks, groups, tries, whole, parts, fallback };
        for index in 0..mapped.groups.len() {
            let outcome = match local.find(file, mapped.groups[index].block) {
                Some(guard) => mapped.transfer(index, &guard, access),
                None => GroupOutcome::Gone,
            };
            if outcome != GroupOutcome::Moved {
                mapped.put_back(index, access);
            }
        }
        mapped
    }

    /// Returns the next request to the server, and its groups.
    pub fn next_request(&mut self, access: &Access<'_, '_>) -> Option<(Request, Vec<usize>)> {
        let (queue, intent) = match (self.whole.is_empty(), access.memory.is_read()) {
            (false, _) => (&mut self.whole, AcquireIntent::Overwrite),
            (true, true) => (&mut self.parts, AcquireIntent::Read),
            (true, false) => (&mut self.parts, AcquireIntent::Modify),
        };
        let asked: Vec<usize> = queue.drain(..queue.len().min(ASKED)).collect();
        if asked.is_empty() {
            return None;
        }
        let mut blocks: Vec<BlockRange> = Vec::new();
        for index in &asked {
            let block = self.groups[*index].block;
            match blocks.last_mut() {
                Some(run) if run.first + u64::from(run.count) == block => run.count += 1,
                _ => blocks.push(BlockRange { first: block, count: 1 }),
            }
        }
        let ahead = access.ahead;
        Some((Request::Acquire { file: self.file, intent, blocks, ahead }, asked))
    }

    /// Moves the blocks that the server's reply names. `None`: the reply does not fit the request.
    pub fn answered(
        &mut self,
        local: Option<&MappedPool>,
        asked: &[usize],
        slots: &[BlockSlot],
        access: &mut Access<'_, '_>,
    ) -> Option<()> {
        let blocks = asked.iter().map(|index| self.groups[*index].block);
        if slots.is_empty() || slots.iter().zip(blocks).any(|(s, b)| s.block != b) {
            return None;
        }
        let mut left = Vec::new();
        for (index, slot) in asked.iter().zip(slots) {
            let outcome = match local {
                Some(local) => self.use_slot(local, *index, slot, access),
                None => GroupOutcome::Gone,
            };
            match outcome {
                GroupOutcome::Moved => {}
                GroupOutcome::NeedsSize => left.push(*index),
                GroupOutcome::Gone => {
                    self.tries[*index] += 1;
                    match self.tries[*index] < TRIES && local.is_some() {
                        true => left.push(*index),
                        false => self.fallback.push(*index),
                    }
                }
            }
        }
        for next in slots.iter().skip(asked.len()) {
            let place = SlotRef { slot: next.slot, generation: next.generation };
            local.iter().for_each(|local| local.remember(place, self.file, next.block));
        }
        left.extend_from_slice(asked.get(slots.len()..).unwrap_or_default());
        for index in left {
            self.put_back(index, access);
        }
        Some(())
    }

    /// Moves these groups, and all remaining ones, to messages.
    pub fn give_up(&mut self, asked: &[usize]) {
        self.fallback.extend_from_slice(asked);
        self.fallback.extend(self.whole.drain(..));
        self.fallback.extend(self.parts.drain(..));
    }

    fn use_slot(
        &self,
        local: &MappedPool,
        index: usize,
        slot: &BlockSlot,
        access: &mut Access<'_, '_>,
    ) -> GroupOutcome {
        let place = SlotRef { slot: slot.slot, generation: slot.generation };
        let group = &self.groups[index];
        if !slot.pending {
            let Some(guard) = local.pin(place, self.file, group.block) else { return GroupOutcome::Gone };
            return self.transfer(index, &guard, access);
        }
        // Only a group that writes all of its block asks for one to fill.
        let Some(mut pending) = local.claim(place, self.file, group.block).filter(|_| group.whole) else {
            return GroupOutcome::Gone;
        };
        for chunk in &self.chunks[group.chunks.clone()] {
            pending.write(self.within(chunk), access.memory.source(chunk));
        }
        match pending.publish(self.block as u32) {
            Ok(()) => {
                local.remember(place, self.file, group.block);
                GroupOutcome::Moved
            }
            Err(_) => GroupOutcome::Gone,
        }
    }

    fn transfer(&self, index: usize, guard: &BlockGuard<'_>, access: &mut Access<'_, '_>) -> GroupOutcome {
        let chunks = &self.chunks[self.groups[index].chunks.clone()];
        if access.memory.is_read() {
            let beyond = |chunk: &Chunk| self.within(chunk) + chunk.len as u32 > guard.end();
            if access.ceiling.is_none() && chunks.iter().any(beyond) {
                access.needs_size = true;
                return GroupOutcome::NeedsSize;
            }
            chunks.iter().for_each(|chunk| guard.read(self.within(chunk), access.memory.room(chunk)));
        } else {
            // A server that gave up its pool meanwhile may not have stored the write: it is repeated.
            let write = |chunk: &Chunk| guard.write(self.within(chunk), access.memory.source(chunk)).is_ok();
            if !chunks.iter().all(write) {
                return GroupOutcome::Gone;
            }
        }
        GroupOutcome::Moved
    }

    fn within(&self, chunk: &Chunk) -> u32 {
        (chunk.local % self.block) as u32
    }

    fn put_back(&mut self, index: usize, access: &Access<'_, '_>) {
        match self.groups[index].whole && !access.memory.is_read() {
            true => self.whole.push_back(index),
            false => self.parts.push_back(index),
        }
    }

    /// The chunks of unfinished groups, except those just requested.
    pub fn remaining(&self, asked: &[usize]) -> Vec<Chunk> {
        let groups = self.whole.iter().chain(&self.parts).chain(&self.fallback).chain(asked);
        groups.flat_map(|index| self.chunks[self.groups[*index].chunks.clone()].iter().copied()).collect()
    }
}
