//! The exchange between ranks and aggregators: its messages and the time that they take.
//!
//! A rank packs its pieces, its node's link carries them to the aggregator's node, and the aggregator unpacks them. Each
//! processor and each direction of a link does one thing at a time. Ranks of the aggregator's own node copy their bytes and
//! send no message.

use std::ops::Range;

use crate::event_queue::SimTime;
use crate::link::{Link, transfer_ns};
use crate::machine::Machine;
use crate::workload::Workload;

/// A rank's bytes in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankShare {
    /// The rank.
    pub rank: u32,
    /// The number of bytes.
    pub bytes: u64,
    /// The approximate number of pieces.
    pub pieces: u64,
}

/// The processors and links of all nodes.
#[derive(Debug)]
pub struct Shuffle<'a> {
    work: &'a Workload,
    machine: &'a Machine,
    outward: Vec<Link>,
    inward: Vec<Link>,
    /// The time that each rank spends packing and unpacking: it packs what others wait for before it unpacks.
    packing: Vec<Link>,
    unpacking: Vec<Link>,
    found: Vec<u32>,
    shares: Vec<RankShare>,
    /// The number of messages between nodes so far.
    pub messages: u64,
}

impl<'a> Shuffle<'a> {
    /// Creates idle processors and links.
    pub fn new(work: &'a Workload, machine: &'a Machine) -> Shuffle<'a> {
        let nodes = u64::from(work.ranks()).div_ceil(machine.processes_per_node.max(1)) as usize;
        Shuffle {
            work,
            machine,
            outward: vec![Link::default(); nodes],
            inward: vec![Link::default(); nodes],
            packing: vec![Link::default(); work.ranks() as usize],
            unpacking: vec![Link::default(); work.ranks() as usize],
            found: Vec::new(),
            shares: Vec::new(),
            messages: 0,
        }
    }

    /// The node of a rank.
    pub fn node(&self, rank: u32) -> usize {
        (u64::from(rank) / self.machine.processes_per_node.max(1)) as usize
    }

    /// The processor with which a rank copies to or from its buffer.
    pub fn copying(&mut self, rank: u32) -> &mut Link {
        &mut self.unpacking[rank as usize]
    }

    /// The link on which a rank's node sends.
    pub fn outward(&mut self, rank: u32) -> &mut Link {
        let node = self.node(rank);
        &mut self.outward[node]
    }

    /// Returns the ranks that have bytes in these ranges in a call, in order.
    pub fn shares(&mut self, call: u32, ranges: &[Range<u64>]) -> &[RankShare] {
        self.shares.clear();
        for range in ranges {
            self.work.ranks_in(call, range, &mut self.found);
            for &rank in &self.found {
                let access = self.work.access(rank, call);
                let bytes = access.bytes_in(range);
                if bytes > 0 {
                    self.shares.push(RankShare { rank, bytes, pieces: bytes.div_ceil(access.piece()) });
                }
            }
        }
        if ranges.len() > 1 {
            self.shares.sort_by_key(|share| share.rank);
            self.shares.dedup_by(|next, kept| {
                let same = next.rank == kept.rank;
                if same {
                    kept.bytes += next.bytes;
                    kept.pieces += next.pieces;
                }
                same
            });
        }
        &self.shares
    }

    /// Moves the ranks' bytes of a window to an aggregator (`inwards`) or from it to them. Returns the time at which that
    /// is done, and whether there were any bytes.
    pub fn exchange(
        &mut self,
        now: SimTime,
        call: u32,
        at: u32,
        ranges: &[Range<u64>],
        inwards: bool,
    ) -> (SimTime, bool) {
        self.shares(call, ranges);
        let mut shares = std::mem::take(&mut self.shares);
        // Each aggregator begins with another rank.
        let turn = at as usize % shares.len().max(1);
        shares.rotate_left(turn);
        let mut done = now;
        for share in &shares {
            let end = if inwards {
                self.message(now, share, share.rank, at)
            } else {
                self.message(now, share, at, share.rank)
            };
            done = done.max(end);
        }
        let any = !shares.is_empty();
        self.shares = shares;
        (done, any)
    }

    /// Moves a share from one rank to another. Returns the time at which the receiver has unpacked it.
    fn message(&mut self, now: SimTime, share: &RankShare, from: u32, to: u32) -> SimTime {
        let machine = self.machine;
        let handling = share.pieces * machine.piece_time + transfer_ns(share.bytes, machine.copy_rate);
        let (source, target) = (self.node(from), self.node(to));
        if source == target {
            return self.packing[from as usize].take(now, handling).1;
        }
        self.messages += 1;
        let packed = self.packing[from as usize].take(now, machine.message_time + handling).1;
        let carried = transfer_ns(share.bytes, machine.node_rate);
        // Bytes that the receiver's link cannot take yet wait in the network.
        let (left, _) = self.outward[source].take(packed, carried);
        let (_, arrived) = self.inward[target].take(left + machine.latency, carried);
        self.unpacking[to as usize].take(arrived, machine.message_time + handling).1
    }

    /// The time of the allgather of access summaries, after which all ranks have a plan.
    pub fn allgather_ns(&self) -> u64 {
        let ranks = u64::from(self.work.ranks());
        let hops = u64::from(ranks.next_power_of_two().trailing_zeros()).max(1);
        // A summary is eleven words.
        2 * hops * (self.machine.latency + self.machine.message_time)
            + transfer_ns(ranks * 88, self.machine.node_rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Size;

    #[test]
    fn all_bytes_of_a_call_are_exchanged_once() {
        let machine = Machine::default();
        for name in ["coll_perf", "bt", "flash"] {
            let work = Workload::named(name, 16, Size { edge: 8, calls: 3 }).expect("sound");
            let mut shuffle = Shuffle::new(&work, &machine);
            let one = work.bytes() / 3;
            let cuts = [0, one / 7, one / 3, one / 2, one].map(|cut| one * 2 + cut);
            let ranges: Vec<_> = cuts.windows(2).map(|cut| cut[0]..cut[1]).collect();
            let sum = |shares: &[RankShare]| shares.iter().map(|share| share.bytes).sum::<u64>();
            let apart: u64 = ranges.iter().map(|r| sum(shuffle.shares(2, std::slice::from_ref(r)))).sum();
            assert_eq!((apart, sum(shuffle.shares(2, &ranges))), (one, one), "{name}");
            assert!(shuffle.shares(2, &ranges).windows(2).all(|pair| pair[0].rank < pair[1].rank));
            assert_eq!(shuffle.shares(2, std::slice::from_ref(&(0..one))), []);
        }
    }

    #[test]
    fn a_message_costs_both_ends_and_the_link() {
        let machine = Machine { processes_per_node: 1, ..Machine::default() };
        let work = Workload::named("flash", 2, Size { edge: 10, calls: 1 }).expect("sound");
        let mut shuffle = Shuffle::new(&work, &machine);
        let len = work.access(0, 0).len();
        let copied = transfer_ns(len, machine.copy_rate) + machine.piece_time;
        let ends = 2 * (copied + machine.message_time);
        let (done, any) = shuffle.exchange(SimTime(0), 0, 1, std::slice::from_ref(&(0..len)), true);
        assert!(any);
        assert_eq!(done, SimTime(ends + transfer_ns(len, machine.node_rate) + machine.latency));
        assert_eq!(shuffle.messages, 1);
        // On the aggregator's own node a share is copied.
        let mut shuffle = Shuffle::new(&work, &machine);
        assert_eq!(
            shuffle.exchange(SimTime(5), 0, 0, std::slice::from_ref(&(0..len)), true),
            (SimTime(5 + copied), true)
        );
        assert_eq!(shuffle.messages, 0);
    }
}
