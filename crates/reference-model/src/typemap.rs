//! Type maps, straight from the definitions of the datatype chapter.

use std::sync::Arc;

use pario_view::{Basic, Datatype, DistArg, Distrib, Kind, Order, Shape};

/// The basic types that generated datatypes are made of, with the sizes of 64-bit Linux.
pub const BASICS: [Basic; 13] = [
    Basic::BYTE,
    basic(Kind::Character, 1, 1),
    basic(Kind::Signed, 2, 2),
    basic(Kind::Signed, 4, 4),
    basic(Kind::Signed, 8, 4), // long
    basic(Kind::Unsigned, 8, 8),
    basic(Kind::Float, 4, 4),
    basic(Kind::Float, 8, 8),
    basic(Kind::Float, 16, 16), // long double
    basic(Kind::Complex, 8, 8),
    basic(Kind::Complex, 16, 16),
    basic(Kind::Logical, 4, 4),
    basic(Kind::Character, 4, 2), // wide
];

const fn basic(kind: Kind, native: u32, external: u32) -> Basic {
    Basic { kind, native, external }
}

/// In which representation a type is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Representation {
    /// As in memory; bounds are those the tree gives.
    Native,
    /// external32: no padding, external sizes, bounds by the standard's rule.
    External,
}

/// A type map: basic types at displacements, in order, with the type's bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeMap {
    /// (displacement, basic type, bytes it takes here).
    pub entries: Vec<(i64, Basic, u32)>,
    /// Lower bound.
    pub lb: i64,
    /// Upper bound.
    pub ub: i64,
    marked: bool,
    bounded: bool,
}

impl TypeMap {
    /// Extent.
    pub fn extent(&self) -> i64 {
        self.ub - self.lb
    }

    /// The displacement of every byte, in order.
    pub fn bytes(&self) -> Vec<i64> {
        self.entries.iter().flat_map(|&(disp, _, len)| disp..disp + i64::from(len)).collect()
    }

    /// Contiguous pieces in order: (displacement, bytes).
    pub fn pieces(&self) -> Vec<(i64, u64)> {
        let mut out: Vec<(i64, u64)> = Vec::new();
        for byte in self.bytes() {
            match out.last_mut() {
                Some(last) if last.0 + last.1 as i64 == byte => last.1 += 1,
                _ => out.push((byte, 1)),
            }
        }
        out
    }

    /// Adds a copy of another type at a displacement. Bounds that come from markers hide those that do not.
    fn place(&mut self, child: &TypeMap, disp: i64) {
        self.entries.extend(child.entries.iter().map(|&(d, b, n)| (d + disp, b, n)));
        if child.entries.is_empty() && !child.marked {
            return;
        }
        let (lb, ub) = (child.lb + disp, child.ub + disp);
        if !self.bounded || child.marked && !self.marked {
            (self.lb, self.ub, self.marked, self.bounded) = (lb, ub, child.marked, true);
        } else if child.marked == self.marked {
            self.lb = self.lb.min(lb);
            self.ub = self.ub.max(ub);
        }
    }

    fn mark(mut self, lb: i64, ub: i64) -> TypeMap {
        (self.lb, self.ub, self.marked, self.bounded) = (lb, ub, true, true);
        self
    }
}

/// A datatype with the bounds that the standard gives to its shape (no padding).
pub fn natural(shape: Shape) -> Datatype {
    let map = expand_shape(&shape, Representation::Native);
    Datatype { lb: map.lb, extent: map.extent(), shape }
}

/// The type map of a datatype.
pub fn expand(t: &Datatype, repr: Representation) -> TypeMap {
    let mut map = expand_shape(&t.shape, repr);
    if repr == Representation::Native {
        (map.lb, map.ub) = (t.lb, t.lb + t.extent);
    }
    map
}

fn expand_shape(shape: &Shape, repr: Representation) -> TypeMap {
    let mut out = TypeMap::default();
    match shape {
        Shape::Basic(b) => out.place(&leaf(*b, repr), 0),
        Shape::Pair(a, b, disp) => {
            let external = repr == Representation::External;
            out.place(&leaf(*a, repr), 0);
            out.place(&leaf(*b, repr), if external { i64::from(a.external) } else { *disp });
        }
        Shape::Dup(child) => return expand(child, repr),
        Shape::Contiguous { count, child } => {
            let child = expand(child, repr);
            block(&mut out, &child, *count, 0);
        }
        Shape::Vector { count, blocklen, stride, child } => {
            let child = expand(child, repr);
            for i in 0..*count as i64 {
                block(&mut out, &child, *blocklen, i * stride * child.extent());
            }
        }
        Shape::Hvector { count, blocklen, stride, child } => {
            let child = expand(child, repr);
            for i in 0..*count as i64 {
                block(&mut out, &child, *blocklen, i * stride);
            }
        }
        Shape::Indexed { blocks, child } => {
            let child = expand(child, repr);
            for &(len, disp) in blocks {
                block(&mut out, &child, len, disp * child.extent());
            }
        }
        Shape::Hindexed { blocks, child } => {
            let child = expand(child, repr);
            for &(len, disp) in blocks {
                block(&mut out, &child, len, disp);
            }
        }
        Shape::IndexedBlock { blocklen, disps, child } => {
            let child = expand(child, repr);
            for disp in disps {
                block(&mut out, &child, *blocklen, disp * child.extent());
            }
        }
        Shape::HindexedBlock { blocklen, disps, child } => {
            let child = expand(child, repr);
            for disp in disps {
                block(&mut out, &child, *blocklen, *disp);
            }
        }
        Shape::Struct { fields } => {
            for (len, disp, child) in fields {
                block(&mut out, &expand(child, repr), *len, *disp);
            }
        }
        Shape::Subarray { sizes, subsizes, starts, order, child } => {
            let mine = |d: usize, i: u64| i >= starts[d] && i - starts[d] < subsizes[d];
            return array(sizes, *order, child, repr, mine);
        }
        Shape::Darray { rank, gsizes, distribs, dargs, psizes, order, child, .. } => {
            let coords = coordinates(*rank, psizes);
            let mine = |d: usize, i: u64| owner(i, gsizes[d], psizes[d], distribs[d], dargs[d]) == coords[d];
            return array(gsizes, *order, child, repr, mine);
        }
        Shape::Resized { lb, extent, child } => return expand(child, repr).mark(*lb, lb + extent),
    }
    out
}

fn leaf(b: Basic, repr: Representation) -> TypeMap {
    let len = if repr == Representation::Native { b.native } else { b.external };
    TypeMap { entries: vec![(0, b, len)], lb: 0, ub: i64::from(len), marked: false, bounded: true }
}

fn block(out: &mut TypeMap, child: &TypeMap, len: u64, disp: i64) {
    for j in 0..len as i64 {
        out.place(child, disp + j * child.extent());
    }
}

/// The elements of an array that belong to one process, in storage order.
fn array(
    sizes: &[u64],
    order: Order,
    child: &Arc<Datatype>,
    repr: Representation,
    mine: impl Fn(usize, u64) -> bool,
) -> TypeMap {
    let child = expand(child, repr);
    let mut out = TypeMap::default();
    let all: u64 = sizes.iter().product();
    for linear in 0..all {
        // Indices of the element, peeled off from the fastest dimension.
        let mut rest = linear;
        let mut inside = true;
        for k in 0..sizes.len() {
            let d = if order == Order::C { sizes.len() - 1 - k } else { k };
            inside &= mine(d, rest % sizes[d]);
            rest /= sizes[d];
        }
        if inside {
            out.place(&child, linear as i64 * child.extent());
        }
    }
    out.mark(0, all as i64 * child.extent())
}

fn coordinates(rank: u64, psizes: &[u64]) -> Vec<u64> {
    (0..psizes.len()).map(|d| rank / psizes[d + 1..].iter().product::<u64>() % psizes[d]).collect()
}

/// Which process owns index `i` of a dimension: blocks are dealt out in turn.
fn owner(i: u64, n: u64, procs: u64, how: Distrib, arg: DistArg) -> u64 {
    let block = match (how, arg) {
        (Distrib::None, _) => n,
        (Distrib::Block, DistArg::Default) => n.div_ceil(procs),
        (Distrib::Cyclic, DistArg::Default) => 1,
        (_, DistArg::Given(k)) => k,
    };
    i / block % procs
}
