//! Building a normalised graph: every constructor here returns the simplest node for a layout.
//!
//! Normal form, so that equal layouts from different constructors become equal nodes wherever that is cheap:
//! a `Rep` has at least two children; a `Rep` of adjacent blocks is a `Block`; a `Rep` of a `Rep` that goes
//! on with the same stride is one `Rep`; a `Seq` has at least two parts, touching blocks in it are merged,
//! three or more equal parts at equal distances are a `Rep`, neighbours that continue a `Rep` join it, and a
//! `Seq` in a small `Seq` is spliced in. Not found: layouts that only become equal when pieces are regrouped
//! across the seams of a repetition, and periods inside long lists that do not cover the list.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use crate::datatype::Basic;
use crate::error::Error;
use crate::node::{Id, Kind, Node, fit};

/// Sequences up to this long are searched for every simplification.
pub(crate) const SMALL: usize = 256;

/// A node and the displacement of its first byte.
pub(crate) type Placed = (i64, Id);

/// Collects nodes, each distinct one once.
#[derive(Default)]
pub(crate) struct Builder {
    nodes: Vec<Node>,
    index: HashMap<u64, Vec<Id>>,
    hasher: RandomState,
}

impl Builder {
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub fn kind(&self, id: Id) -> &Kind {
        &self.nodes[id as usize].kind
    }

    pub fn add(&mut self, node: Node) -> Result<Id, Error> {
        let key = self.hasher.hash_one(&node.kind);
        let same = self.index.entry(key).or_default();
        if let Some(&id) = same.iter().find(|&&id| self.nodes[id as usize].kind == node.kind) {
            return Ok(id);
        }
        let id = Id::try_from(self.nodes.len()).map_err(|_| Error::TooLarge)?;
        same.push(id);
        self.nodes.push(node);
        Ok(id)
    }

    /// `len >= 1` adjacent bytes.
    pub fn block(&mut self, len: u64, basic: Basic) -> Result<Id, Error> {
        self.add(Node::block(len, basic)?)
    }

    /// `count >= 1` copies of a node, `stride` apart.
    pub fn rep(&mut self, count: u64, stride: i64, child: Id) -> Result<Id, Error> {
        if count == 1 {
            return Ok(child);
        }
        match *self.kind(child) {
            Kind::Block { len, basic } if i64::try_from(len) == Ok(stride) => {
                let len = u64::try_from(u128::from(count) * u128::from(len)).map_err(|_| Error::TooLarge)?;
                self.block(len, basic)
            }
            Kind::Rep { count: inner, stride: step, child: grandchild }
                if i128::from(step) * i128::from(inner) == i128::from(stride) =>
            {
                let all = count.checked_mul(inner).ok_or(Error::TooLarge)?;
                self.add(Node::rep(&self.nodes, all, step, grandchild)?)
            }
            _ => self.add(Node::rep(&self.nodes, count, stride, child)?),
        }
    }

    /// Parts one after the other, in typemap order.
    pub fn seq(&mut self, parts: Vec<Placed>) -> Result<Option<Placed>, Error> {
        let parts = self.splice(parts)?;
        if parts.len() > 2
            && let Some((basic, items)) = self.all_blocks(&parts)
        {
            return self.pieces(items, basic);
        }
        if parts.len() <= SMALL {
            return self.seq_small(parts);
        }
        self.seq_as_is(parts)
    }

    /// Simplifies a short sequence by joining neighbours.
    pub fn seq_small(&mut self, parts: Vec<Placed>) -> Result<Option<Placed>, Error> {
        let mut out: Vec<Placed> = Vec::with_capacity(parts.len());
        for part in parts {
            out.push(part);
            while self.join_last(&mut out)? {}
        }
        if let [a, b] = out[..]
            && a.1 == b.1
        {
            let stride = fit(i128::from(b.0) - i128::from(a.0))?;
            return Ok(Some((a.0, self.rep(2, stride, a.1)?)));
        }
        self.seq_as_is(out)
    }

    /// A sequence without further search.
    pub fn seq_as_is(&mut self, mut parts: Vec<Placed>) -> Result<Option<Placed>, Error> {
        let Some(&(origin, first)) = parts.first() else {
            return Ok(None);
        };
        if parts.len() == 1 {
            return Ok(Some((origin, first)));
        }
        for part in &mut parts {
            part.0 = fit(i128::from(part.0) - i128::from(origin))?;
        }
        let node = Node::seq(&self.nodes, &parts)?;
        Ok(Some((origin, self.add(node)?)))
    }

    /// Replaces small sequences and pairs among the parts by their own parts, while the result is small.
    fn splice(&self, parts: Vec<Placed>) -> Result<Vec<Placed>, Error> {
        if parts.len() > SMALL {
            return Ok(parts);
        }
        let mut out = Vec::with_capacity(parts.len());
        for &(disp, id) in &parts {
            match self.kind(id) {
                Kind::Seq { parts } => {
                    for part in parts {
                        self.splice_pair(
                            fit(i128::from(disp) + i128::from(part.disp))?,
                            part.child,
                            &mut out,
                        )?;
                    }
                }
                _ => self.splice_pair(disp, id, &mut out)?,
            }
            if out.len() > SMALL {
                return Ok(parts);
            }
        }
        Ok(out)
    }

    fn splice_pair(&self, disp: i64, id: Id, out: &mut Vec<Placed>) -> Result<(), Error> {
        match *self.kind(id) {
            Kind::Rep { count: 2, stride, child } => {
                out.push((disp, child));
                out.push((fit(i128::from(disp) + i128::from(stride))?, child));
            }
            _ => out.push((disp, id)),
        }
        Ok(())
    }

    /// The parts as plain pieces, if they are blocks of one basic type.
    fn all_blocks(&self, parts: &[Placed]) -> Option<(Basic, Vec<(i64, u64)>)> {
        let Kind::Block { basic: common, .. } = *self.kind(parts.first()?.1) else {
            return None;
        };
        let mut items = Vec::with_capacity(parts.len());
        for &(disp, id) in parts {
            match *self.kind(id) {
                Kind::Block { len, basic } if basic == common => items.push((disp, len)),
                _ => return None,
            }
        }
        Some((common, items))
    }

    /// Joins the last part with those before it; false if nothing could be done.
    fn join_last(&mut self, out: &mut Vec<Placed>) -> Result<bool, Error> {
        let n = out.len();
        if n < 2 {
            return Ok(false);
        }
        let (a, b) = (out[n - 2], out[n - 1]);
        if let Some(joined) = self.join_pair(a, b)? {
            out.truncate(n - 2);
            out.push(joined);
            return Ok(true);
        }
        if n >= 3 && out[n - 3].1 == a.1 && a.1 == b.1 {
            let first = out[n - 3];
            let gap = i128::from(a.0) - i128::from(first.0);
            if gap == i128::from(b.0) - i128::from(a.0) {
                let whole = (first.0, self.rep(3, fit(gap)?, a.1)?);
                out.truncate(n - 3);
                out.push(whole);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn join_pair(&mut self, a: Placed, b: Placed) -> Result<Option<Placed>, Error> {
        let gap = i128::from(b.0) - i128::from(a.0);
        let joined = match (self.kind(a.1), self.kind(b.1)) {
            (&Kind::Block { len, basic }, &Kind::Block { len: more, basic: other }) => {
                if basic != other || gap != i128::from(len) {
                    return Ok(None);
                }
                self.block(len.checked_add(more).ok_or(Error::TooLarge)?, basic)?
            }
            (&Kind::Rep { count, stride, child }, _) if continues(count, stride, gap) && b.1 == child => {
                self.rep(count.checked_add(1).ok_or(Error::TooLarge)?, stride, child)?
            }
            (_, &Kind::Rep { count, stride, child }) if gap == i128::from(stride) && a.1 == child => {
                self.rep(count.checked_add(1).ok_or(Error::TooLarge)?, stride, child)?
            }
            (&Kind::Rep { count, stride, child }, &Kind::Rep { count: more, stride: other, child: same })
                if continues(count, stride, gap) && (other, same) == (stride, child) =>
            {
                self.rep(count.checked_add(more).ok_or(Error::TooLarge)?, stride, child)?
            }
            _ => return Ok(None),
        };
        Ok(Some((a.0, joined)))
    }

    /// The nodes that `root` needs, renumbered children first in the order of a depth-first walk.
    pub fn finish(self, root: Option<Id>) -> Result<Box<[Node]>, Error> {
        let Some(root) = root else {
            return Ok(Box::default());
        };
        let mut order = Vec::new();
        let mut number: HashMap<Id, Id> = HashMap::new();
        let mut stack = vec![(root, false)];
        while let Some((id, ready)) = stack.pop() {
            if number.contains_key(&id) {
                continue;
            }
            if ready {
                number.insert(id, order.len() as Id);
                order.push(id);
                continue;
            }
            stack.push((id, true));
            let start = stack.len();
            self.nodes[id as usize].each_child(|child| stack.push((child, false)));
            stack[start..].reverse();
        }
        let mut slots: Vec<Option<Node>> = self.nodes.into_iter().map(Some).collect();
        let mut nodes = Vec::with_capacity(order.len());
        for id in order {
            if let Some(mut node) = slots[id as usize].take() {
                node.renumber(|child| number[&child]);
                nodes.push(node);
            }
        }
        Ok(nodes.into_boxed_slice())
    }
}

fn continues(count: u64, stride: i64, gap: i128) -> bool {
    i128::from(count) * i128::from(stride) == gap
}
