//! A rank in a file domain of another node. It sends its bytes to the aggregator, or receives them from
//! there.
//!
//! There is one message per round, and none for a window in which the rank has no bytes. The aggregator
//! knows the view of the rank and expects exactly these messages. Bytes are in view order. The reply to a
//! read begins with the number of bytes (64 bits, native) before the end of the file. Its length does not
//! depend on that number.

use std::collections::VecDeque;

use super::{DomainRounds, StepContext};
use crate::io::CollectiveIo;
use crate::portion::{ViewRange, WindowPortion};

/// Messages in flight per file domain.
const MAX_TRANSFERS: usize = 2;

/// The role of this rank in a file domain of another node.
pub(crate) struct RemoteRank<C: CollectiveIo> {
    owner: u32,
    done: u64,
    transfers: VecDeque<(C::Transfer, u64)>,
}

impl<C: CollectiveIo> RemoteRank<C> {
    pub fn new(owner: u32) -> RemoteRank<C> {
        RemoteRank { owner, done: 0, transfers: VecDeque::new() }
    }

    pub fn is_finished(&self, rounds: &DomainRounds) -> bool {
        self.done == rounds.count() && self.transfers.is_empty()
    }

    pub fn step(
        &mut self,
        rounds: &DomainRounds,
        context: &mut StepContext<'_, C>,
    ) -> Result<bool, C::Error> {
        let mut progress = self.complete_transfers(rounds, context)?;
        let Some(view_range) = context.view_range() else {
            self.done = rounds.count();
            return Ok(progress);
        };
        while self.done < rounds.count() && self.transfers.len() < MAX_TRANSFERS {
            let window = rounds.window(self.done);
            let bytes = view_range.bytes_in(&window);
            if bytes > 0 {
                let transfer = if context.plan.write {
                    let packed = pack(view_range, &window, bytes, context);
                    context.io.send(self.owner, packed)?
                } else {
                    context.io.receive(self.owner, bytes as usize + 8)?
                };
                self.transfers.push_back((transfer, self.done));
            }
            self.done += 1;
            progress = true;
        }
        Ok(progress)
    }

    /// Processes completed transfers.
    fn complete_transfers(
        &mut self,
        rounds: &DomainRounds,
        context: &mut StepContext<'_, C>,
    ) -> Result<bool, C::Error> {
        let mut progress = false;
        while let Some((transfer, round)) = self.transfers.front_mut() {
            let Some(bytes) = context.io.test(transfer)? else { break };
            if !context.plan.write {
                unpack(&bytes, rounds, *round, context);
            }
            self.transfers.pop_front();
            progress = true;
        }
        Ok(progress)
    }
}

fn pack<C: CollectiveIo>(
    view_range: ViewRange<'_>,
    window: &pario_domain::DomainWindow,
    bytes: u64,
    context: &mut StepContext<'_, C>,
) -> Vec<u8> {
    let mut packed = vec![0; bytes as usize];
    let mut done = 0;
    if let Some(request) = context.request {
        for portion in view_range.portions(window, u64::MAX) {
            let len = portion.len() as usize;
            request.buffer.pack(portion.positions.start - view_range.at, &mut packed[done..done + len]);
            done += len;
        }
    }
    context.counters.messages += 1;
    context.counters.message_bytes += bytes;
    context.counters.copied += bytes;
    *context.moved += bytes;
    packed
}

fn unpack<C: CollectiveIo>(
    message: &[u8],
    rounds: &DomainRounds,
    round: u64,
    context: &mut StepContext<'_, C>,
) {
    let (Some(view_range), Some(request)) = (context.view_range(), context.request) else { return };
    let (head, data) = message.split_at(8);
    let mut there = u64::from_ne_bytes(head.try_into().expect("eight bytes")).min(data.len() as u64);
    let mut done = 0;
    for WindowPortion { positions, .. } in view_range.portions(&rounds.window(round), u64::MAX) {
        let len = (positions.end - positions.start).min(there);
        request.buffer.unpack(positions.start - view_range.at, &data[done..done + len as usize]);
        done += len as usize;
        there -= len;
        context.counters.copied += len;
        *context.moved += len;
    }
}
