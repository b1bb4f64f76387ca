//! A program's buffer, as an MPI call names it: an address, a datatype and a count.

use pario_types::Offset;
use pario_view::{Cursor, Pattern};

use crate::kernel;
use crate::side::{Stretch, Zip};

/// Stretches that are found before they are copied.
const BATCH: usize = 32;

/// The program's memory: `count` instances of a pattern, tiled by its extent from a base address.
///
/// The data stream of a buffer is its bytes in typemap order; positions below count in that stream.
#[derive(Debug)]
pub struct UserBuffer {
    base: *mut u8,
    pattern: Pattern,
    count: u64,
    len: u64,
}

// SAFETY: the buffer is memory that the program lends to Pario for the time of an operation; MPI forbids it to
// touch that memory meanwhile, whichever thread does the copying. Pario never runs two writers of one buffer.
unsafe impl Send for UserBuffer {}
// SAFETY: as above.
unsafe impl Sync for UserBuffer {}

/// Contiguous memory, laid out like the system's `struct iovec`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Where it begins.
    pub base: *mut u8,
    /// How many bytes.
    pub len: usize,
}

impl UserBuffer {
    /// Names the program's memory.
    ///
    /// # Safety
    /// Every byte that the pattern covers must stay valid as long as the buffer is used: to read for
    /// [`pack`](Self::pack) and [`scatter`](Self::scatter), to write for [`unpack`](Self::unpack) and
    /// [`gather`](Self::gather), with nobody else writing it meanwhile.
    pub unsafe fn new(base: *mut u8, pattern: Pattern, count: u64) -> UserBuffer {
        let len = match pattern.is_contiguous() {
            true => pattern.size().saturating_mul(count).min(i64::MAX as u64),
            false => Cursor::over(&pattern, count, 0).remaining(),
        };
        UserBuffer { base, pattern, count, len }
    }

    /// Data bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no data bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The layout of one instance.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// Instances of the pattern.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Address and length, if the data lies in one piece.
    pub fn as_contiguous(&self) -> Option<(*mut u8, u64)> {
        if self.len == 0 || self.pattern.is_contiguous() {
            return Some((self.base, self.len));
        }
        let piece = self.cursor(0).next_piece(u64::MAX)?;
        (piece.len == self.len).then(|| (self.address(piece.offset), self.len))
    }

    /// Lets `f` read data bytes `[at, at + len)` where they lie; `None` if they are not in one piece.
    pub fn with_bytes<R>(&self, at: u64, len: u64, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let address = self.piece(at, len)?;
        // SAFETY: `new` was promised that the memory is valid and that nobody writes it during an access that only
        // reads it.
        Some(f(unsafe { std::slice::from_raw_parts(address, len as usize) }))
    }

    /// The same for an access that fills them.
    pub fn with_bytes_mut<R>(&self, at: u64, len: u64, f: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        let address = self.piece(at, len)?;
        // SAFETY: `new` was promised that the memory is valid and that nobody else uses it during an access that
        // fills it.
        Some(f(unsafe { std::slice::from_raw_parts_mut(address, len as usize) }))
    }

    /// Where data bytes `[at, at + len)` lie, if in one piece.
    fn piece(&self, at: u64, len: u64) -> Option<*mut u8> {
        if len == 0 {
            return Some(std::ptr::NonNull::dangling().as_ptr());
        }
        let piece = self.cursor(at).next_piece(len)?;
        (piece.len == len).then(|| self.address(piece.offset))
    }

    /// The data stream from byte `at` on; offsets are relative to the base address.
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
            // SAFETY: the slice above holds all pieces; `new` was promised that the run's memory is valid.
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
            // SAFETY: the slice above holds all pieces; `new` was promised that the run's memory is valid.
            unsafe {
                kernel::copy(self.address(run.offset), run.stride as isize, from, len as isize, len, count)
            };
            done += len * count;
        }
    }

    /// Copies data bytes `[at, at + len)` to their places in a window of the file. `file` stands at the
    /// first of them and is moved past the last; `window[0]` is the byte at file offset `origin`.
    ///
    /// # Panics
    /// If a byte lies outside the window, or the buffer or the cursor ends before.
    pub fn scatter(&self, at: u64, len: u64, file: &mut Cursor, window: &mut [u8], origin: Offset) {
        let base = window.as_mut_ptr();
        self.zip(at, len, file, window.len(), origin, |user, place, s| {
            // SAFETY: `zip` has checked the window's side; `new` vouches for the buffer's; they are apart
            // because the window is a live exclusive slice.
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

    /// The reverse: bytes of a window of the file to data bytes `[at, at + len)`.
    ///
    /// # Panics
    /// As [`scatter`](Self::scatter).
    pub fn gather(&self, at: u64, len: u64, file: &mut Cursor, window: &[u8], origin: Offset) {
        let base = window.as_ptr();
        self.zip(at, len, file, window.len(), origin, |user, place, s| {
            // SAFETY: as in `scatter`, the other way round.
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

    /// Runs over the common stretches of buffer and file, checking that each lies in the window. Several are found before
    /// they are copied: then the processor fetches the bytes of all of them at once, where in between two it would be
    /// busy with finding the next.
    fn zip(
        &self,
        at: u64,
        len: u64,
        file: &mut Cursor,
        window: usize,
        origin: Offset,
        copy: impl Fn(*mut u8, usize, &Stretch),
    ) {
        let mut user = self.cursor(at);
        let mut stretches = Zip::new(&mut user, file, len);
        let mut batch = [Stretch::default(); BATCH];
        let mut done = 0;
        loop {
            let mut found = 0;
            for (room, s) in batch.iter_mut().zip(&mut stretches) {
                let first = i128::from(s.b) - i128::from(origin.0);
                let reach = if s.count == 1 { 0 } else { i128::from(s.b_stride) * (i128::from(s.count) - 1) };
                let last = first + reach;
                let end = first.max(last) + i128::from(s.len);
                assert!(
                    first.min(last) >= 0 && end <= window as i128,
                    "file bytes {}.. lie outside the window of {window} bytes at {origin}",
                    s.b
                );
                *room = Stretch { b: first as i64, ..s };
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

    /// Appends the memory of data bytes `[at, at + len)` to `out`, at most `max` segments, in order, and
    /// returns how many bytes they hold.
    pub fn iovecs(&self, at: u64, len: u64, max: usize, out: &mut Vec<Segment>) -> u64 {
        let mut cursor = self.cursor(at);
        let mut done = 0;
        for _ in 0..max {
            let Some(piece) = cursor.next_piece(len - done) else { break };
            out.push(Segment { base: self.address(piece.offset), len: piece.len as usize });
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
