//! Processes that cache blocks and lose their connection, or their server: they connect again and keep their leases, unless another
//! client has accessed the bytes meanwhile.

mod common;

use std::path::Path;
use std::time::Duration;

use common::{BLOCK, Client, Scratch, config, start, start_with};
use pario_server::{Config, Server};
use pario_transport::Address;
use pario_types::{ClientId, FileId};
use pario_wire::message::{AcquireIntent, BlockRange, ByteRange, ESTALE};
use pario_wire::{Reply, Request};

const FILE: FileId = FileId(99);
const UNIT: u64 = BLOCK as u64;
const TEAM: u128 = 1;
const ALL: ByteRange = ByteRange { at: 0, len: i64::MAX as u64 };

/// A process of the team: it makes the connection of its mailbox and others.
struct Process<'a> {
    address: &'a Address,
    number: u128,
}

impl Process<'_> {
    fn mailbox(&self) -> Client {
        Client::tool(self.address, self.number)
    }

    /// A connection by which the process stores bytes.
    fn data(&self) -> Client {
        let mut data = Client::connect(self.address, 0, 1, self.number + 1);
        let join = Request::JoinTeam { team: TEAM, mailbox: ClientId(self.number) };
        assert_eq!(data.ask(&join), Reply::Done);
        data
    }

    /// The mailbox and a connection for data; the team has leased the whole file.
    fn begin(&self) -> (Client, Client) {
        let (mut mailbox, mut data) = (self.mailbox(), self.data());
        assert_eq!(poll(&mut mailbox, true, 0), Some(0));
        assert_eq!(data.ask(&lease(0)), Reply::Leased { extents: vec![ALL] });
        (mailbox, data)
    }
}

/// The number of recalls; `None` if the server refuses the poll.
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

/// Checks that the server refuses changes of the process until the process reports that it has dropped its cache.
fn assert_cut_off(process: &Process<'_>, other: &mut Client) {
    let (mut mailbox, mut data) = (process.mailbox(), process.data());
    let seen = other.read(0, FILE, 0, 4).0;
    let blocks = vec![BlockRange { first: 0, count: 1 }];
    let acquire = |intent| Request::Acquire { file: FILE, intent, blocks: blocks.clone(), ahead: 0 };
    for again in [false, true] {
        assert!(is_refused(&data.write(0, FILE, 0, b"late")), "before the poll, and after it: {again}");
        assert!(is_refused(&data.ask(&acquire(AcquireIntent::Modify))));
        assert!(matches!(data.ask(&acquire(AcquireIntent::Read)), Reply::Slots(_)));
        assert_eq!(poll(&mut mailbox, false, 0), None);
    }
    assert_eq!(other.read(0, FILE, 0, 4).0, seen);
    assert_eq!(poll(&mut mailbox, true, 0), Some(0));
    assert_eq!(data.write(0, FILE, 0, b"anew"), Reply::Done);
    assert_eq!(other.read(0, FILE, 0, 4).0, b"anew");
}

/// Checks that a process receives the recall of another client's read, and that the read waits.
fn assert_recalled(process: &Process<'_>, mailbox: &mut Client, data: &mut Client, other: &mut Client) {
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

fn restart(dir: &Path, grace: Duration) -> Server {
    start_with(Config { grace, ..config(dir, 0, 1, 32) })
}

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(50);

#[test]
fn a_broken_connection_loses_no_leases_that_no_client_needs() {
    let dir = Scratch::new("broken");
    let server = start(&dir.0, 0, 1, 32);
    let process = Process { address: &server.started().unix, number: 10 };
    let (mailbox, mut data) = process.begin();
    drop(mailbox);
    // The process can still store bytes on another connection.
    assert_eq!(data.write(0, FILE, 0, b"mine"), Reply::Done);
    let mut mailbox = process.mailbox();
    assert_eq!(poll(&mut mailbox, false, 0), Some(0));
    let mut other = Client::connect(process.address, 0, 1, 30);
    assert_recalled(&process, &mut mailbox, &mut data, &mut other);
    server.shut_down().unwrap();
}

#[test]
fn a_write_to_bytes_that_another_client_has_written_meanwhile_is_refused() {
    let dir = Scratch::new("needed");
    let server = start(&dir.0, 0, 1, 32);
    let process = Process { address: &server.started().unix, number: 10 };
    let (mailbox, data) = process.begin();
    // The network to the host fails.
    drop((mailbox, data));
    let mut other = Client::connect(process.address, 0, 1, 30);
    assert_eq!(other.write(0, FILE, 0, b"more"), Reply::Done);
    assert_cut_off(&process, &mut other);
    server.shut_down().unwrap();
}

#[test]
fn a_recall_that_was_sent_on_a_broken_connection_is_sent_again() {
    let dir = Scratch::new("sent-again");
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
        // The mailbox has a new connection, so the end of the old one has no effect.
        drop(mailbox);
        assert_eq!(data.write(0, FILE, 0, b"sent"), Reply::Done);
        let gone = Request::Yield { number: recalls[0].number, gone: recalls[0].range };
        assert_eq!(next.ask(&gone), Reply::Done);
        assert_eq!(reader.join().unwrap(), b"sent");
    });
    server.shut_down().unwrap();
}

#[test]
fn a_restart_of_the_server_loses_no_leases() {
    for gracefully in [false, true] {
        let dir = Scratch::new("killed");
        let server = start(&dir.0, 0, 1, 32);
        let process = Process { address: &server.started().unix.clone(), number: 10 };
        let both = process.begin();
        if gracefully {
            server.shut_down().unwrap();
        } else {
            server.abandon().unwrap();
        }
        drop(both);
        let server = restart(&dir.0, LONG);
        let mut other = Client::connect(process.address, 0, 1, 30);
        std::thread::scope(|scope| {
            // Another client connects first, and waits.
            let reader = scope.spawn(|| other.read(0, FILE, 0, 4).0);
            let (mut mailbox, mut data) = (process.mailbox(), process.data());
            assert_eq!(poll(&mut mailbox, false, 10_000), Some(1));
            assert_eq!(data.write(0, FILE, 0, b"kept"), Reply::Done);
            assert_eq!(poll(&mut mailbox, false, 0), Some(0));
            drop(mailbox);
            assert_eq!(reader.join().unwrap(), b"kept");
        });
        assert_cut_off(&process, &mut other);
        server.shut_down().unwrap();
    }
}

#[test]
fn after_a_restart_a_mailbox_that_does_not_connect_in_time_is_cut_off() {
    let dir = Scratch::new("late");
    let server = start(&dir.0, 0, 1, 32);
    let process = Process { address: &server.started().unix.clone(), number: 10 };
    let both = process.begin();
    server.abandon().unwrap();
    drop(both);
    let server = restart(&dir.0, SHORT);
    let mut other = Client::connect(process.address, 0, 1, 30);
    assert_eq!(other.write(0, FILE, 0, b"more"), Reply::Done);
    // The next server knows that the mailbox was cut off.
    server.abandon().unwrap();
    let server = restart(&dir.0, LONG);
    let mut other = Client::connect(process.address, 0, 1, 31);
    assert_eq!(other.write(0, FILE, 0, b"most"), Reply::Done);
    assert_cut_off(&process, &mut other);
    server.shut_down().unwrap();
}

#[test]
fn a_server_without_the_lease_log_knows_no_mailbox() {
    let dir = Scratch::new("notes");
    let server = start(&dir.0, 0, 1, 32);
    let process = Process { address: &server.started().unix.clone(), number: 10 };
    let both = process.begin();
    let log = dir.0.join("run0/leases");
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains("\nhere a 1\n") && text.contains("\nhas 1 63 0-ffffffffffffffff\n"), "{text}");
    server.abandon().unwrap();
    drop(both);
    // An incomplete line at the end counts as not written.
    let whole = text.clone() + "here b";
    for (changed, is_known) in [(whole, true), (text.replace("here", "hear"), false), (String::new(), false)]
    {
        std::fs::write(&log, changed).unwrap();
        let server = restart(&dir.0, LONG);
        let mut mailbox = process.mailbox();
        assert_eq!(poll(&mut mailbox, false, 0), is_known.then_some(0));
        let mut other = Client::connect(process.address, 0, 1, 30);
        if !is_known {
            assert_eq!(other.write(0, FILE, 0, b"free"), Reply::Done);
            assert_cut_off(&process, &mut other);
        }
        server.abandon().unwrap();
    }
}
