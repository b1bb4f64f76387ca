//! An aggregator standing in for the ranks of other nodes in its lane.
//!
//! It knows their views from the claims, so it knows how many bytes each will send to a window, or wants from
//! it. To the ranks of its node all of them together are one more rank that announces and arrives.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use pario_buffer::lend;
use pario_domain::Window;
use pario_types::Offset;
use pario_view::View;

use super::local::{announce, arrive_read, arrive_written, obtain};
use super::{Lane, Local, Visit};
use crate::claim::Claim;
use crate::node::{Slot, state};
use crate::part::Want;
use crate::seat::Seat;
use crate::world::World;

/// A rank of another node.
struct Guest {
    rank: u32,
    view: Arc<View>,
    at: u64,
    len: u64,
}

impl Guest {
    fn want(&self) -> Want<'_> {
        Want { view: &self.view, at: self.at, len: self.len }
    }
}

/// The stand-in of all ranks of other nodes in one lane.
pub(crate) struct Host<W: World> {
    guests: Vec<Guest>,
    announced: u64,
    posted: u64,
    done: u64,
    /// Messages on their way here for the round to be done, each with its guest.
    incoming: Vec<(usize, W::Transfer)>,
    outgoing: VecDeque<W::Transfer>,
}

impl<W: World> Host<W> {
    pub fn new(claims: &[Claim], lane: &Lane, seat: &Seat, world: &mut W) -> Result<Host<W>, W::Error> {
        let (lo, hi) = (lane.window(0).lo(), lane.window(lane.rounds() - 1).hi());
        let mut guests = Vec::new();
        for (rank, claim) in (0..).zip(claims) {
            let reaches = claim.bytes > 0 && claim.lo < hi && claim.hi > lo;
            if reaches && seat.local_index(rank).is_none() {
                let view = world.view_of(rank, claim.view)?;
                guests.push(Guest { rank, view, at: claim.at, len: claim.bytes });
            }
        }
        let (incoming, outgoing) = (Vec::new(), VecDeque::new());
        Ok(Host { guests, announced: 0, posted: 0, done: 0, incoming, outgoing })
    }

    pub fn is_over(&self, lane: &Lane) -> bool {
        self.done == lane.rounds() && self.outgoing.is_empty()
    }

    pub fn visit(
        &mut self,
        lane: &Lane,
        local: &Local<W>,
        visit: &mut Visit<'_, W>,
    ) -> Result<bool, W::Error> {
        let mut progress = false;
        while let Some(transfer) = self.outgoing.front_mut() {
            if visit.world.test(transfer)?.is_none() {
                break;
            }
            self.outgoing.pop_front();
            progress = true;
        }
        if self.done == lane.rounds() {
            return Ok(progress);
        }
        let slot = local.slot(self.done, visit);
        let turn = local.turn(self.done);
        if slot.is_past(turn) {
            // Nobody had anything for this window.
            self.done += 1;
            return Ok(true);
        }
        if !slot.serves(turn) {
            return Ok(progress);
        }
        let window = lane.window(self.done);
        Ok(progress
            | match visit.plan.write {
                true => self.write(&slot, &window, visit)?,
                false => self.read(&slot, &window, visit)?,
            })
    }

    fn write(
        &mut self,
        slot: &Slot<'_>,
        window: &Window,
        visit: &mut Visit<'_, W>,
    ) -> Result<bool, W::Error> {
        let mut progress = false;
        if visit.plan.announced && self.announced <= self.done {
            let wants: Vec<Want<'_>> = self.guests.iter().map(Guest::want).collect();
            self.announced = self.done + 1;
            announce(slot, window, &wants, visit);
            return Ok(true);
        }
        if self.posted <= self.done {
            for (index, guest) in self.guests.iter().enumerate() {
                let bytes = guest.want().bytes_in(window);
                if bytes > 0 {
                    self.incoming.push((index, visit.world.receive(guest.rank, bytes as usize)?));
                }
            }
            self.posted = self.done + 1;
            progress = true;
        }
        if visit.plan.announced && slot.state().load(Acquire) != state::READY {
            return Ok(progress);
        }
        let mut index = 0;
        while index < self.incoming.len() {
            let (guest, transfer) = &mut self.incoming[index];
            match visit.world.test(transfer)? {
                Some(mut bytes) => {
                    put(&self.guests[*guest], slot, window, &mut bytes, visit.plan.marked);
                    visit.tally.copied += bytes.len() as u64;
                    self.incoming.swap_remove(index);
                    progress = true;
                }
                None => index += 1,
            }
        }
        if self.incoming.is_empty() {
            self.done += 1;
            arrive_written(slot, window, visit);
            progress = true;
        }
        Ok(progress)
    }

    fn read(&mut self, slot: &Slot<'_>, window: &Window, visit: &mut Visit<'_, W>) -> Result<bool, W::Error> {
        let wanted: Vec<(usize, u64)> = self
            .guests
            .iter()
            .enumerate()
            .map(|(index, guest)| (index, guest.want().bytes_in(window)))
            .filter(|(_, bytes)| *bytes > 0)
            .collect();
        if !wanted.is_empty() {
            // Two rounds of answers may be under way.
            if self.outgoing.len() >= 2 * self.guests.len() || !obtain(slot, window, visit) {
                return Ok(false);
            }
            for (index, bytes) in wanted {
                let message = get(&self.guests[index], slot, window, bytes);
                visit.tally.messages += 1;
                visit.tally.message_bytes += bytes;
                visit.tally.copied += bytes;
                self.outgoing.push_back(visit.world.send(self.guests[index].rank, message)?);
            }
        }
        self.done += 1;
        arrive_read(slot, visit);
        Ok(true)
    }
}

/// Puts a guest's bytes to their places in a window; and marks them there, if they have to be.
fn put(guest: &Guest, slot: &Slot<'_>, window: &Window, bytes: &mut [u8], marked: bool) {
    let want = guest.want();
    lend(bytes, |buffer| {
        let mut done = 0;
        for portion in want.portions(window, u64::MAX) {
            let len = portion.extent.end - portion.extent.start;
            let mut file = portion.cursor(want.view);
            slot.window(portion.place, len, |to| {
                buffer.scatter(done, portion.len(), &mut file, to, Offset(portion.extent.start));
            });
            if marked {
                portion.marks(want.view).for_each(|brought| slot.mark(brought));
            }
            done += portion.len();
        }
    });
}

/// The answer to a guest's wish for its bytes of a window: how many there are, then the bytes.
fn get(guest: &Guest, slot: &Slot<'_>, window: &Window, bytes: u64) -> Vec<u8> {
    let want = guest.want();
    let mut message = vec![0; bytes as usize + 8];
    let end = if slot.spoiled().load(Relaxed) == 0 { slot.high().load(Relaxed) } else { 0 };
    let mut done = 0;
    lend(&mut message[8..], |buffer| {
        for portion in want.portions(window, end) {
            let len = portion.extent.end - portion.extent.start;
            let mut file = portion.cursor(want.view);
            slot.window(portion.place, len, |from| {
                buffer.gather(done, portion.len(), &mut file, from, Offset(portion.extent.start));
            });
            done += portion.len();
        }
    });
    message[..8].copy_from_slice(&done.to_ne_bytes());
    message
}
