//! Truncations that their client does not complete: the servers complete or fence them, and they never destroy later writes.

mod common;

use std::path::Path;

use common::{Client, Scratch, start, start_all, wait_until};
use pario_server::Server;
use pario_types::{ErrorKind, FileId, ServerId, TruncationId};
use pario_wire::message::{CreateMode, LayoutRequest, OpenAccess};
use pario_wire::{Reply, Request};

const SERVERS: u16 = 2;
const LEN: usize = 20_000;

/// Two servers; the first is the metadata server.
struct TestPartition {
    servers: Vec<Server>,
    dir: Scratch,
}

impl TestPartition {
    fn new(name: &str) -> TestPartition {
        let dir = Scratch::new(name);
        TestPartition { servers: start_all(&dir.0, SERVERS, 64), dir }
    }

    /// A client that sends every request to the first server.
    fn client(&self, number: u128) -> Client {
        Client::connect(&self.servers[0].started().unix, 0, SERVERS, number)
    }

    /// Kills and restarts all servers.
    fn restart(mut self) -> TestPartition {
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
    let list = Request::ListInodes { after: FileId(file.0 - 1), most: 1 };
    wait_until("the truncation is not resolved", || {
        let Reply::Inodes { inodes, .. } = client.ask(&list) else { panic!("no inodes") };
        inodes[0].attributes.truncating.is_none()
    });
}

fn assert_all(client: &mut Client, file: FileId, byte: u8) {
    for server in 0..SERVERS {
        let (bytes, end) = client.read(server, file, 0, LEN);
        assert!(end == LEN as u64 && bytes.iter().all(|one| *one == byte), "server {server}");
    }
}

#[test]
fn a_truncation_of_a_client_that_is_gone_never_destroys_what_others_wrote_since() {
    let mut partition = TestPartition::new("stale");
    let (mut dead, mut writer) = (partition.client(1), partition.client(2));
    let file = dead.create("/file").file;
    writer.create("/file");
    write_all(&mut dead, file, 1);
    let id = begin(&mut dead, file);
    truncate(&mut dead, 1, file, id);
    drop(dead);
    write_all(&mut writer, file, 2);
    // Readers can open the file at any time.
    let mut reader = partition.client(3);
    assert!(matches!(open_to(&mut reader, OpenAccess::Read), Reply::Opened { .. }));
    await_resolved(&mut reader, file);
    assert_all(&mut writer, file, 2);
    // The client's messages arrive late, also at servers that were restarted since.
    for _ in 0..2 {
        let mut late = partition.client(1);
        (0..SERVERS).for_each(|server| truncate(&mut late, server, file, id));
        let ended = late.ask(&Request::EndTruncate { file, truncation: id });
        assert!(matches!(ended, Reply::Failed(failure) if failure.kind == ErrorKind::Io));
        assert_all(&mut late, file, 2);
        drop((late, reader, writer));
        partition = partition.restart();
        (reader, writer) = (partition.client(3), partition.client(2));
    }
}

#[test]
fn a_truncation_of_a_client_that_is_gone_is_completed_if_no_other_client_could_write() {
    let partition = TestPartition::new("complete");
    let (mut dead, mut other) = (partition.client(1), partition.client(2));
    let file = dead.create("/file").file;
    write_all(&mut dead, file, 1);
    let id = begin(&mut dead, file);
    truncate(&mut dead, 1, file, id);
    drop(dead);
    await_resolved(&mut other, file);
    assert_eq!(ends(&mut other, file), [0, 0]);
    other.create("/file");
    write_all(&mut other, file, 2);
    let mut late = partition.client(1);
    (0..SERVERS).for_each(|server| truncate(&mut late, server, file, id));
    assert_all(&mut other, file, 2);
}

#[test]
fn a_client_that_aborts_its_truncation_keeps_what_it_writes_afterwards() {
    let partition = TestPartition::new("abort");
    let mut client = partition.client(1);
    let file = client.create("/file").file;
    let id = begin(&mut client, file);
    truncate(&mut client, 0, file, id);
    let abort = |truncation| Request::AbortTruncate { file, truncation };
    assert_eq!(client.ask(&abort(id)), Reply::Done);
    write_all(&mut client, file, 3);
    (0..SERVERS).for_each(|server| truncate(&mut client, server, file, id));
    assert!(matches!(client.ask(&Request::EndTruncate { file, truncation: id }), Reply::Failed(_)));
    assert_all(&mut client, file, 3);
    // A truncation whose `BeginTruncate` has no reply, as far as the client knows.
    let unknown = begin(&mut client, file);
    assert!(unknown > id);
    assert_eq!(client.ask(&abort(TruncationId(0))), Reply::Done);
    truncate(&mut client, 0, file, unknown);
    assert_all(&mut client, file, 3);
    // The next truncation succeeds.
    let id = begin(&mut client, file);
    (0..SERVERS).for_each(|server| truncate(&mut client, server, file, id));
    assert_eq!(client.ask(&Request::EndTruncate { file, truncation: id }), Reply::Done);
    assert_eq!(ends(&mut client, file), [0, 0]);
}

#[test]
fn a_truncation_waits_for_an_unreachable_server_and_new_writers_wait_for_the_truncation() {
    let mut partition = TestPartition::new("unreachable");
    let mut dead = partition.client(1);
    let file = dead.create("/file").file;
    write_all(&mut dead, file, 1);
    begin(&mut dead, file);
    partition.servers.pop().expect("two").abandon().unwrap();
    drop(dead);
    let mut other = partition.client(2);
    let is_in_use = |reply| matches!(reply, Reply::Failed(failure) if failure.kind == ErrorKind::FileInUse);
    wait_until("the file stays open", || is_in_use(open_to(&mut other, OpenAccess::Both)));
    assert!(matches!(open_to(&mut other, OpenAccess::Read), Reply::Opened { .. }));
    partition.servers.push(restart_second(&partition.dir.0, &partition.servers[0]));
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
