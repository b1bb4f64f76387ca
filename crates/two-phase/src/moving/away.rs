//! A rank in a lane of another node: it sends its bytes to the aggregator, or receives them from there.
//!
//! One message a round, only where the rank has bytes in the window; the aggregator knows its view and
//! expects just these. Bytes are in view order. An answer to a read begins with the number of bytes (64 bits,
//! native) that the file had; it is always as long as if it had all.

use std::collections::VecDeque;

use super::{Lane, Visit};
use crate::part::{Portion, Want};
use crate::world::World;

/// Messages under way per lane.
const FLIGHTS: usize = 2;

/// This rank's part in a lane of another node.
pub(crate) struct Away<W: World> {
    owner: u32,
    done: u64,
    flights: VecDeque<(W::Transfer, u64)>,
}

impl<W: World> Away<W> {
    pub fn new(owner: u32) -> Away<W> {
        Away { owner, done: 0, flights: VecDeque::new() }
    }

    pub fn is_over(&self, lane: &Lane) -> bool {
        self.done == lane.rounds() && self.flights.is_empty()
    }

    pub fn visit(&mut self, lane: &Lane, visit: &mut Visit<'_, W>) -> Result<bool, W::Error> {
        let mut progress = self.land(lane, visit)?;
        let Some(want) = visit.want() else {
            self.done = lane.rounds();
            return Ok(progress);
        };
        while self.done < lane.rounds() && self.flights.len() < FLIGHTS {
            let window = lane.window(self.done);
            let bytes = want.bytes_in(&window);
            if bytes > 0 {
                let transfer = match visit.plan.write {
                    true => {
                        let packed = pack(want, &window, bytes, visit);
                        visit.world.send(self.owner, packed)?
                    }
                    false => visit.world.receive(self.owner, bytes as usize + 8)?,
                };
                self.flights.push_back((transfer, self.done));
            }
            self.done += 1;
            progress = true;
        }
        Ok(progress)
    }

    /// Takes what has arrived.
    fn land(&mut self, lane: &Lane, visit: &mut Visit<'_, W>) -> Result<bool, W::Error> {
        let mut progress = false;
        while let Some((transfer, round)) = self.flights.front_mut() {
            let Some(bytes) = visit.world.test(transfer)? else { break };
            if !visit.plan.write {
                unpack(&bytes, lane, *round, visit);
            }
            self.flights.pop_front();
            progress = true;
        }
        Ok(progress)
    }
}

fn pack<W: World>(
    want: Want<'_>,
    window: &pario_domain::Window,
    bytes: u64,
    visit: &mut Visit<'_, W>,
) -> Vec<u8> {
    let mut packed = vec![0; bytes as usize];
    let mut done = 0;
    if let Some(job) = visit.job {
        for portion in want.portions(window, u64::MAX) {
            let len = portion.len() as usize;
            job.buffer.pack(portion.positions.start - want.at, &mut packed[done..done + len]);
            done += len;
        }
    }
    visit.tally.messages += 1;
    visit.tally.message_bytes += bytes;
    visit.tally.copied += bytes;
    *visit.moved += bytes;
    packed
}

fn unpack<W: World>(message: &[u8], lane: &Lane, round: u64, visit: &mut Visit<'_, W>) {
    let (Some(want), Some(job)) = (visit.want(), visit.job) else { return };
    let (head, data) = message.split_at(8);
    let mut there = u64::from_ne_bytes(head.try_into().expect("eight bytes")).min(data.len() as u64);
    let mut done = 0;
    for Portion { positions, .. } in want.portions(&lane.window(round), u64::MAX) {
        let len = (positions.end - positions.start).min(there);
        job.buffer.unpack(positions.start - want.at, &data[done..done + len as usize]);
        done += len as usize;
        there -= len;
        visit.tally.copied += len;
        *visit.moved += len;
    }
}
