//! An index of extents that may overlap, each of one holder: finds overlapping extents and the distance to the next one.
//!
//! It is a treap ordered by (start, id). Each node stores the largest end of the extents of its subtree, and the largest
//! end among the other holders than that one. So a search can exclude one holder (which never conflicts with itself) and
//! still skip every subtree without a result: O(log n), and O(log n) for each extent found. Priorities are a hash of the
//! key, so equal histories give equal trees. It is our own code because no interval tree excludes a holder.

use std::ops::ControlFlow;

use crate::extent::LockExtent;

const NONE: u32 = u32::MAX;

/// An extent with its id and its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<H> {
    pub extent: LockExtent,
    pub id: u64,
    pub holder: H,
}

impl<H> Entry<H> {
    fn key(&self) -> (u64, u64) {
        (self.extent.start(), self.id)
    }
}

/// The reach of a subtree: end and holder of the extent with the largest end, and of that among other holders.
#[derive(Clone, Copy, Debug)]
struct Reach<H> {
    first: (u64, H),
    second: Option<(u64, H)>,
}

impl<H: Copy + Ord> Reach<H> {
    fn add(&mut self, end: u64, holder: H) {
        if holder == self.first.1 {
            self.first.0 = self.first.0.max(end);
        } else if end > self.first.0 {
            self.second = Some(self.first);
            self.first = (end, holder);
        } else if self.second.is_none_or(|(second, _)| end > second) {
            self.second = Some((end, holder));
        }
    }

    /// The largest end that is not of `except`.
    fn end(&self, except: Option<H>) -> Option<u64> {
        if except == Some(self.first.1) { self.second.map(|(end, _)| end) } else { Some(self.first.0) }
    }
}

#[derive(Clone, Copy, Debug)]
struct Node<H> {
    entry: Entry<H>,
    reach: Reach<H>,
    priority: u64,
    left: u32,
    right: u32,
}

/// The index. Keys (start, id) are unique.
#[derive(Clone, Debug)]
pub(crate) struct IntervalIndex<H> {
    nodes: Vec<Node<H>>,
    free: Vec<u32>,
    root: u32,
}

impl<H> Default for IntervalIndex<H> {
    fn default() -> IntervalIndex<H> {
        IntervalIndex { nodes: Vec::new(), free: Vec::new(), root: NONE }
    }
}

impl<H: Copy + Ord> IntervalIndex<H> {
    pub fn insert(&mut self, entry: Entry<H>) {
        let reach = Reach { first: (entry.extent.end(), entry.holder), second: None };
        let node = Node { entry, reach, priority: scatter(entry.key()), left: NONE, right: NONE };
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                u32::try_from(self.nodes.len() - 1).expect("fewer than 2^32 extents")
            }
        };
        let (below, above) = self.split(self.root, entry.key());
        let below = self.join(below, at);
        self.root = self.join(below, above);
    }

    /// Removes the extent that starts here and has this id.
    pub fn remove(&mut self, start: u64, id: u64) {
        let (below, rest) = self.split(self.root, (start, id));
        let (it, above) = self.split(rest, (start, id + 1));
        debug_assert_ne!(it, NONE, "an extent that is not there");
        if it != NONE {
            self.free.push(it);
        }
        self.root = self.join(below, above);
    }

    /// Visits the extents of holders other than `except` that have bytes in common with `extent`, by their
    /// starts.
    pub fn overlapping<B>(
        &self,
        extent: LockExtent,
        except: Option<H>,
        mut visit: impl FnMut(&Entry<H>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        self.walk(self.root, extent, except, &mut visit)
    }

    /// The largest end among the extents of others than `except` that start before `limit`.
    pub fn reach_before(&self, limit: u64, except: Option<H>) -> Option<u64> {
        let (mut at, mut found) = (self.root, None);
        while let Some(node) = self.node(at) {
            if node.entry.extent.start() < limit {
                let own = (Some(node.entry.holder) != except).then_some(node.entry.extent.end());
                let left = self.node(node.left).and_then(|left| left.reach.end(except));
                found = found.max(own).max(left);
                at = node.right;
            } else {
                at = node.left;
            }
        }
        found
    }

    /// The smallest start at or after `from` among the extents of others than `except`.
    pub fn next_start(&self, from: u64, except: Option<H>) -> Option<u64> {
        self.first_from(self.root, from, except)
    }

    fn node(&self, at: u32) -> Option<&Node<H>> {
        self.nodes.get(at as usize)
    }

    fn walk<B>(
        &self,
        at: u32,
        extent: LockExtent,
        except: Option<H>,
        visit: &mut impl FnMut(&Entry<H>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let Some(node) = self.node(at) else { return ControlFlow::Continue(()) };
        if node.reach.end(except).is_none_or(|end| end <= extent.start()) {
            return ControlFlow::Continue(());
        }
        self.walk(node.left, extent, except, visit)?;
        if node.entry.extent.start() >= extent.end() {
            return ControlFlow::Continue(());
        }
        if node.entry.extent.overlaps(extent) && Some(node.entry.holder) != except {
            visit(&node.entry)?;
        }
        self.walk(node.right, extent, except, visit)
    }

    fn first_from(&self, at: u32, from: u64, except: Option<H>) -> Option<u64> {
        let node = self.node(at)?;
        node.reach.end(except)?;
        let start = node.entry.extent.start();
        if start < from {
            return self.first_from(node.right, from, except);
        }
        self.first_from(node.left, from, except)
            .or_else(|| (Some(node.entry.holder) != except).then_some(start))
            .or_else(|| self.first_from(node.right, from, except))
    }

    /// The nodes with smaller keys, and those with the same or larger ones.
    fn split(&mut self, at: u32, key: (u64, u64)) -> (u32, u32) {
        let Some(&node) = self.node(at) else { return (NONE, NONE) };
        if node.entry.key() < key {
            let (below, above) = self.split(node.right, key);
            self.nodes[at as usize].right = below;
            self.measure(at);
            (at, above)
        } else {
            let (below, above) = self.split(node.left, key);
            self.nodes[at as usize].left = above;
            self.measure(at);
            (below, at)
        }
    }

    /// One tree of two, all keys of the first being smaller.
    fn join(&mut self, below: u32, above: u32) -> u32 {
        let (Some(&b), Some(&a)) = (self.node(below), self.node(above)) else {
            return if below == NONE { above } else { below };
        };
        if b.priority > a.priority {
            let right = self.join(b.right, above);
            self.nodes[below as usize].right = right;
            self.measure(below);
            below
        } else {
            let left = self.join(below, a.left);
            self.nodes[above as usize].left = left;
            self.measure(above);
            above
        }
    }

    fn measure(&mut self, at: u32) {
        let node = self.nodes[at as usize];
        let mut reach = Reach { first: (node.entry.extent.end(), node.entry.holder), second: None };
        for child in [node.left, node.right] {
            if let Some(child) = self.node(child) {
                reach.add(child.reach.first.0, child.reach.first.1);
                if let Some((end, holder)) = child.reach.second {
                    reach.add(end, holder);
                }
            }
        }
        self.nodes[at as usize].reach = reach;
    }
}

/// A hash of a key (the finish of SplitMix64).
fn scatter((start, id): (u64, u64)) -> u64 {
    let mut z = start.rotate_left(32) ^ id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(index: &IntervalIndex<u8>, extent: LockExtent, except: Option<u8>) -> Vec<Entry<u8>> {
        let mut found = Vec::new();
        let _ = index.overlapping::<()>(extent, except, |entry| {
            found.push(*entry);
            ControlFlow::Continue(())
        });
        found
    }

    fn depth(index: &IntervalIndex<u8>, at: u32) -> usize {
        index.node(at).map_or(0, |node| 1 + depth(index, node.left).max(depth(index, node.right)))
    }

    #[test]
    fn the_tree_stays_flat() {
        let mut index = IntervalIndex::default();
        for id in 0..100_000u64 {
            let extent = LockExtent::new(id * 10, id * 10 + 5).unwrap();
            index.insert(Entry { extent, id, holder: 0 });
        }
        assert!(depth(&index, index.root) < 60);
        assert_eq!(index.next_start(7, Some(0)), None);
        assert_eq!(index.next_start(7, Some(1)), Some(10));
        assert_eq!(index.reach_before(11, None), Some(15));
    }

    proptest! {
        #[test]
        fn it_finds_what_a_list_finds(
            steps in prop::collection::vec((0u64..60, 1u64..20, 0u8..3, any::<bool>()), 1..80),
            asks in prop::collection::vec((0u64..80, 1u64..20, prop::option::of(0u8..3)), 1..10),
        ) {
            let (mut index, mut list) = (IntervalIndex::default(), Vec::new());
            for (id, (start, len, holder, remove)) in (0u64..).zip(steps) {
                if remove && !list.is_empty() {
                    let gone: Entry<u8> = list.swap_remove(start as usize % list.len());
                    index.remove(gone.extent.start(), gone.id);
                } else {
                    let entry = Entry { extent: LockExtent::new(start, start + len).unwrap(), id, holder };
                    index.insert(entry);
                    list.push(entry);
                }
            }
            list.sort_by_key(Entry::key);
            for (start, len, except) in asks {
                let extent = LockExtent::new(start, start + len).unwrap();
                let others = || list.iter().filter(|entry| Some(entry.holder) != except);
                let overlapping: Vec<_> = others().filter(|e| e.extent.overlaps(extent)).copied().collect();
                prop_assert_eq!(found(&index, extent, except), overlapping);
                let reach = others().filter(|e| e.extent.start() < start).map(|e| e.extent.end()).max();
                prop_assert_eq!(index.reach_before(start, except), reach);
                let next = others().map(|e| e.extent.start()).filter(|&s| s >= start).min();
                prop_assert_eq!(index.next_start(start, except), next);
            }
        }
    }
}
