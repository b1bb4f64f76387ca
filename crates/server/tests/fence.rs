//! Processes that keep blocks in their memory and lose sight of the server, or it of them: they come again with what they
//! have, unless somebody else got at it meanwhile.

mod common;

use std::path::Path;
use std::time::Duration;

use common::{BLOCK, Client, Scratch, config, start};
use pario_server::Server;
use pario_transport::Address;
use pario_types::{ClientId, FileId};
use pario_wire::message::{AcquireIntent, BlockRange, ByteRange, ESTALE};
use pario_wire::{Reply, Request};

const FILE: FileId = FileId(99);
const UNIT: u64 = BLOCK as u64;
const TEAM: u128 = 1;
const ALL: ByteRange = ByteRange { at: 0, len: i64::MAX as u64 };

/// A process of the team, which keeps what it writes: how its mailbox's connection and another one are made.
struct Process<'a> {
    address: &'a Address,
    number: u128,
}

impl Process<'_> {
    fn mailbox(&self) -> Client {
        Client::tool(self.address, self.number)
    }

    /// A connection by which it stores.
    fn data(&self) -> Client {
        let mut data = Client::connect(self.address, 0, 1, self.number + 1);
        let join = Request::JoinTeam { team: TEAM, mailbox: ClientId(self.number) };
        assert_eq!(data.ask(&join), Reply::Done);
        data
    }

    /// Its mailbox, and one by which it stores; it has leased all.
    fn begin(&self) -> (Client, Client) {
        let (mut mailbox, mut data) = (self.mailbox(), self.data());
        assert_eq!(poll(&mut mailbox, true, 0), Some(0));
        assert_eq!(data.ask(&lease(0)), Reply::Leased { extents: vec![ALL] });
        (mailbox, data)
    }
}

/// How many recalls there are; none if it is refused.
fn poll(mailbox: &mut Client, anew: bool, wait_ms: u32) -> Option<usize> {
    match mailbox.ask(&Request::PollRecalls { team: TEAM, anew, wait_ms }) {
        Reply::Recalled { recalls, .. } => Some(recalls.len()),
        reply => {
            assert!(is_refused(&reply), "{reply:?}");
            None
        }
    }
}

fn lease(block: u64) -> Request {
    Request::Lease { team: TEAM, file: FILE, ranges: vec![ByteRange { at: block * UNIT, len: UNIT }] }
}

fn is_refused(reply: &Reply) -> bool {
    matches!(reply, Reply::Failed(failure) if failure.errno == ESTALE)
}

/// Nothing that the process changes is taken, until it says that it has nothing.
fn is_cut_off(process: &Process<'_>, other: &mut Client) {
    let (mut mailbox, mut data) = (process.mailbox(), process.data());
    let seen = other.read(0, FILE, 0, 4).0;
    let blocks = vec![BlockRange { first: 0, count: 1 }];
    let acquire = |intent| Request::Acquire { file: FILE, intent, blocks: blocks.clone(), ahead: 0 };
    for again in [false, true] {
        assert!(is_refused(&data.write(0, FILE, 0, b"late")), "before it has asked, and after that: {again}");
        assert!(is_refused(&data.ask(&acquire(AcquireIntent::Modify))));
        assert!(matches!(data.ask(&acquire(AcquireIntent::Read)), Reply::Slots(_)));
        assert_eq!(poll(&mut mailbox, false, 0), None);
    }
    assert_eq!(other.read(0, FILE, 0, 4).0, seen);
    assert_eq!(poll(&mut mailbox, true, 0), Some(0));
    assert_eq!(data.write(0, FILE, 0, b"anew"), Reply::Done);
    assert_eq!(other.read(0, FILE, 0, 4).0, b"anew");
}

/// Somebody wants what the process has: it hears of it, and is waited for.
fn is_heard(process: &Process<'_>, mailbox: &mut Client, data: &mut Client, other: &mut Client) {
    assert_eq!(data.write(0, FILE, 0, b"kept"), Reply::Done);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| other.read(0, FILE, 0, 4).0);
        let poll = Request::PollRecalls { team: TEAM, anew: false, wait_ms: 10_000 };
        let Reply::Recalled { recalls, .. } = mailbox.ask(&poll) else { panic!("{}", process.number) };
        assert_eq!(data.write(0, FILE, 0, b"last"), Reply::Done);
        let gone = Request::Yield { number: recalls[0].number, gone: recalls[0].range };
        assert_eq!(mailbox.ask(&gone), Reply::Done);
        assert_eq!(reader.join().unwrap(), b"last");
    });
}

fn again(dir: &Path, grace: Duration) -> Server {
    let server = Server::start(pario_server::Config { grace, ..config(dir, 0, 1, 32) }).unwrap();
    server.set_peers(vec![vec![server.started().unix.clone()]]);
    server
}

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(50);

#[test]
fn a_broken_connection_costs_nothing_that_nobody_wants() {
    let dir = Scratch::new("broken");
    let server = start(&dir.0, 0, 1, 32);
    let process = Process { address: &server.started().unix, number: 10 };
    let (mailbox, mut data) = process.begin();
    drop(mailbox);
    // By another connection it stores what it has all the same.
    assert_eq!(data.write(0, FILE, 0, b"mine"), Reply::Done);
    let mut mailbox = process.mailbox();
    assert_eq!(poll(&mut mailbox, false, 0), Some(0));
    let mut other = Client::connect(process.address, 0, 1, 30);
    is_heard(&process, &mut mailbox, &mut data, &mut other);
    server.shut_down().unwrap();
}

#[test]
fn what_somebody_wanted_meanwhile_is_not_stored_later() {
    let dir = Scratch::new("wanted");
    let server = start(&dir.0, 0, 1, 32);
    let process = Process { address: &server.started().unix, number: 10 };
    let (mailbox, data) = process.begin();
    // The host is cut off: nothing comes from it.
    drop((mailbox, data));
    let mut other = Client::connect(process.address, 0, 1, 30);
    assert_eq!(other.write(0, FILE, 0, b"more"), Reply::Done);
    is_cut_off(&process, &mut other);
    server.shut_down().unwrap();
}

/// A recall that was told by a connection which then broke is told again.
#[test]
fn what_was_told_by_a_broken_connection_is_told_again() {
    let dir = Scratch::new("told");
    let server = start(&dir.0, 0, 1, 32);
    let process = Process { address: &server.started().unix, number: 10 };
    let (mut mailbox, mut data) = process.begin();
    let mut other = Client::connect(process.address, 0, 1, 30);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| other.read(0, FILE, 0, 4).0);
        assert_eq!(poll(&mut mailbox, false, 10_000), Some(1));
        let mut next = process.mailbox();
        let poll = Request::PollRecalls { team: TEAM, anew: false, wait_ms: 10_000 };
        let Reply::Recalled { recalls, .. } = next.ask(&poll) else { panic!() };
        // It has been replaced, so its end is nobody's.
        drop(mailbox);
        assert_eq!(data.write(0, FILE, 0, b"told"), Reply::Done);
        let gone = Request::Yield { number: recalls[0].number, gone: recalls[0].range };
        assert_eq!(next.ask(&gone), Reply::Done);
        assert_eq!(reader.join().unwrap(), b"told");
    });
    server.shut_down().unwrap();
}

#[test]
fn a_killed_server_costs_nothing() {
    for gracefully in [false, true] {
        let dir = Scratch::new("killed");
        let server = start(&dir.0, 0, 1, 32);
        let process = Process { address: &server.started().unix.clone(), number: 10 };
        let both = process.begin();
        match gracefully {
            true => server.shut_down().unwrap(),
            false => server.abandon().unwrap(),
        }
        drop(both);
        let server = again(&dir.0, LONG);
        let mut other = Client::connect(process.address, 0, 1, 30);
        std::thread::scope(|scope| {
            // Somebody else is there first, and waits.
            let reader = scope.spawn(|| other.read(0, FILE, 0, 4).0);
            let (mut mailbox, mut data) = (process.mailbox(), process.data());
            assert_eq!(poll(&mut mailbox, false, 10_000), Some(1));
            assert_eq!(data.write(0, FILE, 0, b"kept"), Reply::Done);
            assert_eq!(poll(&mut mailbox, false, 0), Some(0));
            drop(mailbox);
            assert_eq!(reader.join().unwrap(), b"kept");
        });
        is_cut_off(&process, &mut other);
        server.shut_down().unwrap();
    }
}

#[test]
fn after_a_killed_server_who_does_not_come_in_time_is_not_waited_for() {
    let dir = Scratch::new("late");
    let server = start(&dir.0, 0, 1, 32);
    let process = Process { address: &server.started().unix.clone(), number: 10 };
    let both = process.begin();
    server.abandon().unwrap();
    drop(both);
    let server = again(&dir.0, SHORT);
    let mut other = Client::connect(process.address, 0, 1, 30);
    assert_eq!(other.write(0, FILE, 0, b"more"), Reply::Done);
    // That it was so is known to the next one, too.
    server.abandon().unwrap();
    let server = again(&dir.0, LONG);
    let mut other = Client::connect(process.address, 0, 1, 31);
    assert_eq!(other.write(0, FILE, 0, b"most"), Reply::Done);
    is_cut_off(&process, &mut other);
    server.shut_down().unwrap();
}

/// Whoever had been cut off, or had left, is so after a restart; who is nowhere to be found has nothing.
#[test]
fn a_server_that_has_lost_its_notes_trusts_nobody() {
    let dir = Scratch::new("notes");
    let server = start(&dir.0, 0, 1, 32);
    let process = Process { address: &server.started().unix.clone(), number: 10 };
    let both = process.begin();
    let notes = dir.0.join("run0/leases");
    let text = std::fs::read_to_string(&notes).unwrap();
    assert!(text.contains("\nhere a 1\n") && text.contains("\nhas 1 63 0-ffffffffffffffff\n"), "{text}");
    server.abandon().unwrap();
    drop(both);
    // A line that a kill cut short is no harm, as if it had not been written.
    let whole = text.clone() + "here b";
    for (notes_now, is_known) in
        [(whole, true), (text.replace("here", "hear"), false), (String::new(), false)]
    {
        std::fs::write(&notes, notes_now).unwrap();
        let server = again(&dir.0, LONG);
        let mut mailbox = process.mailbox();
        assert_eq!(poll(&mut mailbox, false, 0), is_known.then_some(0));
        let mut other = Client::connect(process.address, 0, 1, 30);
        if !is_known {
            assert_eq!(other.write(0, FILE, 0, b"free"), Reply::Done);
            is_cut_off(&process, &mut other);
        }
        server.abandon().unwrap();
    }
}
