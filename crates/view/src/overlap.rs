//! Whether some byte occurs twice in one instance of a pattern.
//!
//! The facts of a node decide for all layouts in order, and prove many others disjoint. Left open are grids whose strides
//! are not sorted (a transposed array), decided by sorting the strides, and interleaved parts, decided by sorting the
//! pieces if there are not too many.

use crate::cursor::Cursor;
use crate::node::{Id, Kind, Node};
use crate::pattern::Pattern;

/// The largest number of pieces that is sorted.
const SORTED_AT_MOST: u64 = 1 << 16;

pub(crate) fn found(p: &Pattern) -> bool {
    let Some(facts) = p.facts() else { return false };
    if facts.ordered || facts.disjoint {
        return !facts.disjoint;
    }
    if grid_is_disjoint(p.nodes(), p.root()) {
        return false;
    }
    facts.pieces > SORTED_AT_MOST || sorted_pieces_overlap(p)
}

/// A grid is disjoint if each stride, from the smallest, steps over everything the smaller ones span.
fn grid_is_disjoint(nodes: &[Node], root: Id) -> bool {
    let mut axes = Vec::new();
    let mut id = root;
    while let Kind::Rep { count, stride, child } = nodes[id as usize].kind {
        axes.push((stride.unsigned_abs(), count));
        id = child;
    }
    let inner = &nodes[id as usize].facts;
    axes.sort_unstable();
    let mut span = i128::from(inner.hi) - i128::from(inner.lo);
    for (stride, count) in axes {
        if i128::from(stride) < span {
            return false;
        }
        span += i128::from(stride) * (i128::from(count) - 1);
    }
    inner.disjoint
}

fn sorted_pieces_overlap(p: &Pattern) -> bool {
    let mut cursor = Cursor::over(p, 1, 0);
    let mut pieces = Vec::new();
    while let Some(piece) = cursor.next_piece(u64::MAX) {
        pieces.push((piece.offset, piece.len));
    }
    pieces.sort_unstable();
    pieces.windows(2).any(|w| i128::from(w[0].0) + i128::from(w[0].1) > i128::from(w[1].0))
}
