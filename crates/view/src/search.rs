//! Searching a graph: from position to offset and back, and the bounds of a range of positions.
//!
//! Offsets are relative to a node's origin, positions to its first data byte. `select` and `rank` are one descent. `bounds`
//! and `first_beyond` also work on layouts that are out of order; there they look at every part of the sequences that a
//! range cuts, but never at the copies of a repetition.

use crate::node::{Id, Kind, Node, Unit};

/// A series of copies, as the searches below see a list item or a repetition.
#[derive(Clone, Copy)]
struct Copies {
    count: u64,
    stride: i64,
    child: Id,
}

/// Offset of data byte `at`, which must be below the size.
pub(crate) fn select(nodes: &[Node], mut id: Id, mut at: u64) -> i64 {
    let mut offset = 0i64;
    loop {
        match &nodes[id as usize].kind {
            Kind::Block { .. } => return offset + at as i64,
            Kind::Rep { stride, child, .. } => {
                let size = nodes[*child as usize].facts.size;
                offset += (at / size) as i64 * stride;
                at %= size;
                id = *child;
            }
            Kind::Seq { parts } => {
                let part = &parts[parts.partition_point(|p| p.before <= at) - 1];
                offset += part.disp;
                at -= part.before;
                id = part.child;
            }
            Kind::Irregular { list, piece } => {
                let unit = piece.size(nodes);
                let i = list.at_unit(at / unit);
                offset += list.disp(i);
                let within = at - list.before(i) * unit;
                match piece {
                    Unit::Bytes(_) => return offset + within as i64,
                    Unit::Copies { child, step } => {
                        offset += (within / unit) as i64 * step;
                        at = within % unit;
                        id = *child;
                    }
                }
            }
        }
    }
}

/// Data bytes below offset `x` in a strict node.
pub(crate) fn rank(nodes: &[Node], mut id: Id, mut x: i64) -> u64 {
    let mut below = 0u64;
    loop {
        let node = &nodes[id as usize];
        if x <= 0 {
            return below;
        }
        if x >= node.facts.hi {
            return below + node.facts.size;
        }
        match &node.kind {
            Kind::Block { .. } => return below + x as u64,
            Kind::Rep { stride, child, .. } => {
                below += (x / stride) as u64 * nodes[*child as usize].facts.size;
                x %= stride;
                id = *child;
            }
            Kind::Seq { parts } => {
                let part = &parts[parts.partition_point(|p| p.disp < x) - 1];
                below += part.before;
                x -= part.disp;
                id = part.child;
            }
            Kind::Irregular { list, piece } => {
                let i = list.below(x) - 1;
                let (disp, len) = list.piece(i);
                let unit = piece.size(nodes);
                below += list.before(i) * unit;
                x -= disp;
                match *piece {
                    Unit::Bytes(_) => return below + (x as u64).min(len),
                    Unit::Copies { child, step } => {
                        // One copy may have any step; more of them, in order, have a positive one.
                        let full = if len == 1 { 0 } else { ((x / step) as u64).min(len - 1) };
                        below += full * unit;
                        x -= full as i64 * step;
                        id = child;
                    }
                }
            }
        }
    }
}

/// Lowest byte and end of the highest among data bytes `from..to`, not empty.
pub(crate) fn bounds(nodes: &[Node], id: Id, from: u64, to: u64) -> (i64, i64) {
    let node = &nodes[id as usize];
    if from == 0 && to == node.facts.size {
        return (node.facts.lo, node.facts.hi);
    }
    if node.facts.strict {
        return (select(nodes, id, from), select(nodes, id, to - 1) + 1);
    }
    match &node.kind {
        Kind::Block { .. } => (from as i64, to as i64),
        Kind::Rep { count, stride, child } => {
            bounds_of_copies(nodes, Copies { count: *count, stride: *stride, child: *child }, from, to)
        }
        Kind::Seq { parts } => {
            let mut hull = Hull::default();
            let first = parts.partition_point(|p| p.before <= from) - 1;
            for part in parts[first..].iter().take_while(|p| p.before < to) {
                let size = nodes[part.child as usize].facts.size;
                let (a, b) = (from.saturating_sub(part.before), (to - part.before).min(size));
                hull.add(part.disp, bounds(nodes, part.child, a, b));
            }
            hull.get()
        }
        Kind::Irregular { list, piece } => {
            let unit = piece.size(nodes);
            let mut hull = Hull::default();
            for i in list.at_unit(from / unit)..=list.at_unit((to - 1) / unit) {
                let (disp, len) = list.piece(i);
                let before = list.before(i) * unit;
                let (a, b) = (from.saturating_sub(before), (to - before).min(len * unit));
                hull.add(
                    disp,
                    match *piece {
                        Unit::Bytes(_) => (a as i64, b as i64),
                        Unit::Copies { child, step } => {
                            bounds_of_copies(nodes, Copies { count: len, stride: step, child }, a, b)
                        }
                    },
                );
            }
            hull.get()
        }
    }
}

fn bounds_of_copies(nodes: &[Node], copies: Copies, from: u64, to: u64) -> (i64, i64) {
    let Copies { stride, child, .. } = copies;
    let facts = &nodes[child as usize].facts;
    let (first, last) = (from / facts.size, (to - 1) / facts.size);
    let (a, b) = (from % facts.size, (to - 1) % facts.size + 1);
    if first == last {
        let (lo, hi) = bounds(nodes, child, a, b);
        return (lo + first as i64 * stride, hi + first as i64 * stride);
    }
    let mut hull = Hull::default();
    hull.add(first as i64 * stride, bounds(nodes, child, a, facts.size));
    hull.add(last as i64 * stride, bounds(nodes, child, 0, b));
    if last - first > 1 {
        hull.add((first as i64 + 1) * stride, (facts.lo, facts.hi));
        hull.add((last as i64 - 1) * stride, (facts.lo, facts.hi));
    }
    hull.get()
}

#[derive(Default)]
struct Hull(Option<(i64, i64)>);

impl Hull {
    fn add(&mut self, disp: i64, (lo, hi): (i64, i64)) {
        let (lo, hi) = (lo + disp, hi + disp);
        self.0 = Some(self.0.map_or((lo, hi), |(l, h)| (l.min(lo), h.max(hi))));
    }

    fn get(self) -> (i64, i64) {
        self.0.unwrap_or((0, 0))
    }
}

/// The first data byte at or after position `from` whose offset is `x` or more.
pub(crate) fn first_beyond(nodes: &[Node], id: Id, from: u64, x: i128) -> Option<u64> {
    let node = &nodes[id as usize];
    if from >= node.facts.size || i128::from(node.facts.hi) <= x {
        return None;
    }
    if from == 0 && x <= i128::from(node.facts.lo) {
        return Some(0);
    }
    match &node.kind {
        Kind::Block { .. } => Some(from.max(x.max(0) as u64)),
        Kind::Rep { count, stride, child } => {
            beyond_in_copies(nodes, Copies { count: *count, stride: *stride, child: *child }, from, x)
        }
        Kind::Seq { parts } => {
            let first = parts.partition_point(|p| p.before <= from) - 1;
            parts[first..].iter().find_map(|part| {
                let from = from.saturating_sub(part.before);
                let found = first_beyond(nodes, part.child, from, x - i128::from(part.disp))?;
                Some(part.before + found)
            })
        }
        Kind::Irregular { list, piece } => {
            let unit = piece.size(nodes);
            let mut first = list.at_unit(from / unit);
            if node.facts.strict && x > 0 {
                // The piece before the first that begins beyond may reach beyond; none earlier does.
                let near = list.below(i64::try_from(x).unwrap_or(i64::MAX));
                first = first.max(near.saturating_sub(1));
            }
            (first..list.count()).find_map(|i| {
                let (disp, len) = list.piece(i);
                let before = list.before(i) * unit;
                let (from, x) = (from.saturating_sub(before), x - i128::from(disp));
                let found = match *piece {
                    Unit::Bytes(_) => Some(from.max(x.clamp(0, i128::from(len)) as u64)).filter(|&p| p < len),
                    Unit::Copies { child, step } => {
                        beyond_in_copies(nodes, Copies { count: len, stride: step, child }, from, x)
                    }
                };
                found.map(|p| before + p)
            })
        }
    }
}

fn beyond_in_copies(nodes: &[Node], copies: Copies, from: u64, x: i128) -> Option<u64> {
    let Copies { count, stride, child } = copies;
    let facts = &nodes[child as usize].facts;
    let place = |i: u64| i128::from(i) * i128::from(stride);
    let first = from / facts.size;
    if first >= count {
        return None;
    }
    let position = |i: u64, found: u64| i.checked_mul(facts.size)?.checked_add(found);
    if let Some(found) = first_beyond(nodes, child, from % facts.size, x - place(first)) {
        return position(first, found);
    }
    // The first later copy that reaches beyond: hi + i * stride > x.
    let mut i = first.checked_add(1)?;
    if i128::from(facts.hi) + place(i) <= x {
        if stride <= 0 {
            return None;
        }
        let need = (x - i128::from(facts.hi)) / i128::from(stride) + 1;
        i = u64::try_from(need).ok()?;
    }
    if i >= count {
        return None;
    }
    position(i, first_beyond(nodes, child, 0, x - place(i))?)
}

/// The same in endless copies of a root.
pub(crate) fn first_beyond_tiled(nodes: &[Node], root: Id, extent: i64, from: u64, x: i128) -> Option<u64> {
    beyond_in_copies(nodes, Copies { count: u64::MAX, stride: extent, child: root }, from, x)
}
