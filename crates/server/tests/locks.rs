//! Locks without waiting, and divergent replicas, as clients see them.

mod common;

use common::{Client, Scratch, deadline, start, wait_until};
use pario_types::{ClientId, ErrorKind, FileId, RequestId, ServerId};
use pario_wire::message::{ByteRange, Failure, REPLICA_LOCK_BIT};
use pario_wire::{Envelope, Reply, Request};

const FILE: FileId = FileId(99);
const REPLICAS: FileId = FileId(99 | REPLICA_LOCK_BIT);

#[test]
fn a_try_lock_does_not_wait() {
    let dir = Scratch::new("trylock");
    let server = start(&dir.0, 0, 1, 16);
    let [mut one, mut two] = [1, 2].map(|id| Client::connect(&server.started().unix, 0, 1, id));
    let all = ByteRange { at: 0, len: i64::MAX as u64 };
    let shared = Request::TryLock { file: FILE, ranges: vec![all], exclusive: false };
    let alone = Request::TryLock { file: FILE, ranges: vec![ByteRange { at: 7, len: 1 }], exclusive: true };
    let number = |reply: Reply| match reply {
        Reply::Locked { lock } => lock,
        other => panic!("{other:?}"),
    };
    let in_use = |reply: Reply| match reply {
        Reply::Failed(Failure { kind, .. }) => kind == ErrorKind::FileInUse,
        _ => false,
    };
    let first = number(one.ask(&shared));
    let second = number(two.ask(&shared));
    assert!(in_use(one.ask(&alone)));
    assert_eq!(one.ask(&Request::Unlock { lock: first }), Reply::Done);
    assert!(in_use(one.ask(&alone)), "the refused request does not wait, and another client holds the lock");
    assert_eq!(two.ask(&Request::Unlock { lock: second }), Reply::Done);
    let third = number(one.ask(&alone));
    assert!(in_use(two.ask(&shared)));
    assert_eq!(one.ask(&Request::Unlock { lock: third }), Reply::Done);
    server.shut_down().unwrap();
}

#[test]
fn a_lock_on_several_ranges_is_granted_completely_or_not_at_all() {
    let dir = Scratch::new("trylocks");
    let server = start(&dir.0, 0, 1, 16);
    let [mut one, mut two] = [1, 2].map(|id| Client::connect(&server.started().unix, 0, 1, id));
    let lock = |ranges: &[(u64, u64)]| {
        let ranges = ranges.iter().map(|(at, len)| ByteRange { at: *at, len: *len }).collect();
        Request::TryLock { file: FILE, ranges, exclusive: true }
    };
    let kind = |reply: Reply| match reply {
        Reply::Locked { lock } => Ok(lock),
        Reply::Failed(Failure { kind, .. }) => Err(kind),
        other => panic!("{other:?}"),
    };
    // Two clients, each with its columns of all rows.
    let first = kind(one.ask(&lock(&[(0, 10), (40, 10), (80, 10)]))).unwrap();
    let second = kind(two.ask(&lock(&[(10, 10), (50, 10), (90, 10)]))).unwrap();
    assert_eq!(kind(two.ask(&lock(&[(20, 10), (49, 1)]))), Err(ErrorKind::FileInUse));
    let third = kind(one.ask(&lock(&[(20, 10)]))).expect("a refused lock holds nothing");
    for lock in [first, third] {
        assert_eq!(one.ask(&Request::Unlock { lock }), Reply::Done);
    }
    assert_eq!(kind(one.ask(&lock(&[(0, 100)]))), Err(ErrorKind::FileInUse));
    assert_eq!(two.ask(&Request::Unlock { lock: second }), Reply::Done);
    kind(one.ask(&lock(&[(0, 100)]))).expect("all bytes are free again");
    let too_many: Vec<(u64, u64)> = (0..=1024).map(|number| (number * 2, 1)).collect();
    for nonsense in [&[][..], &[(10, 10), (0, 5)], &[(0, 10), (9, 5)], &[(0, 0)], &too_many] {
        assert_eq!(kind(two.ask(&lock(nonsense))), Err(ErrorKind::Arg), "{nonsense:?}");
    }
    server.shut_down().unwrap();
}

fn lock_of(client: &mut Client, file: FileId, ranges: &[(u64, u64)], exclusive: bool) -> u64 {
    let ranges = ranges.iter().map(|(at, len)| ByteRange { at: *at, len: *len }).collect();
    match client.ask(&Request::TryLock { file, ranges, exclusive }) {
        Reply::Locked { lock } => lock,
        other => panic!("{other:?}"),
    }
}

fn divergent(client: &mut Client, file: FileId) -> (Vec<(u64, u64)>, Vec<u128>) {
    match client.ask(&Request::ListDivergent { file }) {
        Reply::Divergent { ranges, clients, .. } => {
            let ranges = ranges.iter().map(|range| (range.at, range.len)).collect();
            (ranges, clients.iter().map(|client| client.0).collect())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_server_that_lost_its_pool_says_so_until_the_replicas_of_a_file_are_equal() {
    let dir = Scratch::new("losses");
    let losses = |server: &pario_server::Server, file| {
        let mut client = Client::connect(&server.started().unix, 0, 1, 1);
        match client.ask(&Request::ListDivergent { file }) {
            Reply::Divergent { losses, unresolved, .. } => (losses, unresolved),
            other => panic!("{other:?}"),
        }
    };
    let server = start(&dir.0, 0, 1, 16);
    assert_eq!(losses(&server, REPLICAS), (0, 0));
    server.abandon().unwrap();
    let server = start(&dir.0, 0, 1, 16);
    assert_eq!(losses(&server, REPLICAS), (0, 0), "a killed server leaves its pool to the next one");
    server.abandon().unwrap();
    std::fs::remove_file(dir.0.join("run0/pool")).unwrap();
    let server = start(&dir.0, 0, 1, 16);
    assert_eq!(losses(&server, REPLICAS), (1, 1));
    server.shut_down().unwrap();
    let server = start(&dir.0, 0, 1, 16);
    assert_eq!(losses(&server, REPLICAS), (1, 1), "its successors know it, too");
    let mut client = Client::connect(&server.started().unix, 0, 1, 2);
    assert_eq!(client.ask(&Request::MarkEqual { file: REPLICAS, losses: 1 }), Reply::Done);
    assert_eq!(losses(&server, REPLICAS), (1, 0));
    assert_eq!(losses(&server, FileId(98 | REPLICA_LOCK_BIT)), (1, 1), "another file");
    server.abandon().unwrap();
    let server = start(&dir.0, 0, 1, 16);
    assert_eq!(losses(&server, REPLICAS), (1, 0));
    server.shut_down().unwrap();
}

#[test]
fn replicas_are_divergent_until_all_of_them_are_written() {
    let dir = Scratch::new("divergent");
    let server = start(&dir.0, 0, 1, 16);
    let connect = |id| Client::connect(&server.started().unix, 0, 1, id);
    let (mut one, mut two) = (connect(1), connect(2));
    let nothing = (vec![], vec![]);
    // A completed write leaves no divergent replicas; neither does a shared lock, nor a lock on the file itself.
    let lock = lock_of(&mut one, REPLICAS, &[(0, 10)], true);
    assert_eq!(one.ask(&Request::Unlock { lock }), Reply::Done);
    for (id, file, exclusive) in [(3, REPLICAS, false), (4, FILE, true)] {
        lock_of(&mut connect(id), file, &[(0, 10)], exclusive);
    }
    let lock = lock_of(&mut one, REPLICAS, &[(0, 10), (40, 10), (80, 10)], true);
    assert!(
        matches!(two.ask(&Request::MarkDivergent { lock }), Reply::Failed(_)),
        "the lock of another client"
    );
    assert_eq!(divergent(&mut two, REPLICAS), nothing);
    assert_eq!(one.ask(&Request::MarkDivergent { lock }), Reply::Done);
    assert_eq!(divergent(&mut two, REPLICAS), (vec![(0, 10), (40, 10), (80, 10)], vec![1]));
    assert_eq!(divergent(&mut two, FILE), nothing);
    // A client that disconnects.
    let mut gone = connect(5);
    lock_of(&mut gone, REPLICAS, &[(45, 10)], true);
    drop(gone);
    let all = (vec![(0, 10), (40, 5), (45, 10), (80, 10)], vec![1, 5]);
    wait_until("the replicas of a disconnected writer are divergent", || {
        divergent(&mut two, REPLICAS) == all
    });
    let lock = lock_of(&mut two, REPLICAS, &[(0, 5), (30, 30), (85, 1)], true);
    assert_eq!(divergent(&mut one, REPLICAS), all, "nothing is repaired yet");
    assert_eq!(two.ask(&Request::Unlock { lock }), Reply::Done);
    assert_eq!(divergent(&mut one, REPLICAS).0, [(5, 5), (80, 5), (86, 4)]);
    assert_eq!(one.ask(&Request::RemoveParts { files: vec![FILE] }), Reply::Done);
    assert_eq!(divergent(&mut one, REPLICAS), nothing, "the file does not exist any more");
    server.shut_down().unwrap();
}

#[test]
fn a_disconnected_client_writes_nothing_more() {
    let dir = Scratch::new("disconnect");
    let server = start(&dir.0, 0, 1, 16);
    let [mut one, mut two] = [1, 2].map(|id| Client::connect(&server.started().unix, 0, 1, id));
    assert_eq!(two.write(0, FILE, 0, &[1; 100]), Reply::Done);
    for id in [7, 1] {
        let disconnect = Request::Disconnect { client: ClientId(id) };
        assert_eq!(
            one.ask(&disconnect),
            Reply::Done,
            "an unknown client, and the client itself, which stays connected"
        );
    }
    let lock = lock_of(&mut two, REPLICAS, &[(0, 100)], true);
    assert_eq!(one.ask(&Request::Disconnect { client: ClientId(2) }), Reply::Done);
    assert_eq!(divergent(&mut one, REPLICAS), (vec![(0, 100)], vec![2]), "it held a lock");
    let envelope = Envelope::new(ServerId(0), RequestId(1000));
    let answer = two.connection.call(envelope, &Request::Ping, &[], &mut [], deadline());
    assert!(answer.is_err(), "its connection has ended");
    assert_eq!(one.read(0, FILE, 0, 100).0, [1; 100]);
    let mut again = Client::connect(&server.started().unix, 0, 1, 2);
    assert!(
        matches!(again.ask(&Request::Unlock { lock }), Reply::Failed(_)),
        "it connects again, without its lock"
    );
    server.shut_down().unwrap();
}
