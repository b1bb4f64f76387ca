//! A simulated partition: its strategies, and what saturates first.
//!
//! Every process reads the registry, opens the file at the metadata server and connects to every server, as Pario's
//! processes do. Then, for each call:
//!
//! - *server-directed*: a rank sends each server the bytes for that server, contiguously; the server puts the pieces in
//!   place.
//! - *client-directed*: a rank sends each aggregator the bytes of that aggregator's blocks (block b belongs to aggregator b
//!   mod n) and is done; meanwhile aggregators send whole blocks to the servers, and the close waits for them.
//! - *two-phase*: the same exchange in windows; the servers have a window before the next begins.
//!
//! Reads take the opposite order, and a call returns when all of them are done.

mod traffic;

use std::collections::VecDeque;

use pario_domain::{AggregatorRequest, ConfigList, FileDomains, PartitioningMethod, choose_aggregators};
use pario_layout::Striping;
use pario_types::{Offset, Pos, Strategy};

use crate::error::Error;
use crate::event_queue::SimTime;
use crate::link::Link;
use crate::setup::Setup;
use crate::shuffle::Shuffle;
use crate::workload::{Access, Workload};
use traffic::{Message, Traffic};

/// The place where small pieces are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionStrategy {
    /// At the servers.
    ServerDirected,
    /// At aggregators with a cache.
    ClientDirected,
    /// At aggregators with a buffer.
    TwoPhase,
}

impl PartitionStrategy {
    /// All of them.
    pub const ALL: [PartitionStrategy; 3] =
        [PartitionStrategy::ServerDirected, PartitionStrategy::ClientDirected, PartitionStrategy::TwoPhase];

    /// Its name on the command line and in results.
    pub fn word(self) -> &'static str {
        match self {
            PartitionStrategy::ServerDirected => Strategy::ServerDirected.name(),
            PartitionStrategy::ClientDirected => Strategy::ClientDirected.name(),
            PartitionStrategy::TwoPhase => Strategy::TwoPhase.name(),
        }
    }
}

/// The result of a run on a partition.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionOutcome {
    /// The number of ranks.
    pub ranks: u32,
    /// The number of aggregators.
    pub aggregators: u32,
    /// Bytes that the ranks wrote or read.
    pub bytes: u64,
    /// The time at which every process had found the partition, was connected, and had opened the file.
    pub opened: SimTime,
    /// The time at which the last call returned.
    pub returned: SimTime,
    /// The time at which the servers had everything.
    pub served: SimTime,
    /// The time at which their storage had everything that was written.
    pub stored: SimTime,
    /// The number of messages with data.
    pub messages: u64,
    /// For each kind of resource, the time for which the busiest was in use.
    pub used: Vec<(&'static str, u64)>,
}

impl PartitionOutcome {
    /// Bytes per second between open and the last return, in MiB.
    pub fn bandwidth_mib_s(&self) -> f64 {
        self.bytes as f64 / (self.returned.since(self.opened).max(1) as f64 / 1e9) / f64::from(1 << 20)
    }

    /// Bytes per second until the servers have everything, in MiB.
    pub fn served_mib_s(&self) -> f64 {
        self.bytes as f64 / (self.served.since(self.opened).max(1) as f64 / 1e9) / f64::from(1 << 20)
    }

    /// Returns the resource that was in use for the largest part of the time from start to end, and that part.
    pub fn bottleneck(&self) -> (&'static str, f64) {
        let most = self.used.iter().max_by_key(|used| used.1).expect("there are some");
        (most.0, most.1 as f64 / self.served.0.max(1) as f64)
    }
}

/// Runs a workload on a partition. `shared`: servers run on the ranks' own nodes.
pub fn run(
    setup: &Setup,
    strategy: PartitionStrategy,
    shared: bool,
    work: &Workload,
) -> Result<PartitionOutcome, Error> {
    let machine = &setup.machine;
    let count = setup.servers;
    let striping = Striping::new(setup.stripe, count, 0, count)
        .map_err(|_| Error::Number("number or size of stripes"))?;
    let per_node = machine.processes_per_node;
    if setup.buffer == 0 || per_node == 0 {
        return Err(Error::Number("buffer of an aggregator or number of processes per node"));
    }
    let (opened, mut used) = opening(setup, work.ranks());
    let mut shuffle = Shuffle::new(work, machine);
    let nodes = u64::from(work.ranks()).div_ceil(per_node) as usize;
    let mut traffic = Traffic::new(machine, nodes, count, shared, setup.write);
    let mut run =
        Run { setup, work, striping, shuffle: &mut shuffle, traffic: &mut traffic, processed_ns: Vec::new() };
    let (returned, aggregators) = match strategy {
        PartitionStrategy::ServerDirected => (run.server_directed(opened), 0),
        PartitionStrategy::ClientDirected => run.aggregated(opened, machine.aggregator_cache.max(1), true),
        PartitionStrategy::TwoPhase => run.aggregated(opened, setup.buffer, false),
    };
    let processed = run.processed_ns.iter().copied().max().unwrap_or(0);
    used.push(("processor of an aggregator", processed));
    used.extend(traffic.used());
    let messages = traffic.messages + shuffle.messages;
    Ok(PartitionOutcome {
        ranks: work.ranks(),
        aggregators,
        bytes: work.bytes(),
        opened,
        returned: returned.0,
        served: returned.0.max(returned.1),
        stored: traffic.stored().max(returned.0),
        messages,
        used,
    })
}

/// Returns the time at which all have opened the file, and how long each shared resource was in use.
fn opening(setup: &Setup, ranks: u32) -> (SimTime, Vec<(&'static str, u64)>) {
    let machine = &setup.machine;
    let (mut registry, mut server, mut metadata) = (Link::default(), Link::default(), Link::default());
    let mut opened = SimTime(0);
    for _ in 0..ranks {
        let found = registry.take(SimTime(0), machine.registry_time).1;
        // All servers do the same: one represents all.
        let connected = server.take(found, machine.connect_time).1;
        opened = metadata.take(connected, machine.open_time).1;
    }
    let used = [("registry", registry), ("accepting at a server", server), ("metadata server", metadata)];
    (opened + 2 * machine.latency, used.map(|(name, link)| (name, link.used_ns())).to_vec())
}

struct Run<'a, 'b> {
    setup: &'a Setup,
    work: &'a Workload,
    striping: Striping,
    shuffle: &'b mut Shuffle<'a>,
    traffic: &'b mut Traffic<'a>,
    /// The time that each aggregator spent copying.
    processed_ns: Vec<u64>,
}

impl Run<'_, '_> {
    /// Returns the time at which the calls have returned, and the time at which the servers have everything.
    fn server_directed(&mut self, opened: SimTime) -> (SimTime, SimTime) {
        let per_node = self.setup.machine.processes_per_node;
        let mut now = opened;
        for call in 0..self.work.calls() {
            let begin = vec![now + self.shuffle.allgather_ns(); self.work.ranks() as usize];
            let (work, striping) = (self.work, self.striping);
            let done = self.traffic.deliver(
                &begin,
                |rank| (u64::from(rank) / per_node) as usize,
                |rank| shares(&work.access(rank, call), striping, rank),
            );
            now = done.into_iter().max().unwrap_or(now);
        }
        (now, now)
    }

    /// The same with aggregators in between, in windows of `buffer` bytes. With `cached`, `buffer` is the size of a cache:
    /// a window goes to the servers while the next one is filled, as far as the cache has space for both.
    fn aggregated(&mut self, opened: SimTime, buffer: u64, cached: bool) -> ((SimTime, SimTime), u32) {
        let per_node = self.setup.machine.processes_per_node as u32;
        let node: Vec<u32> = (0..self.work.ranks()).map(|rank| rank / per_node).collect();
        let names: Vec<String> = Vec::new();
        let wanted = AggregatorRequest {
            cb_nodes: self.setup.aggregators,
            config: &ConfigList::default(),
            servers: None,
        };
        let aggregators = choose_aggregators(&node, &names, &wanted);
        self.processed_ns = vec![0; aggregators.len()];
        // Two-phase writes are partitioned for the servers and reads for read-ahead; a cache has fixed blocks.
        let method = match (cached, self.setup.write) {
            (true, _) => PartitioningMethod::StaticCyclic,
            (false, true) => PartitioningMethod::GroupCyclic,
            (false, false) => PartitioningMethod::Aligned,
        };
        let number = aggregators.len() as u32;
        let (mut now, mut served) = (opened, opened);
        // Windows that leave the caches: the time at which the servers have them, and their bytes at the fullest
        // aggregator.
        let mut leaving: VecDeque<(SimTime, u64)> = VecDeque::new();
        for call in 0..self.work.calls() {
            now = now + self.shuffle.allgather_ns();
            let (unit, servers) = (self.setup.stripe, u32::from(self.setup.servers));
            let partition = FileDomains::new(method, self.region(call), number, unit, servers);
            let rounds = (0..number).map(|a| partition.domain(a).windows(buffer)).max().unwrap_or(0);
            for round in 0..rounds {
                let full =
                    (0..number).map(|a| partition.domain(a).window(round, buffer).bytes()).max().unwrap_or(0);
                while leaving.iter().map(|window| window.1).sum::<u64>() + full > buffer {
                    let Some((left, _)) = leaving.pop_front() else { break };
                    now = now.max(left);
                }
                let (exchanged, with_servers) =
                    self.round(now, call, &partition, &aggregators, (round, buffer));
                served = served.max(with_servers);
                if cached && self.setup.write {
                    now = exchanged;
                    leaving.push_back((with_servers, full));
                } else {
                    now = with_servers;
                }
            }
        }
        ((now, served), number)
    }

    /// Moves one window of each aggregator. Returns the time at which the exchange is done, and the time at which the
    /// servers are done as well.
    fn round(
        &mut self,
        now: SimTime,
        call: u32,
        partition: &FileDomains,
        aggregators: &[u32],
        (round, buffer): (u64, u64),
    ) -> (SimTime, SimTime) {
        let per_node = self.setup.machine.processes_per_node;
        let striping = self.striping;
        let window = |a: u32| partition.domain(a).window(round, buffer).extents().collect::<Vec<_>>();
        let list = |a: u32| {
            let pieces = window(a).into_iter().flat_map(move |range| striping.pieces(range));
            merged(
                pieces.map(|piece| Message { server: piece.server.0, bytes: piece.len, pieces: 1 }).collect(),
                a,
            )
        };
        let place = |a: u32| (u64::from(aggregators[a as usize]) / per_node) as usize;
        let numbers = || 0..aggregators.len() as u32;
        if self.setup.write {
            let exchanged: Vec<SimTime> =
                numbers().map(|a| self.exchange(now, call, aggregators, a, &window(a))).collect();
            let with_servers = self.traffic.deliver(&exchanged, place, list);
            let last = |times: Vec<SimTime>| times.into_iter().max().unwrap_or(now);
            (last(exchanged), last(with_servers))
        } else {
            let begin = vec![now; aggregators.len()];
            let read = self.traffic.deliver(&begin, place, list);
            let dealt = numbers().map(|a| self.exchange(read[a as usize], call, aggregators, a, &window(a)));
            let done = dealt.max().unwrap_or(now);
            (done, done)
        }
    }

    fn exchange(
        &mut self,
        now: SimTime,
        call: u32,
        aggregators: &[u32],
        a: u32,
        ranges: &[std::ops::Range<u64>],
    ) -> SimTime {
        let rank = aggregators[a as usize];
        let before = self.shuffle.copying(rank).used_ns();
        let (done, _) = self.shuffle.exchange(now, call, rank, ranges, self.setup.write);
        let after = self.shuffle.copying(rank).used_ns();
        self.processed_ns[a as usize] += after - before;
        done
    }

    /// Returns the region of a call, from its first byte to its last.
    fn region(&self, call: u32) -> std::ops::Range<u64> {
        let bounds = |rank| match self.work.access(rank, call) {
            Access::View { view, at, len } => view.bounds(at, len).map(|(lo, hi)| (lo.0, hi.0)),
            Access::Spread(span) => (span.len > 0).then_some((span.lo, span.hi)),
        };
        let all = (0..self.work.ranks()).filter_map(bounds);
        let (lo, hi) = all.fold((u64::MAX, 0), |(lo, hi), (l, h)| (lo.min(l), hi.max(h)));
        lo.min(hi)..hi
    }
}

/// Returns a rank's messages, one for each server, starting with another server than its neighbour.
fn shares(access: &Access, striping: Striping, rank: u32) -> Vec<Message> {
    let mut messages = Vec::new();
    let piece = access.piece();
    let mut add = |offset: u64, bytes: u64| {
        let server = striping.piece(Offset(offset)).server.0;
        messages.push(Message { server, bytes, pieces: bytes.div_ceil(piece) });
    };
    match access {
        Access::View { view, at, len } => {
            let mut pos = at.0;
            while pos < at.0 + len {
                let Some(offset) = view.select(Pos(pos)) else { break };
                let end = (offset.0 / striping.stripe() + 1) * striping.stripe();
                let next = view.rank(Offset(end)).0.clamp(pos + 1, at.0 + len);
                add(offset.0, next - pos);
                pos = next;
            }
        }
        Access::Spread(span) => {
            for piece in striping.pieces(span.lo..span.hi) {
                let bytes = span.below(piece.offset.0 + piece.len) - span.below(piece.offset.0);
                if bytes > 0 {
                    add(piece.offset.0, bytes);
                }
            }
        }
    }
    merged(messages, rank)
}

/// Merges messages to one for each server, in the order of servers, starting at a server that depends on `turn`.
fn merged(mut messages: Vec<Message>, turn: u32) -> Vec<Message> {
    messages.sort_by_key(|message| message.server);
    messages.dedup_by(|next, kept| {
        let same = next.server == kept.server;
        if same {
            kept.bytes += next.bytes;
            kept.pieces += next.pieces;
        }
        same
    });
    messages.shrink_to_fit();
    let turn = turn as usize % messages.len().max(1);
    messages.rotate_left(turn);
    messages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Size;

    fn contiguous(ranks: u32, servers: u16, write: bool, shared: bool) -> f64 {
        let mut setup = Setup { servers, write, stripe: 64 << 10, ..Setup::default() };
        setup.machine.processes_per_node = 1;
        let work = Workload::named("contiguous", ranks, Size::default()).expect("sound");
        run(&setup, PartitionStrategy::ServerDirected, shared, &work).expect("runs").bandwidth_mib_s()
    }

    /// n processes on n servers, and 64 processes on 1 to 64: throughput follows the number of servers, wherever they run.
    #[test]
    fn throughput_follows_the_servers() {
        for (write, shared) in [(true, false), (true, true), (false, false), (false, true)] {
            let both: Vec<f64> =
                [1, 2, 4, 8, 16, 32, 64].map(|n| contiguous(n, n as u16, write, shared)).to_vec();
            let servers: Vec<f64> =
                [1, 2, 4, 8, 16, 32, 64].map(|n| contiguous(64, n, write, shared)).to_vec();
            for (name, row) in [("n on n", &both), ("64 on n", &servers)] {
                for pair in row.windows(2) {
                    assert!(pair[1] > 1.5 * pair[0], "{name}, write {write}, shared {shared}: {row:?}");
                }
                assert!(row[6] > 24.0 * row[0], "{name}, write {write}, shared {shared}: {row:?}");
            }
        }
    }

    #[test]
    fn every_strategy_moves_every_byte() {
        let work = Workload::named("coll_perf", 32, Size { edge: 16, calls: 2 }).expect("sound");
        let setup = Setup { servers: 4, stripe: 4096, buffer: 8192, ..Setup::default() };
        let striping = Striping::new(4096, 4, 0, 4).expect("sound");
        let sent: u64 =
            (0..32).flat_map(|r| shares(&work.access(r, 1), striping, r)).map(|message| message.bytes).sum();
        assert_eq!(sent, work.bytes() / 2);
        for strategy in PartitionStrategy::ALL {
            let staged = run(&setup, strategy, false, &work).expect("runs");
            let storage =
                staged.used.iter().find(|used| used.0 == "storage of a server").expect("it has some").1;
            // Four servers store a quarter each.
            let quarter = crate::link::transfer_ns(work.bytes() / 4, setup.machine.storage_rate);
            assert!(storage.abs_diff(quarter) * 20 < quarter, "{strategy:?}: {storage} and {quarter}");
            assert!(staged.opened < staged.returned && staged.returned <= staged.served);
        }
    }

    #[test]
    fn a_cache_that_is_full_waits_for_the_servers() {
        let work = Workload::named("contiguous", 16, Size { edge: 1024, calls: 8 }).expect("sound");
        let of = |cache| {
            let mut setup = Setup { servers: 2, ..Setup::default() };
            setup.machine.storage_rate = 100_000_000;
            setup.machine.server_buffer = 1 << 20;
            setup.machine.aggregator_cache = cache;
            run(&setup, PartitionStrategy::ClientDirected, false, &work).expect("runs")
        };
        // An aggregator gets 4 MiB in each call.
        let [all, half, none] = [32, 16, 2].map(|mib: u64| of(mib << 20));
        assert!(all.returned < half.returned && half.returned < none.returned);
        // The cache holds what the servers do not have yet.
        let rest =
            |staged: &PartitionOutcome| staged.served.since(staged.returned) as f64 / staged.served.0 as f64;
        assert!(rest(&all) > 0.9 && (0.3..0.7).contains(&rest(&half)) && rest(&none) < 0.1);
    }

    #[test]
    fn a_cache_in_between_returns_before_the_servers_have_everything() {
        let work = Workload::named("coll_perf", 64, Size { edge: 32, calls: 4 }).expect("sound");
        let mut setup = Setup { servers: 2, ..Setup::default() };
        setup.machine.storage_rate = 100_000_000;
        setup.machine.server_buffer = 1 << 20;
        let [_, cached, two_phase] =
            PartitionStrategy::ALL.map(|s| run(&setup, s, false, &work).expect("runs"));
        assert!(
            cached.served > cached.returned && cached.bandwidth_mib_s() > 2.0 * two_phase.bandwidth_mib_s()
        );
        assert_eq!(two_phase.served, two_phase.returned);
        assert_eq!(two_phase.bottleneck().0, "storage of a server");
    }
}
