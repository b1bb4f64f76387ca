//! A pattern: the compact layout of one instance of a datatype.

use std::sync::{Arc, OnceLock};

use crate::codec;
use crate::datatype::{Basic, Datatype};
use crate::error::Error;
use crate::lower::{Lowered, Mode, lower};
use crate::node::{Facts, Id, Kind, Node, Unit};
use crate::overlap;

/// Compact layout of one instance of a datatype: its bytes in typemap order, relative to the buffer origin.
///
/// Cheap to clone; its memory is that of the description, not of the pieces.
#[derive(Clone)]
pub struct Pattern(Arc<Inner>);

struct Inner {
    nodes: Box<[Node]>,
    /// The displacement of the first byte.
    disp: i64,
    lb: i64,
    extent: i64,
    hash: OnceLock<ViewHash>,
}

/// 128-bit content hash of a pattern or view.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ViewHash(pub [u8; 16]);

impl Pattern {
    /// The layout in memory, and in files of the native representation. Basic types are dropped.
    pub fn native(t: &Datatype) -> Result<Pattern, Error> {
        lower(t, Mode::Native).map(Pattern::from_lowered)
    }

    /// The layout in files of the external32 representation.
    pub fn external(t: &Datatype) -> Result<Pattern, Error> {
        lower(t, Mode::External).map(Pattern::from_lowered)
    }

    /// The native layout with basic types kept, for conversion.
    pub fn typed(t: &Datatype) -> Result<Pattern, Error> {
        lower(t, Mode::Typed).map(Pattern::from_lowered)
    }

    /// `len` contiguous bytes, at most 2^63 - 1 (longer is cut to that).
    pub fn block(len: u64) -> Pattern {
        let len = len.min(i64::MAX as u64);
        let nodes = match Node::block(len, Basic::BYTE) {
            Ok(node) if len > 0 => Box::from([node]),
            _ => Box::default(),
        };
        Pattern::from_lowered(Lowered { nodes, disp: 0, lb: 0, extent: len as i64 })
    }

    pub(crate) fn from_lowered(l: Lowered) -> Pattern {
        let Lowered { nodes, disp, lb, extent } = l;
        Pattern(Arc::new(Inner { nodes, disp, lb, extent, hash: OnceLock::new() }))
    }

    /// Data bytes.
    pub fn size(&self) -> u64 {
        self.facts().map_or(0, |f| f.size)
    }

    /// Lower bound.
    pub fn lb(&self) -> i64 {
        self.0.lb
    }

    /// Extent: the distance of consecutive instances.
    pub fn extent(&self) -> i64 {
        self.0.extent
    }

    /// The lowest data byte, 0 if there is none.
    pub fn true_lb(&self) -> i64 {
        self.facts().map_or(0, |f| self.0.disp.saturating_add(f.lo))
    }

    /// The end of the highest data byte, 0 if there is none.
    pub fn true_ub(&self) -> i64 {
        self.facts().map_or(0, |f| self.0.disp.saturating_add(f.hi))
    }

    /// The number of contiguous pieces in typemap order; adjacent ones are merged.
    pub fn pieces(&self) -> u64 {
        self.facts().map_or(0, |f| f.pieces)
    }

    /// Whether tiling it is contiguous from the origin: one piece at 0 that fills the extent.
    pub fn is_contiguous(&self) -> bool {
        self.pieces() == 1 && self.0.disp == 0 && i64::try_from(self.size()) == Ok(self.extent())
    }

    /// Whether pieces begin at displacements that are not negative and never decrease.
    pub fn is_monotone(&self) -> bool {
        self.0.disp >= 0 && self.facts().is_none_or(|f| f.ordered)
    }

    /// Whether some byte occurs twice in one instance. Exact for monotone patterns, for grids of any stride
    /// order and for all patterns up to 65536 pieces; beyond, a pattern whose parts interleave counts as
    /// overlapping.
    pub fn has_overlap(&self) -> bool {
        overlap::found(self)
    }

    /// Content hash, over [`Pattern::to_bytes`].
    pub fn hash(&self) -> ViewHash {
        *self.0.hash.get_or_init(|| codec::hash(self))
    }

    /// Bytes held in memory by this pattern.
    pub fn memory(&self) -> usize {
        let nodes: usize = self.0.nodes.iter().map(|n| std::mem::size_of::<Node>() + n.heap()).sum();
        std::mem::size_of::<Inner>() + nodes
    }

    /// The pattern as bytes, the same for equal patterns; the format is described in the module `codec`.
    pub fn to_bytes(&self) -> Vec<u8> {
        codec::encode(self)
    }

    /// Decodes a pattern; the bytes may come from anywhere and are checked.
    pub fn from_bytes(bytes: &[u8]) -> Result<Pattern, Error> {
        codec::decode(bytes)
    }

    /// Data bytes that a typed pattern has in external32.
    pub fn external_size(&self) -> Result<u64, Error> {
        self.weigh(|basic| basic.external)
    }

    /// Values of basic types in a typed pattern.
    pub fn elements(&self) -> Result<u64, Error> {
        self.weigh(|_| 1)
    }

    /// Returns the sum of `weight` over the types of all values.
    fn weigh(&self, weight: impl Fn(Basic) -> u32) -> Result<u64, Error> {
        let mut sums: Vec<u128> = Vec::with_capacity(self.0.nodes.len());
        let scale = |len: u64, basic: Basic| {
            u128::from(len) / u128::from(basic.native.max(1)) * u128::from(weight(basic))
        };
        for node in &self.0.nodes {
            let times =
                |n: u64, child: Id| u128::from(n).checked_mul(sums[child as usize]).ok_or(Error::TooLarge);
            sums.push(match &node.kind {
                Kind::Block { len, basic } => scale(*len, *basic),
                Kind::Rep { count, child, .. } => times(*count, *child)?,
                Kind::Seq { parts } => parts.iter().map(|p| sums[p.child as usize]).sum(),
                Kind::Irregular { list, piece: Unit::Bytes(basic) } => scale(list.total(), *basic),
                Kind::Irregular { list, piece: Unit::Copies { child, .. } } => times(list.total(), *child)?,
            });
        }
        crate::node::fit_size(sums.last().copied().unwrap_or(0))
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.0.nodes
    }

    /// The root's facts; none if there are no bytes.
    pub(crate) fn facts(&self) -> Option<&Facts> {
        self.0.nodes.last().map(|n| &n.facts)
    }

    pub(crate) fn root(&self) -> Id {
        (self.0.nodes.len() as Id).saturating_sub(1)
    }

    pub(crate) fn disp(&self) -> i64 {
        self.0.disp
    }
}

impl PartialEq for Pattern {
    /// Equal as built, not merely as laid out.
    fn eq(&self, other: &Pattern) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.hash() == other.hash()
    }
}

impl Eq for Pattern {}

impl std::fmt::Debug for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pattern")
            .field("size", &self.size())
            .field("lb", &self.lb())
            .field("extent", &self.extent())
            .field("pieces", &self.pieces())
            .field("disp", &self.disp())
            .field("nodes", &self.nodes().iter().map(|n| &n.kind).collect::<Vec<_>>())
            .finish()
    }
}

impl std::fmt::Debug for ViewHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::fmt::Display for ViewHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}
