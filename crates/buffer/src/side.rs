//! Two streams of runs in step: the common stretches of equal pieces.
//!
//! The program's memory and the file cut the same data into different pieces. [`Zip`] hands out stretches in
//! which both sides are regular: equal pieces on both, or one long piece against many short ones.

use pario_view::{Cursor, Run};

/// `count` pieces of `len` bytes at `a + i * a_stride` and `b + i * b_stride`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    pub a: i64,
    pub a_stride: i64,
    pub b: i64,
    pub b_stride: i64,
    pub len: u64,
    pub count: u64,
}

/// The common stretches of two cursors, for `left` bytes.
pub struct Zip<'a> {
    a: Side<'a>,
    b: Side<'a>,
    left: u64,
}

/// The run that a cursor gave last. Its numbers are fields of their own: copied as a struct right after they
/// were written one by one they would stall the processor.
struct Side<'a> {
    cursor: &'a mut Cursor,
    offset: i64,
    stride: i64,
    len: u64,
    count: u64,
    /// Bytes gone of the first piece.
    gone: u64,
    /// Bytes that may still be drawn from the cursor.
    left: u64,
}

impl<'a> Side<'a> {
    fn new(cursor: &'a mut Cursor, left: u64) -> Side<'a> {
        Side { cursor, offset: 0, stride: 0, len: 0, count: 0, gone: 0, left }
    }

    /// Makes sure of a run; false at the end.
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

    /// Whole pieces, none if the first has been begun.
    fn whole(&self) -> u64 {
        if self.gone == 0 { self.count } else { 0 }
    }

    fn take_pieces(&mut self, n: u64) {
        // Past the last piece the offset means nothing and may leave 64 bits.
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

impl<'a> Zip<'a> {
    /// The next `len` bytes of both cursors, or what they both have.
    pub fn new(a: &'a mut Cursor, b: &'a mut Cursor, len: u64) -> Zip<'a> {
        let left = len.min(a.remaining()).min(b.remaining());
        Zip { a: Side::new(a, left), b: Side::new(b, left), left }
    }
}

impl Iterator for Zip<'_> {
    type Item = Stretch;

    #[inline]
    fn next(&mut self) -> Option<Stretch> {
        if self.left == 0 || !self.a.fill() || !self.b.fill() {
            return None;
        }
        let (a, b) = (&mut self.a, &mut self.b);
        let (at_a, at_b) = (a.at(), b.at());
        let same = a.len == b.len;
        let stretch =
            |len, count, a_stride, b_stride| Stretch { a: at_a, a_stride, b: at_b, b_stride, len, count };
        let out = if same && a.whole() > 0 && b.whole() > 0 {
            let n = a.whole().min(b.whole());
            let out = stretch(a.len, n, a.stride, b.stride);
            a.take_pieces(n);
            b.take_pieces(n);
            out
        } else if b.whole() > 0 && a.rest() > b.len {
            let n = b.whole().min(a.rest() / b.len);
            let out = stretch(b.len, n, b.len as i64, b.stride);
            a.take_bytes(n * b.len);
            b.take_pieces(n);
            out
        } else if a.whole() > 0 && b.rest() > a.len {
            let n = a.whole().min(b.rest() / a.len);
            let out = stretch(a.len, n, a.stride, a.len as i64);
            b.take_bytes(n * a.len);
            a.take_pieces(n);
            out
        } else {
            let len = a.rest().min(b.rest());
            a.take_bytes(len);
            b.take_bytes(len);
            stretch(len, 1, 0, 0)
        };
        self.left -= out.len * out.count;
        Some(out)
    }
}
