//! Writing: directly where the file region is contiguous; across gaps either piece by piece or by read-modify-write
//! of a window.
//!
//! Writing a window back overwrites the gaps with the bytes that were read. Without a lock this would undo what another
//! writer put there in between. The following protocol prevents that. A "process" lock is an entry in this process's
//! own table; a "kernel" lock also holds against other processes:
//!
//! | access | lock | range | when |
//! |---|---|---|---|
//! | read | none | | |
//! | read, atomic mode | kernel, shared | bounds of the request | always |
//! | write of pieces | process, shared | bounds of a batch | `sole`, or no peer sieves |
//! | write of pieces | kernel, shared | bounds of a batch | otherwise |
//! | sieved window | process, exclusive | the window | `sole` |
//! | sieved window | kernel, exclusive | the window | otherwise |
//! | full window of an aggregator | as a write of pieces | the window | |
//! | window of an aggregator with gaps | as a sieved window | the window | |
//! | write, atomic mode | kernel, exclusive | bounds of the request | always; the locks above lie inside it |
//!
//! - A window excludes every other write to its range, by threads and by processes, from before it is read until it is
//!   written. So no write is undone, and bytes that lay beyond the end of the file when the window was read are still
//!   beyond the end (or belong to this writer) when it writes zeros there. A window ends at the last byte of its own
//!   data, so the file never grows beyond the request.
//! - A write of pieces touches its own bytes only, so such writes share their locks.
//! - Where the file system has no locks, only a `sole` owner sieves. All others write pieces, which need no lock against
//!   each other.
//! - A process holds one lock at a time, so there is no deadlock.
//! - An aggregator holds the lock of a window with gaps while other ranks fill it. This cannot deadlock: such locks are
//!   tried, never waited for; they are taken only when all ranks are in the access; and ranks fill windows without the
//!   help of the program's own threads. Accesses that are stepped from the program's MPI calls do need those threads,
//!   and therefore use no windows with gaps.
//! - Locks exclude only processes that lock. A window with gaps is safe beside writes through the same open if those
//!   writers know of it: `peers_sieve` must be true for every rank that may write while an aggregator modifies.
//!
//! Windows are aligned to a grid of file offsets, so the windows of different processes coincide. Each process begins
//! at its own share of the request, so that they do not all compete for the same window.

use crate::cost::JoinRule;
use crate::error::{Error, FileOperation};
use crate::file::PlainFile;
use crate::meter::Meter;
use crate::request::{FileExtents, Request, RequestMover, next_extent, next_strided_run};
use crate::segments::{Limit, Segment, Segments};
use pario_buffer::UserBuffer;
use pario_types::{AccessTuning, Toggle};
use pario_types::{Offset, Pos};
use pario_view::{Cursor, View};
use std::ops::Range;

/// A batch of pieces under one lock has at most this many bytes between its ends, unless it is one piece.
const BATCH_SPAN: u64 = 4 << 20;

/// In a window without old data, gaps are cleared one by one if the pieces have at least this many bytes on average.
const CLEAR_AROUND: u64 = 512;

impl PlainFile {
    /// Writes `len` bytes of the memory's data from `buf_at` to the view from `at`: all of them, or an error
    /// that says how many leading ones are certainly done.
    pub fn write(
        &self,
        view: &View,
        at: Pos,
        buf: &UserBuffer,
        buf_at: u64,
        len: u64,
        tune: &AccessTuning,
    ) -> Result<u64, Error> {
        self.check_write()?;
        if len == 0 {
            return Ok(0);
        }
        let request = Request { view, at, buf, buf_at, len };
        let place = request.locate(self)?;
        if !tune.atomic {
            self.write_unlocked(&request, place, tune)?;
            return Ok(len);
        }
        let guard = self.lock_range(place.bounds(), true, true)?;
        self.write_unlocked(&request, place, tune)?;
        self.unlock(guard, len)?;
        Ok(len)
    }

    /// Writes bytes at an offset. Other processes may sieve at the same time.
    pub fn write_bytes(&self, at: Offset, from: &[u8]) -> Result<(), Error> {
        self.write_bytes_tuned(at, from, &AccessTuning::default())
    }

    /// Writes bytes at an offset under these settings.
    pub fn write_bytes_tuned(&self, at: Offset, from: &[u8], tune: &AccessTuning) -> Result<(), Error> {
        self.check_write()?;
        let len = from.len() as u64;
        let outside = || Error::OutOfRange { path: self.path.clone(), len };
        let end = at.checked_add(len).ok_or_else(outside)?;
        if len == 0 {
            return Ok(());
        }
        let (guard, _) = match tune.atomic {
            true => (self.lock_range(at.0..end.0, true, true)?, true),
            false => self.lock_unless_refused(at.0..end.0, false, pieces_need_kernel(tune))?,
        };
        self.io().write_slice(from, at.0).map_err(|stop| self.stopped(FileOperation::Write, at.0, stop))?;
        self.unlock(guard, len)
    }

    fn write_unlocked(
        &self,
        request: &Request<'_>,
        place: FileExtents,
        tune: &AccessTuning,
    ) -> Result<(), Error> {
        let bounds = match place {
            FileExtents::Contiguous(range) => return self.write_contiguous(request, range, tune),
            FileExtents::Pieces(bounds) => bounds,
        };
        let split = self.first_to_write(request, bounds, tune);
        if split == 0 {
            return self.write_pass(request, tune);
        }
        let (front, back) = (request.part(0, split), request.part(split, request.len - split));
        self.write_pass(&back, tune).map_err(Error::with_nothing_done)?;
        self.write_pass(&front, tune)
    }

    fn write_contiguous(
        &self,
        request: &Request<'_>,
        range: Range<u64>,
        tune: &AccessTuning,
    ) -> Result<(), Error> {
        let window = self.costs.write_window(tune.write_buffer);
        let (guard, _) = self.lock_unless_refused(range.clone(), false, pieces_need_kernel(tune))?;
        let meter = Meter::new(&self.costs, self.timed(request.len));
        let mut mover = RequestMover::new(self, request.buf, window, meter);
        let put = mover.write_extent(range, request.buf_at);
        mover.meter.finish();
        put?;
        self.unlock(guard, request.len)
    }

    /// The byte of the request to begin with, so that processes do not compete for the same locks: the start of this
    /// process's share of the range, rounded up to a window border.
    fn first_to_write(&self, request: &Request<'_>, bounds: Range<u64>, tune: &AccessTuning) -> u64 {
        let (rank, size) = (u64::from(tune.stagger.0), u64::from(tune.stagger.1).max(1));
        let sieves = tune.sieve_write != Toggle::Disable && self.can_sieve_writes();
        if tune.sole || rank % size == 0 || !sieves || !request.view.is_monotone() {
            return 0;
        }
        let window = self.costs.write_window(tune.write_buffer);
        let share = (bounds.end - bounds.start) / size * (rank % size);
        let border = (bounds.start + share).next_multiple_of(window);
        if border >= bounds.end {
            return 0;
        }
        let first = request.view.rank(Offset(border)).0.saturating_sub(request.at.0);
        if first < request.len { first } else { 0 }
    }

    /// Writes the request from its first byte to its last.
    fn write_pass(&self, request: &Request<'_>, tune: &AccessTuning) -> Result<(), Error> {
        let window = self.costs.write_window(tune.write_buffer);
        let copy = request.cursor();
        let meter = Meter::new(&self.costs, self.timed(request.len));
        let mover = RequestMover::new(self, request.buf, window, meter);
        let mut pass =
            WritePass { mover, copy, tune, mem: request.buf_at, done: 0, batch: None, holes: true };
        let result = pass.run(request);
        pass.mover.meter.finish();
        result.map_err(|error| error.after(pass.done))
    }
}

/// Puts zeros between the pieces of a window that has no old data; the pieces themselves are written afterwards.
fn clear_gaps(window: &mut [u8], mut pieces: Cursor, segment: &Segment) {
    let (mut left, mut clear_from) = (segment.data, 0);
    while let Some(run) = pieces.next_run(left) {
        left -= run.len * run.count;
        // The pieces of a window ascend, from its first byte to its last.
        let (first, len) = ((run.offset as u64 - segment.lo) as usize, run.len as usize);
        for i in 0..run.count as usize {
            let start = first + i * run.stride as usize;
            window[clear_from..start].fill(0);
            clear_from = start + len;
        }
    }
}

/// Whether a write of pieces needs a kernel lock against sieving processes.
fn pieces_need_kernel(tune: &AccessTuning) -> bool {
    tune.peers_sieve && !tune.sole
}

/// Pieces that wait to be written under one lock.
#[derive(Clone, Copy)]
struct Batch {
    lo: u64,
    hi: u64,
    data: u64,
}

/// One pass over the windows of a request.
struct WritePass<'a> {
    mover: RequestMover<'a>,
    copy: Cursor,
    tune: &'a AccessTuning,
    /// The offset in memory at which the request begins.
    mem: u64,
    /// Bytes written: everything that `copy` has passed.
    done: u64,
    batch: Option<Batch>,
    /// All windows so far were holes. Asking for holes takes a kernel-internal lock that writers hold, so it stops at the
    /// first window that holds data.
    holes: bool,
}

impl WritePass<'_> {
    fn run(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let file = self.mover.file;
        // Sieving needs a file that can be read and locked.
        let possible = file.readable() && (self.tune.sole || file.can_sieve_writes());
        let toggle = if possible { self.tune.sieve_write } else { Toggle::Disable };
        let rule = || JoinRule::for_write(&file.costs.prices(), toggle);
        let mut plan = request.cursor();
        let mut segments =
            Segments::new(|| next_strided_run(&mut plan), rule(), Limit::Grid(self.mover.window));
        while let Some(segment) = segments.next() {
            if self.modify_pays(&segment, toggle) {
                self.flush()?;
                self.modify(&segment)?;
            } else {
                self.add(&segment)?;
            }
            if self.mover.meter.end_interval() {
                segments.set_rule(rule());
            }
        }
        self.flush()
    }

    fn modify_pays(&self, segment: &Segment, toggle: Toggle) -> bool {
        let (span, prices) = (segment.hi - segment.lo, self.mover.file.costs.prices());
        segment.extents > 1
            && (toggle == Toggle::Enable
                || prices.modify_pays(span, segment.data, segment.extents, !self.tune.sole))
    }

    /// Reads the window, puts the pieces in, writes it back.
    fn modify(&mut self, segment: &Segment) -> Result<(), Error> {
        let (file, kernel) = (self.mover.file, !self.tune.sole);
        let range = segment.lo..segment.hi;
        let (guard, held) = self.mover.meter.lock(|| file.lock_unless_refused(range, true, kernel))?;
        if !held {
            drop(guard);
            return self.add(segment);
        }
        let span = segment.hi - segment.lo;
        let mut scratch = file.scratch(span)?;
        let window = scratch.bytes(span as usize);
        let got = file.read_old(&(segment.lo..segment.hi), window, self.holes)?;
        if got > 0 {
            self.holes = false;
            self.mover.meter.read(span);
        }
        // Zeros only where no piece comes, unless the pieces are so small that one sweep is cheaper.
        match got == 0 && segment.data / segment.extents >= CLEAR_AROUND {
            true => clear_gaps(window, self.copy.clone(), segment),
            false => window[got..].fill(0),
        }
        self.mover.buf.scatter(
            self.mem + self.done,
            segment.data,
            &mut self.copy,
            window,
            Offset(segment.lo),
        );
        file.write_back(segment.lo, window)?;
        file.unlock(guard, 0)?;
        self.done += segment.data;
        self.mover.meter.wrote(span);
        self.mover.meter.copied(segment.data);
        Ok(())
    }

    /// Puts a segment's pieces into the batch, which is written first if they do not belong together.
    fn add(&mut self, segment: &Segment) -> Result<(), Error> {
        let fresh = Batch { lo: segment.lo, hi: segment.hi, data: segment.data };
        let Some(batch) = self.batch else {
            self.batch = Some(fresh);
            return Ok(());
        };
        let (lo, hi) = (batch.lo.min(fresh.lo), batch.hi.max(fresh.hi));
        if hi - lo > BATCH_SPAN {
            self.flush()?;
            self.batch = Some(fresh);
        } else {
            self.batch = Some(Batch { lo, hi, data: batch.data + fresh.data });
        }
        Ok(())
    }

    /// Writes the batch piece by piece under one lock.
    fn flush(&mut self) -> Result<(), Error> {
        let Some(batch) = self.batch.take() else { return Ok(()) };
        let (file, kernel) = (self.mover.file, pieces_need_kernel(self.tune));
        let (guard, _) =
            self.mover.meter.lock(|| file.lock_unless_refused(batch.lo..batch.hi, false, kernel))?;
        let end = self.done + batch.data;
        while let Some(extent) = next_extent(&mut self.copy, end - self.done) {
            let len = extent.end - extent.start;
            self.mover.write_extent(extent, self.mem + self.done)?;
            self.done += len;
        }
        file.unlock(guard, 0)
    }
}
