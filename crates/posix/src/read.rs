//! Reading: straight where the file is contiguous, sieved where joining pieces across gaps is cheaper.
//!
//! A sieved window is read once into scratch memory and its pieces are gathered into the program's memory in
//! one pass. A read is short only at the end of the file: it returns the number of leading bytes of the
//! request that lie below it and leaves the memory of the others alone.

use crate::cost::JoinRule;
use crate::error::{Error, FileOperation};
use crate::file::PlainFile;
use crate::meter::Meter;
use crate::request::{FileExtents, Request, RequestMover, next_extent, next_strided_run};
use crate::segments::{Limit, Segment, Segments};
use pario_buffer::UserBuffer;
use pario_types::AccessTuning;
use pario_types::{Offset, Pos};
use pario_view::{Cursor, View};

impl PlainFile {
    /// Reads `len` bytes of the view from `at` into the memory's data bytes from `buf_at`. Returns how many
    /// there were: fewer only at the end of the file.
    pub fn read(
        &self,
        view: &View,
        at: Pos,
        buf: &UserBuffer,
        buf_at: u64,
        len: u64,
        tune: &AccessTuning,
    ) -> Result<u64, Error> {
        self.check_read()?;
        if len == 0 {
            return Ok(0);
        }
        let request = Request { view, at, buf, buf_at, len };
        let place = request.locate(self)?;
        if !tune.atomic {
            return self.read_unlocked(&request, place, tune);
        }
        let guard = self.lock_range(place.bounds(), false, true)?;
        let got = self.read_unlocked(&request, place, tune)?;
        self.unlock(guard, got)?;
        Ok(got)
    }

    /// Reads bytes at an offset; returns how many there were before the end of the file.
    pub fn read_bytes(&self, at: Offset, to: &mut [u8]) -> Result<u64, Error> {
        self.check_read()?;
        self.io().read_slice(to, at.0).map_err(|stop| self.stopped(FileOperation::Read, at.0, stop))
    }

    fn read_unlocked(
        &self,
        request: &Request<'_>,
        place: FileExtents,
        tune: &AccessTuning,
    ) -> Result<u64, Error> {
        let window = self.costs.read_window(tune.read_buffer);
        let meter = Meter::new(&self.costs, self.timed(request.len));
        let mut mover = RequestMover::new(self, request.buf, window, meter);
        let got = match place {
            FileExtents::Contiguous(range) => mover.read_extent(range, request.buf_at),
            FileExtents::Pieces(_) => self.read_segments(&mut mover, request, tune),
        };
        mover.meter.finish();
        got
    }

    fn read_segments(
        &self,
        mover: &mut RequestMover<'_>,
        request: &Request<'_>,
        tune: &AccessTuning,
    ) -> Result<u64, Error> {
        let rule = || JoinRule::for_read(&self.costs.prices(), tune.sieve_read);
        let (mut plan, mut copy) = (request.cursor(), request.cursor());
        let mut segments = Segments::new(|| next_strided_run(&mut plan), rule(), Limit::Span(mover.window));
        let mut done = 0;
        while let Some(segment) = segments.next() {
            let mem = request.buf_at + done;
            let got = if segment.extents == 1 {
                read_pieces(mover, &mut copy, mem, segment.data)
            } else {
                self.sieve(mover, &mut copy, mem, &segment)
            };
            let got = got.map_err(|error| error.after(done))?;
            done += got;
            if got < segment.data {
                break;
            }
            if mover.meter.end_interval() {
                segments.set_rule(rule());
            }
        }
        Ok(done)
    }

    /// Reads a whole window and takes its pieces out.
    fn sieve(
        &self,
        mover: &mut RequestMover<'_>,
        copy: &mut Cursor,
        mem: u64,
        segment: &Segment,
    ) -> Result<u64, Error> {
        let span = segment.hi - segment.lo;
        let mut scratch = self.scratch(span)?;
        let window = scratch.bytes(span as usize);
        let got = self.io().read_slice(window, segment.lo);
        let got =
            got.map_err(|stop| self.stopped(FileOperation::Read, segment.lo, stop).with_nothing_done())?;
        mover.meter.read(span);
        let visible = if got == span {
            segment.data
        } else {
            bytes_below(copy.clone(), segment.data, segment.lo + got)
        };
        mover.meter.copied(visible);
        mover.buf.gather(mem, visible, copy, window, Offset(segment.lo));
        Ok(visible)
    }

    /// Whether to time this operation: always if it is large, else one in 32 at first and one in 256 later,
    /// since looking at the clock twice takes longer than a small call.
    pub(crate) fn timed(&self, len: u64) -> bool {
        let count = self.operations.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        len >= 256 << 10 || count.is_multiple_of(if count < 1024 { 32 } else { 256 })
    }
}

/// Reads the next `len` bytes of the stream piece by piece, up to the end of the file.
fn read_pieces(mover: &mut RequestMover<'_>, copy: &mut Cursor, mem: u64, len: u64) -> Result<u64, Error> {
    let mut done = 0;
    while let Some(extent) = next_extent(copy, len - done) {
        let want = extent.end - extent.start;
        let got = mover.read_extent(extent, mem + done).map_err(|error| error.after(done))?;
        done += got;
        if got < want {
            break;
        }
    }
    Ok(done)
}

/// The number of the next `len` stream bytes, which ascend, below `end`.
fn bytes_below(mut cursor: Cursor, len: u64, end: u64) -> u64 {
    let mut count = 0;
    while let Some(extent) = next_extent(&mut cursor, len - count) {
        count += end.clamp(extent.start, extent.end) - extent.start;
        if end < extent.end {
            break;
        }
    }
    count
}
