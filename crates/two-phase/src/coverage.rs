//! A fingerprint that tells whether the pieces of all ranks cover a range exactly once.
//!
//! Bytes that no rank writes must keep their value. An aggregator may therefore write a window as a whole
//! only if every byte of it came from some rank. Equal sizes do not prove that: where two ranks overlap, a
//! hole of the same size may exist elsewhere. Each rank therefore sums `x^offset` modulo the prime 2^61 - 1
//! over its bytes, for a random `x`. The sum over all ranks is compared with that of the whole range.
//! Different sets of bytes have equal sums with a probability below 2^-17 even for ranges of 2^44 bytes,
//! and only if their sizes are equal. A strided run costs a few multiplications, however many pieces it
//! has, because its fingerprint is a geometric series.
//!
//! All values are multiplied by `x - 1`. The value of a piece `[a, b)` is then `x^b - x^a`.

use pario_view::Cursor;
use std::ops::Range;

const P: u64 = (1 << 61) - 1;

/// A table of the powers of one `x`.
pub struct CoverageHash {
    /// `x^(j * 256^i)` at `[i][j]`.
    powers: Box<[[u64; 256]; 8]>,
}

impl CoverageHash {
    /// Creates a fingerprint from a random seed. All ranks must use the same seed.
    pub fn new(seed: u64) -> CoverageHash {
        // 0, 1 and small numbers have weak powers.
        let mut step = seed % (P - (1 << 32)) + (1 << 32);
        let mut powers = Box::new([[1; 256]; 8]);
        for row in powers.iter_mut() {
            for j in 1..256 {
                row[j] = mul_mod(row[j - 1], step);
            }
            step = mul_mod(row[255], step);
        }
        CoverageHash { powers }
    }

    fn power(&self, exponent: u64) -> u64 {
        let mut product = 1;
        for (row, byte) in self.powers.iter().zip(exponent.to_le_bytes()) {
            if byte != 0 {
                product = mul_mod(product, row[byte as usize]);
            }
        }
        product
    }

    /// The value of a range.
    pub fn of_range(&self, range: Range<u64>) -> u64 {
        sub_mod(self.power(range.end), self.power(range.start))
    }

    /// The value of the remaining pieces of a cursor. Their offsets must ascend.
    pub fn of_pieces(&self, mut cursor: Cursor) -> u64 {
        let mut sum = 0;
        let mut last = (0, 0);
        while let Some(run) = cursor.next_run(u64::MAX) {
            let first = self.power(run.offset as u64);
            let mut value = mul_mod(first, sub_mod(self.power(run.len), 1));
            if run.count > 1 {
                value = mul_mod(value, self.series(run.stride as u64, run.count, &mut last));
            }
            sum = add_mod(sum, value);
        }
        sum
    }

    /// `1 + y + y^2 + ...` with `count` terms, for `y = x^stride`. `last` caches the inverse for the last
    /// stride.
    fn series(&self, stride: u64, count: u64, last: &mut (u64, u64)) -> u64 {
        let denominator = sub_mod(self.power(stride), 1);
        if denominator == 0 {
            return count % P;
        }
        if last.0 != stride {
            *last = (stride, inverse(denominator));
        }
        let end = u128::from(stride) * u128::from(count);
        // The last piece begins below 2^63, so only the term after it can exceed 64 bits.
        let end = match u64::try_from(end) {
            Ok(end) => self.power(end),
            Err(_) => mul_mod(self.power((end - u128::from(stride)) as u64), self.power(stride)),
        };
        mul_mod(sub_mod(end, 1), last.1)
    }
}

/// The sum of two values.
pub(crate) fn add_mod(a: u64, b: u64) -> u64 {
    let sum = a + b;
    if sum >= P { sum - P } else { sum }
}

/// The value of a sum of halves (see [`split_halves`]).
pub(crate) fn join_halves(low: u64, high: u64) -> u64 {
    ((u128::from(high) << 32) + u128::from(low)).rem_euclid(u128::from(P)) as u64
}

/// Splits a value into two numbers below 2^32, so that sums of very many of them fit into 64 bits.
pub(crate) fn split_halves(value: u64) -> (u64, u64) {
    (value & 0xFFFF_FFFF, value >> 32)
}

fn sub_mod(a: u64, b: u64) -> u64 {
    if a >= b { a - b } else { a + P - b }
}

fn mul_mod(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    let folded = (product as u64 & P) + (product >> 61) as u64;
    if folded >= P { folded - P } else { folded }
}

/// The inverse, by Fermat's little theorem: `a^(P-2)`.
fn inverse(a: u64) -> u64 {
    let (mut result, mut square, mut exponent) = (1, a, P - 2);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = mul_mod(result, square);
        }
        square = mul_mod(square, square);
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
        let c = CoverageHash::new(0x1234_5678_9abc_def0);
        let part = |rank: u64| c.of_pieces(strided(100 + 16 * rank, 16, 64).cursor(Pos(0), 16 * 1000));
        let sum = (0..4).map(part).fold(0, add_mod);
        assert_eq!(sum, c.of_range(100..100 + 64 * 1000));
        // The sizes are the same, but two ranks write the same bytes, so there is a hole.
        let wrong = [0, 1, 1, 3].map(part).into_iter().fold(0, add_mod);
        assert_ne!(wrong, c.of_range(100..100 + 64 * 1000));
    }

    #[test]
    fn a_run_equals_the_sum_of_its_pieces() {
        let c = CoverageHash::new(99);
        let run = c.of_pieces(strided(7, 3, 10).cursor(Pos(0), 3 * 50));
        let pieces = (0..50).map(|i| c.of_range(7 + 10 * i..10 + 10 * i)).fold(0, add_mod);
        assert_eq!(run, pieces);
        let far = (i64::MAX - 4096) as u64;
        assert_eq!(add_mod(c.of_range(far..far + 1), c.of_range(far + 1..far + 9)), c.of_range(far..far + 9));
    }

    #[test]
    fn halves_add_up() {
        let values: Vec<u64> = (0..1000u64).map(|i| mul_mod(i + 3, P - 7 - i)).collect();
        let sum = values.iter().copied().fold(0, add_mod);
        let (low, high) =
            values.iter().fold((0, 0), |(l, h), v| (l + split_halves(*v).0, h + split_halves(*v).1));
        assert_eq!(join_halves(low, high), sum);
    }

    #[test]
    fn inverses_invert() {
        for a in [1, 2, 12345, P - 1] {
            assert_eq!(mul_mod(a, inverse(a)), 1);
        }
    }
}
