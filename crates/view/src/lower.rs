//! Lowering: from the tree of MPI constructors to a normalised graph.
//!
//! Three modes share one walk. *Native* takes every node's bounds from the tree, as the host reported them,
//! and forgets the basic types, so that adjacent values of different types merge. *Typed* is the same but
//! keeps the basic types, for conversion. *External* is the layout in an external32 file: basic types have
//! their external sizes, nothing is padded, and bounds are computed by the rules of the MPI standard (types
//! chapter, "lower-bound and upper-bound markers"). There, displacements that count child extents scale with
//! the external extents; byte displacements (`hvector`, `hindexed`, `struct`) and the bounds given to
//! `resized` are kept as they are, because MPI gives no way to scale them: such types are portable only if
//! the program computed their displacements from `MPI_File_get_type_extent`. The two halves of a value-index
//! pair lie side by side.
//!
//! The cost is that of the tree: no loop runs over a count.

use std::collections::HashMap;
use std::sync::Arc;

use crate::build::{Builder, Placed};
use crate::datatype::{Basic, Datatype, DistArg, Distrib, Order, Shape};
use crate::error::Error;
use crate::node::{Node, check_depth, fit, fit_wide};

/// The requested layout of a datatype.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Native,
    Typed,
    External,
}

/// A finished graph: nodes, the displacement of the first byte, lower bound and extent.
pub(crate) struct Lowered {
    pub nodes: Box<[Node]>,
    pub disp: i64,
    pub lb: i64,
    pub extent: i64,
}

pub(crate) fn lower(t: &Datatype, mode: Mode) -> Result<Lowered, Error> {
    let mut walk = Walk { mode, build: Builder::default(), seen: HashMap::new() };
    let layout = walk.tree(t)?;
    let nodes = walk.build.finish(layout.at.map(|at| at.1))?;
    let lowered =
        Lowered { nodes, disp: layout.at.map_or(0, |at| at.0), lb: layout.lb, extent: layout.extent()? };
    lowered.check()?;
    Ok(lowered)
}

impl Lowered {
    /// Checks that every byte has a 64-bit displacement from the origin, and that the depth is limited.
    pub fn check(&self) -> Result<(), Error> {
        check_depth(&self.nodes)?;
        if let Some(root) = self.nodes.last() {
            fit(i128::from(self.disp) + i128::from(root.facts.lo))?;
            fit(i128::from(self.disp) + i128::from(root.facts.hi))?;
        }
        fit(i128::from(self.lb) + i128::from(self.extent)).map(|_| ())
    }
}

/// One instance of a type: the location of its bytes (if it has any) and its bounds.
#[derive(Clone, Copy)]
struct Layout {
    at: Option<Placed>,
    lb: i64,
    ub: i64,
    /// Whether the bounds come from markers (resized, subarray, darray), which take precedence over bounds without.
    marked: bool,
}

const EMPTY: Layout = Layout { at: None, lb: 0, ub: 0, marked: false };

impl Layout {
    fn extent(&self) -> Result<i64, Error> {
        fit(i128::from(self.ub) - i128::from(self.lb))
    }
}

struct Walk {
    mode: Mode,
    build: Builder,
    /// The subtrees lowered so far; shared subtrees are lowered once.
    seen: HashMap<*const Datatype, Layout>,
}

impl Walk {
    /// Lowers a tree, children first, with a stack of its own: programs may nest types to any depth.
    fn tree(&mut self, root: &Datatype) -> Result<Layout, Error> {
        let mut stack = vec![(root, false)];
        while let Some((t, ready)) = stack.pop() {
            if self.seen.contains_key(&std::ptr::from_ref(t)) {
                continue;
            }
            if ready {
                let layout = self.node(t)?;
                self.seen.insert(t, layout);
            } else {
                stack.push((t, true));
                each_child(&t.shape, |child| stack.push((child, false)));
            }
        }
        self.lowered(root)
    }

    fn lowered(&self, t: &Datatype) -> Result<Layout, Error> {
        self.seen.get(&std::ptr::from_ref(t)).copied().ok_or(Error::Invalid("a type that contains itself"))
    }

    fn node(&mut self, t: &Datatype) -> Result<Layout, Error> {
        let mut layout = self.shape(&t.shape)?;
        if self.mode != Mode::External {
            layout.lb = t.lb;
            layout.ub = fit(i128::from(t.lb) + i128::from(t.extent))?;
        }
        Ok(layout)
    }

    fn shape(&mut self, shape: &Shape) -> Result<Layout, Error> {
        match shape {
            Shape::Basic(basic) => self.leaf(*basic),
            Shape::Pair(first, second, disp) => self.pair(*first, *second, *disp),
            Shape::Dup(child) => self.lowered(child),
            Shape::Contiguous { count, child } => {
                let child = self.lowered(child)?;
                let stride = child.extent()?;
                self.grid(child, &[(*count, stride)])
            }
            Shape::Vector { count, blocklen, stride, child } => {
                let child = self.lowered(child)?;
                let extent = child.extent()?;
                let stride = if *count > 1 { fit_wide(i128::from(*stride), extent)? } else { 0 };
                self.grid(child, &[(*blocklen, extent), (*count, stride)])
            }
            Shape::Hvector { count, blocklen, stride, child } => {
                let child = self.lowered(child)?;
                let extent = child.extent()?;
                self.grid(child, &[(*blocklen, extent), (*count, *stride)])
            }
            Shape::Indexed { blocks, child } => {
                let child = self.lowered(child)?;
                let unit = child.extent()?;
                self.indexed(child, blocks.iter().copied(), unit)
            }
            Shape::Hindexed { blocks, child } => {
                let child = self.lowered(child)?;
                self.indexed(child, blocks.iter().copied(), 1)
            }
            Shape::IndexedBlock { blocklen, disps, child } => {
                let child = self.lowered(child)?;
                let unit = child.extent()?;
                self.indexed(child, disps.iter().map(|&d| (*blocklen, d)), unit)
            }
            Shape::HindexedBlock { blocklen, disps, child } => {
                let child = self.lowered(child)?;
                self.indexed(child, disps.iter().map(|&d| (*blocklen, d)), 1)
            }
            Shape::Struct { fields } => self.record(fields),
            Shape::Subarray { sizes, subsizes, starts, order, child } => {
                let child = self.lowered(child)?;
                self.subarray(child, sizes, subsizes, starts, *order)
            }
            Shape::Darray { size, rank, gsizes, distribs, dargs, psizes, order, child } => {
                let child = self.lowered(child)?;
                let deal = Deal { size: *size, rank: *rank, gsizes, distribs, dargs, psizes };
                self.darray(child, &deal, *order)
            }
            Shape::Resized { lb, extent, child } => {
                let child = self.lowered(child)?;
                let ub = fit(i128::from(*lb) + i128::from(*extent))?;
                Ok(Layout { at: child.at, lb: *lb, ub, marked: true })
            }
        }
    }

    fn leaf(&mut self, basic: Basic) -> Result<Layout, Error> {
        let (len, kept) = match self.mode {
            Mode::Native => (basic.native, Basic::BYTE),
            Mode::Typed => (basic.native, basic),
            Mode::External => (basic.external, Basic::BYTE),
        };
        if len == 0 {
            return Ok(EMPTY);
        }
        let id = self.build.block(u64::from(len), kept)?;
        Ok(Layout { at: Some((0, id)), lb: 0, ub: i64::from(len), marked: false })
    }

    fn pair(&mut self, first: Basic, second: Basic, disp: i64) -> Result<Layout, Error> {
        let disp = if self.mode == Mode::External { i64::from(first.external) } else { disp };
        let a = self.leaf(first)?;
        let b = self.leaf(second)?;
        let mut parts = Vec::new();
        parts.extend(a.at);
        if let Some((at, id)) = b.at {
            parts.push((fit(i128::from(at) + i128::from(disp))?, id));
        }
        let mut bounds = Bounds::default();
        bounds.see(a, 0, 0)?;
        bounds.see(b, i128::from(disp), i128::from(disp))?;
        Ok(bounds.around(self.build.seq(parts)?))
    }

    /// Copies of a child on a grid; the first axis is the innermost.
    fn grid(&mut self, child: Layout, axes: &[(u64, i64)]) -> Result<Layout, Error> {
        if axes.iter().any(|&(count, _)| count == 0) {
            return Ok(EMPTY);
        }
        let (mut low, mut high) = (0i128, 0i128);
        for &(count, stride) in axes {
            let reach = reach(count, stride)?;
            low += reach.min(0);
            high += reach.max(0);
        }
        let mut at = child.at;
        if let Some((_, id)) = &mut at {
            for &(count, stride) in axes {
                *id = self.build.rep(count, stride, *id)?;
            }
        }
        let mut bounds = Bounds::default();
        bounds.see(child, low, high)?;
        Ok(bounds.around(at))
    }

    /// Blocks of a child at explicit displacements, counted in `unit` bytes.
    fn indexed(
        &mut self,
        child: Layout,
        blocks: impl ExactSizeIterator<Item = (u64, i64)>,
        unit: i64,
    ) -> Result<Layout, Error> {
        let extent = child.extent()?;
        let mut bounds = Bounds::default();
        let mut items = Vec::with_capacity(if child.at.is_some() { blocks.len() } else { 0 });
        for (len, disp) in blocks {
            if len == 0 {
                continue;
            }
            let at = i128::from(fit_wide(i128::from(disp), unit)?);
            let reach = reach(len, extent)?;
            bounds.see(child, at + reach.min(0), at + reach.max(0))?;
            if let Some((first, _)) = child.at {
                items.push((fit(at + i128::from(first))?, len));
            }
        }
        let at = match child.at {
            None => None,
            Some((_, id)) => self.build.blocks(items, id, extent)?,
        };
        Ok(bounds.around(at))
    }

    fn record(&mut self, fields: &[(u64, i64, Arc<Datatype>)]) -> Result<Layout, Error> {
        let mut bounds = Bounds::default();
        let mut parts = Vec::with_capacity(fields.len());
        for (len, disp, child) in fields {
            let child = self.lowered(child)?;
            if *len == 0 {
                continue;
            }
            let extent = child.extent()?;
            let reach = reach(*len, extent)?;
            let disp = i128::from(*disp);
            bounds.see(child, disp + reach.min(0), disp + reach.max(0))?;
            if let Some((first, id)) = child.at {
                parts.push((fit(disp + i128::from(first))?, self.build.rep(*len, extent, id)?));
            }
        }
        Ok(bounds.around(self.build.seq(parts)?))
    }

    fn subarray(
        &mut self,
        child: Layout,
        sizes: &[u64],
        subsizes: &[u64],
        starts: &[u64],
        order: Order,
    ) -> Result<Layout, Error> {
        if sizes.len() != subsizes.len() || sizes.len() != starts.len() || sizes.is_empty() {
            return Err(Error::Invalid("subarray: sizes, subsizes and starts need one entry per dimension"));
        }
        let mut at = child.at;
        let mut stride = child.extent()?;
        for d in fastest_first(sizes.len(), order) {
            let end = starts[d].checked_add(subsizes[d]);
            if end.is_none_or(|end| end > sizes[d]) {
                return Err(Error::Invalid("subarray: start + subsize exceeds the size of a dimension"));
            }
            at = match at {
                Some((disp, id)) if subsizes[d] > 0 => {
                    let disp = fit(i128::from(disp) + i128::from(starts[d]) * i128::from(stride))?;
                    Some((disp, self.build.rep(subsizes[d], stride, id)?))
                }
                _ => None,
            };
            stride = fit_wide(i128::from(sizes[d]), stride)?;
        }
        Ok(Layout { at, lb: 0, ub: stride, marked: true })
    }

    fn darray(&mut self, child: Layout, deal: &Deal<'_>, order: Order) -> Result<Layout, Error> {
        let coords = deal.coordinates()?;
        let mut at = child.at;
        let mut stride = child.extent()?;
        for d in fastest_first(deal.gsizes.len(), order) {
            let share = deal.share(d, coords[d])?;
            at = match at {
                Some(placed) => self.dealt(placed, &share, stride)?,
                None => None,
            };
            stride = fit_wide(i128::from(deal.gsizes[d]), stride)?;
        }
        Ok(Layout { at, lb: 0, ub: stride, marked: true })
    }

    /// One dimension of a distributed array: whole blocks and a shorter last one.
    fn dealt(&mut self, (disp, id): Placed, share: &Share, stride: i64) -> Result<Option<Placed>, Error> {
        let place = |index: u64| fit(i128::from(disp) + i128::from(index) * i128::from(stride));
        let mut parts = Vec::new();
        if share.whole > 0 {
            let block = self.build.rep(share.block, stride, id)?;
            let period = if share.whole > 1 { fit_wide(i128::from(share.period), stride)? } else { 0 };
            parts.push((place(share.first)?, self.build.rep(share.whole, period, block)?));
        }
        if share.tail > 0 {
            let tail = self.build.rep(share.tail, stride, id)?;
            let index = u128::from(share.first) + u128::from(share.whole) * u128::from(share.period);
            parts.push((place(u64::try_from(index).map_err(|_| Error::TooLarge)?)?, tail));
        }
        self.build.seq(parts)
    }
}

fn each_child<'a>(shape: &'a Shape, mut see: impl FnMut(&'a Datatype)) {
    match shape {
        Shape::Basic(_) | Shape::Pair(..) => {}
        Shape::Struct { fields } => fields.iter().for_each(|field| see(&field.2)),
        Shape::Dup(child)
        | Shape::Contiguous { child, .. }
        | Shape::Vector { child, .. }
        | Shape::Hvector { child, .. }
        | Shape::Indexed { child, .. }
        | Shape::Hindexed { child, .. }
        | Shape::IndexedBlock { child, .. }
        | Shape::HindexedBlock { child, .. }
        | Shape::Subarray { child, .. }
        | Shape::Darray { child, .. }
        | Shape::Resized { child, .. } => see(child),
    }
}

/// The distance of the last of `count >= 1` copies from the first.
fn reach(count: u64, stride: i64) -> Result<i128, Error> {
    fit_wide(i128::from(count) - 1, stride).map(i128::from)
}

fn fastest_first(dims: usize, order: Order) -> impl Iterator<Item = usize> {
    (0..dims).map(move |i| if order == Order::C { dims - 1 - i } else { i })
}

/// The arguments of a distributed array.
struct Deal<'a> {
    size: u64,
    rank: u64,
    gsizes: &'a [u64],
    distribs: &'a [Distrib],
    dargs: &'a [DistArg],
    psizes: &'a [u64],
}

/// The part of one dimension that one process owns: `whole` blocks of `block` elements, `period` apart from `first`, and a
/// last block of `tail`.
struct Share {
    first: u64,
    block: u64,
    period: u64,
    whole: u64,
    tail: u64,
}

impl Deal<'_> {
    /// The coordinates of this process in the grid, which is row-major whatever the storage order.
    fn coordinates(&self) -> Result<Vec<u64>, Error> {
        let dims = self.gsizes.len();
        if dims == 0 || [self.distribs.len(), self.dargs.len(), self.psizes.len()] != [dims; 3] {
            return Err(Error::Invalid("darray: every argument needs one entry per dimension"));
        }
        let grid = self.psizes.iter().try_fold(1u64, |n, &p| n.checked_mul(p));
        if grid != Some(self.size) || self.rank >= self.size {
            return Err(Error::Invalid(
                "darray: the process grid does not have `size` places, or rank is outside",
            ));
        }
        let (mut rest, mut places) = (self.rank, self.size);
        let mut coords = Vec::with_capacity(dims);
        for &p in self.psizes {
            places /= p;
            coords.push(rest / places);
            rest %= places;
        }
        Ok(coords)
    }

    fn share(&self, d: usize, coord: u64) -> Result<Share, Error> {
        let (n, procs) = (self.gsizes[d], self.psizes[d]);
        let block = match (self.distribs[d], self.dargs[d]) {
            (Distrib::None, _) if procs != 1 => {
                return Err(Error::Invalid("darray: an undistributed dimension needs a process grid of 1"));
            }
            (Distrib::None, _) => n,
            (_, DistArg::Given(0)) => return Err(Error::Invalid("darray: a block size of 0")),
            (Distrib::Block, DistArg::Given(k)) => {
                if k.checked_mul(procs).is_some_and(|all| all < n) {
                    return Err(Error::Invalid("darray: the blocks do not cover the dimension"));
                }
                k
            }
            (Distrib::Block, DistArg::Default) => n.div_ceil(procs),
            (Distrib::Cyclic, DistArg::Given(k)) => k,
            (Distrib::Cyclic, DistArg::Default) => 1,
        };
        let nothing = Share { first: 0, block: 0, period: 0, whole: 0, tail: 0 };
        if n == 0 {
            return Ok(nothing);
        }
        let (Some(first), Some(period)) = (block.checked_mul(coord), block.checked_mul(procs)) else {
            // A block larger than any array: only the first process can have elements, and it has all of them.
            return Ok(if coord == 0 {
                Share { first: 0, block: n, period: n, whole: 1, tail: 0 }
            } else {
                nothing
            });
        };
        if first >= n {
            return Ok(nothing);
        }
        let mine = n - first;
        let (whole, rest) = (mine / period, mine % period);
        // The rest after whole periods contains one more whole block or a part of one.
        let (whole, tail) = if rest >= block { (whole + 1, 0) } else { (whole, rest) };
        Ok(Share { first, block, period, whole, tail })
    }
}

/// The bounds of a type from those of its children: markers take precedence over plain bounds.
#[derive(Default)]
struct Bounds {
    found: Option<(i64, i64, bool)>,
}

impl Bounds {
    /// Adds a child of which copies lie between displacements `low` and `high`.
    fn see(&mut self, child: Layout, low: i128, high: i128) -> Result<(), Error> {
        if child.at.is_none() && !child.marked {
            return Ok(()); // an empty type map has no bounds to add
        }
        let lb = fit(i128::from(child.lb) + low)?;
        let ub = fit(i128::from(child.ub) + high)?;
        self.found = Some(match self.found {
            Some((l, u, marked)) if marked == child.marked => (l.min(lb), u.max(ub), marked),
            Some(kept @ (_, _, true)) => kept,
            _ => (lb, ub, child.marked),
        });
        Ok(())
    }

    fn around(&self, at: Option<Placed>) -> Layout {
        let (lb, ub, marked) = self.found.unwrap_or((0, 0, false));
        Layout { at, lb, ub, marked }
    }
}
