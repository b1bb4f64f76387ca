//! All ranks of a file tell each other a few words.
//!
//! Each rank writes its cell at its node's table and the last one of the node says so. On one node that is
//! all. With several, the leader of each node then exchanges the cells with the other leaders and puts theirs
//! on the table. A meeting takes one of two banks in turn: who comes to the next but one has seen the next
//! complete, so everybody has come there and needs the old cells no more.

use crate::node::CELL;
use crate::seat::Seat;
use crate::world::Messages;
use std::sync::atomic::Ordering;

/// One meeting, as one rank sees it.
pub struct Meeting<T> {
    generation: u64,
    outside: Option<T>,
}

impl<T> Meeting<T> {
    /// Comes to the next meeting with some words, at most [`CELL`].
    pub fn come(seat: &mut Seat, words: &[u64]) -> Meeting<T> {
        seat.generation += 1;
        let (generation, node) = (seat.generation, &seat.node);
        node.set_cell(generation, seat.rank, words);
        let arrived = node.arrived(generation).fetch_add(1, Ordering::AcqRel) + 1;
        if arrived == seat.locals.len() as u64 {
            node.arrived(generation).store(0, Ordering::Relaxed);
            match seat.is_alone() {
                true => node.published(generation).store(generation, Ordering::Release),
                false => node.ready(generation).store(generation, Ordering::Release),
            }
            node.notify();
        }
        Meeting { generation, outside: None }
    }

    /// Whether the words of all ranks are there.
    pub fn step<M: Messages<Transfer = T>>(&mut self, seat: &Seat, world: &mut M) -> Result<bool, M::Error> {
        let (generation, node) = (self.generation, &seat.node);
        if node.published(generation).load(Ordering::Acquire) == generation {
            return Ok(true);
        }
        if !seat.leads() || seat.is_alone() {
            return Ok(false);
        }
        if self.outside.is_none() {
            if node.ready(generation).load(Ordering::Acquire) != generation {
                return Ok(false);
            }
            let mine: Vec<u64> = seat.locals.iter().flat_map(|rank| node.cell(generation, *rank)).collect();
            self.outside = Some(world.gather(&mine)?);
        }
        let Some(transfer) = &mut self.outside else { return Ok(false) };
        let Some(bytes) = world.test(transfer)? else { return Ok(false) };
        let mut cells = bytes.chunks_exact(8 * CELL);
        for outer in 0..seat.seating.nodes() {
            for rank in seat.seating.ranks_of(outer) {
                let cell = cells.next().expect("a cell for each rank");
                if outer != seat.my_node {
                    let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
                    let words: Vec<u64> = cell.chunks_exact(8).map(word).collect();
                    node.set_cell(generation, rank, &words);
                }
            }
        }
        node.published(generation).store(generation, Ordering::Release);
        node.notify();
        Ok(true)
    }

    /// The words of a rank, once the meeting is complete and before this rank comes to the next but one.
    pub fn words(&self, seat: &Seat, rank: u32) -> [u64; CELL] {
        seat.node.cell(self.generation, rank)
    }
}
