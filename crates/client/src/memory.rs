//! The user's memory in an access: segments of a file and where their bytes come from or go to.

use std::io::{IoSlice, IoSliceMut};

use crate::plan::Chunk;

/// An access under way.
pub(crate) struct Access<'a, 'b> {
    pub memory: Memory<'a, 'b>,
    /// The file's size, if the servers were asked for it: what lies at or beyond is left out, and what lies
    /// below counts even where a server's local part ends before it.
    pub ceiling: Option<u64>,
    /// Some bytes may lie beyond the file's end: the servers have to be asked.
    pub unsure: bool,
    /// Blocks of each server that will be wanted next.
    pub ahead: u16,
}

pub(crate) enum Memory<'a, 'b> {
    /// To be filled from the file.
    Read(&'a mut [(u64, &'b mut [u8])]),
    /// To be written to the file.
    Write(&'a [(u64, &'b [u8])]),
}

impl Memory<'_, '_> {
    pub fn is_read(&self) -> bool {
        matches!(self, Memory::Read(_))
    }

    /// A segment's offset in the file and its length.
    pub fn segment(&self, index: usize) -> Option<(u64, usize)> {
        match self {
            Memory::Read(segments) => segments.get(index).map(|(offset, bytes)| (*offset, bytes.len())),
            Memory::Write(segments) => segments.get(index).map(|(offset, bytes)| (*offset, bytes.len())),
        }
    }

    pub fn segments(&self) -> impl Iterator<Item = (u64, usize)> {
        (0..).map_while(|index| self.segment(index))
    }

    /// What a chunk writes; nothing if this is a read.
    pub fn source(&self, chunk: &Chunk) -> &[u8] {
        match self {
            Memory::Read(_) => &[],
            Memory::Write(segments) => &segments[chunk.segment].1[chunk.at..chunk.at + chunk.len],
        }
    }

    /// Where a chunk is read to; nothing if this is a write.
    pub fn room(&mut self, chunk: &Chunk) -> &mut [u8] {
        match self {
            Memory::Read(segments) => &mut segments[chunk.segment].1[chunk.at..chunk.at + chunk.len],
            Memory::Write(_) => &mut [],
        }
    }

    /// What chunks write, as a payload.
    pub fn gather(&self, chunks: &[Chunk]) -> Vec<IoSlice<'_>> {
        match self {
            Memory::Read(_) => Vec::new(),
            Memory::Write(_) => chunks.iter().map(|chunk| IoSlice::new(self.source(chunk))).collect(),
        }
    }

    /// Where chunks, which are in the order of memory, are read to, as room for a payload.
    pub fn scatter(&mut self, chunks: &[Chunk]) -> Vec<IoSliceMut<'_>> {
        let Memory::Read(segments) = self else { return Vec::new() };
        let mut slices = Vec::with_capacity(chunks.len());
        let mut segments = segments.iter_mut().enumerate();
        // The segment at hand, and what of it has not been given away.
        let (mut current, mut base, mut rest): (Option<usize>, usize, &mut [u8]) = (None, 0, &mut []);
        for chunk in chunks {
            if current != Some(chunk.segment) {
                let found = segments.find(|(index, _)| *index == chunk.segment);
                let (index, (_, bytes)) = found.expect("chunks in the order of memory");
                (current, base, rest) = (Some(index), 0, bytes);
            }
            let (_, from_here) = std::mem::take(&mut rest).split_at_mut(chunk.at - base);
            let (here, after) = from_here.split_at_mut(chunk.len);
            slices.push(IoSliceMut::new(here));
            (base, rest) = (chunk.at + chunk.len, after);
        }
        slices
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn scattering_fills_what_the_chunks_say(
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
            let slices = access.scatter(&chunks);
            prop_assert_eq!(slices.len(), chunks.len());
            for (mark, mut slice) in (1..).zip(slices) {
                slice.fill(mark);
            }
            prop_assert_eq!(memory, naive);
        }
    }
}
