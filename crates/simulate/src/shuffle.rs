//! The exchange between ranks and aggregators: who sends how much to whom, and how long that takes.
//!
//! A rank packs its pieces, its node's link carries them to the aggregator's node, and the aggregator puts them in
//! their places. Each processor and each direction of a link does one thing at a time. Ranks of the aggregator's own node
//! copy and send nothing.

use std::ops::Range;

use crate::agenda::Time;
use crate::link::{Link, span};
use crate::machine::Machine;
use crate::workload::Workload;

/// A rank's part in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Whose.
    pub rank: u32,
    /// How many bytes.
    pub bytes: u64,
    /// About how many pieces.
    pub pieces: u64,
}

/// Processors and links of all nodes.
#[derive(Debug)]
pub struct Shuffle<'a> {
    work: &'a Workload,
    machine: &'a Machine,
    outward: Vec<Link>,
    inward: Vec<Link>,
    /// What each rank packs, and what it unpacks: it sends what others wait for before it looks at what it got.
    packing: Vec<Link>,
    unpacking: Vec<Link>,
    found: Vec<u32>,
    parts: Vec<Part>,
    /// Messages between nodes so far.
    pub messages: u64,
}

impl<'a> Shuffle<'a> {
    /// Nobody has done anything yet.
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
            parts: Vec::new(),
            messages: 0,
        }
    }

    /// The node of a rank.
    pub fn node(&self, rank: u32) -> usize {
        (u64::from(rank) / self.machine.processes_per_node.max(1)) as usize
    }

    /// A rank copies to or from its buffer.
    pub fn copying(&mut self, rank: u32) -> &mut Link {
        &mut self.unpacking[rank as usize]
    }

    /// What a rank's node sends.
    pub fn outward(&mut self, rank: u32) -> &mut Link {
        let node = self.node(rank);
        &mut self.outward[node]
    }

    /// Which ranks have bytes in these ranges in a call, in order.
    pub fn parts(&mut self, call: u32, ranges: &[Range<u64>]) -> &[Part] {
        self.parts.clear();
        for range in ranges {
            self.work.ranks_in(call, range, &mut self.found);
            for &rank in &self.found {
                let access = self.work.access(rank, call);
                let bytes = access.bytes_in(range);
                if bytes > 0 {
                    self.parts.push(Part { rank, bytes, pieces: bytes.div_ceil(access.piece()) });
                }
            }
        }
        if ranges.len() > 1 {
            self.parts.sort_by_key(|part| part.rank);
            self.parts.dedup_by(|next, kept| {
                let same = next.rank == kept.rank;
                if same {
                    kept.bytes += next.bytes;
                    kept.pieces += next.pieces;
                }
                same
            });
        }
        &self.parts
    }

    /// Brings the ranks' bytes of a window to an aggregator (`inwards`) or from it to them; when that is done, and whether
    /// there were any.
    pub fn exchange(
        &mut self,
        now: Time,
        call: u32,
        at: u32,
        ranges: &[Range<u64>],
        inwards: bool,
    ) -> (Time, bool) {
        self.parts(call, ranges);
        let mut parts = std::mem::take(&mut self.parts);
        // Everybody begins with somebody else.
        let turn = at as usize % parts.len().max(1);
        parts.rotate_left(turn);
        let mut done = now;
        for part in &parts {
            let end = if inwards {
                self.message(now, part, part.rank, at)
            } else {
                self.message(now, part, at, part.rank)
            };
            done = done.max(end);
        }
        let any = !parts.is_empty();
        self.parts = parts;
        (done, any)
    }

    /// Moves a part from one rank to another; when the receiver has put it in its place.
    fn message(&mut self, now: Time, part: &Part, from: u32, to: u32) -> Time {
        let machine = self.machine;
        let handling = part.pieces * machine.piece_time + span(part.bytes, machine.copy_rate);
        let (source, target) = (self.node(from), self.node(to));
        if source == target {
            return self.packing[from as usize].take(now, handling).1;
        }
        self.messages += 1;
        let packed = self.packing[from as usize].take(now, machine.message_time + handling).1;
        let carried = span(part.bytes, machine.node_rate);
        // What the receiver's link cannot take yet waits in the network.
        let (left, _) = self.outward[source].take(packed, carried);
        let (_, arrived) = self.inward[target].take(left + machine.latency, carried);
        self.unpacking[to as usize].take(arrived, machine.message_time + handling).1
    }

    /// How long it takes till all ranks know each other's claims and have planned.
    pub fn meeting_ns(&self) -> u64 {
        let ranks = u64::from(self.work.ranks());
        let hops = u64::from(ranks.next_power_of_two().trailing_zeros()).max(1);
        // A claim is eleven words.
        2 * hops * (self.machine.latency + self.machine.message_time)
            + span(ranks * 88, self.machine.node_rate)
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
            let sum = |parts: &[Part]| parts.iter().map(|part| part.bytes).sum::<u64>();
            let apart: u64 = ranges.iter().map(|r| sum(shuffle.parts(2, std::slice::from_ref(r)))).sum();
            assert_eq!((apart, sum(shuffle.parts(2, &ranges))), (one, one), "{name}");
            assert!(shuffle.parts(2, &ranges).windows(2).all(|pair| pair[0].rank < pair[1].rank));
            assert_eq!(shuffle.parts(2, std::slice::from_ref(&(0..one))), []);
        }
    }

    #[test]
    fn a_message_costs_both_ends_and_the_link() {
        let machine = Machine { processes_per_node: 1, ..Machine::default() };
        let work = Workload::named("flash", 2, Size { edge: 10, calls: 1 }).expect("sound");
        let mut shuffle = Shuffle::new(&work, &machine);
        let len = work.access(0, 0).len();
        let copied = span(len, machine.copy_rate) + machine.piece_time;
        let ends = 2 * (copied + machine.message_time);
        let (done, any) = shuffle.exchange(Time(0), 0, 1, std::slice::from_ref(&(0..len)), true);
        assert!(any);
        assert_eq!(done, Time(ends + span(len, machine.node_rate) + machine.latency));
        assert_eq!(shuffle.messages, 1);
        // On one's own node it is a copy.
        let mut shuffle = Shuffle::new(&work, &machine);
        assert_eq!(
            shuffle.exchange(Time(5), 0, 0, std::slice::from_ref(&(0..len)), true),
            (Time(5 + copied), true)
        );
        assert_eq!(shuffle.messages, 0);
    }
}
