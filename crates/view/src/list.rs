//! A compressed list of irregular pieces: (displacement, length) with random access.
//!
//! Pieces are grouped in chunks of 64. A chunk stores its lowest displacement and the sum of the lengths before it; inside,
//! displacements relative to that and running sums of lengths are packed with just as many bits as the chunk needs. Lists
//! of equal lengths store no lengths. That takes 3 to 6 bytes per piece for the usual gaps of 100 B to 100 KiB, and gives
//! any piece in constant time and any search in O(log n), without unpacking. Lists need not be sorted, except for a search
//! by displacement.

const CHUNK: usize = 64;

/// Displacements and lengths (in units that the owner knows) of pieces in typemap order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct List {
    n: u64,
    total: u64,
    /// The common length, or 0 if lengths differ and are stored.
    uniform: u64,
    chunks: Box<[Chunk]>,
    words: Box<[u64]>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Chunk {
    base: i64,
    before: u64,
    bit: u64,
    disp_bits: u8,
    len_bits: u8,
}

impl List {
    /// Packs pieces; the caller has checked that the sum of the lengths fits 63 bits.
    pub fn new(items: &[(i64, u64)]) -> List {
        let uniform = match items.first() {
            Some(&(_, len)) if items.iter().all(|i| i.1 == len) => len,
            _ => 0,
        };
        let mut bits = BitWriter::default();
        let mut chunks = Vec::with_capacity(items.len().div_ceil(CHUNK));
        let mut total = 0u64;
        for group in items.chunks(CHUNK) {
            let base = group.iter().map(|i| i.0).min().unwrap_or(0);
            let widest = group.iter().map(|i| i.0.abs_diff(base)).max().unwrap_or(0);
            let sum: u64 = group.iter().map(|i| i.1).sum();
            let last = group.last().map_or(0, |i| i.1);
            let disp_bits = width(widest);
            let len_bits = if uniform == 0 { width(sum - last) } else { 0 };
            chunks.push(Chunk { base, before: total, bit: bits.len, disp_bits, len_bits });
            for item in group {
                bits.put(item.0.abs_diff(base), disp_bits);
            }
            if uniform == 0 {
                let mut before = 0;
                for item in group {
                    bits.put(before, len_bits);
                    before += item.1;
                }
            }
            total += sum;
        }
        bits.words.push(0); // so that every number can be read from two words
        let words = bits.words.into_boxed_slice();
        List { n: items.len() as u64, total, uniform, chunks: chunks.into_boxed_slice(), words }
    }

    pub fn count(&self) -> u64 {
        self.n
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    /// The common length of all pieces, if there is one.
    pub fn uniform(&self) -> Option<u64> {
        (self.uniform > 0).then_some(self.uniform)
    }

    /// Displacement of piece `i < n`.
    pub fn disp(&self, i: u64) -> i64 {
        let chunk = &self.chunks[i as usize / CHUNK];
        chunk.base.wrapping_add_unsigned(self.disp_in(chunk, i as usize % CHUNK))
    }

    /// Sum of the lengths before piece `i <= n`.
    pub fn before(&self, i: u64) -> u64 {
        if i >= self.n {
            return self.total;
        }
        if self.uniform > 0 {
            return i * self.uniform;
        }
        let chunk = &self.chunks[i as usize / CHUNK];
        chunk.before + self.before_in(chunk, i as usize / CHUNK, i as usize % CHUNK)
    }

    /// Displacement and length of piece `i < n`.
    pub fn piece(&self, i: u64) -> (i64, u64) {
        let len = if self.uniform > 0 { self.uniform } else { self.before(i + 1) - self.before(i) };
        (self.disp(i), len)
    }

    /// All pieces in order.
    pub fn iter(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        (0..self.n).map(|i| self.piece(i))
    }

    /// Unpacks the group of pieces that `i < n` belongs to, and returns the number of its first.
    pub fn unpack(&self, i: u64, out: &mut Vec<(i64, u64)>) -> u64 {
        let c = i as usize / CHUNK;
        let (chunk, n) = (&self.chunks[c], self.len_of(c));
        out.clear();
        let mut at = chunk.bit;
        for _ in 0..n {
            out.push((chunk.base.wrapping_add_unsigned(self.bits(at, chunk.disp_bits)), self.uniform));
            at += u64::from(chunk.disp_bits);
        }
        if self.uniform == 0 {
            let mut end = self.chunks.get(c + 1).map_or(self.total, |next| next.before) - chunk.before;
            for j in (0..n).rev() {
                let begin = self.bits(at + j as u64 * u64::from(chunk.len_bits), chunk.len_bits);
                out[j].1 = end - begin;
                end = begin;
            }
        }
        (c * CHUNK) as u64
    }

    /// Returns the piece that contains unit `at < total`.
    pub fn at_unit(&self, at: u64) -> u64 {
        if let Some(i) = at.checked_div(self.uniform) {
            return i;
        }
        let c = self.chunks.partition_point(|chunk| chunk.before <= at) - 1;
        let chunk = &self.chunks[c];
        let rest = at - chunk.before;
        let j = first_false(self.len_of(c), |j| self.before_in(chunk, c, j) <= rest);
        (c * CHUNK + j) as u64 - 1
    }

    /// The number of pieces of a sorted list that begin below `disp`.
    pub fn below(&self, disp: i64) -> u64 {
        let c = self.chunks.partition_point(|chunk| chunk.base < disp);
        if c == 0 {
            return 0;
        }
        let chunk = &self.chunks[c - 1];
        let limit = disp.abs_diff(chunk.base);
        let j = first_false(self.len_of(c - 1), |j| self.disp_in(chunk, j) < limit);
        ((c - 1) * CHUNK + j) as u64
    }

    /// Bytes on the heap.
    pub fn memory(&self) -> usize {
        std::mem::size_of_val(&*self.chunks) + std::mem::size_of_val(&*self.words)
    }

    fn len_of(&self, chunk: usize) -> usize {
        (self.n as usize - chunk * CHUNK).min(CHUNK)
    }

    fn disp_in(&self, chunk: &Chunk, j: usize) -> u64 {
        self.bits(chunk.bit + j as u64 * u64::from(chunk.disp_bits), chunk.disp_bits)
    }

    fn before_in(&self, chunk: &Chunk, c: usize, j: usize) -> u64 {
        let lens = chunk.bit + self.len_of(c) as u64 * u64::from(chunk.disp_bits);
        self.bits(lens + j as u64 * u64::from(chunk.len_bits), chunk.len_bits)
    }

    #[inline]
    fn bits(&self, at: u64, width: u8) -> u64 {
        if width == 0 {
            return 0;
        }
        // Always two words, the second shifted in two steps so that none of it is 64: a branch on whether the
        // number straddles them would be mispredicted all the time.
        let (word, shift) = ((at / 64) as usize, (at % 64) as u32);
        let pair = &self.words[word..word + 2];
        let value = pair[0] >> shift | pair[1] << 1 << (63 - shift);
        value & (u64::MAX >> (64 - u32::from(width)))
    }
}

#[derive(Default)]
struct BitWriter {
    words: Vec<u64>,
    len: u64,
}

impl BitWriter {
    fn put(&mut self, value: u64, width: u8) {
        if width == 0 {
            return;
        }
        let shift = (self.len % 64) as u32;
        if shift == 0 {
            self.words.push(value);
        } else if let Some(last) = self.words.last_mut() {
            *last |= value << shift;
            if shift + u32::from(width) > 64 {
                self.words.push(value >> (64 - shift));
            }
        }
        self.len += u64::from(width);
    }
}

fn width(value: u64) -> u8 {
    (64 - value.leading_zeros()) as u8
}

/// The first of `0..n` for which a predicate that turns from true to false is false.
fn first_false(n: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut lo, mut hi) = (0, n);
    while lo < hi {
        let mid = (lo + hi) / 2;
        if holds(mid) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    lo
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(items: &[(i64, u64)]) -> List {
        let list = List::new(items);
        assert!(list.iter().eq(items.iter().copied()));
        let mut group = Vec::new();
        for i in 0..items.len() {
            let first = list.unpack(i as u64, &mut group) as usize;
            assert_eq!(group[i - first], items[i]);
        }
        let mut unit = 0;
        for (i, item) in items.iter().enumerate() {
            for u in [unit, unit + item.1 - 1] {
                assert_eq!(list.at_unit(u), i as u64);
            }
            unit += item.1;
        }
        assert_eq!(list.total(), unit);
        list
    }

    #[test]
    fn packs_and_finds_every_piece() {
        let sorted: Vec<_> = (0..1000i64).map(|i| (i * 37 + i * i % 29, 1 + (i as u64 * 7) % 19)).collect();
        let list = check(&sorted);
        for x in 0..40_000 {
            assert_eq!(list.below(x), sorted.iter().filter(|s| s.0 < x).count() as u64);
        }
        assert!(list.memory() < 4 * 1000);
        check(&(0..200i64).map(|i| ((i * 7919) % 501 - 250, 8)).collect::<Vec<_>>());
        check(&[(i64::MIN, 1), (i64::MAX, 2), (0, 1)]);
        assert_eq!(List::new(&[]).count(), 0);
    }
}
