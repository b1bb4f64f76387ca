//! Leases of teams, and accesses of other clients.

mod common;

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::{BLOCK, Client, Scratch, config, deadline, start, start_all, start_with, wait_until};
use pario_cache::{PinError, SlotRef};
use pario_server::Config;
use pario_transport::Address;
use pario_types::{ClientId, ErrorKind, FileId, RequestId, ServerId, TruncationId};
use pario_wire::message::{
    AcquireIntent, BlockRange, ByteRange, ByteSelection, ESTALE, LeaseCounters, LeaseRecall,
};
use pario_wire::{Envelope, Reply, Request};

const FILE: FileId = FileId(99);
const UNIT: u64 = BLOCK as u64;
const ALL: ByteRange = ByteRange { at: 0, len: i64::MAX as u64 };

fn blocks(first: u64, count: u64) -> ByteRange {
    ByteRange { at: first * UNIT, len: count * UNIT }
}

/// A process of a team: a mailbox, and a client that has joined.
struct Process {
    team: u128,
    mailbox: Client,
    data: Client,
}

impl Process {
    fn new(address: &Address, team: u128, number: u128) -> Process {
        let mut mailbox = Client::connect(address, 0, 1, number);
        let mut data = Client::connect(address, 0, 1, number + 1);
        assert!(has_no_recalls(&mailbox.ask(&Request::PollRecalls { team, anew: true, wait_ms: 0 })));
        assert_eq!(data.ask(&Request::JoinTeam { team, mailbox: ClientId(number) }), Reply::Done);
        Process { team, mailbox, data }
    }

    fn lease(&mut self, ranges: &[ByteRange]) -> Reply {
        self.data.ask(&Request::Lease { team: self.team, file: FILE, ranges: ranges.to_vec() })
    }

    /// Waits for the next recalls.
    fn recalls(&mut self) -> Vec<LeaseRecall> {
        let poll = Request::PollRecalls { team: self.team, anew: false, wait_ms: 10_000 };
        for _ in 0..3 {
            match self.mailbox.ask(&poll) {
                Reply::Recalled { recalls, .. } if recalls.is_empty() => {}
                Reply::Recalled { recalls, .. } => return recalls,
                other => panic!("{other:?}"),
            }
        }
        panic!("no recall arrives")
    }

    fn yield_range(&mut self, number: u64, gone: ByteRange) -> Reply {
        self.mailbox.ask(&Request::Yield { number, gone })
    }

    /// Receives one recall, of this range, and yields it.
    fn yields_recalled(&mut self, range: ByteRange) {
        let recalls = self.recalls();
        let number = recalls[0].number;
        assert_eq!(recalls, [LeaseRecall { number, file: FILE, range }]);
        assert_eq!(self.yield_range(number, range), Reply::Done);
    }
}

fn has_no_recalls(polled: &Reply) -> bool {
    matches!(polled, Reply::Recalled { recalls, .. } if recalls.is_empty())
}

fn lease_counters(client: &mut Client) -> LeaseCounters {
    match client.ask(&Request::Status) {
        Reply::Status(status) => status.leases,
        other => panic!("{other:?}"),
    }
}

fn kind(reply: &Reply) -> Option<ErrorKind> {
    match reply {
        Reply::Failed(failure) => Some(failure.kind),
        _ => None,
    }
}

#[test]
fn other_clients_read_what_a_team_has_cached() {
    let dir = Scratch::new("team");
    let server = start(&dir.0, 0, 1, 32);
    let address = &server.started().unix;
    let mut one = Process::new(address, 1, 10);
    let mut two = Process::new(address, 2, 20);
    let mut other = Client::connect(server.started().tcp.as_ref().unwrap(), 0, 1, 30);
    assert_eq!(other.write(0, FILE, 0, &[b'a'; 3 * BLOCK as usize]), Reply::Done);
    assert_eq!(
        one.lease(&[blocks(1, 1)]),
        Reply::Leased { extents: vec![ALL] },
        "the first team gets the whole file"
    );
    // The team's own accesses do not recall.
    assert_eq!(one.data.write(0, FILE, UNIT, b"one"), Reply::Done);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| other.read(0, FILE, UNIT + 1, 5).0);
        let [recall] = one.recalls()[..] else { panic!("one recall") };
        assert_eq!((recall.file, recall.range), (FILE, blocks(1, 1)));
        assert_eq!(one.data.write(0, FILE, UNIT, b"TWO"), Reply::Done, "before the waiting read");
        let too_little = ByteRange { at: UNIT, len: UNIT - 1 };
        assert_eq!(kind(&one.yield_range(recall.number, too_little)), Some(ErrorKind::Arg));
        let beyond = ByteRange { at: UNIT, len: ALL.len - UNIT };
        assert_eq!(one.yield_range(recall.number, beyond), Reply::Done);
        assert_eq!(one.yield_range(recall.number, beyond), Reply::Done, "the recall is over");
        assert_eq!(reader.join().unwrap(), b"WOaaa");
    });
    // The team still has block 0; another team gets the rest.
    let rest = ByteRange { at: UNIT, len: ALL.len - UNIT };
    assert_eq!(two.lease(&[blocks(3, 2), blocks(7, 1)]), Reply::Leased { extents: vec![rest] });
    assert_eq!(one.lease(&[blocks(0, 1)]), Reply::Leased { extents: vec![blocks(0, 1)] });
    std::thread::scope(|scope| {
        let second = scope.spawn(|| two.lease(&[blocks(0, 2)]));
        one.yields_recalled(blocks(0, 2));
        assert_eq!(second.join().unwrap(), Reply::Leased { extents: vec![ALL] });
    });
    let leases = lease_counters(&mut other);
    assert_eq!((leases.teams, leases.mailboxes, leases.revocations, leases.cut_off), (2, 2, 2, 0));
    assert!(leases.requests == leases.grants && leases.conflicts >= 2 && leases.waits >= 2, "{leases:?}");
    // After a release there is no recall.
    assert_eq!(two.mailbox.ask(&Request::ReleaseLeases { team: 2, file: FILE }), Reply::Done);
    assert_eq!(other.read(0, FILE, 0, 1).0, b"a");
    assert_eq!(lease_counters(&mut other).revocations, 2);
    server.shut_down().unwrap();
}

#[test]
fn a_lease_makes_known_slots_invalid() {
    let dir = Scratch::new("known");
    let server = start(&dir.0, 0, 1, 32);
    let mut mapped = Client::connect(&server.started().unix, 0, 1, 1);
    let mut one = Process::new(&server.started().unix, 1, 10);
    mapped.write(0, FILE, 0, b"before");
    let acquire = |ahead| Request::Acquire {
        file: FILE,
        intent: AcquireIntent::Modify,
        blocks: vec![BlockRange { first: 0, count: 1 }],
        ahead,
    };
    let place = |reply: &Reply| match reply {
        Reply::Slots(slots) => SlotRef { slot: slots[0].slot, generation: slots[0].generation },
        other => panic!("{other:?}"),
    };
    let known = place(&mapped.ask(&acquire(4)));
    let pool = mapped.pool.take().unwrap();
    let guard = pool.pin(known, FILE, 0).unwrap();
    std::thread::scope(|scope| {
        let lease = scope.spawn(|| one.lease(&[blocks(0, 1)]));
        wait_until("the slot stays valid", || pool.pin(known, FILE, 0).is_err());
        // The lease waits for a client in the middle of a copy.
        guard.write(0, b"during").unwrap();
        assert!(!lease.is_finished());
        drop(guard);
        assert_eq!(lease.join().unwrap(), Reply::Leased { extents: vec![ALL] });
    });
    assert_eq!(one.data.read(0, FILE, 0, 6).0, b"during");
    assert_eq!(pool.pin(known, FILE, 0).unwrap_err(), PinError::Stale);
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| mapped.ask(&acquire(4)));
        let recalls = one.recalls();
        assert_eq!(recalls[0].range, blocks(0, 1));
        one.data.write(0, FILE, 0, b"after!");
        one.yield_range(recalls[0].number, blocks(0, 1));
        let reply = asked.join().unwrap();
        assert!(
            matches!(&reply, Reply::Slots(slots) if slots.len() == 1),
            "the next blocks are leased: {reply:?}"
        );
        let mut read = [0; 6];
        pool.pin(place(&reply), FILE, 0).unwrap().read(0, &mut read);
        assert_eq!(&read, b"after!");
    });
    server.shut_down().unwrap();
}

#[test]
fn no_access_waits_for_a_mailbox_that_has_ended() {
    let dir = Scratch::new("ends");
    let server = start(&dir.0, 0, 1, 32);
    let address = &server.started().unix;
    let mut stays = Process::new(address, 1, 10);
    let mut goes = Process::new(address, 1, 20);
    let mut other = Client::connect(address, 0, 1, 30);
    assert_eq!(goes.lease(&[blocks(0, 1)]), Reply::Leased { extents: vec![ALL] });
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| other.write(0, FILE, 0, b"free"));
        stays.yields_recalled(blocks(0, 1));
        // It ends while a poll waits: only the end of the connection shows that.
        goes.recalls();
        let poll = Request::PollRecalls { team: 1, anew: false, wait_ms: 10_000 };
        let envelope = Envelope::new(ServerId(0), RequestId(1000));
        goes.mailbox.connection.send(envelope, &poll, &[], deadline()).unwrap();
        drop(goes);
        assert_eq!(writer.join().unwrap(), Reply::Done);
    });
    let leases = lease_counters(&mut other);
    assert_eq!((leases.teams, leases.mailboxes), (1, 1));
    // With the last mailbox the team loses all its leases, also those that were not recalled.
    let rest = ByteRange { at: UNIT, len: ALL.len - UNIT };
    assert_eq!(stays.lease(&[blocks(5, 1)]), Reply::Leased { extents: vec![rest] });
    assert_eq!(stays.mailbox.ask(&Request::CloseMailbox), Reply::Done);
    assert_eq!(lease_counters(&mut other).teams, 0);
    assert_eq!(other.write(0, FILE, 5 * UNIT, b"free"), Reply::Done);
    let again = Request::Lease { team: 1, file: FILE, ranges: vec![blocks(0, 1)] };
    let is_refused = |reply: Reply| matches!(reply, Reply::Failed(failure) if failure.errno == ESTALE);
    assert!(is_refused(stays.data.ask(&again)), "no mailbox");
    assert_eq!(lease_counters(&mut other).teams, 0);
    server.shut_down().unwrap();
}

#[test]
fn a_process_that_does_not_yield_in_time_is_cut_off() {
    let dir = Scratch::new("grace");
    let server = start_with(Config { grace: Duration::from_millis(50), ..config(&dir.0, 0, 1, 32) });
    let address = &server.started().unix;
    let mut late = Process::new(address, 1, 10);
    let mut other = Client::connect(address, 0, 1, 30);
    assert_eq!(late.lease(&[blocks(0, 1)]), Reply::Leased { extents: vec![ALL] });
    assert_eq!(late.data.write(0, FILE, 0, b"in time"), Reply::Done);
    let blocks = vec![BlockRange { first: 0, count: 1 }];
    let acquire = Request::Acquire { file: FILE, intent: AcquireIntent::Modify, blocks, ahead: 0 };
    let Reply::Slots(slots) = late.data.ask(&acquire) else { panic!() };
    let known = SlotRef { slot: slots[0].slot, generation: slots[0].generation };
    let pool = late.data.pool.take().unwrap();
    // The process is in the middle of a copy, for which others wait.
    let guard = pool.pin(known, FILE, 0).unwrap();
    let is_disconnected = |client: &mut Client| {
        let envelope = Envelope::new(ServerId(0), RequestId(1000));
        let gone = client.connection.call(envelope, &Request::Ping, &[], &mut [], deadline());
        gone.err().map(|e| e.kind()) == Some(ErrorKind::Unreachable)
    };
    std::thread::scope(|scope| {
        let write = scope.spawn(|| other.write(0, FILE, 0, b"at last"));
        let poll = Request::PollRecalls { team: 1, anew: false, wait_ms: 10_000 };
        while has_no_recalls(&late.mailbox.ask(&poll)) {}
        wait_until("the slot stays valid", || pool.pin(known, FILE, 0).is_err());
        guard.write(0, b"half of it").unwrap();
        assert!(!write.is_finished());
        drop(guard);
        assert_eq!(write.join().unwrap(), Reply::Done);
    });
    let leases = lease_counters(&mut other);
    assert_eq!((leases.teams, leases.mailboxes, leases.cut_off), (0, 0, 1));
    assert!(is_disconnected(&mut late.mailbox) && is_disconnected(&mut late.data));
    // The server refuses all changes of the process, but not reads.
    assert_eq!(pool.pin(known, FILE, 0).unwrap_err(), PinError::Stale);
    late.data = Client::connect(address, 0, 1, 11);
    assert_eq!(late.data.ask(&Request::JoinTeam { team: 1, mailbox: ClientId(10) }), Reply::Done);
    let is_refused = |reply: Reply| matches!(reply, Reply::Failed(failure) if failure.errno == ESTALE);
    assert!(is_refused(late.data.write(0, FILE, 0, b"too late")));
    assert!(is_refused(late.data.ask(&acquire)));
    assert_eq!(late.data.read(0, FILE, 0, 7).0, b"at last");
    late.mailbox = Client::connect(address, 0, 1, 10);
    let poll = |anew| Request::PollRecalls { team: 1, anew, wait_ms: 0 };
    assert!(is_refused(late.mailbox.ask(&poll(false))));
    assert!(is_refused(late.data.write(0, FILE, 0, b"too late")));
    // Until the process has dropped its cache.
    assert!(has_no_recalls(&late.mailbox.ask(&poll(true))));
    assert_eq!(late.data.write(0, FILE, 0, b"once more"), Reply::Done);
    assert_eq!(other.read(0, FILE, 0, 9).0, b"once more");
    let Reply::Status(status) = other.ask(&Request::Status) else { panic!() };
    assert!(status.last_errors[0].contains("did not give up"), "{:?}", status.last_errors);
    server.shut_down().unwrap();
}

#[test]
fn truncations_and_removals_also_recall_leases_of_the_own_team() {
    let dir = Scratch::new("cutting");
    let server = start(&dir.0, 0, 1, 32);
    let mut one = Process::new(&server.started().unix, 1, 10);
    let mut own = Client::connect(&server.started().unix, 0, 1, 30);
    assert_eq!(own.ask(&Request::JoinTeam { team: 1, mailbox: ClientId(10) }), Reply::Done);
    own.write(0, FILE, 0, &[7; 10_000]);
    let from = |block: u64| ByteRange { at: block * UNIT, len: ALL.len - block * UNIT };
    let requests = [
        (Request::Truncate { file: FILE, end: 5000, truncation: TruncationId(0) }, from(1)),
        (Request::RemoveParts { files: vec![FileId(98), FILE, FileId(97)] }, from(0)),
    ];
    for (request, range) in requests {
        assert_eq!(one.lease(&[blocks(0, 3)]), Reply::Leased { extents: vec![ALL] });
        // Neither request needs the bytes in the team's caches.
        assert_eq!(own.ask(&Request::Sync { file: FILE, durable: false }), Reply::Done);
        assert!(matches!(own.ask(&Request::End { file: FILE }), Reply::End { .. }));
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| own.ask(&request));
            one.yields_recalled(range);
            assert_eq!(asked.join().unwrap(), Reply::Done);
        });
    }
    assert_eq!(own.ask(&Request::End { file: FILE }), Reply::End { end: 0 });
    server.shut_down().unwrap();
}

#[test]
fn a_client_that_is_connected_to_another_server_can_join_a_team() {
    let dir = Scratch::new("through");
    let servers = start_all(&dir.0, 2, 32);
    let (here, there) = (&servers[1].started().unix, &servers[0].started().unix);
    let mut mailbox = Client::connect(here, 1, 2, 10);
    let poll = Request::PollRecalls { team: 1, anew: true, wait_ms: 0 };
    assert!(has_no_recalls(&mailbox.ask(&poll)));
    let mut away = Client::connect(there, 0, 2, 20);
    let mut ask = |request: &Request, out: &[u8]| away.exchange(ServerId(1), request, out, &mut []);
    assert_eq!(ask(&Request::JoinTeam { team: 1, mailbox: ClientId(10) }, &[]), Reply::Done);
    let lease = Request::Lease { team: 1, file: FILE, ranges: vec![blocks(0, 1)] };
    assert_eq!(ask(&lease, &[]), Reply::Leased { extents: vec![ALL] });
    let write = Request::Write { file: FILE, what: ByteSelection::Ranges(vec![ByteRange { at: 0, len: 4 }]) };
    assert_eq!(ask(&write, b"mine"), Reply::Done);
    assert!(has_no_recalls(&mailbox.ask(&poll)), "the client belongs to the team");
    assert_eq!(kind(&ask(&poll, &[])), Some(ErrorKind::Arg), "the server would not notice its end");
    for server in servers {
        server.shut_down().unwrap();
    }
}

/// A process that caches counters and increments them in its memory.
struct Caching {
    team: u128,
    cache: Mutex<Cache>,
    data: Mutex<Client>,
}

#[derive(Default)]
struct Cache {
    /// The counters in leased blocks.
    counters: HashMap<u64, u64>,
    /// The number of yields.
    yields: u64,
}

const COUNTERS: u64 = 3;

impl Caching {
    fn number(reply: &[u8]) -> u64 {
        u64::from_le_bytes(reply.try_into().unwrap())
    }

    fn add(&self, block: u64) {
        loop {
            let mut cache = self.cache.lock().unwrap();
            if let Some(counter) = cache.counters.get_mut(&block) {
                *counter += 1;
                return;
            }
            let yields = cache.yields;
            drop(cache);
            let request = Request::Lease { team: self.team, file: FILE, ranges: vec![blocks(block, 1)] };
            let reply = self.data.lock().unwrap().ask(&request);
            assert!(matches!(reply, Reply::Leased { .. }), "{reply:?}");
            let (bytes, _) = self.data.lock().unwrap().read(0, FILE, block * UNIT, 8);
            let mut cache = self.cache.lock().unwrap();
            if cache.yields == yields {
                cache.counters.insert(block, Caching::number(&bytes));
            }
        }
    }

    /// Answers recalls until the test is over.
    fn serve(&self, mailbox: &mut Client, staging: &mut Client, over: &AtomicBool) {
        while !over.load(Ordering::Relaxed) {
            let poll = Request::PollRecalls { team: self.team, anew: false, wait_ms: 100 };
            let Reply::Recalled { recalls, .. } = mailbox.ask(&poll) else { panic!() };
            for recall in recalls {
                let mut cache = self.cache.lock().unwrap();
                cache.yields += 1;
                let ByteRange { at, len } = recall.range;
                for block in (0..COUNTERS).filter(|block| (at..at + len).contains(&(block * UNIT))) {
                    if let Some(counter) = cache.counters.remove(&block) {
                        let reply = staging.write(0, FILE, block * UNIT, &counter.to_le_bytes());
                        assert_eq!(reply, Reply::Done);
                    }
                }
                let reply = mailbox.ask(&Request::Yield { number: recall.number, gone: recall.range });
                assert_eq!(reply, Reply::Done);
            }
        }
    }
}

/// Two teams increment the same counters in their caches, and a third client reads them.
#[test]
fn no_addition_is_lost_between_two_caches() {
    const EACH: u64 = 60;
    let dir = Scratch::new("counters");
    let server = start(&dir.0, 0, 1, 16);
    let address = server.started().unix.clone();
    let connect = |number: u128| Client::connect(&address, 0, 1, number);
    let joined = |number: u128, team: u128| {
        let mut client = connect(number);
        assert_eq!(client.ask(&Request::JoinTeam { team, mailbox: ClientId(team * 10) }), Reply::Done);
        client
    };
    let over = AtomicBool::new(false);
    let left = AtomicU64::new(2);
    std::thread::scope(|scope| {
        for team in [1u128, 2] {
            let (mut mailbox, mut staging) = (connect(team * 10), joined(team * 10 + 1, team));
            assert!(matches!(
                mailbox.ask(&Request::PollRecalls { team, anew: true, wait_ms: 0 }),
                Reply::Recalled { .. }
            ));
            let data = Mutex::new(joined(team * 10 + 2, team));
            let caching = std::sync::Arc::new(Caching { team, cache: Mutex::default(), data });
            let (server_side, over, left) = (caching.clone(), &over, &left);
            scope.spawn(move || server_side.serve(&mut mailbox, &mut staging, over));
            scope.spawn(move || {
                for turn in 0..EACH {
                    (0..COUNTERS).for_each(|block| caching.add((block + turn) % COUNTERS));
                }
                left.fetch_sub(1, Ordering::Relaxed);
            });
        }
        let mut looker = connect(99);
        let mut seen = [0; COUNTERS as usize];
        let mut done = false;
        while !done {
            // Loaded before the reads, so that the last ones see every addition.
            done = left.load(Ordering::Relaxed) == 0;
            for (block, before) in (0..).zip(&mut seen) {
                let now = Caching::number(&looker.read(0, FILE, block * UNIT, 8).0);
                assert!(now >= *before, "a counter went from {before} to {now}");
                *before = now;
            }
        }
        assert_eq!(seen, [2 * EACH; COUNTERS as usize]);
        assert!(lease_counters(&mut looker).revocations > 0);
        over.store(true, Ordering::Relaxed);
    });
    server.shut_down().unwrap();
}
