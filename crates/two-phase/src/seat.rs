//! One rank's seat at the tables: who it is, where the others sit, how many meetings there were.

use crate::node::Node;
use std::sync::Arc;

/// Where all ranks of a file sit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seating {
    /// The node of each rank, counted from 0 in the order of their first ranks.
    pub node_of: Vec<u32>,
}

impl Seating {
    /// From a key for each rank that is equal on one node.
    pub fn by_key<K: PartialEq>(keys: &[K]) -> Seating {
        let mut firsts: Vec<&K> = Vec::new();
        let mut node = |key| match firsts.iter().position(|k| *k == key) {
            Some(node) => node as u32,
            None => {
                firsts.push(key);
                firsts.len() as u32 - 1
            }
        };
        Seating { node_of: keys.iter().map(&mut node).collect() }
    }

    /// Number of nodes.
    pub fn nodes(&self) -> u32 {
        self.node_of.iter().max().map_or(0, |last| last + 1)
    }

    /// The ranks of a node, ascending; the first leads it.
    pub fn ranks_of(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.node_of).filter(move |(_, n)| **n == node).map(|(rank, _)| rank)
    }
}

/// One rank's seat. Whoever holds it takes part for that rank; nobody else may meanwhile.
#[derive(Debug)]
pub struct Seat {
    pub(crate) node: Arc<Node>,
    pub(crate) rank: u32,
    pub(crate) seating: Arc<Seating>,
    pub(crate) my_node: u32,
    /// All ranks of this node.
    pub(crate) locals: Vec<u32>,
    /// Meetings so far.
    pub(crate) generation: u64,
    /// Turns so far of each local aggregator's lane, by its place among the local ranks.
    pub(crate) turns: Vec<u64>,
}

impl Seat {
    /// The seat of a rank at the table of its node, before any meeting.
    pub fn new(node: Arc<Node>, rank: u32, seating: Arc<Seating>) -> Seat {
        let my_node = seating.node_of[rank as usize];
        let locals: Vec<u32> = seating.ranks_of(my_node).collect();
        let turns = vec![0; locals.len()];
        Seat { node, rank, seating, my_node, locals, generation: 0, turns }
    }

    /// The table.
    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Where everybody sits.
    pub fn seating(&self) -> &Arc<Seating> {
        &self.seating
    }

    /// Number of ranks of the file.
    pub fn ranks(&self) -> u32 {
        self.seating.node_of.len() as u32
    }

    /// Whether all ranks are on this node.
    pub fn is_alone(&self) -> bool {
        self.locals.len() == self.seating.node_of.len()
    }

    /// Whether this rank speaks for its node.
    pub(crate) fn leads(&self) -> bool {
        self.locals[0] == self.rank
    }

    /// The place among the local ranks of one of them.
    pub(crate) fn local_index(&self, rank: u32) -> Option<u32> {
        self.locals.binary_search(&rank).ok().map(|index| index as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_numbered_by_their_first_rank() {
        let seating = Seating::by_key(&["b", "a", "b", "c", "a"]);
        assert_eq!(seating.node_of, [0, 1, 0, 2, 1]);
        assert_eq!(seating.nodes(), 3);
        assert!(seating.ranks_of(1).eq([1, 4]));
    }
}
