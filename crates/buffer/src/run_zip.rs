//! Parallel iteration over the runs of two cursors.
//!
//! The memory of the program and the file divide the same data into different pieces. [`RunZip`] returns
//! runs that are regular on both sides: pieces of equal length on both, or one long piece against many
//! short ones.

use pario_view::{Cursor, Run};

/// `count` pieces of `len` bytes at `a + i * a_stride` and `b + i * b_stride`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunPair {
    pub a: i64,
    pub a_stride: i64,
    pub b: i64,
    pub b_stride: i64,
    pub len: u64,
    pub count: u64,
}

/// The common runs of two cursors, for `left` bytes.
pub struct RunZip<'a> {
    a: RunSide<'a>,
    b: RunSide<'a>,
    left: u64,
}

/// The last run of a cursor. Its numbers are separate fields: copying them as a struct right after writing
/// them one by one would stall the processor.
struct RunSide<'a> {
    cursor: &'a mut Cursor,
    offset: i64,
    stride: i64,
    len: u64,
    count: u64,
    /// The consumed bytes of the first piece.
    gone: u64,
    /// The remaining bytes of the cursor.
    left: u64,
}

impl<'a> RunSide<'a> {
    fn new(cursor: &'a mut Cursor, left: u64) -> RunSide<'a> {
        RunSide { cursor, offset: 0, stride: 0, len: 0, count: 0, gone: 0, left }
    }

    /// Fetches the next run if necessary. Returns false at the end.
    #[inline]
    fn fill(&mut self) -> bool {
        if self.count > 0 {
            return true;
        }
        let Some(Run { offset, len, stride, count, .. }) = self.cursor.next_run(self.left) else {
            return false;
        };
        self.offset = offset;
        self.stride = stride;
        self.len = len;
        self.count = count;
        self.gone = 0;
        self.left -= len * count;
        true
    }

    fn rest(&self) -> u64 {
        self.len - self.gone
    }

    fn at(&self) -> i64 {
        self.offset + self.gone as i64
    }

    /// The number of whole pieces. It is 0 if the first piece is partly consumed.
    fn whole_pieces(&self) -> u64 {
        if self.gone == 0 { self.count } else { 0 }
    }

    fn take_pieces(&mut self, n: u64) {
        // The offset after the last piece is not used and may exceed 64 bits.
        self.offset = self.offset.wrapping_add((n as i64).wrapping_mul(self.stride));
        self.count -= n;
        self.gone = 0;
    }

    fn take_bytes(&mut self, n: u64) {
        self.gone += n;
        if self.gone == self.len {
            self.take_pieces(1);
        }
    }
}

impl<'a> RunZip<'a> {
    /// The next `len` bytes of both cursors, or as many as both have.
    pub fn new(a: &'a mut Cursor, b: &'a mut Cursor, len: u64) -> RunZip<'a> {
        let left = len.min(a.remaining()).min(b.remaining());
        RunZip { a: RunSide::new(a, left), b: RunSide::new(b, left), left }
    }
}

impl Iterator for RunZip<'_> {
    type Item = RunPair;

    #[inline]
    fn next(&mut self) -> Option<RunPair> {
        if self.left == 0 || !self.a.fill() || !self.b.fill() {
            return None;
        }
        let (a, b) = (&mut self.a, &mut self.b);
        let (at_a, at_b) = (a.at(), b.at());
        let same = a.len == b.len;
        let pair =
            |len, count, a_stride, b_stride| RunPair { a: at_a, a_stride, b: at_b, b_stride, len, count };
        let out = if same && a.whole_pieces() > 0 && b.whole_pieces() > 0 {
            let n = a.whole_pieces().min(b.whole_pieces());
            let out = pair(a.len, n, a.stride, b.stride);
            a.take_pieces(n);
            b.take_pieces(n);
            out
        } else if b.whole_pieces() > 0 && a.rest() > b.len {
            let n = b.whole_pieces().min(a.rest() / b.len);
            let out = pair(b.len, n, b.len as i64, b.stride);
            a.take_bytes(n * b.len);
            b.take_pieces(n);
            out
        } else if a.whole_pieces() > 0 && b.rest() > a.len {
            let n = a.whole_pieces().min(b.rest() / a.len);
            let out = pair(a.len, n, a.stride, a.len as i64);
            b.take_bytes(n * a.len);
            a.take_pieces(n);
            out
        } else {
            let len = a.rest().min(b.rest());
            a.take_bytes(len);
            b.take_bytes(len);
            pair(len, 1, 0, 0)
        };
        self.left -= out.len * out.count;
        Some(out)
    }
}
