//! An allgather of a few words among all ranks of a file.
//!
//! Each rank writes its words into the segment of its node. The last rank of the node to do so reports that
//! the node is complete. On a single node nothing else is needed. With several nodes, the leader of each
//! node exchanges the words of its ranks with the other leaders and writes the words of the other nodes
//! into its segment.
//!
//! Consecutive allgathers alternate between two banks of words. A rank that starts allgather `n + 2` has
//! seen allgather `n + 1` complete. All ranks have started allgather `n + 1` by then, so no rank needs the
//! words of allgather `n` any more.

use crate::io::NodeMessages;
use crate::node_segment::WORDS_PER_RANK;
use crate::rank_state::RankState;
use std::sync::atomic::Ordering;

/// One allgather, as one rank sees it.
pub struct Allgather<T> {
    generation: u64,
    outside: Option<T>,
}

impl<T> Allgather<T> {
    /// Starts the next allgather with the words of this rank, at most [`WORDS_PER_RANK`].
    pub fn start(rank_state: &mut RankState, words: &[u64]) -> Allgather<T> {
        rank_state.generation += 1;
        let (generation, node) = (rank_state.generation, &rank_state.node);
        node.set_words(generation, rank_state.rank, words);
        let arrived = node.arrived(generation).fetch_add(1, Ordering::AcqRel) + 1;
        if arrived == rank_state.locals.len() as u64 {
            node.arrived(generation).store(0, Ordering::Relaxed);
            let complete =
                if rank_state.is_single_node() { node.published(generation) } else { node.ready(generation) };
            complete.store(generation, Ordering::Release);
            node.notify();
        }
        Allgather { generation, outside: None }
    }

    /// Returns true once the words of all ranks are available.
    pub fn step<M: NodeMessages<Transfer = T>>(
        &mut self,
        rank_state: &RankState,
        io: &mut M,
    ) -> Result<bool, M::Error> {
        let (generation, node) = (self.generation, &rank_state.node);
        if node.published(generation).load(Ordering::Acquire) == generation {
            return Ok(true);
        }
        if !rank_state.is_leader() || rank_state.is_single_node() {
            return Ok(false);
        }
        if self.outside.is_none() {
            if node.ready(generation).load(Ordering::Acquire) != generation {
                return Ok(false);
            }
            let mine: Vec<u64> =
                rank_state.locals.iter().flat_map(|rank| node.words(generation, *rank)).collect();
            self.outside = Some(io.allgather(&mine)?);
        }
        let Some(transfer) = &mut self.outside else { return Ok(false) };
        let Some(bytes) = io.test(transfer)? else { return Ok(false) };
        let mut cells = bytes.chunks_exact(8 * WORDS_PER_RANK);
        for outer in 0..rank_state.node_map.nodes() {
            for rank in rank_state.node_map.ranks_of(outer) {
                let cell = cells.next().expect("a cell for each rank");
                if outer != rank_state.my_node {
                    let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
                    let words: Vec<u64> = cell.chunks_exact(8).map(word).collect();
                    node.set_words(generation, rank, &words);
                }
            }
        }
        node.published(generation).store(generation, Ordering::Release);
        node.notify();
        Ok(true)
    }

    /// The words of a rank. They are valid from the completion of this allgather until this rank starts the
    /// second one after it.
    pub fn words(&self, rank_state: &RankState, rank: u32) -> [u64; WORDS_PER_RANK] {
        rank_state.node.words(self.generation, rank)
    }
}
