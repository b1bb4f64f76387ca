//! The program's memory in an access: segments of a file, and the memory they are read to or written from.

use std::io::{IoSlice, IoSliceMut};

use pario_layout::Layout;
use pario_types::ServerId;
use pario_wire::message::{ByteRange, ByteSelection};

use crate::io::named_view::NamedView;
use crate::io::plan::{Chunk, PlannedTransfer, ReplicaChoice, SegmentPosition, clip, leading, plan};

/// An access under way.
pub(crate) struct Access<'a, 'b> {
    pub memory: Memory<'a, 'b>,
    /// The file's size, if the servers were asked for it: bytes at or beyond it are left out, and bytes below it count even
    /// where a server's local part ends before them.
    pub ceiling: Option<u64>,
    /// Some bytes may lie beyond the file's end: the servers have to be asked.
    pub needs_size: bool,
    /// Blocks of each server that will be used next.
    pub ahead: u16,
}

impl Access<'_, '_> {
    /// Whether the bytes read of a chunk may lie beyond the end of the file: the server's local part ends at `end`.
    pub fn may_be_beyond_end(&self, chunk: &Chunk, end: u64) -> bool {
        self.ceiling.is_none() && self.memory.is_read() && self.memory.local_end(chunk) > end
    }
}

pub(crate) enum Memory<'a, 'b> {
    /// Memory to fill from the file.
    Read(&'a mut [(u64, &'b mut [u8])]),
    /// Memory to write to the file.
    Write(&'a [(u64, &'b [u8])]),
    /// The bytes of a view, in either direction, by messages that name the view.
    NamedView(NamedView<'a>),
}

impl Memory<'_, '_> {
    pub fn is_read(&self) -> bool {
        match self {
            Memory::Read(_) => true,
            Memory::Write(_) => false,
            Memory::NamedView(viewed) => viewed.is_read(),
        }
    }

    pub fn viewed(&self) -> Option<&NamedView<'_>> {
        match self {
            Memory::NamedView(viewed) => Some(viewed),
            Memory::Read(_) | Memory::Write(_) => None,
        }
    }

    /// A segment's offset in the file and its length.
    fn segment(&self, index: usize) -> Option<(u64, usize)> {
        match self {
            Memory::Read(segments) => segments.get(index).map(|(offset, bytes)| (*offset, bytes.len())),
            Memory::Write(segments) => segments.get(index).map(|(offset, bytes)| (*offset, bytes.len())),
            Memory::NamedView(_) => None,
        }
    }

    /// The next bytes of the access that lie below `ceiling`.
    pub fn plan(
        &self,
        layout: &Layout,
        pick: &dyn Fn(u16) -> u16,
        from: SegmentPosition,
        ceiling: u64,
    ) -> PlannedTransfer {
        let copies = if self.is_read() { ReplicaChoice::One(pick) } else { ReplicaChoice::All };
        match self {
            Memory::NamedView(viewed) => viewed.plan(from, ceiling),
            _ => plan(layout, copies, |index| self.segment(index), from, ceiling),
        }
    }

    /// Returns the file offset of a chunk.
    pub fn offset_of(&self, chunk: &Chunk) -> u64 {
        self.segment(chunk.segment).map_or(0, |(offset, _)| offset) + chunk.at as u64
    }

    /// Removes from chunks the bytes at or beyond an offset of the file.
    pub fn clip(&self, chunks: &mut Vec<Chunk>, ceiling: u64) {
        match self {
            Memory::NamedView(viewed) => viewed.clip(chunks, ceiling),
            _ => clip(chunks, ceiling, |index| self.segment(index).map_or(0, |(offset, _)| offset)),
        }
    }

    /// The number of leading bytes of the access below the file's size.
    pub fn leading(&self, size: u64) -> usize {
        match self {
            Memory::NamedView(viewed) => viewed.leading(size) as usize,
            _ => leading((0..).map_while(|index| self.segment(index)), size),
        }
    }

    /// Returns the end of a chunk in its server's local part.
    pub fn local_end(&self, chunk: &Chunk) -> u64 {
        match self {
            Memory::NamedView(viewed) => viewed.local_end(chunk),
            _ => chunk.local_end(),
        }
    }

    /// Returns the form in which a message names chunks; `None` if it cannot name so many.
    pub fn what(&self, server: ServerId, chunks: &[Chunk]) -> Option<ByteSelection> {
        match self {
            Memory::NamedView(viewed) => viewed.what(server, chunks),
            _ => Some(ByteSelection::Ranges(ranges(chunks))),
        }
    }

    /// Returns the bytes that a chunk writes; nothing if this is a read.
    pub fn source(&self, chunk: &Chunk) -> &[u8] {
        match self {
            Memory::Write(segments) => &segments[chunk.segment].1[chunk.at..chunk.at + chunk.len],
            Memory::Read(_) | Memory::NamedView(_) => &[],
        }
    }

    /// Returns the memory to which a chunk is read; nothing if this is a write.
    pub fn room(&mut self, chunk: &Chunk) -> &mut [u8] {
        match self {
            Memory::Read(segments) => &mut segments[chunk.segment].1[chunk.at..chunk.at + chunk.len],
            Memory::Write(_) | Memory::NamedView(_) => &mut [],
        }
    }

    /// Returns the bytes that chunks write, as a payload.
    pub fn gather(&mut self, chunks: &[Chunk]) -> Vec<IoSlice<'_>> {
        match self {
            Memory::Read(_) => Vec::new(),
            Memory::Write(_) => chunks.iter().map(|chunk| IoSlice::new(self.source(chunk))).collect(),
            Memory::NamedView(viewed) => viewed.gather(chunks),
        }
    }

    /// Returns the memory to which chunks, which are in the order of memory, are read, as the destination of a payload;
    /// those beyond the end of the file go to a buffer that is dropped.
    pub fn scatter<'s>(
        &'s mut self,
        chunks: &[Chunk],
        beyond: &[bool],
        aside: &'s mut Vec<u8>,
    ) -> Vec<IoSliceMut<'s>> {
        let mut slices = self.places(chunks);
        // Otherwise all of it is in a buffer of our own.
        if slices.len() == chunks.len() {
            let lengths =
                chunks.iter().zip(beyond).filter(|(_, beyond)| **beyond).map(|(chunk, _)| chunk.len);
            aside.resize(lengths.sum(), 0);
            let mut rest = &mut aside[..];
            for (slice, _) in slices.iter_mut().zip(beyond).filter(|(_, beyond)| **beyond) {
                let (here, after) = std::mem::take(&mut rest).split_at_mut(slice.len());
                (*slice, rest) = (IoSliceMut::new(here), after);
            }
        }
        slices
    }

    fn places(&mut self, chunks: &[Chunk]) -> Vec<IoSliceMut<'_>> {
        let segments = match self {
            Memory::Read(segments) => segments,
            Memory::Write(_) => return Vec::new(),
            Memory::NamedView(viewed) => return viewed.scatter(chunks),
        };
        let mut slices = Vec::with_capacity(chunks.len());
        let mut segments = segments.iter_mut().enumerate();
        for chunks in chunks.chunk_by(|a, b| a.segment == b.segment) {
            let found = segments.find(|(index, _)| *index == chunks[0].segment);
            let (_, (_, bytes)) = found.expect("chunks in the order of memory");
            slices.extend(split(bytes, chunks));
        }
        slices
    }

    /// The payload for chunks has arrived.
    pub fn unpack_received(&mut self, chunks: &[Chunk], beyond: &[bool]) {
        if let Memory::NamedView(viewed) = self {
            viewed.unpack_received(chunks, beyond);
        }
    }
}

/// The places of chunks, which are in order, in the memory that they are chunks of.
pub(crate) fn split<'a>(mut rest: &'a mut [u8], chunks: &[Chunk]) -> Vec<IoSliceMut<'a>> {
    let mut base = 0;
    let mut slices = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        let (_, from_here) = std::mem::take(&mut rest).split_at_mut(chunk.at - base);
        let (here, after) = from_here.split_at_mut(chunk.len);
        slices.push(IoSliceMut::new(here));
        (base, rest) = (chunk.at + chunk.len, after);
    }
    slices
}

/// Returns the local ranges of chunks; adjacent ones are merged.
fn ranges(chunks: &[Chunk]) -> Vec<ByteRange> {
    let mut ranges: Vec<ByteRange> = Vec::new();
    for chunk in chunks {
        match ranges.last_mut() {
            Some(last) if last.at + last.len == chunk.local => last.len += chunk.len as u64,
            _ => ranges.push(ByteRange { at: chunk.local, len: chunk.len as u64 }),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn scattering_fills_exactly_the_bytes_of_the_chunks(
            sizes in prop::collection::vec(0usize..40, 1..6),
            cuts in prop::collection::vec((0usize..10, 1usize..10), 1..30),
        ) {
            let mut memory: Vec<Vec<u8>> = sizes.iter().map(|n| vec![0; *n]).collect();
            let (mut chunks, mut cuts) = (Vec::new(), cuts.into_iter());
            'all: for (segment, size) in sizes.iter().enumerate() {
                let mut at = 0;
                loop {
                    let Some((skip, len)) = cuts.next() else { break 'all };
                    if at + skip + len > *size {
                        break;
                    }
                    chunks.push(Chunk { segment, at: at + skip, len, local: 0 });
                    at += skip + len;
                }
            }
            let mut naive = memory.clone();
            for (mark, chunk) in (1..).zip(&chunks) {
                naive[chunk.segment][chunk.at..chunk.at + chunk.len].fill(mark);
            }
            let mut segments: Vec<(u64, &mut [u8])> = memory.iter_mut().map(|m| (0, &mut m[..])).collect();
            let mut access = Memory::Read(&mut segments);
            let slices = access.places(&chunks);
            prop_assert_eq!(slices.len(), chunks.len());
            for (mark, mut slice) in (1..).zip(slices) {
                slice.fill(mark);
            }
            prop_assert_eq!(memory, naive);
        }
    }
}
