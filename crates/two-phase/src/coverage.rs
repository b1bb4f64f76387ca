//! Whether the pieces of all ranks cover a range exactly once, told without comparing them.
//!
//! Bytes that nobody writes must keep their value, so a window may be written as a whole only if every byte
//! of it has come from somebody. That the sizes add up does not prove it: where two ranks overlap, a hole of
//! the same size may hide elsewhere. So each rank sums a fingerprint over its bytes, `x^offset` modulo the prime
//! 2^61 - 1 for an `x` drawn at random, and the sum over all ranks is compared with that of the whole range.
//! Sets of bytes that differ have equal sums with a probability below 2^-17 even for ranges of 2^44 bytes,
//! and only if their sizes are equal already. A strided run costs a few multiplications, however many
//! pieces it has, because its fingerprint is a geometric series.
//!
//! All values here are multiplied by `x - 1`: then a piece `[a, b)` has the value `x^b - x^a`.

use pario_view::Cursor;
use std::ops::Range;

const P: u64 = (1 << 61) - 1;

/// The powers of one `x`.
pub struct Coverage {
    /// `x^(j * 256^i)` at `[i][j]`.
    powers: Box<[[u64; 256]; 8]>,
}

impl Coverage {
    /// Fingerprints with a random seed, which must be the same on all ranks.
    pub fn new(seed: u64) -> Coverage {
        // 0, 1 and small numbers would make weak powers.
        let mut step = seed % (P - (1 << 32)) + (1 << 32);
        let mut powers = Box::new([[1; 256]; 8]);
        for row in powers.iter_mut() {
            for j in 1..256 {
                row[j] = times(row[j - 1], step);
            }
            step = times(row[255], step);
        }
        Coverage { powers }
    }

    fn power(&self, exponent: u64) -> u64 {
        let mut product = 1;
        for (row, byte) in self.powers.iter().zip(exponent.to_le_bytes()) {
            if byte != 0 {
                product = times(product, row[byte as usize]);
            }
        }
        product
    }

    /// The value of a whole range.
    pub fn range(&self, range: Range<u64>) -> u64 {
        minus(self.power(range.end), self.power(range.start))
    }

    /// The value of everything that the cursor has left; offsets must ascend.
    pub fn pieces(&self, mut cursor: Cursor) -> u64 {
        let mut sum = 0;
        let mut last = (0, 0);
        while let Some(run) = cursor.next_run(u64::MAX) {
            let first = self.power(run.offset as u64);
            let mut value = times(first, minus(self.power(run.len), 1));
            if run.count > 1 {
                value = times(value, self.series(run.stride as u64, run.count, &mut last));
            }
            sum = plus(sum, value);
        }
        sum
    }

    /// `1 + y + y^2 + ...`, `count` terms, for `y = x^stride`; `last` keeps the division of the last stride.
    fn series(&self, stride: u64, count: u64, last: &mut (u64, u64)) -> u64 {
        let denominator = minus(self.power(stride), 1);
        if denominator == 0 {
            return count % P;
        }
        if last.0 != stride {
            *last = (stride, inverse(denominator));
        }
        let end = u128::from(stride) * u128::from(count);
        // The last piece begins below 2^63, so only the term after it can leave 64 bits.
        let end = match u64::try_from(end) {
            Ok(end) => self.power(end),
            Err(_) => times(self.power((end - u128::from(stride)) as u64), self.power(stride)),
        };
        times(minus(end, 1), last.1)
    }
}

/// The sum of two values.
pub(crate) fn plus(a: u64, b: u64) -> u64 {
    let sum = a + b;
    if sum >= P { sum - P } else { sum }
}

/// A sum of halves (see [`halves`]) as a value.
pub(crate) fn whole(low: u64, high: u64) -> u64 {
    ((u128::from(high) << 32) + u128::from(low)).rem_euclid(u128::from(P)) as u64
}

/// A value as two numbers below 2^32, so that sums of very many of them fit 64 bits.
pub(crate) fn halves(value: u64) -> (u64, u64) {
    (value & 0xFFFF_FFFF, value >> 32)
}

fn minus(a: u64, b: u64) -> u64 {
    if a >= b { a - b } else { a + P - b }
}

fn times(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    let folded = (product as u64 & P) + (product >> 61) as u64;
    if folded >= P { folded - P } else { folded }
}

/// By Fermat: `a^(P-2)`.
fn inverse(a: u64) -> u64 {
    let (mut result, mut square, mut exponent) = (1, a, P - 2);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = times(result, square);
        }
        square = times(square, square);
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario_types::{Offset, Pos};
    use pario_view::{Basic, Datatype, Pattern, Shape, View};
    use std::sync::Arc;

    fn strided(disp: u64, len: u64, stride: i64) -> View {
        let byte = Datatype { lb: 0, extent: 1, shape: Shape::Basic(Basic::BYTE) };
        let block = Shape::Contiguous { count: len, child: Arc::new(byte) };
        let child = Arc::new(Datatype { lb: 0, extent: len as i64, shape: block });
        let shape = Shape::Resized { lb: 0, extent: stride, child };
        let tile = Datatype { lb: 0, extent: stride, shape };
        View::new(Offset(disp), Pattern::native(&tile).unwrap())
    }

    #[test]
    fn interleaved_views_cover_exactly() {
        let c = Coverage::new(0x1234_5678_9abc_def0);
        let part = |rank: u64| c.pieces(strided(100 + 16 * rank, 16, 64).cursor(Pos(0), 16 * 1000));
        let sum = (0..4).map(part).fold(0, plus);
        assert_eq!(sum, c.range(100..100 + 64 * 1000));
        // The same sizes, but one rank stands where another is, so a hole is where it should be.
        let wrong = [0, 1, 1, 3].map(part).into_iter().fold(0, plus);
        assert_ne!(wrong, c.range(100..100 + 64 * 1000));
    }

    #[test]
    fn a_run_is_worth_its_pieces() {
        let c = Coverage::new(99);
        let run = c.pieces(strided(7, 3, 10).cursor(Pos(0), 3 * 50));
        let pieces = (0..50).map(|i| c.range(7 + 10 * i..10 + 10 * i)).fold(0, plus);
        assert_eq!(run, pieces);
        let far = (i64::MAX - 4096) as u64;
        assert_eq!(plus(c.range(far..far + 1), c.range(far + 1..far + 9)), c.range(far..far + 9));
    }

    #[test]
    fn halves_add_up() {
        let values: Vec<u64> = (0..1000u64).map(|i| times(i + 3, P - 7 - i)).collect();
        let sum = values.iter().copied().fold(0, plus);
        let (low, high) = values.iter().fold((0, 0), |(l, h), v| (l + halves(*v).0, h + halves(*v).1));
        assert_eq!(whole(low, high), sum);
    }

    #[test]
    fn inverses_invert() {
        for a in [1, 2, 12345, P - 1] {
            assert_eq!(times(a, inverse(a)), 1);
        }
    }
}
