//! Shared steps of reads and writes: checking a request, and moving one contiguous extent of the file to or from the
//! program's memory, contiguous or not.

use crate::error::{Error, FileOperation};
use crate::file::PlainFile;
use crate::meter::Meter;
use crate::scratch::Pieces;
use crate::segments::StridedRun;
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
pub(crate) enum FileExtents {
    /// All of this range.
    Contiguous(Range<u64>),
    /// Pieces within these bounds.
    Pieces(Range<u64>),
}

impl FileExtents {
    pub fn bounds(&self) -> Range<u64> {
        match self {
            FileExtents::Contiguous(range) | FileExtents::Pieces(range) => range.clone(),
        }
    }
}

impl<'a> Request<'a> {
    /// The region of the file that a nonempty request touches, or an error if there is none.
    pub fn locate(&self, file: &PlainFile) -> Result<FileExtents, Error> {
        let held = self.buf.len().saturating_sub(self.buf_at);
        if held < self.len {
            return Err(Error::ShortBuffer { len: self.len, held });
        }
        self.place().ok_or_else(|| Error::OutOfRange { path: file.path.clone(), len: self.len })
    }

    fn place(&self) -> Option<FileExtents> {
        self.at.checked_add(self.len)?;
        if self.view.is_contiguous() {
            let start = self.view.disp().checked_add(self.at.0)?;
            return Some(FileExtents::Contiguous(start.0..start.checked_add(self.len)?.0));
        }
        let (lo, hi) = self.view.bounds(self.at, self.len)?;
        let mut cursor = self.cursor();
        if cursor.remaining() != self.len {
            return None;
        }
        match cursor.next_piece(self.len)? {
            piece if piece.len == self.len => Some(FileExtents::Contiguous(lo.0..hi.0)),
            _ => Some(FileExtents::Pieces(lo.0..hi.0)),
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
pub(crate) fn next_strided_run(cursor: &mut Cursor) -> Option<StridedRun> {
    let run = cursor.next_run(u64::MAX)?;
    // A view has no negative offsets: its bounds were checked.
    Some(StridedRun { offset: run.offset as u64, len: run.len, stride: run.stride, count: run.count })
}

/// The next extent of at most `limit` bytes, touching pieces joined.
pub(crate) fn next_extent(cursor: &mut Cursor, limit: u64) -> Option<Range<u64>> {
    let piece = cursor.next_piece(limit)?;
    let start = piece.offset as u64;
    Some(start..start + piece.len)
}

/// Memory in pieces of at least this many bytes is handed to the system as it is; smaller pieces are cheaper
/// to copy through scratch memory.
const VECTOR_PIECE: u64 = 1024;

/// Pieces per call: the most that Linux takes.
const MOST_PIECES: usize = 1024;

/// The role of the program's memory in a transfer.
#[derive(Clone, Copy)]
enum MemoryShape {
    /// One piece from this address.
    Contiguous(*mut u8),
    /// Pieces large enough to be named one by one.
    Vectored,
    /// Pieces to be copied through scratch memory.
    Packed,
}

/// Moves extents for one request.
pub(crate) struct RequestMover<'a> {
    pub file: &'a PlainFile,
    pub buf: &'a UserBuffer,
    /// Scratch bytes it may use for memory that is in pieces.
    pub window: u64,
    pub meter: Meter<'a>,
    shape: MemoryShape,
}

impl<'a> RequestMover<'a> {
    pub fn new(file: &'a PlainFile, buf: &'a UserBuffer, window: u64, meter: Meter<'a>) -> RequestMover<'a> {
        let pattern = buf.pattern();
        let shape = match buf.as_contiguous() {
            Some((base, _)) => MemoryShape::Contiguous(base),
            None if pattern.size() / pattern.pieces().max(1) >= VECTOR_PIECE => MemoryShape::Vectored,
            None => MemoryShape::Packed,
        };
        RequestMover { file, buf, window, meter, shape }
    }

    /// Reads a extent to memory from `mem` on; returns the bytes there were before the end of the file.
    pub fn read_extent(&mut self, extent: Range<u64>, mem: u64) -> Result<u64, Error> {
        let (at, len) = (extent.start, extent.end - extent.start);
        match self.shape {
            MemoryShape::Contiguous(base) => {
                self.meter.read(len);
                // SAFETY: the request was checked to lie within the memory, which the program keeps alive.
                let got = unsafe { self.file.io().read(base.add(mem as usize), len, at) };
                got.map_err(|stop| self.file.stopped(FileOperation::Read, at, stop))
            }
            MemoryShape::Vectored => self.read_vectored(at, len, mem),
            MemoryShape::Packed => self.read_packed(at, len, mem),
        }
    }

    /// Writes a extent from memory at `mem` on.
    pub fn write_extent(&mut self, extent: Range<u64>, mem: u64) -> Result<(), Error> {
        let (at, len) = (extent.start, extent.end - extent.start);
        match self.shape {
            MemoryShape::Contiguous(base) => {
                self.meter.wrote(len);
                // SAFETY: the request was checked to lie within the memory, which the program keeps alive.
                let put = unsafe { self.file.io().write(base.add(mem as usize), len, at) };
                put.map_err(|stop| self.file.stopped(FileOperation::Write, at, stop))
            }
            MemoryShape::Vectored => self.write_vectored(at, len, mem),
            MemoryShape::Packed => self.write_packed(at, len, mem),
        }
    }

    fn read_vectored(&mut self, at: u64, len: u64, mem: u64) -> Result<u64, Error> {
        let mut pieces = Pieces::take();
        let mut done = 0;
        while done < len {
            let part = self.buf.iovecs(mem + done, len - done, MOST_PIECES, pieces.cleared());
            // SAFETY: pieces of the program's memory, which it keeps alive.
            let got = unsafe { self.file.io().read_pieces(pieces.as_iovecs(), at + done) };
            let got =
                got.map_err(|stop| self.file.stopped(FileOperation::Read, at + done, stop).after(done))?;
            self.meter.read(part);
            done += got;
            if got < part {
                break;
            }
        }
        Ok(done)
    }

    fn write_vectored(&mut self, at: u64, len: u64, mem: u64) -> Result<(), Error> {
        let mut pieces = Pieces::take();
        let mut done = 0;
        while done < len {
            let part = self.buf.iovecs(mem + done, len - done, MOST_PIECES, pieces.cleared());
            // SAFETY: pieces of the program's memory, which it keeps alive.
            let put = unsafe { self.file.io().write_pieces(pieces.as_iovecs(), at + done) };
            put.map_err(|stop| self.file.stopped(FileOperation::Write, at + done, stop).after(done))?;
            self.meter.wrote(part);
            done += part;
        }
        Ok(())
    }

    fn read_packed(&mut self, at: u64, len: u64, mem: u64) -> Result<u64, Error> {
        let mut scratch = self.file.scratch(self.window.min(len))?;
        let mut done = 0;
        while done < len {
            let part = (len - done).min(self.window);
            let bytes = scratch.bytes(part as usize);
            let got = self.file.io().read_slice(bytes, at + done);
            let got = got.map_err(|stop| {
                self.buf.unpack(mem + done, &bytes[..stop.done as usize]);
                self.file.stopped(FileOperation::Read, at + done, stop).after(done)
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

    fn write_packed(&mut self, at: u64, len: u64, mem: u64) -> Result<(), Error> {
        let mut scratch = self.file.scratch(self.window.min(len))?;
        let mut done = 0;
        while done < len {
            let part = (len - done).min(self.window);
            let bytes = scratch.bytes(part as usize);
            self.buf.pack(mem + done, bytes);
            let put = self.file.io().write_slice(bytes, at + done);
            put.map_err(|stop| self.file.stopped(FileOperation::Write, at + done, stop).after(done))?;
            self.meter.wrote(part);
            self.meter.copied(part);
            done += part;
        }
        Ok(())
    }
}
