//! Truncations of which the client does not come to the end: they are completed or fenced, and never destroy what was
//! written afterwards.

mod common;

use std::path::Path;
use std::time::Instant;

use common::{Client, Scratch, deadline, start, start_all};
use pario_server::Server;
use pario_types::{ErrorKind, FileId, ServerId, TruncationId};
use pario_wire::message::{CreateMode, LayoutRequest, OpenAccess};
use pario_wire::{Reply, Request};

const SERVERS: u16 = 2;
const LEN: usize = 20_000;

/// Two servers, of which the first has the names.
struct Site {
    servers: Vec<Server>,
    dir: Scratch,
}

impl Site {
    fn new(name: &str) -> Site {
        let dir = Scratch::new(name);
        Site { servers: start_all(&dir.0, SERVERS, 64), dir }
    }

    /// A client by its number; every request goes by way of the first server.
    fn client(&self, number: u128) -> Client {
        Client::connect(&self.servers[0].started().unix, 0, SERVERS, number)
    }

    /// All servers are killed, and others take their places.
    fn restart(mut self) -> Site {
        self.servers.drain(..).for_each(|server| server.abandon().unwrap());
        self.servers = start_all(&self.dir.0, SERVERS, 64);
        self
    }
}

fn open_to(client: &mut Client, access: OpenAccess) -> Reply {
    let (path, create, layout_request) = ("/file".into(), CreateMode::Missing, LayoutRequest::default());
    client.ask(&Request::Open { path, access, create, mode: 0o600, layout_request })
}

fn write_all(client: &mut Client, file: FileId, byte: u8) {
    for server in 0..SERVERS {
        assert_eq!(client.write(server, file, 0, &[byte; LEN]), Reply::Done);
        let sync = Request::Sync { file, durable: true };
        assert_eq!(client.exchange(ServerId(server), &sync, &[], &mut []), Reply::Done);
    }
}

fn begin(client: &mut Client, file: FileId) -> TruncationId {
    match client.ask(&Request::BeginTruncate { file, size: 0 }) {
        Reply::Truncation { truncation } => truncation,
        other => panic!("{other:?}"),
    }
}

fn truncate(client: &mut Client, server: u16, file: FileId, truncation: TruncationId) {
    let request = Request::Truncate { file, end: 0, truncation };
    assert_eq!(client.exchange(ServerId(server), &request, &[], &mut []), Reply::Done);
}

fn ends(client: &mut Client, file: FileId) -> Vec<u64> {
    let end = |server| match client.exchange(ServerId(server), &Request::End { file }, &[], &mut []) {
        Reply::End { end } => end,
        other => panic!("{other:?}"),
    };
    (0..SERVERS).map(end).collect()
}

/// Waits until the metadata server has resolved the file's truncation.
fn await_resolved(client: &mut Client, file: FileId) {
    let until = deadline();
    let list = Request::ListInodes { after: FileId(file.0 - 1), most: 1 };
    loop {
        let Reply::Inodes { inodes, .. } = client.ask(&list) else { panic!("no inodes") };
        if inodes[0].attributes.truncating.is_none() {
            return;
        }
        assert!(Instant::now() < until, "the truncation is not resolved");
        std::thread::yield_now();
    }
}

fn assert_all(client: &mut Client, file: FileId, byte: u8) {
    for server in 0..SERVERS {
        let (bytes, end) = client.read(server, file, 0, LEN);
        assert!(end == LEN as u64 && bytes.iter().all(|one| *one == byte), "server {server}");
    }
}

#[test]
fn a_truncation_of_a_client_that_is_gone_never_destroys_what_others_wrote_since() {
    let mut site = Site::new("stale");
    let (mut dead, mut writer) = (site.client(1), site.client(2));
    let file = dead.create("/file").file;
    writer.create("/file");
    write_all(&mut dead, file, 1);
    let id = begin(&mut dead, file);
    truncate(&mut dead, 1, file, id);
    drop(dead);
    write_all(&mut writer, file, 2);
    // Readers change nothing, and are let in at any time.
    let mut reader = site.client(3);
    assert!(matches!(open_to(&mut reader, OpenAccess::Read), Reply::Opened { .. }));
    await_resolved(&mut reader, file);
    assert_all(&mut writer, file, 2);
    // Its messages come after all, also to servers that have been killed since.
    for _ in 0..2 {
        let mut late = site.client(1);
        (0..SERVERS).for_each(|server| truncate(&mut late, server, file, id));
        let ended = late.ask(&Request::EndTruncate { file, truncation: id });
        assert!(matches!(ended, Reply::Failed(failure) if failure.kind == ErrorKind::Io));
        assert_all(&mut late, file, 2);
        drop((late, reader, writer));
        site = site.restart();
        (reader, writer) = (site.client(3), site.client(2));
    }
}

#[test]
fn a_truncation_of_a_client_that_is_gone_is_completed_where_nobody_else_could_write() {
    let site = Site::new("complete");
    let (mut dead, mut other) = (site.client(1), site.client(2));
    let file = dead.create("/file").file;
    write_all(&mut dead, file, 1);
    let id = begin(&mut dead, file);
    truncate(&mut dead, 1, file, id);
    drop(dead);
    await_resolved(&mut other, file);
    assert_eq!(ends(&mut other, file), [0, 0]);
    other.create("/file");
    write_all(&mut other, file, 2);
    let mut late = site.client(1);
    (0..SERVERS).for_each(|server| truncate(&mut late, server, file, id));
    assert_all(&mut other, file, 2);
}

#[test]
fn a_client_that_aborts_its_truncation_keeps_what_it_writes_afterwards() {
    let site = Site::new("abort");
    let mut client = site.client(1);
    let file = client.create("/file").file;
    let id = begin(&mut client, file);
    truncate(&mut client, 0, file, id);
    let abort = |truncation| Request::AbortTruncate { file, truncation };
    assert_eq!(client.ask(&abort(id)), Reply::Done);
    write_all(&mut client, file, 3);
    (0..SERVERS).for_each(|server| truncate(&mut client, server, file, id));
    assert!(matches!(client.ask(&Request::EndTruncate { file, truncation: id }), Reply::Failed(_)));
    assert_all(&mut client, file, 3);
    // One whose begin was never answered, as far as the client knows.
    let unknown = begin(&mut client, file);
    assert!(unknown > id);
    assert_eq!(client.ask(&abort(TruncationId(0))), Reply::Done);
    truncate(&mut client, 0, file, unknown);
    assert_all(&mut client, file, 3);
    // Another one works as ever.
    let id = begin(&mut client, file);
    (0..SERVERS).for_each(|server| truncate(&mut client, server, file, id));
    assert_eq!(client.ask(&Request::EndTruncate { file, truncation: id }), Reply::Done);
    assert_eq!(ends(&mut client, file), [0, 0]);
}

#[test]
fn a_truncation_waits_for_a_server_that_is_away_and_new_writers_wait_for_it() {
    let mut site = Site::new("away");
    let mut dead = site.client(1);
    let file = dead.create("/file").file;
    write_all(&mut dead, file, 1);
    begin(&mut dead, file);
    site.servers.pop().expect("two").abandon().unwrap();
    drop(dead);
    let mut other = site.client(2);
    let until = deadline();
    while !matches!(open_to(&mut other, OpenAccess::Both), Reply::Failed(failure) if failure.kind == ErrorKind::FileInUse)
    {
        assert!(Instant::now() < until, "its client is not given up");
    }
    assert!(matches!(open_to(&mut other, OpenAccess::Read), Reply::Opened { .. }));
    site.servers.push(restart_second(&site.dir.0, &site.servers[0]));
    await_resolved(&mut other, file);
    assert!(matches!(open_to(&mut other, OpenAccess::Both), Reply::Opened { .. }));
    assert_eq!(ends(&mut other, file), [0, 0]);
}

/// The second server, started again.
fn restart_second(dir: &Path, first: &Server) -> Server {
    let second = start(dir, 1, SERVERS, 64);
    let addresses = vec![vec![first.started().unix.clone()], vec![second.started().unix.clone()]];
    first.set_peers(addresses.clone());
    second.set_peers(addresses);
    second
}
