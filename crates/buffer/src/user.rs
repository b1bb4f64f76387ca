//! The buffer of an MPI call: an address, a datatype and a count.

use std::sync::Arc;

use pario_types::Offset;
use pario_view::{Cursor, Pattern};

use crate::device::BounceBuffer;
use crate::kernel;
use crate::run_zip::{RunPair, RunZip};

/// The number of runs that are computed before they are copied.
const BATCH: usize = 32;

/// The memory of the program: `count` instances of a pattern at multiples of its extent from a base
/// address.
///
/// The data stream of a buffer is its bytes in typemap order. Positions refer to that stream.
#[derive(Debug)]
pub struct UserBuffer {
    base: *mut u8,
    pattern: Pattern,
    count: u64,
    len: u64,
    /// The copy of GPU memory that this buffer describes, if it does.
    copy: Option<Arc<BounceBuffer>>,
}

// SAFETY: the program lends the memory to Pario for the duration of an operation. MPI forbids the program
// to access it meanwhile, whichever thread copies. Pario never runs two writers of one buffer.
unsafe impl Send for UserBuffer {}
// SAFETY: as above.
unsafe impl Sync for UserBuffer {}

/// Contiguous memory, with the layout of the system's `struct iovec`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IoVec {
    /// The address.
    pub base: *mut u8,
    /// The number of bytes.
    pub len: usize,
}

impl UserBuffer {
    /// Describes memory of the program.
    ///
    /// # Safety
    ///
    /// Every byte of the pattern must be valid as long as the buffer is used: for reads in
    /// [`pack`](Self::pack) and [`scatter`](Self::scatter), for writes in [`unpack`](Self::unpack) and
    /// [`gather`](Self::gather). Nothing else may write it meanwhile.
    pub unsafe fn new(base: *mut u8, pattern: Pattern, count: u64) -> UserBuffer {
        let len = match pattern.is_contiguous() {
            true => pattern.size().saturating_mul(count).min(i64::MAX as u64),
            false => Cursor::over(&pattern, count, 0).remaining(),
        };
        UserBuffer { base, pattern, count, len, copy: None }
    }

    /// The number of data bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no data bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address from which the pattern counts.
    pub fn base(&self) -> usize {
        self.base as usize
    }

    /// The copy of GPU memory that this buffer describes, if it does.
    pub fn copy_of_device(&self) -> Option<&Arc<BounceBuffer>> {
        self.copy.as_ref()
    }

    pub(crate) fn backed_by(self, copy: Arc<BounceBuffer>) -> UserBuffer {
        UserBuffer { copy: Some(copy), ..self }
    }

    /// The layout of one instance.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// The number of instances of the pattern.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The address and length, if the data is contiguous.
    pub fn as_contiguous(&self) -> Option<(*mut u8, u64)> {
        if self.len == 0 || self.pattern.is_contiguous() {
            return Some((self.base, self.len));
        }
        let piece = self.cursor(0).next_piece(u64::MAX)?;
        (piece.len == self.len).then(|| (self.address(piece.offset), self.len))
    }

    /// Calls `f` with data bytes `[at, at + len)` in place. Returns `None` if they are not contiguous.
    pub fn with_bytes<R>(&self, at: u64, len: u64, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let address = self.piece(at, len)?;
        // SAFETY: the caller of `new` guarantees that the memory is valid and that nothing writes it during
        // an access that only reads it.
        Some(f(unsafe { std::slice::from_raw_parts(address, len as usize) }))
    }

    /// Calls `f` with data bytes `[at, at + len)` in place, for an access that fills them. Returns `None`
    /// if they are not contiguous.
    pub fn with_bytes_mut<R>(&self, at: u64, len: u64, f: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        let address = self.piece(at, len)?;
        // SAFETY: the caller of `new` guarantees that the memory is valid and that nothing else uses it
        // during an access that fills it.
        Some(f(unsafe { std::slice::from_raw_parts_mut(address, len as usize) }))
    }

    /// The address of data bytes `[at, at + len)`, if they are contiguous.
    fn piece(&self, at: u64, len: u64) -> Option<*mut u8> {
        if len == 0 {
            return Some(std::ptr::NonNull::dangling().as_ptr());
        }
        let piece = self.cursor(at).next_piece(len)?;
        (piece.len == len).then(|| self.address(piece.offset))
    }

    /// The data stream from position `at` on. Offsets are relative to the base address.
    pub fn cursor(&self, at: u64) -> Cursor {
        Cursor::over(&self.pattern, self.count, at)
    }

    /// Copies data bytes `[at, at + dst.len())` to `dst`.
    ///
    /// # Panics
    /// If the buffer ends before.
    pub fn pack(&self, at: u64, dst: &mut [u8]) {
        let mut cursor = self.cursor(at);
        let mut done = 0;
        while done < dst.len() {
            let Some(run) = cursor.next_run((dst.len() - done) as u64) else {
                panic!("pack: the buffer has {} bytes, not {}", self.len, at + dst.len() as u64);
            };
            let (len, count) = (run.len as usize, run.count as usize);
            let to = dst[done..done + len * count].as_mut_ptr();
            // SAFETY: the slice above holds all pieces; the caller of `new` guarantees that the memory of
            // the run is valid.
            unsafe {
                kernel::copy(to, len as isize, self.address(run.offset), run.stride as isize, len, count)
            };
            done += len * count;
        }
    }

    /// Copies `src` to the data bytes from `at` on.
    ///
    /// # Panics
    /// If the buffer ends before.
    pub fn unpack(&self, at: u64, src: &[u8]) {
        let mut cursor = self.cursor(at);
        let mut done = 0;
        while done < src.len() {
            let Some(run) = cursor.next_run((src.len() - done) as u64) else {
                panic!("unpack: the buffer has {} bytes, not {}", self.len, at + src.len() as u64);
            };
            let (len, count) = (run.len as usize, run.count as usize);
            let from = src[done..done + len * count].as_ptr();
            // SAFETY: the slice above holds all pieces; the caller of `new` guarantees that the memory of
            // the run is valid.
            unsafe {
                kernel::copy(self.address(run.offset), run.stride as isize, from, len as isize, len, count)
            };
            done += len * count;
        }
    }

    /// Copies data bytes `[at, at + len)` to their offsets in a window of the file. `file` is at the first
    /// of them and moves past the last. `window[0]` is the byte at file offset `origin`.
    ///
    /// # Panics
    ///
    /// If a byte is outside the window, or the buffer or the cursor ends early.
    pub fn scatter(&self, at: u64, len: u64, file: &mut Cursor, window: &mut [u8], origin: Offset) {
        let base = window.as_mut_ptr();
        self.zip(at, len, file, window.len(), origin, |user, place, s| {
            // SAFETY: `zip` has checked the window. The caller of `new` guarantees the memory of the
            // buffer. They do not overlap, because the window is an exclusive slice.
            unsafe {
                let to = base.wrapping_add(place);
                kernel::copy(
                    to,
                    s.b_stride as isize,
                    user,
                    s.a_stride as isize,
                    s.len as usize,
                    s.count as usize,
                );
            }
        });
    }

    /// Copies bytes of a window of the file to data bytes `[at, at + len)`.
    ///
    /// # Panics
    ///
    /// As [`scatter`](Self::scatter).
    pub fn gather(&self, at: u64, len: u64, file: &mut Cursor, window: &[u8], origin: Offset) {
        let base = window.as_ptr();
        self.zip(at, len, file, window.len(), origin, |user, place, s| {
            // SAFETY: as in `scatter`, in the other direction.
            unsafe {
                let from = base.wrapping_add(place);
                kernel::copy(
                    user,
                    s.a_stride as isize,
                    from,
                    s.b_stride as isize,
                    s.len as usize,
                    s.count as usize,
                );
            }
        });
    }

    /// Iterates over the common runs of buffer and file, and checks that each is inside the window. Several
    /// runs are computed before they are copied, so that the processor fetches the bytes of all of them at
    /// once instead of computing the next run between two copies.
    fn zip(
        &self,
        at: u64,
        len: u64,
        file: &mut Cursor,
        window: usize,
        origin: Offset,
        copy: impl Fn(*mut u8, usize, &RunPair),
    ) {
        let mut user = self.cursor(at);
        let mut pairs = RunZip::new(&mut user, file, len);
        let mut batch = [RunPair::default(); BATCH];
        let mut done = 0;
        loop {
            let mut found = 0;
            for (room, s) in batch.iter_mut().zip(&mut pairs) {
                let first = i128::from(s.b) - i128::from(origin.0);
                let reach = if s.count == 1 { 0 } else { i128::from(s.b_stride) * (i128::from(s.count) - 1) };
                let last = first + reach;
                let end = first.max(last) + i128::from(s.len);
                assert!(
                    first.min(last) >= 0 && end <= window as i128,
                    "file bytes {}.. lie outside the window of {window} bytes at {origin}",
                    s.b
                );
                *room = RunPair { b: first as i64, ..s };
                done += s.len * s.count;
                found += 1;
            }
            for s in &batch[..found] {
                copy(self.address(s.a), s.b as usize, s);
            }
            if found < BATCH {
                break;
            }
        }
        assert!(done == len, "buffer or view end after {done} of {len} bytes");
    }

    /// Appends the memory of data bytes `[at, at + len)` to `out` in order, as at most `max` entries.
    /// Returns the number of bytes in them.
    pub fn iovecs(&self, at: u64, len: u64, max: usize, out: &mut Vec<IoVec>) -> u64 {
        let mut cursor = self.cursor(at);
        let mut done = 0;
        for _ in 0..max {
            let Some(piece) = cursor.next_piece(len - done) else { break };
            out.push(IoVec { base: self.address(piece.offset), len: piece.len as usize });
            done += piece.len;
        }
        done
    }

    pub(crate) fn with_pattern(self, pattern: Pattern) -> UserBuffer {
        UserBuffer { pattern, ..self }
    }

    pub(crate) fn address(&self, offset: i64) -> *mut u8 {
        self.base.wrapping_offset(offset as isize)
    }
}
