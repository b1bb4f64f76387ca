//! Whether the copies of a file's bytes are equal, and making them so: for checking.
//!
//! They are, unless a writer died between two of them, or a server lost what it had. Which copy is right then nobody knows;
//! the first that can be read counts.

use std::ops::Range;

use pario_layout::At;
use pario_wire::message::{self, What};
use pario_wire::{Reply, Request};

use crate::core::unexpected;
use crate::error::Result;
use crate::file::{File, check};
use crate::open::Open;

/// Bytes that are compared at once.
const PIECE: u64 = 1 << 20;

/// What differs with less than this between counts as one range: by chance some bytes are equal anywhere.
const NEAR: u64 = 4096;

impl File {
    /// The parts of a range of which copies differ, or cannot all be read. With `repair` they are equal afterwards: all like
    /// the first that can be read.
    pub fn compare_copies(&self, range: Range<u64>, repair: bool) -> Result<Vec<Range<u64>>> {
        let open = self.open();
        check(range.end, 0)?;
        let mut found: Vec<Range<u64>> = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let stretch = open.layout.stretch(at, range.end - at);
            let At::Copies { places, .. } = stretch.at else {
                at += stretch.len;
                continue;
            };
            let piece = at..at + stretch.len.min(PIECE);
            at = piece.end;
            if open.compare(&piece, places, false)?.is_empty() {
                continue;
            }
            // Somebody may have been writing; now nobody is.
            let lock = open.lock_copies(&piece)?;
            let different = open.compare(&piece, places, repair);
            open.unlock_copies(lock)?;
            for range in different? {
                match found.last_mut() {
                    Some(last) if last.end == range.start => last.end = range.end,
                    _ => found.push(range),
                }
            }
        }
        Ok(found)
    }
}

impl Open {
    /// The parts of a piece that the servers at these places do not all have alike.
    fn compare(&self, piece: &Range<u64>, places: &[u16], repair: bool) -> Result<Vec<Range<u64>>> {
        let mut copies: Vec<_> = places.iter().map(|place| self.read_copy(*place, piece)).collect();
        let Some(first) = copies.iter().position(Result::is_ok) else {
            return Err(copies.swap_remove(0).expect_err("none can be read"));
        };
        let right = copies[first].as_ref().expect("it can be read");
        let len = piece.end - piece.start;
        let mut wrong = vec![false; len as usize];
        for copy in &copies {
            match copy {
                Ok(bytes) if bytes == right => {}
                Ok(bytes) => {
                    wrong.iter_mut().zip(bytes.iter().zip(right)).for_each(|(w, (a, b))| *w |= a != b)
                }
                Err(_) => wrong.fill(true),
            }
        }
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (offset, _) in (piece.start..).zip(&wrong).filter(|(_, wrong)| **wrong) {
            match ranges.last_mut() {
                Some(last) if offset - last.end < NEAR => last.end = offset + 1,
                _ => ranges.push(offset..offset + 1),
            }
        }
        if repair {
            for range in &ranges {
                let bytes = &right[(range.start - piece.start) as usize..(range.end - piece.start) as usize];
                for place in places.iter().filter(|place| **place != places[first]) {
                    self.write_copy(*place, range.start, bytes)?;
                }
            }
        }
        Ok(ranges)
    }

    fn read_copy(&self, place: u16, range: &Range<u64>) -> Result<Vec<u8>> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let request = Request::Read { file: self.file, what: self.at_copy(place, range.start, bytes.len()) };
        let server = self.layout.server(place);
        match self.core.call_with(server, &request, &[], &mut bytes)? {
            Reply::Data { .. } => Ok(bytes),
            reply => Err(unexpected(server, &request, &reply)),
        }
    }

    fn write_copy(&self, place: u16, offset: u64, bytes: &[u8]) -> Result<()> {
        let request = Request::Write { file: self.file, what: self.at_copy(place, offset, bytes.len()) };
        self.core.call_with(self.layout.server(place), &request, bytes, &mut []).map(drop)
    }

    fn at_copy(&self, place: u16, offset: u64, len: usize) -> What {
        What::Ranges(vec![message::Range { at: self.layout.local(place, offset), len: len as u64 }])
    }
}
