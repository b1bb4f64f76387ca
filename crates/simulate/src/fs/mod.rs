//! A file system with clients, servers and locks, under collective accesses of many ranks.
//!
//! Aggregators are the file system's clients. In a call each of them processes its domain in windows: it exchanges data
//! with the ranks, then sends the file system one request for each contiguous range of the window; reads take the opposite
//! order. A call ends when all aggregators have ended. The file is closed when the servers have everything.
//!
//! Domains, plans, striping, views and locks are those of Pario. Simulated are time, links, storage ([`server`]), a
//! client's cache and read-ahead ([`operation`], [`reading`]) and lock messages ([`locking`]). All events are in one
//! [`EventQueue`], so a run depends on its input and seed only.

mod client;
mod lease_cache;
mod locking;
mod operation;
mod reading;
mod server;

use pario_domain::{AggregatorRequest, ConfigList, FileDomains, PartitioningMethod, choose_aggregators};
use pario_layout::Striping;
use pario_locks::{LockAction, LockCounters};
use pario_two_phase::{
    AccessSummary, CallKind, CollectivePlan, CostHistory, CoverageHash, TransferStrategy, TwoPhaseSettings,
    plan_access,
};

use crate::error::Error;
use crate::event_queue::{EventQueue, SimTime};
use crate::rng::Rng;
use crate::setup::{Messages, Outcome, Protocol, Rounds, Setup};
use crate::shuffle::Shuffle;
use crate::workload::{Access, Workload};
use client::Client;
use locking::{Holder, LockMessage, ManagerNode};
use server::{Piece, ReadRequest, Server};

/// An event. A client is identified by its number among the aggregators.
#[derive(Debug)]
enum Event {
    /// All ranks start the next call.
    StartCall,
    /// A client begins its next window.
    Window(u32),
    /// The client has the ranks' bytes, or the ranks have theirs.
    Exchanged(u32),
    /// A lock message has arrived at a manager, and then: the manager has processed it.
    LockMessageArrived {
        manager: u32,
        message: LockMessage,
    },
    LockMessageProcessed {
        manager: u32,
        message: LockMessage,
    },
    /// A lock message has arrived at a client, and then: the client has processed it.
    LockActionArrived {
        manager: u32,
        action: LockAction<Holder>,
    },
    LockActionProcessed {
        manager: u32,
        action: LockAction<Holder>,
    },
    /// A client's request is in its cache.
    Copied(u32),
    /// A piece has left a client.
    PieceSent(Piece),
    /// A piece has arrived at its server, and then: the server has processed it.
    PieceArrived(Piece),
    PieceProcessed(Piece),
    /// The client has the acknowledgement of a piece.
    PieceAcknowledged(Piece),
    /// A read request has arrived at its server, and then: the server has processed it.
    ReadArrived {
        server: u16,
        read: ReadRequest,
    },
    ReadProcessed {
        server: u16,
        read: ReadRequest,
    },
    /// A server's storage has completed a job.
    StorageDone(u16),
    /// A client has the reply to a request.
    ReadAnswered {
        client: u32,
        request: u64,
    },
}

/// The state of a simulated file system.
struct Run<'a> {
    setup: &'a Setup,
    work: &'a Workload,
    striping: Striping,
    settings: TwoPhaseSettings,
    coverage: CoverageHash,
    queue: EventQueue<Event>,
    rng: Rng,
    shuffle: Shuffle<'a>,
    clients: Vec<Client>,
    managers: Vec<ManagerNode>,
    servers: Vec<Server>,
    /// The next call.
    call: u32,
    partition: FileDomains,
    /// Whether the region has bytes that no rank writes.
    holes: bool,
    /// The number of clients that have not completed the call.
    busy: u32,
    /// The clients that wait for the next round.
    gathered: Vec<u32>,
    /// The number of pieces and requests so far; each has a number.
    numbered: u64,
    messages: Messages,
    seen: LockCounters,
    /// The client that wrote a part of a block last; another client has to read the block before it writes there.
    partial: std::collections::BTreeMap<(pario_types::FileId, u64), u32>,
    /// The time at which the last call, and the last piece at its server, was complete.
    calls_done: SimTime,
    done: SimTime,
    events: u64,
}

/// Runs a workload on a file system.
pub fn run(setup: &Setup, work: &Workload) -> Result<Outcome, Error> {
    let mut run = Run::new(setup, work)?;
    run.queue.schedule(SimTime(run.shuffle.allgather_ns()), Event::StartCall);
    while let Some(event) = run.queue.pop() {
        run.events += 1;
        run.apply(event);
    }
    Ok(run.outcome())
}

impl<'a> Run<'a> {
    fn new(setup: &'a Setup, work: &'a Workload) -> Result<Run<'a>, Error> {
        let machine = &setup.machine;
        let count = setup.servers;
        let striping = Striping::new(setup.stripe, count, 0, count)
            .map_err(|_| Error::Number("number or size of stripes"))?;
        if setup.buffer == 0 {
            return Err(Error::Number("buffer of an aggregator"));
        }
        let per_node = u32::try_from(machine.processes_per_node).ok().filter(|n| *n > 0);
        let per_node = per_node.ok_or(Error::Number("number of processes per node"))?;
        let node: Vec<u32> = (0..work.ranks()).map(|rank| rank / per_node).collect();
        let names: Vec<String> = (0..=node[node.len() - 1]).map(|n| format!("n{n}")).collect();
        let servers = setup.suit_servers.then_some(u32::from(count));
        let wanted =
            AggregatorRequest { cb_nodes: setup.aggregators, config: &ConfigList::default(), servers };
        let aggregators = choose_aggregators(&node, &names, &wanted);
        let managers = match setup.protocol {
            Protocol::Server | Protocol::Lease => usize::from(count),
            Protocol::Token => 1,
        };
        let client = |&rank: &u32| Client::new(rank, managers, setup.stripe);
        let settings = TwoPhaseSettings {
            strategy: TransferStrategy::TwoPhase,
            method: setup.method,
            unit: setup.stripe,
            servers: u32::from(count),
            window: setup.buffer,
            aggregators,
            large_piece: u64::MAX,
            single_writer: false,
            exclusive_domains: false,
        };
        Ok(Run {
            striping,
            coverage: CoverageHash::new(setup.seed),
            queue: EventQueue::default(),
            rng: Rng::new(setup.seed),
            shuffle: Shuffle::new(work, machine),
            clients: settings.aggregators.iter().map(client).collect(),
            managers: (0..managers).map(|_| ManagerNode::new(setup.stripe)).collect(),
            servers: (0..count).map(|_| Server::default()).collect(),
            call: 0,
            partition: FileDomains::new(PartitioningMethod::Even, 0..0, 1, 1, 1),
            holes: false,
            busy: 0,
            gathered: Vec::new(),
            numbered: 0,
            messages: Messages::default(),
            seen: LockCounters::default(),
            partial: Default::default(),
            calls_done: SimTime(0),
            done: SimTime(0),
            events: 0,
            setup,
            work,
            settings,
        })
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::StartCall => self.start_call(),
            Event::Window(client) => self.window(client),
            Event::Exchanged(client) => self.exchanged(client),
            Event::LockMessageArrived { manager, message } => self.queue_lock_message(manager, message),
            Event::LockMessageProcessed { manager, message } => self.process_lock_message(manager, message),
            Event::LockActionArrived { manager, action } => self.queue_lock_action(manager, action),
            Event::LockActionProcessed { manager, action } => self.process_lock_action(manager, action),
            Event::Copied(client) => self.copied(client),
            Event::PieceSent(piece) => self.piece_sent(piece),
            Event::PieceArrived(piece) => self.piece_arrived(piece),
            Event::PieceProcessed(piece) => self.piece_processed(piece),
            Event::PieceAcknowledged(piece) => self.piece_acknowledged(piece),
            Event::ReadArrived { server, read } => self.read_arrived(server, read),
            Event::ReadProcessed { server, read } => self.read_processed(server, read),
            Event::StorageDone(server) => self.storage_done(server),
            Event::ReadAnswered { client, request } => self.read_answered(client, request),
        }
    }

    /// Returns a duration with random jitter.
    fn jittered(&mut self, ns: u64) -> u64 {
        self.rng.jitter(ns, self.setup.machine.jitter)
    }

    fn latency(&mut self) -> u64 {
        self.jittered(self.setup.machine.latency)
    }

    fn next_number(&mut self) -> u64 {
        self.numbered += 1;
        self.numbered
    }

    /// The ranks exchange their summaries and plan; each client with a domain begins.
    fn start_call(&mut self) {
        let now = self.queue.now();
        while self.call < self.work.calls() {
            let summaries: Vec<AccessSummary> =
                (0..self.work.ranks()).map(|rank| self.access_summary(rank)).collect();
            if let CollectivePlan::TwoPhase { domains, .. } =
                plan_access(&summaries, &self.settings, &self.coverage, &CostHistory::default())
            {
                let bytes: u64 = summaries.iter().map(|summary| summary.bytes).sum();
                let busy = || summaries.iter().filter(|summary| summary.bytes > 0);
                let lo = busy().map(|summary| summary.lo).min().unwrap_or(0);
                let hi = busy().map(|summary| summary.hi).max().unwrap_or(0);
                self.holes = bytes < hi - lo;
                self.partition = domains;
                break;
            }
            self.call += 1;
        }
        if self.call == self.work.calls() {
            self.calls_done = now;
            self.done = self.done.max(now);
            return;
        }
        self.busy = 0;
        for number in 0..self.clients.len() as u32 {
            let domain = self.partition.domain(number);
            if !domain.is_empty() {
                self.busy += 1;
                self.clients[number as usize].begin_call(domain.windows(self.setup.buffer));
                self.queue.schedule(now, Event::Window(number));
            }
        }
    }

    fn access_summary(&self, rank: u32) -> AccessSummary {
        let call = CallKind { write: self.setup.write, form: 0 };
        match self.work.access(rank, self.call) {
            Access::View { view, at, len } => AccessSummary::of_access(call, 0, view, at, len, false, None),
            Access::Spread(span) if span.len == 0 => AccessSummary::empty(call, 0),
            Access::Spread(span) => AccessSummary {
                lo: span.lo,
                hi: span.hi,
                bytes: span.len,
                pieces: 1,
                ..AccessSummary::empty(call, 0)
            },
        }
    }

    /// Starts a client's next window, or completes its part in the call.
    fn window(&mut self, number: u32) {
        let now = self.queue.now();
        let client = &mut self.clients[number as usize];
        if client.round == client.rounds {
            self.busy -= 1;
            if self.busy == 0 {
                self.call += 1;
                self.queue.schedule(now + self.shuffle.allgather_ns(), Event::StartCall);
            }
            return;
        }
        let window = self.partition.domain(number).window(client.round, self.setup.buffer);
        client.round += 1;
        client.ranges.clear();
        client.ranges.extend(window.extents());
        client.next = 0;
        client.began = now;
        if self.setup.write { self.exchange(number) } else { self.next_request(number) }
    }

    fn exchange(&mut self, number: u32) {
        let now = self.queue.now();
        let client = &mut self.clients[number as usize];
        let (done, any) =
            self.shuffle.exchange(now, self.call, client.rank, &client.ranges, self.setup.write);
        if !any {
            // No rank has bytes here.
            client.ranges.clear();
        }
        client.exchanging_ns += done.since(now);
        self.queue.schedule(done, Event::Exchanged(number));
    }

    fn exchanged(&mut self, number: u32) {
        self.clients[number as usize].began = self.queue.now();
        match self.setup.write {
            true => self.next_request(number),
            false => self.round_done(number),
        }
    }

    /// A client has completed a window.
    fn round_done(&mut self, number: u32) {
        if self.setup.rounds == Rounds::Free {
            return self.window(number);
        }
        self.gathered.push(number);
        if self.gathered.len() == self.busy as usize {
            let at = self.queue.now() + self.shuffle.allgather_ns() / 2;
            for client in std::mem::take(&mut self.gathered) {
                self.queue.schedule(at, Event::Window(client));
            }
        }
    }

    /// Sends the file system the next range of the window, if there is one.
    fn next_request(&mut self, number: u32) {
        let now = self.queue.now();
        let client = &mut self.clients[number as usize];
        match client.ranges.get(client.next).cloned() {
            Some(range) => {
                client.next += 1;
                self.begin(number, range);
            }
            None => {
                client.io_ns += now.since(client.began);
                match self.setup.write {
                    true => self.round_done(number),
                    false => self.exchange(number),
                }
            }
        }
    }

    fn outcome(self) -> Outcome {
        assert!(self.call == self.work.calls(), "nobody waits for ever");
        let end = self.done.max(self.calls_done);
        let closing = end.since(self.calls_done);
        let io: u64 = self.clients.iter().map(|client| client.io_ns + closing).sum();
        let whole = end.0.max(1) as f64 * self.clients.len() as f64;
        let mut locks = LockCounters::default();
        for counted in self.managers.iter().map(|manager| manager.locks.counters()) {
            locks.requests += counted.requests;
            locks.grants += counted.grants;
            locks.conflicts += counted.conflicts;
            locks.revocations += counted.revocations;
            locks.waits += counted.waits;
        }
        let sum = |of: fn(&Server) -> u64| self.servers.iter().map(of).sum();
        Outcome {
            ranks: self.work.ranks(),
            aggregators: self.clients.len() as u32,
            bytes: self.work.bytes(),
            time: end,
            io_share: io as f64 / whole,
            locks,
            seen: self.seen,
            messages: Messages { exchange: self.shuffle.messages, ..self.messages },
            interleaved: sum(|server| server.interleaved),
            seeks: sum(|server| server.seeks),
            wasted: self.clients.iter().map(|client| client.ahead.wasted()).sum(),
            events: self.events,
        }
    }
}
