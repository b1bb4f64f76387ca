//! Patterns as bytes, version 1, and the content hash over them.
//!
//! ```text
//! u8  version = 1
//! s   displacement of the first byte
//! s   lower bound
//! s   extent
//! u   number of nodes; 0 for a pattern without bytes (then the displacement is 0)
//! nodes, children before parents, in the order of a depth-first walk; the last is the root:
//!   u8 0  Block      u length in bytes (> 0), basic
//!   u8 1  Rep        u count (>= 2), s stride, u child
//!   u8 2  Seq        u n (>= 2), n times: s displacement less that of the part before, u child
//!   u8 3  Irregular  unit, u n (>= 2), u common length or 0,
//!                    n times: s displacement less that of the item before, u length if no common one
//! unit:  u8 0, basic                      lengths count bytes
//!        u8 1, u child, s step            lengths count copies of the child
//! basic: u8 kind (0 bytes, 1 signed, 2 unsigned, 3 float, 4 complex, 5 logical, 6 character),
//!        u native size, u external size
//! ```
//!
//! `u` is an unsigned LEB128 number of at most 10 bytes, `s` the same after zigzag folding (0, -1, 1, -2, ...).
//! A child is the index of an earlier node. The first displacement of a Seq or Irregular is 0.
//!
//! The decoder trusts nothing: every number is bounded by the available bytes, all sums are checked, the depth is limited,
//! and bytes that would encode differently are refused, so that one pattern has one encoding and one hash. Of the graphs
//! that the builder would have simplified, those are refused in which one contiguous piece is more than a block, because
//! walking it would take time in proportion to its parts. Others are accepted: they are merely slower.

use crate::datatype::{self, Basic};
use crate::error::Error;
use crate::lower::Lowered;
use crate::node::{Id, Kind, Node, Unit};
use crate::pattern::{Pattern, ViewHash};

const VERSION: u8 = 1;
/// Longer encodings are refused.
const MAX_BYTES: usize = 1 << 30;

pub(crate) fn encode(p: &Pattern) -> Vec<u8> {
    let mut out = Vec::new();
    write(p, &mut out);
    out
}

pub(crate) fn hash(p: &Pattern) -> ViewHash {
    let mut hasher = Hashing { hasher: blake3::Hasher::new(), buffer: Vec::with_capacity(4096) };
    write(p, &mut hasher);
    hasher.hasher.update(&hasher.buffer);
    truncate(&hasher.hasher)
}

/// The hash of a pattern at a displacement.
pub(crate) fn hash_at(disp: u64, tile: ViewHash) -> ViewHash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&disp.to_le_bytes());
    hasher.update(&tile.0);
    truncate(&hasher)
}

fn truncate(hasher: &blake3::Hasher) -> ViewHash {
    let mut short = [0; 16];
    short.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    ViewHash(short)
}

/// The destination of encoded bytes.
trait Sink {
    fn byte(&mut self, b: u8);

    fn unsigned(&mut self, mut v: u64) {
        while v >= 0x80 {
            self.byte(v as u8 | 0x80);
            v >>= 7;
        }
        self.byte(v as u8);
    }

    fn signed(&mut self, v: i64) {
        self.unsigned((v << 1 ^ v >> 63) as u64);
    }

    fn basic(&mut self, b: Basic) {
        self.byte(kind_code(b.kind));
        self.unsigned(u64::from(b.native));
        self.unsigned(u64::from(b.external));
    }
}

impl Sink for Vec<u8> {
    fn byte(&mut self, b: u8) {
        self.push(b);
    }
}

struct Hashing {
    hasher: blake3::Hasher,
    buffer: Vec<u8>,
}

impl Sink for Hashing {
    fn byte(&mut self, b: u8) {
        self.buffer.push(b);
        if self.buffer.len() == self.buffer.capacity() {
            self.hasher.update(&self.buffer);
            self.buffer.clear();
        }
    }
}

fn write(p: &Pattern, out: &mut impl Sink) {
    out.byte(VERSION);
    out.signed(p.disp());
    out.signed(p.lb());
    out.signed(p.extent());
    out.unsigned(p.nodes().len() as u64);
    for node in p.nodes() {
        match &node.kind {
            Kind::Block { len, basic } => {
                out.byte(0);
                out.unsigned(*len);
                out.basic(*basic);
            }
            Kind::Rep { count, stride, child } => {
                out.byte(1);
                out.unsigned(*count);
                out.signed(*stride);
                out.unsigned(u64::from(*child));
            }
            Kind::Seq { parts } => {
                out.byte(2);
                out.unsigned(parts.len() as u64);
                let mut last = 0;
                for part in parts {
                    out.signed(part.disp.wrapping_sub(last));
                    out.unsigned(u64::from(part.child));
                    last = part.disp;
                }
            }
            Kind::Irregular { list, piece } => write_list(list, *piece, out),
        }
    }
}

fn write_list(list: &crate::list::List, piece: Unit, out: &mut impl Sink) {
    out.byte(3);
    match piece {
        Unit::Bytes(basic) => {
            out.byte(0);
            out.basic(basic);
        }
        Unit::Copies { child, step } => {
            out.byte(1);
            out.unsigned(u64::from(child));
            out.signed(step);
        }
    }
    out.unsigned(list.count());
    out.unsigned(list.uniform().unwrap_or(0));
    let mut last = 0i64;
    for (disp, len) in list.iter() {
        out.signed(disp.wrapping_sub(last));
        if list.uniform().is_none() {
            out.unsigned(len);
        }
        last = disp;
    }
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Pattern, Error> {
    if bytes.len() > MAX_BYTES {
        return Err(Error::Encoding("too long"));
    }
    let mut input = Input { bytes };
    if input.byte()? != VERSION {
        return Err(Error::Encoding("a version that is not known here"));
    }
    let (disp, lb, extent) = (input.signed()?, input.signed()?, input.signed()?);
    let n = input.length(2)?;
    let mut nodes = Vec::with_capacity(n.min(1024));
    for _ in 0..n {
        let node = input.node(&nodes)?;
        if node.facts.pieces == 1 && !matches!(node.kind, Kind::Block { .. }) {
            return Err(Error::Encoding("a piece that is not a block"));
        }
        nodes.push(node);
    }
    if !input.bytes.is_empty() {
        return Err(Error::Encoding("bytes after the end"));
    }
    if nodes.is_empty() && disp != 0 {
        return Err(Error::Encoding("a displacement of nothing"));
    }
    let lowered = Lowered { nodes: nodes.into_boxed_slice(), disp, lb, extent };
    lowered.check()?;
    let pattern = Pattern::from_lowered(lowered);
    if encode(&pattern) != bytes || !canonical_order(&pattern) {
        return Err(Error::Encoding("not the canonical form"));
    }
    Ok(pattern)
}

/// Whether nodes are distinct, all reachable, and numbered in the order of a depth-first walk.
fn canonical_order(p: &Pattern) -> bool {
    let mut next = 0;
    let mut stack = vec![(p.root(), false)];
    let nodes = p.nodes();
    if nodes.is_empty() {
        return true;
    }
    while let Some((id, ready)) = stack.pop() {
        if id < next {
            continue;
        }
        if ready {
            if id != next {
                return false;
            }
            next += 1;
            continue;
        }
        stack.push((id, true));
        let start = stack.len();
        nodes[id as usize].each_child(|child| stack.push((child, false)));
        stack[start..].reverse();
    }
    let mut seen = std::collections::HashSet::new();
    next as usize == nodes.len() && nodes.iter().all(|n| seen.insert(&n.kind))
}

struct Input<'a> {
    bytes: &'a [u8],
}

impl Input<'_> {
    fn byte(&mut self) -> Result<u8, Error> {
        let (&first, rest) = self.bytes.split_first().ok_or(Error::Encoding("ends too early"))?;
        self.bytes = rest;
        Ok(first)
    }

    fn unsigned(&mut self) -> Result<u64, Error> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let b = self.byte()?;
            let bits = u64::from(b & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if b < 0x80 {
                return Ok(value);
            }
        }
        Err(Error::Encoding("a number of more than 64 bits"))
    }

    fn signed(&mut self) -> Result<i64, Error> {
        let v = self.unsigned()?;
        Ok((v >> 1) as i64 ^ -((v & 1) as i64))
    }

    /// A number of entries of which each takes at least `each` bytes.
    fn length(&mut self, each: usize) -> Result<usize, Error> {
        let n = self.unsigned()?;
        usize::try_from(n)
            .ok()
            .filter(|n| n.checked_mul(each).is_some_and(|all| all <= self.bytes.len()))
            .ok_or(Error::Encoding("more entries than bytes"))
    }

    fn child(&mut self, nodes: &[Node]) -> Result<Id, Error> {
        let id = self.unsigned()?;
        if id >= nodes.len() as u64 {
            return Err(Error::Encoding("a child that does not come before its parent"));
        }
        Ok(id as Id)
    }

    fn basic(&mut self) -> Result<Basic, Error> {
        let kind = kind_of(self.byte()?).ok_or(Error::Encoding("an unknown kind of basic type"))?;
        let native = u32::try_from(self.unsigned()?).ok().filter(|&n| n > 0);
        let external = u32::try_from(self.unsigned()?).ok();
        match (native, external) {
            (Some(native), Some(external)) => Ok(Basic { kind, native, external }),
            _ => Err(Error::Encoding("a basic type of impossible size")),
        }
    }

    fn node(&mut self, nodes: &[Node]) -> Result<Node, Error> {
        match self.byte()? {
            0 => {
                let len = self.unsigned()?;
                let basic = self.basic()?;
                if len == 0 || len % u64::from(basic.native) != 0 {
                    return Err(Error::Encoding("a block that is not a number of whole values"));
                }
                Node::block(len, basic)
            }
            1 => {
                let (count, stride, child) = (self.unsigned()?, self.signed()?, self.child(nodes)?);
                if count < 2 {
                    return Err(Error::Encoding("a repetition of fewer than two"));
                }
                Node::rep(nodes, count, stride, child)
            }
            2 => self.seq(nodes),
            3 => self.list(nodes),
            _ => Err(Error::Encoding("an unknown node")),
        }
    }

    fn seq(&mut self, nodes: &[Node]) -> Result<Node, Error> {
        let n = self.length(2)?;
        let mut parts = Vec::with_capacity(n);
        let mut disp = 0i64;
        for _ in 0..n {
            disp = disp.wrapping_add(self.signed()?); // differences may need 65 bits
            parts.push((disp, self.child(nodes)?));
        }
        if n < 2 || parts[0].0 != 0 {
            return Err(Error::Encoding("a sequence that does not begin at 0 or is too short"));
        }
        Node::seq(nodes, &parts)
    }

    fn list(&mut self, nodes: &[Node]) -> Result<Node, Error> {
        let piece = match self.byte()? {
            0 => Unit::Bytes(self.basic()?),
            1 => Unit::Copies { child: self.child(nodes)?, step: self.signed()? },
            _ => return Err(Error::Encoding("an unknown unit of lengths")),
        };
        let n = self.length(1)?;
        let uniform = self.unsigned()?;
        let mut items = Vec::with_capacity(n);
        let (mut disp, mut total) = (0i64, 0u64);
        for _ in 0..n {
            disp = disp.wrapping_add(self.signed()?); // differences may need 65 bits
            let len = if uniform > 0 { uniform } else { self.unsigned()? };
            let whole = match piece {
                Unit::Bytes(basic) => len % u64::from(basic.native) == 0,
                Unit::Copies { .. } => true,
            };
            total = total.checked_add(len).filter(|&t| t <= i64::MAX as u64).ok_or(Error::TooLarge)?;
            if len == 0 || !whole {
                return Err(Error::Encoding("a list item that is not a number of whole values"));
            }
            if matches!(piece, Unit::Copies { .. }) && len > 1 && piece.facts(nodes, len)?.pieces == 1 {
                return Err(Error::Encoding("a piece that is not a block"));
            }
            items.push((disp, len));
        }
        if n < 2 || items[0].0 != 0 {
            return Err(Error::Encoding("a list that does not begin at 0 or is too short"));
        }
        Node::irregular(nodes, &items, piece)
    }
}

fn kind_code(kind: datatype::Kind) -> u8 {
    match kind {
        datatype::Kind::Bytes => 0,
        datatype::Kind::Signed => 1,
        datatype::Kind::Unsigned => 2,
        datatype::Kind::Float => 3,
        datatype::Kind::Complex => 4,
        datatype::Kind::Logical => 5,
        datatype::Kind::Character => 6,
    }
}

fn kind_of(code: u8) -> Option<datatype::Kind> {
    use datatype::Kind::*;
    [Bytes, Signed, Unsigned, Float, Complex, Logical, Character].get(usize::from(code)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_of_a_trillion_parts_is_refused() {
        let mut bytes = vec![VERSION];
        (0..2).for_each(|_| bytes.signed(0));
        bytes.signed((1 << 40) + 1);
        bytes.unsigned(3);
        // A byte; a trillion of them side by side; the one before the others.
        bytes.extend([0, 1]);
        bytes.basic(Basic::BYTE);
        bytes.push(1);
        bytes.unsigned(1 << 40);
        bytes.signed(1);
        bytes.push(0);
        bytes.extend([2, 2, 0, 0]);
        bytes.signed(1);
        bytes.push(1);
        assert_eq!(decode(&bytes).err(), Some(Error::Encoding("a piece that is not a block")));
    }
}
