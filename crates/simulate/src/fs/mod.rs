//! A file system with clients, servers and locks, under collective accesses of many ranks.
//!
//! Aggregators are the file system's clients. In a call each of them works off its domain in windows: exchange, then one
//! request to the file system for each contiguous range of the window; reads the other way round. A call ends when all have
//! ended; the file is closed when the servers have everything.
//!
//! Domains, plans, striping, views and locks are those of Pario. What is pretended is what they meet: time,
//! links, storage ([`server`]), a client's cache and read-ahead ([`operation`], [`reading`]) and the way of lock
//! messages ([`locking`]). All of it happens in one [`Agenda`], so a run depends on its input and seed only.

mod client;
mod keeping;
mod locking;
mod operation;
mod reading;
mod server;

use std::fmt;

use pario_domain::{AggregatorRequest, ConfigList, FileDomains, PartitioningMethod, choose_aggregators};
use pario_layout::Striping;
use pario_locks::{LockAction, LockCounters};
use pario_two_phase::{
    AccessSummary, CallKind, CollectivePlan, CostHistory, CoverageHash, TransferStrategy, TwoPhaseSettings,
    plan_access,
};

use crate::agenda::{Agenda, Time};
use crate::chance::Chance;
use crate::setup::{Messages, Outcome, Protocol, Rounds, Setup};
use crate::shuffle::Shuffle;
use crate::workload::{Access, Workload};
use client::Client;
use locking::{Holder, Keeper, Word};
use server::{Piece, Server, Wish};

/// Why a run cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A number is 0 or too large.
    Number(&'static str),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Number(what) => write!(f, "the {what} is 0 or too large"),
        }
    }
}

impl std::error::Error for Refused {}

/// What happens. A client is named by its number among the aggregators.
#[derive(Debug)]
enum Event {
    /// All ranks meet for the next call.
    Meet,
    /// A client begins its next window.
    Window(u32),
    /// It has the ranks' bytes, or they have theirs.
    Exchanged(u32),
    /// A lock message has arrived at a manager, and then: the manager has looked at it.
    ToKeeper {
        keeper: u32,
        word: Word,
    },
    Kept {
        keeper: u32,
        word: Word,
    },
    /// A lock message has arrived at a client, and then: the client has looked at it.
    ToHolder {
        keeper: u32,
        action: LockAction<Holder>,
    },
    Told {
        keeper: u32,
        action: LockAction<Holder>,
    },
    /// A client's request is in its cache.
    Copied(u32),
    /// A piece has left a client.
    Sent(Piece),
    /// A piece has reached its server, and then: the server has looked at it.
    Arrived(Piece),
    Taken(Piece),
    /// The client knows that its server has a piece.
    Known(Piece),
    /// A request to read has reached its server, and then: the server has looked at it.
    Asked {
        server: u16,
        wish: Wish,
    },
    Wanted {
        server: u16,
        wish: Wish,
    },
    /// A server's storage has done what it did.
    Stored(u16),
    /// A client has what it asked for.
    Received {
        client: u32,
        request: u64,
    },
}

/// A file system in use.
struct Run<'a> {
    setup: &'a Setup,
    work: &'a Workload,
    striping: Striping,
    settings: TwoPhaseSettings,
    coverage: CoverageHash,
    agenda: Agenda<Event>,
    chance: Chance,
    shuffle: Shuffle<'a>,
    clients: Vec<Client>,
    keepers: Vec<Keeper>,
    servers: Vec<Server>,
    /// The next call.
    call: u32,
    partition: FileDomains,
    /// Whether there are bytes in the region that nobody writes.
    holes: bool,
    /// Clients that are not through with the call.
    busy: u32,
    /// Those of them that wait for the next round.
    gathered: Vec<u32>,
    /// Pieces and requests so far, for their numbers.
    numbered: u64,
    messages: Messages,
    seen: LockCounters,
    /// Who wrote a part of a block last: the next one has to read it.
    partial: std::collections::BTreeMap<(pario_types::FileId, u64), u32>,
    /// When the last call, or the last piece at its server, was known to be done.
    calls_done: Time,
    done: Time,
    events: u64,
}

/// Runs a workload on a file system.
pub fn run(setup: &Setup, work: &Workload) -> Result<Outcome, Refused> {
    let mut run = Run::new(setup, work)?;
    run.agenda.put(Time(run.shuffle.meeting_ns()), Event::Meet);
    while let Some(event) = run.agenda.next() {
        run.events += 1;
        run.happen(event);
    }
    Ok(run.outcome())
}

impl<'a> Run<'a> {
    fn new(setup: &'a Setup, work: &'a Workload) -> Result<Run<'a>, Refused> {
        let machine = &setup.machine;
        let count = setup.servers;
        let striping = Striping::new(setup.stripe, count, 0, count)
            .map_err(|_| Refused::Number("number or size of stripes"))?;
        if setup.buffer == 0 {
            return Err(Refused::Number("buffer of an aggregator"));
        }
        let per_node = u32::try_from(machine.processes_per_node).ok().filter(|n| *n > 0);
        let per_node = per_node.ok_or(Refused::Number("number of processes per node"))?;
        let node: Vec<u32> = (0..work.ranks()).map(|rank| rank / per_node).collect();
        let names: Vec<String> = (0..=node[node.len() - 1]).map(|n| format!("n{n}")).collect();
        let servers = setup.suit_servers.then_some(u32::from(count));
        let wanted =
            AggregatorRequest { cb_nodes: setup.aggregators, config: &ConfigList::default(), servers };
        let aggregators = choose_aggregators(&node, &names, &wanted);
        let keepers = match setup.protocol {
            Protocol::Server | Protocol::Lease => usize::from(count),
            Protocol::Token => 1,
        };
        let client = |&rank: &u32| Client::new(rank, keepers, setup.stripe);
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
            agenda: Agenda::default(),
            chance: Chance::new(setup.seed),
            shuffle: Shuffle::new(work, machine),
            clients: settings.aggregators.iter().map(client).collect(),
            keepers: (0..keepers).map(|_| Keeper::new(setup.stripe)).collect(),
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
            calls_done: Time(0),
            done: Time(0),
            events: 0,
            setup,
            work,
            settings,
        })
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Meet => self.meet(),
            Event::Window(client) => self.window(client),
            Event::Exchanged(client) => self.exchanged(client),
            Event::ToKeeper { keeper, word } => self.at_keeper(keeper, word),
            Event::Kept { keeper, word } => self.kept(keeper, word),
            Event::ToHolder { keeper, action } => self.at_holder(keeper, action),
            Event::Told { keeper, action } => self.told(keeper, action),
            Event::Copied(client) => self.copied(client),
            Event::Sent(piece) => self.sent(piece),
            Event::Arrived(piece) => self.arrived(piece),
            Event::Taken(piece) => self.taken(piece),
            Event::Known(piece) => self.known(piece),
            Event::Asked { server, wish } => self.asked(server, wish),
            Event::Wanted { server, wish } => self.wanted(server, wish),
            Event::Stored(server) => self.stored(server),
            Event::Received { client, request } => self.received(client, request),
        }
    }

    /// A time that turns out a little longer or shorter.
    fn about(&mut self, ns: u64) -> u64 {
        self.chance.about(ns, self.setup.machine.jitter)
    }

    fn latency(&mut self) -> u64 {
        self.about(self.setup.machine.latency)
    }

    fn number(&mut self) -> u64 {
        self.numbered += 1;
        self.numbered
    }

    /// The ranks bring their summaries and plan; whoever has a domain begins.
    fn meet(&mut self) {
        let now = self.agenda.now();
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
                self.agenda.put(now, Event::Window(number));
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

    /// A client begins its next window, or is through with the call.
    fn window(&mut self, number: u32) {
        let now = self.agenda.now();
        let client = &mut self.clients[number as usize];
        if client.round == client.rounds {
            self.busy -= 1;
            if self.busy == 0 {
                self.call += 1;
                self.agenda.put(now + self.shuffle.meeting_ns(), Event::Meet);
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
        let now = self.agenda.now();
        let client = &mut self.clients[number as usize];
        let (done, any) =
            self.shuffle.exchange(now, self.call, client.rank, &client.ranges, self.setup.write);
        if !any {
            // Nobody has bytes here.
            client.ranges.clear();
        }
        client.exchanging_ns += done.since(now);
        self.agenda.put(done, Event::Exchanged(number));
    }

    fn exchanged(&mut self, number: u32) {
        self.clients[number as usize].began = self.agenda.now();
        match self.setup.write {
            true => self.next_request(number),
            false => self.round_done(number),
        }
    }

    /// A client is through with a window.
    fn round_done(&mut self, number: u32) {
        if self.setup.rounds == Rounds::Free {
            return self.window(number);
        }
        self.gathered.push(number);
        if self.gathered.len() == self.busy as usize {
            let at = self.agenda.now() + self.shuffle.meeting_ns() / 2;
            for client in std::mem::take(&mut self.gathered) {
                self.agenda.put(at, Event::Window(client));
            }
        }
    }

    /// The file system gets the next range of the window, if there is one.
    fn next_request(&mut self, number: u32) {
        let now = self.agenda.now();
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
        for counted in self.keepers.iter().map(|keeper| keeper.manager.counters()) {
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
