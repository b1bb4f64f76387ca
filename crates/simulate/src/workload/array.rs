//! Arrays distributed to ranks block by block, and the ranks to which a range of such an array belongs.

use std::ops::Range;
use std::sync::Arc;

use pario_view::{Datatype, Order, Pattern, Shape};

use crate::error::Error;

/// The largest number of elements of an array, so that bytes and ranks stay far from the limits of their types.
const MOST: u64 = 1 << 52;

/// An array of up to four dimensions, the slowest first, in which each rank has a box.
#[derive(Clone, Debug)]
pub struct Grid {
    element: u64,
    /// Elements in each dimension.
    sizes: [u64; 4],
    /// Ranks in each dimension.
    ranks: [u64; 4],
    /// The distance from one rank's box to the next.
    step: [u64; 4],
    /// The length of a rank's box; longer than the step where boxes overlap.
    block: [u64; 4],
}

impl Grid {
    /// A cube of blocks of `edge`³ elements of `element` bytes, `fourth` times.
    pub fn blocks(ranks: u32, edge: u64, fourth: u64, element: u64) -> Result<Grid, Error> {
        let [a, b, c] = three(ranks);
        let ranks = [1, a, b, c];
        let block = [fourth, edge, edge, edge];
        Grid::new(element, ranks, block, block)
    }

    /// A wall of tiles that overlap by a quarter and a sixth of their edges.
    pub fn tiles(ranks: u32, width: u64, height: u64, element: u64) -> Result<Grid, Error> {
        let [a, b, c] = three(ranks);
        let step = [1, 1, height - height / 6, width - width / 4];
        Grid::new(element, [1, 1, a, b * c], step, [1, 1, height, width])
    }

    /// `len` bytes of each rank, one after the other.
    pub fn row(ranks: u32, len: u64) -> Result<Grid, Error> {
        let block = [1, 1, 1, len];
        Grid::new(1, [1, 1, 1, u64::from(ranks)], block, block)
    }

    fn new(element: u64, ranks: [u64; 4], step: [u64; 4], block: [u64; 4]) -> Result<Grid, Error> {
        let sizes = [0, 1, 2, 3].map(|d| {
            (ranks[d] - 1).checked_mul(step[d]).and_then(|most| most.checked_add(block[d])).unwrap_or(0)
        });
        let all = sizes.iter().try_fold(element, |all, &size| all.checked_mul(size)).unwrap_or(0);
        if all == 0 || all > MOST || step.contains(&0) {
            return Err(Error::Number("edge of a block"));
        }
        Ok(Grid { element, sizes, ranks, step, block })
    }

    /// Bytes of the array.
    pub fn bytes(&self) -> u64 {
        self.sizes.iter().product::<u64>() * self.element
    }

    /// A rank's box; the pattern's extent is the whole array.
    pub fn pattern(&self, rank: u32) -> Pattern {
        let mut left = u64::from(rank);
        let mut starts = [0; 4];
        for d in (0..4).rev() {
            starts[d] = left % self.ranks[d] * self.step[d];
            left /= self.ranks[d];
        }
        native(&subarray(self.sizes, self.block, starts, self.element))
    }

    /// Adds the ranks whose boxes a range of bytes touches, in order; some more may be among them.
    pub fn ranks_in(&self, range: &Range<u64>, ranks: &mut Vec<u32>) {
        let Some(touched) = touched(self.sizes, self.element, range) else { return };
        let [a, b, c, d] = [0, 1, 2, 3].map(|d| {
            let (first, last) = touched[d];
            // The last box that begins at or before `last`, and the first that ends behind `first`.
            let low = (first + 1).saturating_sub(self.block[d]).div_ceil(self.step[d]);
            low..(last / self.step[d] + 1).min(self.ranks[d])
        });
        let [_, nb, nc, nd] = self.ranks;
        for (a, b) in a.flat_map(|a| b.clone().map(move |b| (a, b))) {
            for c in c.clone() {
                let row = ((a * nb + b) * nc + c) * nd;
                ranks.extend(d.clone().map(|d| (row + d) as u32));
            }
        }
    }
}

/// A cube cut into q³ cells; each of q² ranks has one cell in each of q slices, along a diagonal.
#[derive(Clone, Debug)]
pub struct Slices {
    element: u64,
    edge: u64,
    q: u64,
}

impl Slices {
    /// A cube of `edge`³ elements of `element` bytes.
    pub fn new(ranks: u32, edge: u64, element: u64) -> Result<Slices, Error> {
        let q = u64::from(ranks.isqrt());
        if q * q != u64::from(ranks) {
            return Err(Error::NotSquare(ranks));
        }
        if edge < q || edge > 1 << 14 {
            return Err(Error::Number("edge of the array"));
        }
        Ok(Slices { element, edge, q })
    }

    /// Bytes of the array.
    pub fn bytes(&self) -> u64 {
        self.edge.pow(3) * self.element
    }

    /// A rank's cells; the pattern's extent is the whole array. In slice z, rank (i, j) has the cell at
    /// x = i + z, y = j - z, both modulo q.
    pub fn pattern(&self, rank: u32) -> Pattern {
        let q = self.q;
        let (i, j) = (u64::from(rank) % q, u64::from(rank) / q);
        let cells = (0..q).map(|z| {
            let at = [0, z, (j + q - z) % q, (i + z) % q];
            let part = |d: usize| if d == 0 { (0, 1) } else { (self.start(at[d]), self.start(at[d] + 1)) };
            let starts = [0, 1, 2, 3].map(|d| part(d).0);
            let sizes = [0, 1, 2, 3].map(|d| part(d).1 - part(d).0);
            (1, 0, Arc::new(subarray([1, self.edge, self.edge, self.edge], sizes, starts, self.element)))
        });
        let extent = self.bytes() as i64;
        native(&Datatype { lb: 0, extent, shape: Shape::Struct { fields: cells.collect() } })
    }

    /// Adds the ranks whose cells a range of bytes touches, in order; some more may be among them.
    pub fn ranks_in(&self, range: &Range<u64>, ranks: &mut Vec<u32>) {
        let sizes = [1, self.edge, self.edge, self.edge];
        let Some(touched) = touched(sizes, self.element, range) else { return };
        let [_, zs, ys, xs] = touched.map(|(first, last)| self.cell(first)..=self.cell(last));
        let q = self.q;
        for (z, y) in zs.flat_map(|z| ys.clone().map(move |y| (z, y))) {
            ranks.extend(xs.clone().map(|x| ((y + z) % q * q + (x + q - z) % q) as u32));
        }
        ranks.sort_unstable();
        ranks.dedup();
    }

    /// Returns where a cell begins. The first cells are longer by one where the edge is no multiple of their number.
    fn start(&self, cell: u64) -> u64 {
        cell * (self.edge / self.q) + cell.min(self.edge % self.q)
    }

    fn cell(&self, index: u64) -> u64 {
        let (short, longer) = (self.edge / self.q, self.edge % self.q);
        let in_longer = longer * (short + 1);
        if index < in_longer { index / (short + 1) } else { longer + (index - in_longer) / short }
            .min(self.q - 1)
    }
}

/// `len` bytes of every `extent`.
pub fn every(len: u64, extent: u64) -> Pattern {
    let bytes = Shape::Contiguous { count: len, child: Arc::new(Datatype::byte()) };
    let child = Arc::new(Datatype { lb: 0, extent: len as i64, shape: bytes });
    let extent = extent as i64;
    native(&Datatype { lb: 0, extent, shape: Shape::Resized { lb: 0, extent, child } })
}

fn subarray(sizes: [u64; 4], subsizes: [u64; 4], starts: [u64; 4], element: u64) -> Datatype {
    let count = element;
    let bytes = Shape::Contiguous { count, child: Arc::new(Datatype::byte()) };
    let child = Arc::new(Datatype { lb: 0, extent: element as i64, shape: bytes });
    let extent = (sizes.iter().product::<u64>() * element) as i64;
    let [sizes, subsizes, starts] = [sizes, subsizes, starts].map(|four| four.to_vec());
    Datatype { lb: 0, extent, shape: Shape::Subarray { sizes, subsizes, starts, order: Order::C, child } }
}

fn native(datatype: &Datatype) -> Pattern {
    Pattern::native(datatype).expect("sizes are within bounds")
}

/// The smallest box of elements around a range of bytes: (first, last) in each dimension.
fn touched(sizes: [u64; 4], element: u64, range: &Range<u64>) -> Option<[(u64, u64); 4]> {
    if range.is_empty() {
        return None;
    }
    let place = |offset: u64| {
        let mut left = offset / element;
        let mut at = [0; 4];
        for d in (0..4).rev() {
            at[d] = left % sizes[d];
            left /= sizes[d];
        }
        at
    };
    let (first, last) = (place(range.start), place(range.end - 1));
    let same = (0..4).take_while(|&d| first[d] == last[d]).count();
    Some([0, 1, 2, 3].map(|d| if d <= same { (first[d], last[d]) } else { (0, sizes[d] - 1) }))
}

/// Returns three factors of a number that are as near to each other as possible, the largest first.
fn three(n: u32) -> [u64; 3] {
    let n = u64::from(n);
    let mut best = [n, 1, 1];
    for c in (1..).take_while(|c| c * c * c <= n).filter(|c| n.is_multiple_of(*c)) {
        let rest = n / c;
        let b = (c..).take_while(|b| b * b <= rest).filter(|b| rest.is_multiple_of(*b)).last();
        if let Some(b) = b
            && rest / b <= best[0]
        {
            best = [rest / b, b, c];
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_form_a_cube_as_far_as_they_can() {
        let cubes = [1, 2, 8, 12, 13, 64, 100, 256, 512, 1024, 100_000].map(three);
        let expected = [
            [1, 1, 1],
            [2, 1, 1],
            [2, 2, 2],
            [3, 2, 2],
            [13, 1, 1],
            [4, 4, 4],
            [5, 5, 4],
            [8, 8, 4],
            [8, 8, 8],
            [16, 8, 8],
            [50, 50, 40],
        ];
        assert_eq!(cubes, expected);
    }

    #[test]
    fn nine_ranks_have_cells_along_diagonals() {
        let slices = Slices::new(9, 3, 1).expect("sound");
        let mut owners = [9; 27];
        for rank in 0..9 {
            let view = pario_view::View::new(pario_types::Offset(0), slices.pattern(rank));
            assert!(view.is_monotone());
            for p in 0..3 {
                owners[view.select(pario_types::Pos(p)).expect("a cell").0 as usize] = rank;
            }
        }
        assert_eq!(owners[..9], [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(owners[9..18], [5, 3, 4, 8, 6, 7, 2, 0, 1]);
    }

    #[test]
    fn impossible_sizes_are_refused() {
        assert!(Grid::blocks(8, 0, 1, 4).is_err() && Grid::blocks(8, 1 << 30, 1, 4).is_err());
        assert!(Slices::new(16, 3, 40).is_err() && Slices::new(15, 30, 40).is_err());
        assert!(Grid::tiles(8, 0, 0, 3).is_err());
    }
}
