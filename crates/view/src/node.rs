//! The nodes of a pattern's graph and the facts that each of them caches.
//!
//! A node's origin is its first byte in typemap order, so that equal layouts at different places are the
//! same node. A graph is a slice of nodes in which children come before their parents; the root is last.

use crate::datatype::Basic;
use crate::error::Error;
use crate::list::List;

/// Index of a node in its graph.
pub(crate) type Id = u32;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// `len` adjacent bytes of one basic type.
    Block { len: u64, basic: Basic },
    /// `count` children, `stride` bytes apart.
    Rep { count: u64, stride: i64, child: Id },
    /// Different children one after the other.
    Seq { parts: Box<[Part]> },
    /// Many pieces at irregular displacements.
    Irregular { list: List, piece: Unit },
}

/// One child of a `Seq`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Part {
    pub disp: i64,
    /// Data bytes of the parts before this one.
    pub before: u64,
    pub child: Id,
}

/// The unit of the lengths in an irregular list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Unit {
    /// Bytes of a basic type.
    Bytes(Basic),
    /// Copies of a node, `step` bytes apart.
    Copies { child: Id, step: i64 },
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub kind: Kind,
    pub facts: Facts,
}

/// The cached properties of a node. Displacements are relative to its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Data bytes; never 0.
    pub size: u64,
    /// Lowest byte and end of the highest.
    pub lo: i64,
    pub hi: i64,
    /// Start and end of the last piece.
    pub last_start: i64,
    pub last_end: i64,
    /// Contiguous pieces, merged where they touch.
    pub pieces: u64,
    /// Pieces begin in nondecreasing order.
    pub ordered: bool,
    /// Every piece begins at or after the end of all before it (so `lo` is 0).
    pub strict: bool,
    /// Proven free of overlap; false means unknown unless `ordered`.
    pub disjoint: bool,
    /// Basic types of the first and the last piece.
    pub first: Basic,
    pub last: Basic,
}

impl Facts {
    pub fn block(len: u64, basic: Basic) -> Result<Facts, Error> {
        let end = i64::try_from(len).map_err(|_| Error::TooLarge)?;
        let (ordered, strict, disjoint) = (true, true, true);
        Ok(Facts {
            size: len,
            lo: 0,
            hi: end,
            last_start: 0,
            last_end: end,
            pieces: 1,
            ordered,
            strict,
            disjoint,
            first: basic,
            last: basic,
        })
    }

    /// `count >= 1` copies, `stride` apart.
    pub fn rep(&self, count: u64, stride: i64) -> Result<Facts, Error> {
        if count == 1 {
            return Ok(*self);
        }
        let size = fit_size(u128::from(count) * u128::from(self.size))?;
        let shift = fit_wide(i128::from(count) - 1, stride)?;
        let touch = self.last_end == stride && self.first == self.last;
        let seams = if touch { u128::from(count) - 1 } else { 0 };
        let pieces = (u128::from(count) * u128::from(self.pieces) - seams) as u64;
        let strict = self.strict && stride >= self.hi;
        Ok(Facts {
            size,
            lo: fit(i128::from(self.lo) + i128::from(shift.min(0)))?,
            hi: fit(i128::from(self.hi) + i128::from(shift.max(0)))?,
            last_start: if pieces == 1 { 0 } else { fit(i128::from(self.last_start) + i128::from(shift))? },
            last_end: fit(i128::from(self.last_end) + i128::from(shift))?,
            pieces,
            ordered: self.ordered && stride >= self.last_start,
            strict,
            disjoint: strict || self.disjoint && i128::from(stride).abs() >= self.width(),
            first: self.first,
            last: self.last,
        })
    }

    /// This, then `next` with its origin at `disp`.
    pub fn then(&self, disp: i64, next: &Facts) -> Result<Facts, Error> {
        let at = |x: i64| fit(i128::from(disp) + i128::from(x));
        let touch = self.last_end == disp && self.last == next.first;
        let (lo, hi) = (at(next.lo)?, at(next.hi)?);
        let strict = self.strict && next.strict && disp >= self.hi;
        let apart = lo >= self.hi || hi <= self.lo;
        Ok(Facts {
            size: fit_size(u128::from(self.size) + u128::from(next.size))?,
            lo: self.lo.min(lo),
            hi: self.hi.max(hi),
            last_start: if touch && next.pieces == 1 { self.last_start } else { at(next.last_start)? },
            last_end: at(next.last_end)?,
            pieces: self.pieces + next.pieces - u64::from(touch),
            ordered: self.ordered && next.ordered && disp >= self.last_start,
            strict,
            disjoint: strict || self.disjoint && next.disjoint && apart,
            first: self.first,
            last: next.last,
        })
    }

    fn width(&self) -> i128 {
        i128::from(self.hi) - i128::from(self.lo)
    }
}

impl Unit {
    /// The facts of a list item of `len` units.
    pub fn facts(self, nodes: &[Node], len: u64) -> Result<Facts, Error> {
        match self {
            Unit::Bytes(basic) => Facts::block(len, basic),
            Unit::Copies { child, step } => nodes[child as usize].facts.rep(len, step),
        }
    }

    /// Data bytes of one unit.
    pub fn size(self, nodes: &[Node]) -> u64 {
        match self {
            Unit::Bytes(_) => 1,
            Unit::Copies { child, .. } => nodes[child as usize].facts.size,
        }
    }
}

impl Node {
    pub fn block(len: u64, basic: Basic) -> Result<Node, Error> {
        Ok(Node { kind: Kind::Block { len, basic }, facts: Facts::block(len, basic)? })
    }

    pub fn rep(nodes: &[Node], count: u64, stride: i64, child: Id) -> Result<Node, Error> {
        let facts = nodes[child as usize].facts.rep(count, stride)?;
        Ok(Node { kind: Kind::Rep { count, stride, child }, facts })
    }

    /// A sequence; the first part must be at displacement 0.
    pub fn seq(nodes: &[Node], parts: &[(i64, Id)]) -> Result<Node, Error> {
        let mut facts: Option<Facts> = None;
        let mut kept = Vec::with_capacity(parts.len());
        for &(disp, child) in parts {
            let next = &nodes[child as usize].facts;
            kept.push(Part { disp, before: facts.map_or(0, |f| f.size), child });
            facts = Some(match facts {
                None => *next,
                Some(f) => f.then(disp, next)?,
            });
        }
        let facts = facts.ok_or(Error::Invalid("a sequence of no parts"))?;
        Ok(Node { kind: Kind::Seq { parts: kept.into_boxed_slice() }, facts })
    }

    /// An irregular list; the first item must be at displacement 0 and no length may be 0.
    pub fn irregular(nodes: &[Node], items: &[(i64, u64)], piece: Unit) -> Result<Node, Error> {
        let mut facts: Option<Facts> = None;
        let mut unit = (0, None);
        for &(disp, len) in items {
            if unit.0 != len {
                unit = (len, Some(piece.facts(nodes, len)?));
            }
            let next = unit.1.as_ref().ok_or(Error::Invalid("a list item of length 0"))?;
            facts = Some(match facts {
                None => *next,
                Some(f) => f.then(disp, next)?,
            });
        }
        let facts = facts.ok_or(Error::Invalid("a list of no items"))?;
        Ok(Node { kind: Kind::Irregular { list: List::new(items), piece }, facts })
    }

    /// Bytes this node holds outside its slot in the graph.
    pub fn heap(&self) -> usize {
        match &self.kind {
            Kind::Block { .. } | Kind::Rep { .. } => 0,
            Kind::Seq { parts } => std::mem::size_of_val(&**parts),
            Kind::Irregular { list, .. } => list.memory(),
        }
    }
}

/// Narrows a displacement.
pub(crate) fn fit(wide: i128) -> Result<i64, Error> {
    i64::try_from(wide).map_err(|_| Error::TooLarge)
}

/// The product of a count and a stride, narrowed.
pub(crate) fn fit_wide(count: i128, stride: i64) -> Result<i64, Error> {
    count.checked_mul(i128::from(stride)).ok_or(Error::TooLarge).and_then(fit)
}

/// Narrows a number of data bytes to what a file offset can count.
pub(crate) fn fit_size(wide: u128) -> Result<u64, Error> {
    u64::try_from(wide).ok().filter(|&s| s <= i64::MAX as u64).ok_or(Error::TooLarge)
}

impl Node {
    pub fn each_child(&self, mut see: impl FnMut(Id)) {
        match &self.kind {
            Kind::Block { .. } | Kind::Irregular { piece: Unit::Bytes(_), .. } => {}
            Kind::Rep { child, .. } | Kind::Irregular { piece: Unit::Copies { child, .. }, .. } => {
                see(*child)
            }
            Kind::Seq { parts } => parts.iter().for_each(|part| see(part.child)),
        }
    }

    pub fn renumber(&mut self, new: impl Fn(Id) -> Id) {
        match &mut self.kind {
            Kind::Block { .. } | Kind::Irregular { piece: Unit::Bytes(_), .. } => {}
            Kind::Rep { child, .. } | Kind::Irregular { piece: Unit::Copies { child, .. }, .. } => {
                *child = new(*child);
            }
            Kind::Seq { parts } => parts.iter_mut().for_each(|part| part.child = new(part.child)),
        }
    }
}

/// Checks the number of levels of a graph below its last node.
pub(crate) fn check_depth(nodes: &[Node]) -> Result<(), Error> {
    let mut depth: Vec<u32> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let mut below = 0;
        node.each_child(|child| below = below.max(depth[child as usize]));
        if below >= MAX_DEPTH {
            return Err(Error::TooDeep);
        }
        depth.push(below + 1);
    }
    Ok(())
}

/// The largest number of levels of a graph; descents recurse in a few places, so this bounds the stack.
pub(crate) const MAX_DEPTH: u32 = 512;
