//! The state of one rank between collective calls: its node, the nodes of the other ranks, and sequence
//! numbers.

use crate::node_segment::NodeSegment;
use std::sync::Arc;

/// The node of every rank of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeMap {
    /// The node of each rank. Nodes are numbered from 0 in the order of their first ranks.
    pub node_of: Vec<u32>,
}

impl NodeMap {
    /// Creates the map from one key per rank. Ranks with equal keys are on the same node.
    pub fn by_key<K: PartialEq>(keys: &[K]) -> NodeMap {
        let mut firsts: Vec<&K> = Vec::new();
        let mut node = |key| match firsts.iter().position(|k| *k == key) {
            Some(node) => node as u32,
            None => {
                firsts.push(key);
                firsts.len() as u32 - 1
            }
        };
        NodeMap { node_of: keys.iter().map(&mut node).collect() }
    }

    /// The number of nodes.
    pub fn nodes(&self) -> u32 {
        self.node_of.iter().max().map_or(0, |last| last + 1)
    }

    /// The ranks of a node in ascending order. The first is the leader of the node.
    pub fn ranks_of(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.node_of).filter(move |(_, n)| **n == node).map(|(rank, _)| rank)
    }
}

/// The state of one rank. It is used by one collective call at a time.
#[derive(Debug)]
pub struct RankState {
    pub(crate) node: Arc<NodeSegment>,
    pub(crate) rank: u32,
    pub(crate) node_map: Arc<NodeMap>,
    pub(crate) my_node: u32,
    /// The ranks of this node.
    pub(crate) locals: Vec<u32>,
    /// The number of allgathers started so far.
    pub(crate) generation: u64,
    /// The number of windows processed so far in the domains of each local aggregator, by its index among
    /// the local ranks.
    pub(crate) sequences: Vec<u64>,
}

impl RankState {
    /// The state of a rank before its first allgather.
    pub fn new(node: Arc<NodeSegment>, rank: u32, node_map: Arc<NodeMap>) -> RankState {
        let my_node = node_map.node_of[rank as usize];
        let locals: Vec<u32> = node_map.ranks_of(my_node).collect();
        let sequences = vec![0; locals.len()];
        RankState { node, rank, node_map, my_node, locals, generation: 0, sequences }
    }

    /// The shared segment of this node.
    pub fn node(&self) -> &Arc<NodeSegment> {
        &self.node
    }

    /// The nodes of all ranks.
    pub fn node_map(&self) -> &Arc<NodeMap> {
        &self.node_map
    }

    /// The number of ranks of the file.
    pub fn ranks(&self) -> u32 {
        self.node_map.node_of.len() as u32
    }

    /// Whether all ranks are on one node.
    pub fn is_single_node(&self) -> bool {
        self.locals.len() == self.node_map.node_of.len()
    }

    /// Whether this rank is the leader of its node.
    pub(crate) fn is_leader(&self) -> bool {
        self.locals[0] == self.rank
    }

    /// The index of a rank among the local ranks, if it is one of them.
    pub(crate) fn local_index(&self, rank: u32) -> Option<u32> {
        self.locals.binary_search(&rank).ok().map(|index| index as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_numbered_by_their_first_rank() {
        let node_map = NodeMap::by_key(&["b", "a", "b", "c", "a"]);
        assert_eq!(node_map.node_of, [0, 1, 0, 2, 1]);
        assert_eq!(node_map.nodes(), 3);
        assert!(node_map.ranks_of(1).eq([1, 4]));
    }
}
