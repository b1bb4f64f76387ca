//! Both sides together: several clients and one manager, with messages in transit between them.
//!
//! Messages to a client arrive in order. A release of a client may arrive later than messages that it sent afterwards,
//! because flushing takes time.

use std::collections::{BTreeMap, VecDeque};

use pario_types::FileId;
use proptest::prelude::*;

use pario_locks::LockCounters;
use pario_locks::LockExtent;
use pario_locks::LockManager;
use pario_locks::{BeginOutcome, ClientLocks};
use pario_locks::{Grant, LockAction, LockId, LockMode, LockRelease, LockRequest, LockTicket};

/// The first ticket of exact requests, which `ClientLocks` does not handle.
const EXACT: u64 = 1 << 32;

/// An operation of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    file: FileId,
    extent: LockExtent,
    mode: LockMode,
    grant: Grant,
}

#[derive(Debug)]
enum Message {
    Request(LockRequest<u32>),
    Release(LockRelease),
    Unlock(LockId),
    Cancel(LockTicket),
}

#[derive(Debug)]
struct Client {
    held: ClientLocks,
    inbox: VecDeque<LockAction<u32>>,
    outbox: VecDeque<Message>,
    flushing: VecDeque<LockRelease>,
    waiting: BTreeMap<LockTicket, Operation>,
    running: BTreeMap<LockTicket, Operation>,
    exact: BTreeMap<LockTicket, LockId>,
    last_exact: u64,
}

/// Clients, manager, and messages between them.
#[derive(Debug)]
pub(crate) struct World {
    unit: u64,
    pub manager: LockManager<u32>,
    clients: BTreeMap<u32, Client>,
    last_client: u32,
    /// The messages, counted one by one.
    pub seen: LockCounters,
}

impl World {
    pub fn new(unit: u64, clients: u32) -> World {
        let (manager, seen) = (LockManager::new(unit), LockCounters::default());
        let mut world = World { unit, manager, clients: BTreeMap::new(), last_client: 0, seen };
        (0..clients).for_each(|_| world.join());
        world
    }

    fn join(&mut self) {
        let client = Client {
            held: ClientLocks::new(self.unit),
            inbox: VecDeque::new(),
            outbox: VecDeque::new(),
            flushing: VecDeque::new(),
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
            exact: BTreeMap::new(),
            last_exact: EXACT,
        };
        self.clients.insert(self.last_client, client);
        self.last_client += 1;
    }

    /// The client at this place among those alive.
    fn who(&self, place: usize) -> u32 {
        *self.clients.keys().nth(place % self.clients.len()).expect("somebody is alive")
    }

    pub fn begin(&mut self, who: u32, operation: Operation) -> LockTicket {
        let client = self.clients.get_mut(&who).expect("alive");
        let Operation { file, extent, mode, grant } = operation;
        let begin = match grant {
            Grant::Largest => client.held.begin(file, extent, mode),
            Grant::Exact => {
                client.last_exact += 1;
                BeginOutcome::Ask(LockTicket(client.last_exact))
            }
        };
        match begin {
            BeginOutcome::Now(ticket) => {
                client.running.insert(ticket, operation);
                ticket
            }
            BeginOutcome::Ask(ticket) => {
                client.waiting.insert(ticket, operation);
                let request = LockRequest { holder: who, ticket, file, extent, mode, grant };
                client.outbox.push_back(Message::Request(request));
                ticket
            }
        }
    }

    pub fn end(&mut self, who: u32, ticket: LockTicket) {
        let client = self.clients.get_mut(&who).expect("alive");
        client.running.remove(&ticket).expect("it runs");
        match client.exact.remove(&ticket) {
            Some(lock) => client.outbox.push_back(Message::Unlock(lock)),
            None => client.flushing.extend(client.held.end(ticket)),
        }
    }

    fn cancel(&mut self, who: u32, ticket: LockTicket) {
        let client = self.clients.get_mut(&who).expect("alive");
        client.waiting.remove(&ticket);
        client.flushing.extend(client.held.end(ticket));
        client.outbox.push_back(Message::Cancel(ticket));
    }

    fn die(&mut self, who: u32) {
        self.clients.remove(&who);
        let actions = self.manager.holder_gone(who);
        self.send(actions);
        self.join();
    }

    fn send(&mut self, actions: Vec<LockAction<u32>>) {
        for action in actions {
            match action {
                LockAction::Granted { .. } => self.seen.grants += 1,
                LockAction::Revoke { .. } => self.seen.revocations += 1,
                LockAction::Refused { .. } => {}
            }
            self.clients
                .get_mut(&action.holder())
                .expect("nobody dead is told anything")
                .inbox
                .push_back(action);
        }
    }

    /// The manager gets a client's next message.
    fn next_to_manager(&mut self, who: u32) -> bool {
        let Some(message) = self.clients.get_mut(&who).and_then(|client| client.outbox.pop_front()) else {
            return false;
        };
        let actions = match message {
            Message::Request(request) => {
                self.seen.requests += 1;
                let actions = self.manager.request(request).expect("within limits");
                self.seen.waits += u64::from(!matches!(actions[..], [LockAction::Granted { .. }]));
                actions
            }
            Message::Release(release) => self.manager.release(who, &release).expect("its own"),
            Message::Unlock(lock) => self.manager.unlock(who, lock).expect("its own"),
            Message::Cancel(ticket) => self.manager.cancel(who, ticket),
        };
        self.send(actions);
        true
    }

    /// A client gets the manager's next message.
    fn next_to_client(&mut self, who: u32) -> bool {
        let client = self.clients.get_mut(&who).expect("alive");
        let Some(action) = client.inbox.pop_front() else { return false };
        match action {
            LockAction::Granted { ticket, lock, .. } if ticket.0 > EXACT => {
                match client.waiting.remove(&ticket) {
                    Some(operation) => {
                        client.running.insert(ticket, operation);
                        client.exact.insert(ticket, lock);
                    }
                    None => client.outbox.push_back(Message::Unlock(lock)),
                }
            }
            LockAction::Granted { ticket, file, lock, extent, mode, .. } => {
                let begun = client.held.granted(ticket, file, lock, extent, mode);
                let operation = client.waiting.remove(&ticket);
                assert_eq!(begun, operation.is_some());
                operation.map(|operation| client.running.insert(ticket, operation));
            }
            LockAction::Revoke { lock, wanted, .. } => {
                client.flushing.extend(client.held.revoke(lock, wanted))
            }
            LockAction::Refused { .. } => unreachable!("no file goes away here"),
        }
        true
    }

    /// A client has flushed what one of its releases gives up, not necessarily the oldest.
    fn flushed(&mut self, who: u32, which: usize) -> bool {
        let client = self.clients.get_mut(&who).expect("alive");
        if client.flushing.is_empty() {
            return false;
        }
        let release = client.flushing.remove(which % client.flushing.len()).expect("one of them");
        client.outbox.push_back(Message::Release(release));
        true
    }

    /// Delivers messages until there are none.
    pub fn deliver(&mut self) {
        let ids: Vec<u32> = self.clients.keys().copied().collect();
        while ids
            .iter()
            .any(|&who| self.next_to_client(who) || self.flushed(who, 0) || self.next_to_manager(who))
        {
        }
    }

    /// No two operations under way exclude each other.
    fn check(&self) {
        self.manager.check_invariants().unwrap();
        let all: Vec<(u32, Operation)> = self
            .clients
            .iter()
            .flat_map(|(&who, client)| client.running.values().map(move |&o| (who, o)))
            .collect();
        for (at, (holder, a)) in all.iter().enumerate() {
            for (other, b) in &all[at + 1..] {
                let exact = a.grant == Grant::Exact && b.grant == Grant::Exact;
                let excludes = a.mode.excludes(b.mode) && (holder != other || exact);
                let meet = a.file == b.file && a.extent.overlaps(b.extent);
                assert!(!(meet && excludes), "{holder}: {a:?} and {other}: {b:?} run at the same time");
            }
        }
        for client in self.clients.values() {
            for (file, ticket, extent) in client.held.running() {
                let operation = client.running[&ticket];
                assert_eq!((file, extent), (operation.file, operation.extent));
            }
        }
    }

    /// Ends all operations that have begun, until no client waits any longer.
    fn finish(&mut self) {
        self.deliver();
        loop {
            let running: Vec<(u32, LockTicket)> = self
                .clients
                .iter()
                .flat_map(|(&who, c)| c.running.keys().map(move |&ticket| (who, ticket)))
                .collect();
            let Some(&(who, ticket)) = running.first() else { break };
            self.end(who, ticket);
            self.check();
            self.deliver();
            self.check();
        }
    }

    /// When nothing is under way, both sides think the same.
    fn compare(&self) {
        for (&who, client) in &self.clients {
            assert!(client.waiting.is_empty(), "client {who} waits for {:?}", client.waiting);
            for file in [FileId(0), FileId(1)] {
                for mode in [LockMode::Shared, LockMode::Exclusive] {
                    assert_eq!(self.manager.cached(who, file, mode), client.held.usable(file, mode));
                }
            }
        }
        let conflicts = self.manager.counters().conflicts;
        assert_eq!(self.manager.counters(), LockCounters { conflicts, ..self.seen });
        assert_eq!(self.manager.waiting(), 0);
    }

    fn give_up_all(&mut self) {
        for client in self.clients.values_mut() {
            for file in [FileId(0), FileId(1)] {
                client.flushing.extend(client.held.release_unused(file));
            }
            assert_eq!(client.held.locks(), 0);
        }
        self.deliver();
    }
}

/// An operation on bytes `start..end` of file 0.
pub(crate) fn operation(start: u64, end: u64, mode: LockMode, grant: Grant) -> Operation {
    Operation { file: FileId(0), extent: LockExtent::new(start, end).expect("not empty"), mode, grant }
}

#[derive(Clone, Debug)]
enum Step {
    Begin(Operation),
    End(usize),
    ToManager,
    ToClient,
    Flushed(usize),
    Cancel(usize),
    GiveUp(FileId),
    Trim(usize),
    Die,
}

fn any_step() -> impl Strategy<Value = Step> {
    let mode = prop_oneof![Just(LockMode::Shared), Just(LockMode::Exclusive)];
    let grant = prop_oneof![4 => Just(Grant::Largest), 1 => Just(Grant::Exact)];
    let begin = (0u64..2, 0u64..40, 1u64..12, mode, grant).prop_map(|(file, start, len, mode, grant)| {
        Step::Begin(Operation { file: FileId(file), ..operation(start, start + len, mode, grant) })
    });
    prop_oneof![
        12 => begin,
        10 => any::<usize>().prop_map(Step::End),
        14 => Just(Step::ToManager),
        14 => Just(Step::ToClient),
        10 => any::<usize>().prop_map(Step::Flushed),
        2 => any::<usize>().prop_map(Step::Cancel),
        1 => (0u64..2).prop_map(|file| Step::GiveUp(FileId(file))),
        1 => (0usize..3).prop_map(Step::Trim),
        1 => Just(Step::Die),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn operations_exclude_each_other_and_all_get_their_turn(
        unit in 1u64..6,
        clients in 2u32..5,
        steps in prop::collection::vec((any::<usize>(), any_step()), 1..150),
    ) {
        let mut world = World::new(unit, clients);
        for (place, step) in steps {
            let who = world.who(place);
            let nth = |operations: &BTreeMap<LockTicket, Operation>, n: usize| {
                operations.keys().nth(n % operations.len().max(1)).copied()
            };
            match step {
                Step::Begin(operation) => {
                    world.begin(who, operation);
                }
                Step::End(n) => {
                    if let Some(ticket) = nth(&world.clients[&who].running, n) {
                        world.end(who, ticket);
                    }
                }
                Step::ToManager => {
                    world.next_to_manager(who);
                }
                Step::ToClient => {
                    world.next_to_client(who);
                }
                Step::Flushed(which) => {
                    world.flushed(who, which);
                }
                Step::Cancel(n) => {
                    if let Some(ticket) = nth(&world.clients[&who].waiting, n) {
                        world.cancel(who, ticket);
                    }
                }
                Step::GiveUp(file) => {
                    let client = world.clients.get_mut(&who).expect("alive");
                    client.flushing.extend(client.held.release_unused(file));
                }
                Step::Trim(most) => {
                    let client = world.clients.get_mut(&who).expect("alive");
                    client.flushing.extend(client.held.trim(most));
                }
                Step::Die => world.die(who),
            }
            world.check();
        }
        world.finish();
        world.compare();
        world.give_up_all();
        prop_assert!(world.manager.is_empty());
    }
}
