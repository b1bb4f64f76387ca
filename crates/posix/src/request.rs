//! One access as both directions see it: the checks before it, and moving one contiguous stretch of the file
//! to or from the program's memory, whatever shape that memory has.

use crate::error::{Action, Error};
use crate::file::PlainFile;
use crate::meter::Meter;
use crate::scratch::Pieces;
use crate::segments::Strip;
use pario_buffer::UserBuffer;
use pario_types::Pos;
use pario_view::{Cursor, View};
use std::ops::Range;

/// `len` bytes of the view from `at`, and the same number of the memory's data from `buf_at`.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub view: &'a View,
    pub at: Pos,
    pub buf: &'a UserBuffer,
    pub buf_at: u64,
    pub len: u64,
}

/// The bytes of the file that a request touches.
pub(crate) enum Place {
    /// All of this range.
    Stretch(Range<u64>),
    /// Pieces within these bounds.
    Pieces(Range<u64>),
}

impl Place {
    pub fn bounds(&self) -> Range<u64> {
        match self {
            Place::Stretch(range) | Place::Pieces(range) => range.clone(),
        }
    }
}

impl<'a> Request<'a> {
    /// Where in the file a request that is not empty lies, or the error that it deserves.
    pub fn locate(&self, file: &PlainFile) -> Result<Place, Error> {
        let held = self.buf.len().saturating_sub(self.buf_at);
        if held < self.len {
            return Err(Error::ShortBuffer { len: self.len, held });
        }
        self.place().ok_or_else(|| Error::OutOfRange { path: file.path.clone(), len: self.len })
    }

    fn place(&self) -> Option<Place> {
        self.at.checked_add(self.len)?;
        if self.view.is_contiguous() {
            let start = self.view.disp().checked_add(self.at.0)?;
            return Some(Place::Stretch(start.0..start.checked_add(self.len)?.0));
        }
        let (lo, hi) = self.view.bounds(self.at, self.len)?;
        let mut cursor = self.cursor();
        if cursor.remaining() != self.len {
            return None;
        }
        match cursor.next_piece(self.len)? {
            piece if piece.len == self.len => Some(Place::Stretch(lo.0..hi.0)),
            _ => Some(Place::Pieces(lo.0..hi.0)),
        }
    }

    /// The part of it that is the `len` bytes after the first `skip`.
    pub fn part(&self, skip: u64, len: u64) -> Request<'a> {
        Request { at: Pos(self.at.0 + skip), buf_at: self.buf_at + skip, len, ..*self }
    }

    pub fn cursor(&self) -> Cursor {
        self.view.cursor(self.at, self.len)
    }
}

/// The next run of a view's cursor.
pub(crate) fn next_strip(cursor: &mut Cursor) -> Option<Strip> {
    let run = cursor.next_run(u64::MAX)?;
    // A view has no negative offsets: its bounds were checked.
    Some(Strip { offset: run.offset as u64, len: run.len, stride: run.stride, count: run.count })
}

/// The next stretch of at most `limit` bytes, touching pieces joined.
pub(crate) fn next_stretch(cursor: &mut Cursor, limit: u64) -> Option<Range<u64>> {
    let piece = cursor.next_piece(limit)?;
    let start = piece.offset as u64;
    Some(start..start + piece.len)
}

/// Memory in pieces of at least this many bytes is handed to the system as it is; smaller pieces are cheaper
/// to copy through scratch memory.
const VECTOR_PIECE: u64 = 1024;

/// Pieces per call: the most that Linux takes.
const MOST_PIECES: usize = 1024;

/// How the program's memory takes part in a transfer.
#[derive(Clone, Copy)]
enum Shape {
    /// One piece from this address.
    Whole(*mut u8),
    /// Pieces large enough to be named one by one.
    Coarse,
    /// Pieces to be copied through scratch memory.
    Fine,
}

/// Moves stretches for one request.
pub(crate) struct Mover<'a> {
    pub file: &'a PlainFile,
    pub buf: &'a UserBuffer,
    /// Scratch bytes it may use for memory that is in pieces.
    pub window: u64,
    pub meter: Meter<'a>,
    shape: Shape,
}

impl<'a> Mover<'a> {
    pub fn new(file: &'a PlainFile, buf: &'a UserBuffer, window: u64, meter: Meter<'a>) -> Mover<'a> {
        let pattern = buf.pattern();
        let shape = match buf.as_contiguous() {
            Some((base, _)) => Shape::Whole(base),
            None if pattern.size() / pattern.pieces().max(1) >= VECTOR_PIECE => Shape::Coarse,
            None => Shape::Fine,
        };
        Mover { file, buf, window, meter, shape }
    }

    /// Reads a stretch to memory from `mem` on; returns the bytes there were before the end of the file.
    pub fn read_stretch(&mut self, stretch: Range<u64>, mem: u64) -> Result<u64, Error> {
        let (at, len) = (stretch.start, stretch.end - stretch.start);
        match self.shape {
            Shape::Whole(base) => {
                self.meter.read(len);
                // SAFETY: the request was checked to lie within the memory, which the program keeps alive.
                let got = unsafe { self.file.pipe().read(base.add(mem as usize), len, at) };
                got.map_err(|stop| self.file.stopped(Action::Read, at, stop))
            }
            Shape::Coarse => self.read_coarse(at, len, mem),
            Shape::Fine => self.read_fine(at, len, mem),
        }
    }

    /// Writes a stretch from memory at `mem` on.
    pub fn write_stretch(&mut self, stretch: Range<u64>, mem: u64) -> Result<(), Error> {
        let (at, len) = (stretch.start, stretch.end - stretch.start);
        match self.shape {
            Shape::Whole(base) => {
                self.meter.wrote(len);
                // SAFETY: the request was checked to lie within the memory, which the program keeps alive.
                let put = unsafe { self.file.pipe().write(base.add(mem as usize), len, at) };
                put.map_err(|stop| self.file.stopped(Action::Write, at, stop))
            }
            Shape::Coarse => self.write_coarse(at, len, mem),
            Shape::Fine => self.write_fine(at, len, mem),
        }
    }

    fn read_coarse(&mut self, at: u64, len: u64, mem: u64) -> Result<u64, Error> {
        let mut pieces = Pieces::take();
        let mut done = 0;
        while done < len {
            let part = self.buf.iovecs(mem + done, len - done, MOST_PIECES, pieces.cleared());
            // SAFETY: pieces of the program's memory, which it keeps alive.
            let got = unsafe { self.file.pipe().read_pieces(pieces.as_iovecs(), at + done) };
            let got = got.map_err(|stop| self.file.stopped(Action::Read, at + done, stop).after(done))?;
            self.meter.read(part);
            done += got;
            if got < part {
                break;
            }
        }
        Ok(done)
    }

    fn write_coarse(&mut self, at: u64, len: u64, mem: u64) -> Result<(), Error> {
        let mut pieces = Pieces::take();
        let mut done = 0;
        while done < len {
            let part = self.buf.iovecs(mem + done, len - done, MOST_PIECES, pieces.cleared());
            // SAFETY: pieces of the program's memory, which it keeps alive.
            let put = unsafe { self.file.pipe().write_pieces(pieces.as_iovecs(), at + done) };
            put.map_err(|stop| self.file.stopped(Action::Write, at + done, stop).after(done))?;
            self.meter.wrote(part);
            done += part;
        }
        Ok(())
    }

    fn read_fine(&mut self, at: u64, len: u64, mem: u64) -> Result<u64, Error> {
        let mut scratch = self.file.scratch(self.window.min(len))?;
        let mut done = 0;
        while done < len {
            let part = (len - done).min(self.window);
            let bytes = scratch.bytes(part as usize);
            let got = self.file.pipe().read_slice(bytes, at + done);
            let got = got.map_err(|stop| {
                self.buf.unpack(mem + done, &bytes[..stop.done as usize]);
                self.file.stopped(Action::Read, at + done, stop).after(done)
            })?;
            self.buf.unpack(mem + done, &bytes[..got as usize]);
            self.meter.read(part);
            self.meter.copied(got);
            done += got;
            if got < part {
                break;
            }
        }
        Ok(done)
    }

    fn write_fine(&mut self, at: u64, len: u64, mem: u64) -> Result<(), Error> {
        let mut scratch = self.file.scratch(self.window.min(len))?;
        let mut done = 0;
        while done < len {
            let part = (len - done).min(self.window);
            let bytes = scratch.bytes(part as usize);
            self.buf.pack(mem + done, bytes);
            let put = self.file.pipe().write_slice(bytes, at + done);
            put.map_err(|stop| self.file.stopped(Action::Write, at + done, stop).after(done))?;
            self.meter.wrote(part);
            self.meter.copied(part);
            done += part;
        }
        Ok(())
    }
}
