//! An access through a view by messages that name the view: a server gets positions and contiguous bytes, and computes
//! their offsets.
//!
//! The access is a stream: the bytes of the view from a position on. A [`Chunk`] is a part of that stream that lies on one
//! server in one stripe; its offset in the local part does not matter here.

use std::io::{IoSlice, IoSliceMut};

use pario_buffer::UserBuffer;
use pario_layout::StripedView;
use pario_types::{Pos, ServerId};
use pario_view::View;
use pario_wire::message::ByteSelection;

use crate::io::memory::split;
use crate::io::plan::{Chunk, MOST_BYTES, MOST_CHUNKS, PlannedTransfer, SegmentPosition};

/// Views with longer pieces on average use lists of ranges, which are as good.
const SMALL_PIECE: f64 = 4096.0;

/// So few pieces use a list of ranges: the view might be used only once.
const FEW_PIECES: f64 = 64.0;

/// A view that takes more memory is not sent.
const MOST_MEMORY: usize = 256 << 10;

/// Chunks that are shorter on average are collected in one buffer.
const DIRECT: usize = 4096;

pub(crate) struct NamedView<'a> {
    seen: StripedView,
    hash: u128,
    /// The position of the stream's first byte in the view, and the number of bytes.
    at: u64,
    len: u64,
    data: UserData<'a>,
    /// The holders of the file that take part.
    places: Vec<bool>,
    scratch: Vec<u8>,
}

/// The program's memory, as a stream.
pub(crate) enum UserData<'a> {
    /// The offset in its data, and whether it is written to the file.
    User {
        buffer: &'a UserBuffer,
        from: u64,
        write: bool,
    },
    Write(&'a [u8]),
    Read(&'a mut [u8]),
}

/// Whether an access to so many bytes of this view is worth naming it.
pub(crate) fn is_worth_naming(view: &View, len: u64) -> bool {
    let piece = view.density().piece;
    piece < SMALL_PIECE
        && len as f64 > FEW_PIECES * piece
        && view.is_monotone()
        && view.tile().memory() <= MOST_MEMORY
}

impl<'a> NamedView<'a> {
    /// The `len` bytes from `at` on, as far as they lie on the file's holders at these places.
    pub fn new(seen: StripedView, at: Pos, len: u64, data: UserData<'a>, places: Vec<bool>) -> NamedView<'a> {
        let hash = seen.hash();
        NamedView { seen, hash, at: at.0, len, data, places, scratch: Vec::new() }
    }

    pub fn is_read(&self) -> bool {
        matches!(self.data, UserData::Read(_) | UserData::User { write: false, .. })
    }

    pub fn hash(&self) -> u128 {
        self.hash
    }

    pub fn view_bytes(&self) -> Vec<u8> {
        self.seen.to_bytes()
    }

    /// The number of leading bytes of the stream that lie in a file of this size.
    pub fn leading(&self, size: u64) -> u64 {
        self.seen.view().visible_prefix(Pos(self.at), self.len, size)
    }

    /// The next bytes of the stream that lie below `ceiling`.
    pub fn plan(&self, from: SegmentPosition, ceiling: u64) -> PlannedTransfer {
        let mut shares = vec![Vec::new(); self.places.len()];
        let (mut start, limit) = (from.at as u64, self.leading(ceiling));
        while start < limit && shares.iter().all(Vec::is_empty) {
            let mut end = limit.min(start + MOST_BYTES);
            for (place, chunks) in
                (0..).zip(&mut shares).filter(|(place, _)| self.places[usize::from(*place)])
            {
                for share in self.seen.shares(place, self.at + start..self.at + end) {
                    if chunks.len() == MOST_CHUNKS {
                        // The others stop here, too.
                        end = share.at - self.at;
                        break;
                    }
                    let (at, len) = ((share.at - self.at) as usize, share.len as usize);
                    chunks.push(Chunk { segment: 0, at, len, local: 0 });
                }
            }
            shares.iter_mut().for_each(|chunks| cut(chunks, end));
            start = end;
        }
        PlannedTransfer {
            shares,
            copied: Vec::new(),
            next: SegmentPosition { segment: 0, at: start as usize },
        }
    }

    /// Removes the bytes at or beyond an offset of the file.
    pub fn clip(&self, chunks: &mut Vec<Chunk>, ceiling: u64) {
        cut(chunks, self.leading(ceiling));
    }

    /// Returns the end of a chunk in its server's local part.
    pub fn local_end(&self, chunk: &Chunk) -> u64 {
        let last = self.at + (chunk.at + chunk.len) as u64 - 1;
        let offset = self.seen.view().select(Pos(last)).expect("checked against the view");
        self.seen.striping().piece(offset).local + 1
    }

    /// Returns the form in which a message names chunks, which are in order; `None` if it cannot name all of them: between
    /// them are other bytes of the server, or too much else. A single chunk can always be named.
    pub fn what(&self, server: ServerId, chunks: &[Chunk]) -> Option<ByteSelection> {
        let (first, last) = (chunks.first()?, chunks.last()?);
        let (at, end) = (self.at + first.at as u64, self.at + (last.at + last.len) as u64);
        let bytes = chunks.iter().map(|chunk| chunk.len as u64).sum();
        let exact = || {
            let place = self.seen.striping().place(server)?;
            self.seen.extent(place, at..end).filter(|extent| extent.bytes == bytes)
        };
        (chunks.len() == 1 || exact().is_some()).then_some(ByteSelection::View {
            view: self.hash,
            at,
            len: end - at,
            bytes,
        })
    }

    /// Returns the bytes that chunks write, as a payload.
    pub fn gather(&mut self, chunks: &[Chunk]) -> Vec<IoSlice<'_>> {
        if let UserData::Write(bytes) = &self.data
            && are_long(chunks)
        {
            return chunks.iter().map(|chunk| IoSlice::new(&bytes[chunk.at..chunk.at + chunk.len])).collect();
        }
        let room = room(&mut self.scratch, chunks);
        let mut done = 0;
        for chunk in chunks {
            let to = &mut room[done..done + chunk.len];
            match &self.data {
                UserData::Write(bytes) => to.copy_from_slice(&bytes[chunk.at..chunk.at + chunk.len]),
                UserData::User { buffer, from, write: true } => buffer.pack(from + chunk.at as u64, to),
                UserData::User { .. } | UserData::Read(_) => return Vec::new(),
            }
            done += chunk.len;
        }
        vec![IoSlice::new(room)]
    }

    /// Returns the memory to which chunks are read, as the destination of a payload;
    /// [`unpack_received`](NamedView::unpack_received) follows once it is there.
    pub fn scatter(&mut self, chunks: &[Chunk]) -> Vec<IoSliceMut<'_>> {
        match &mut self.data {
            UserData::Read(bytes) if are_long(chunks) => split(bytes, chunks),
            UserData::Read(_) | UserData::User { write: false, .. } => {
                vec![IoSliceMut::new(room(&mut self.scratch, chunks))]
            }
            UserData::Write(_) | UserData::User { .. } => Vec::new(),
        }
    }

    /// The payload for chunks has arrived; bytes beyond the end of the file are dropped.
    pub fn unpack_received(&mut self, chunks: &[Chunk], beyond: &[bool]) {
        let mut done = 0;
        for (chunk, beyond) in chunks.iter().zip(beyond) {
            let from = done..done + chunk.len;
            match &mut self.data {
                _ if *beyond => {}
                UserData::Read(_) if are_long(chunks) => return,
                UserData::Read(bytes) => {
                    bytes[chunk.at..chunk.at + chunk.len].copy_from_slice(&self.scratch[from]);
                }
                UserData::User { buffer, from: first, write: false } => {
                    buffer.unpack(*first + chunk.at as u64, &self.scratch[from]);
                }
                UserData::Write(_) | UserData::User { .. } => return,
            }
            done += chunk.len;
        }
    }
}

/// Removes the bytes at or beyond a position of the stream.
fn cut(chunks: &mut Vec<Chunk>, end: u64) {
    chunks.retain_mut(|chunk| {
        chunk.len = chunk.len.min(usize::try_from(end.saturating_sub(chunk.at as u64)).unwrap_or(usize::MAX));
        chunk.len > 0
    });
}

fn bytes(chunks: &[Chunk]) -> usize {
    chunks.iter().map(|chunk| chunk.len).sum()
}

fn are_long(chunks: &[Chunk]) -> bool {
    bytes(chunks) >= chunks.len() * DIRECT
}

fn room<'a>(scratch: &'a mut Vec<u8>, chunks: &[Chunk]) -> &'a mut [u8] {
    let len = bytes(chunks);
    if scratch.len() < len {
        scratch.resize(len, 0);
    }
    &mut scratch[..len]
}
