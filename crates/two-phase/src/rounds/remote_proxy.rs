//! The aggregator of a file domain, acting for the ranks of other nodes.
//!
//! The proxy knows the views of these ranks from their summaries, so it knows how many bytes each rank will
//! send for a window or needs from it. To the ranks of its own node, all ranks of other nodes together are
//! one more rank that announces and arrives.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use pario_buffer::lend;
use pario_domain::DomainWindow;
use pario_types::Offset;
use pario_view::View;

use super::local_rank::{announce, ensure_read, finish_copy_in, finish_copy_out};
use super::{DomainRounds, LocalRank, StepContext};
use crate::io::CollectiveIo;
use crate::node_segment::{WindowSlot, state};
use crate::portion::ViewRange;
use crate::rank_state::RankState;
use crate::summary::AccessSummary;

/// A rank of another node.
struct RemotePeer {
    rank: u32,
    view: Arc<View>,
    at: u64,
    len: u64,
}

impl RemotePeer {
    fn view_range(&self) -> ViewRange<'_> {
        ViewRange { view: &self.view, at: self.at, len: self.len }
    }
}

/// The proxy for all ranks of other nodes in one file domain.
pub(crate) struct RemoteProxy<C: CollectiveIo> {
    peers: Vec<RemotePeer>,
    announced: u64,
    posted: u64,
    done: u64,
    /// Messages in flight for the current round, each with the index of its sender.
    incoming: Vec<(usize, C::Transfer)>,
    outgoing: VecDeque<C::Transfer>,
}

impl<C: CollectiveIo> RemoteProxy<C> {
    pub fn new(
        summaries: &[AccessSummary],
        rounds: &DomainRounds,
        rank_state: &RankState,
        io: &mut C,
    ) -> Result<RemoteProxy<C>, C::Error> {
        let (lo, hi) = (rounds.window(0).lo(), rounds.window(rounds.count() - 1).hi());
        let mut peers = Vec::new();
        for (rank, summary) in (0..).zip(summaries) {
            let reaches = summary.bytes > 0 && summary.lo < hi && summary.hi > lo;
            if reaches && rank_state.local_index(rank).is_none() {
                let view = io.view_of(rank, summary.view_hash)?;
                peers.push(RemotePeer { rank, view, at: summary.position, len: summary.bytes });
            }
        }
        let (incoming, outgoing) = (Vec::new(), VecDeque::new());
        Ok(RemoteProxy { peers, announced: 0, posted: 0, done: 0, incoming, outgoing })
    }

    pub fn is_finished(&self, rounds: &DomainRounds) -> bool {
        self.done == rounds.count() && self.outgoing.is_empty()
    }

    pub fn step(
        &mut self,
        rounds: &DomainRounds,
        local: &LocalRank,
        context: &mut StepContext<'_, C>,
    ) -> Result<bool, C::Error> {
        let mut progress = false;
        while let Some(transfer) = self.outgoing.front_mut() {
            if context.io.test(transfer)?.is_none() {
                break;
            }
            self.outgoing.pop_front();
            progress = true;
        }
        if self.done == rounds.count() {
            return Ok(progress);
        }
        let slot = local.slot(self.done, context);
        let sequence = local.sequence(self.done);
        if slot.is_completed(sequence) {
            // No rank has bytes in this window.
            self.done += 1;
            return Ok(true);
        }
        if !slot.is_current(sequence) {
            return Ok(progress);
        }
        let window = rounds.window(self.done);
        Ok(progress
            | if context.plan.write {
                self.write(&slot, &window, context)?
            } else {
                self.read(&slot, &window, context)?
            })
    }

    fn write(
        &mut self,
        slot: &WindowSlot<'_>,
        window: &DomainWindow,
        context: &mut StepContext<'_, C>,
    ) -> Result<bool, C::Error> {
        let mut progress = false;
        if context.plan.announce && self.announced <= self.done {
            let view_ranges: Vec<ViewRange<'_>> = self.peers.iter().map(RemotePeer::view_range).collect();
            self.announced = self.done + 1;
            announce(slot, window, &view_ranges, context);
            return Ok(true);
        }
        if self.posted <= self.done {
            for (index, peer) in self.peers.iter().enumerate() {
                let bytes = peer.view_range().bytes_in(window);
                if bytes > 0 {
                    self.incoming.push((index, context.io.receive(peer.rank, bytes as usize)?));
                }
            }
            self.posted = self.done + 1;
            progress = true;
        }
        if context.plan.announce && slot.state().load(Acquire) != state::READY {
            return Ok(progress);
        }
        let mut index = 0;
        while index < self.incoming.len() {
            let (peer, transfer) = &mut self.incoming[index];
            match context.io.test(transfer)? {
                Some(mut bytes) => {
                    unpack_into_window(&self.peers[*peer], slot, window, &mut bytes, context.plan.mark_bytes);
                    context.counters.copied += bytes.len() as u64;
                    self.incoming.swap_remove(index);
                    progress = true;
                }
                None => index += 1,
            }
        }
        if self.incoming.is_empty() {
            self.done += 1;
            finish_copy_in(slot, window, context);
            progress = true;
        }
        Ok(progress)
    }

    fn read(
        &mut self,
        slot: &WindowSlot<'_>,
        window: &DomainWindow,
        context: &mut StepContext<'_, C>,
    ) -> Result<bool, C::Error> {
        let wanted: Vec<(usize, u64)> = self
            .peers
            .iter()
            .enumerate()
            .map(|(index, peer)| (index, peer.view_range().bytes_in(window)))
            .filter(|(_, bytes)| *bytes > 0)
            .collect();
        if !wanted.is_empty() {
            // At most two rounds of replies are in flight.
            if self.outgoing.len() >= 2 * self.peers.len() || !ensure_read(slot, window, context) {
                return Ok(false);
            }
            for (index, bytes) in wanted {
                let message = pack_from_window(&self.peers[index], slot, window, bytes);
                context.counters.messages += 1;
                context.counters.message_bytes += bytes;
                context.counters.copied += bytes;
                self.outgoing.push_back(context.io.send(self.peers[index].rank, message)?);
            }
        }
        self.done += 1;
        finish_copy_out(slot, context);
        Ok(true)
    }
}

/// Copies the bytes of a rank to their offsets in a window, and marks them there if required.
fn unpack_into_window(
    peer: &RemotePeer,
    slot: &WindowSlot<'_>,
    window: &DomainWindow,
    bytes: &mut [u8],
    marked: bool,
) {
    let view_range = peer.view_range();
    lend(bytes, |buffer| {
        let mut done = 0;
        for portion in view_range.portions(window, u64::MAX) {
            let len = portion.extent.end - portion.extent.start;
            let mut file = portion.cursor(view_range.view);
            slot.window(portion.window_offset, len, |to| {
                buffer.scatter(done, portion.len(), &mut file, to, Offset(portion.extent.start));
            });
            if marked {
                portion.window_ranges(view_range.view).for_each(|range| slot.mark(range));
            }
            done += portion.len();
        }
    });
}

/// The reply to a rank that reads from a window: the number of bytes, then the bytes.
fn pack_from_window(peer: &RemotePeer, slot: &WindowSlot<'_>, window: &DomainWindow, bytes: u64) -> Vec<u8> {
    let view_range = peer.view_range();
    let mut message = vec![0; bytes as usize + 8];
    let end = if slot.failed_read().load(Relaxed) == 0 { slot.high().load(Relaxed) } else { 0 };
    let mut done = 0;
    lend(&mut message[8..], |buffer| {
        for portion in view_range.portions(window, end) {
            let len = portion.extent.end - portion.extent.start;
            let mut file = portion.cursor(view_range.view);
            slot.window(portion.window_offset, len, |from| {
                buffer.gather(done, portion.len(), &mut file, from, Offset(portion.extent.start));
            });
            done += portion.len();
        }
    });
    message[..8].copy_from_slice(&done.to_ne_bytes());
    message
}
