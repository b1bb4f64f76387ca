//! Locks that nobody waits for, and copies that were locked by who is gone, as clients see them.

mod common;

use common::{Client, Scratch, deadline, start};
use pario_types::{ClientId, ErrorKind, FileId, RequestId, ServerId};
use pario_wire::message::{ByteRange, Failure, REPLICA_LOCK_BIT};
use pario_wire::{Envelope, Reply, Request};
use std::time::Instant;

const FILE: FileId = FileId(99);
const COPIES: FileId = FileId(99 | REPLICA_LOCK_BIT);

#[test]
fn a_lock_is_tried_for_without_waiting() {
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
    assert!(in_use(one.ask(&alone)), "it was not left in the queue, and another holds it");
    assert_eq!(two.ask(&Request::Unlock { lock: second }), Reply::Done);
    let third = number(one.ask(&alone));
    assert!(in_use(two.ask(&shared)));
    assert_eq!(one.ask(&Request::Unlock { lock: third }), Reply::Done);
    server.shut_down().unwrap();
}

#[test]
fn a_lock_on_several_ranges_is_had_as_a_whole_or_not_at_all() {
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
    // Rows of which each has its columns.
    let first = kind(one.ask(&lock(&[(0, 10), (40, 10), (80, 10)]))).unwrap();
    let second = kind(two.ask(&lock(&[(10, 10), (50, 10), (90, 10)]))).unwrap();
    assert_eq!(kind(two.ask(&lock(&[(20, 10), (49, 1)]))), Err(ErrorKind::FileInUse));
    let third = kind(one.ask(&lock(&[(20, 10)]))).expect("of a lock that was not granted nothing is left");
    for lock in [first, third] {
        assert_eq!(one.ask(&Request::Unlock { lock }), Reply::Done);
    }
    assert_eq!(kind(one.ask(&lock(&[(0, 100)]))), Err(ErrorKind::FileInUse));
    assert_eq!(two.ask(&Request::Unlock { lock: second }), Reply::Done);
    kind(one.ask(&lock(&[(0, 100)]))).expect("all of it is free again");
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

fn torn(client: &mut Client, file: FileId) -> (Vec<(u64, u64)>, Vec<u128>) {
    match client.ask(&Request::ListDivergent { file }) {
        Reply::Divergent { ranges, clients } => {
            let ranges = ranges.iter().map(|range| (range.at, range.len)).collect();
            (ranges, clients.iter().map(|client| client.0).collect())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn copies_are_torn_until_all_of_them_are_written() {
    let dir = Scratch::new("torn");
    let server = start(&dir.0, 0, 1, 16);
    let connect = |id| Client::connect(&server.started().unix, 0, 1, id);
    let (mut one, mut two) = (connect(1), connect(2));
    let nothing = (vec![], vec![]);
    // Who is done leaves nothing; neither does who only looks, nor who locks the file itself.
    let lock = lock_of(&mut one, COPIES, &[(0, 10)], true);
    assert_eq!(one.ask(&Request::Unlock { lock }), Reply::Done);
    for (id, file, exclusive) in [(3, COPIES, false), (4, FILE, true)] {
        lock_of(&mut connect(id), file, &[(0, 10)], exclusive);
    }
    let lock = lock_of(&mut one, COPIES, &[(0, 10), (40, 10), (80, 10)], true);
    assert!(matches!(two.ask(&Request::MarkDivergent { lock }), Reply::Failed(_)), "it is another's");
    assert_eq!(torn(&mut two, COPIES), nothing);
    assert_eq!(one.ask(&Request::MarkDivergent { lock }), Reply::Done);
    assert_eq!(torn(&mut two, COPIES), (vec![(0, 10), (40, 10), (80, 10)], vec![1]));
    assert_eq!(torn(&mut two, FILE), nothing);
    // A client that goes.
    let mut gone = connect(5);
    lock_of(&mut gone, COPIES, &[(45, 10)], true);
    drop(gone);
    let all = (vec![(0, 10), (40, 5), (45, 10), (80, 10)], vec![1, 5]);
    let until = deadline();
    while torn(&mut two, COPIES) != all {
        assert!(Instant::now() < until, "a client that went has left nothing");
        std::thread::yield_now();
    }
    let lock = lock_of(&mut two, COPIES, &[(0, 5), (30, 30), (85, 1)], true);
    assert_eq!(torn(&mut one, COPIES), all, "nothing is mended yet");
    assert_eq!(two.ask(&Request::Unlock { lock }), Reply::Done);
    assert_eq!(torn(&mut one, COPIES).0, [(5, 5), (80, 5), (86, 4)]);
    assert_eq!(one.ask(&Request::RemoveParts { files: vec![FILE] }), Reply::Done);
    assert_eq!(torn(&mut one, COPIES), nothing, "there is no such file any more");
    server.shut_down().unwrap();
}

/// What somebody has sent and what has not been looked at yet is never done once he is sent away.
#[test]
fn who_is_sent_away_writes_nothing_more() {
    let dir = Scratch::new("expel");
    let server = start(&dir.0, 0, 1, 16);
    let [mut one, mut two] = [1, 2].map(|id| Client::connect(&server.started().unix, 0, 1, id));
    assert_eq!(two.write(0, FILE, 0, &[1; 100]), Reply::Done);
    for nobody in [7, 1] {
        let away = Request::Disconnect { client: ClientId(nobody) };
        assert_eq!(one.ask(&away), Reply::Done, "somebody unknown, and oneself, who stays");
    }
    let lock = lock_of(&mut two, COPIES, &[(0, 100)], true);
    assert_eq!(one.ask(&Request::Disconnect { client: ClientId(2) }), Reply::Done);
    assert_eq!(torn(&mut one, COPIES), (vec![(0, 100)], vec![2]), "it had something locked");
    let envelope = Envelope::new(ServerId(0), RequestId(1000));
    let answer = two.connection.call(envelope, &Request::Ping, &[], &mut [], deadline());
    assert!(answer.is_err(), "its connection is over");
    assert_eq!(one.read(0, FILE, 0, 100).0, [1; 100]);
    let mut again = Client::connect(&server.started().unix, 0, 1, 2);
    assert!(
        matches!(again.ask(&Request::Unlock { lock }), Reply::Failed(_)),
        "it comes again, without its lock"
    );
    server.shut_down().unwrap();
}
