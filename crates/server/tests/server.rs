//! A server as its clients see it.

mod common;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use common::{BLOCK, Client, Scratch, deadline, hello, start, start_all, wait_until};
use pario_cache::SlotRef;
use pario_transport::{Address, Connection, SocketOptions};
use pario_types::{ErrorKind, FileId, TruncationId};
use pario_wire::greeting::Role;
use pario_wire::message::{
    AcquireIntent, BlockRange, ByteRange, ByteSelection, OpenAccess, OpenFileEntry, ServerStatus,
};
use pario_wire::{Reply, Request, Secret};

const FILE: FileId = FileId(99);

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

fn status(client: &mut Client) -> ServerStatus {
    match client.ask(&Request::Status) {
        Reply::Status(status) => *status,
        other => panic!("{other:?}"),
    }
}

#[test]
fn bytes_written_by_unix_socket_are_read_by_tcp() {
    let dir = Scratch::new("addresses");
    let server = start(&dir.0, 0, 1, 32);
    let (unix, tcp) = (server.started().unix.clone(), server.started().tcp.clone().unwrap());
    let mut near = Client::connect(&unix, 0, 1, 1);
    let mut far = Client::connect(&tcp, 0, 1, 2);
    assert!(near.pool.is_some() && far.pool.is_none());
    let bytes = pattern(100_000, 1);
    assert_eq!(near.write(0, FILE, 5000, &bytes), Reply::Done);
    let (read, end) = far.read(0, FILE, 4990, 100_020);
    assert_eq!((&read[..10], end), (&[0; 10][..], 105_000));
    assert_eq!(read[10..100_010], bytes[..]);
    assert_eq!(read[100_010..], [0; 10]);
    server.shut_down().unwrap();
    assert_eq!(std::fs::read_dir(dir.0.join("run0")).unwrap().count(), 0);
}

#[test]
fn a_client_of_this_host_writes_directly_to_the_pool() {
    let dir = Scratch::new("pool");
    let server = start(&dir.0, 0, 1, 32);
    let mut client = Client::connect(&server.started().unix, 0, 1, 1);
    let runs = vec![BlockRange { first: 0, count: 2 }];
    let request =
        Request::Acquire { file: FILE, intent: AcquireIntent::Overwrite, blocks: runs.clone(), ahead: 0 };
    let Reply::Slots(slots) = client.ask(&request) else { panic!() };
    assert!(slots.len() == 2 && slots.iter().all(|slot| slot.pending));
    let bytes = pattern(2 * BLOCK as usize, 7);
    let pool = client.pool.as_ref().unwrap();
    for (slot, bytes) in slots.iter().zip(bytes.chunks(BLOCK as usize)) {
        let place = SlotRef { slot: slot.slot, generation: slot.generation };
        let mut pending = pool.claim(place, FILE, slot.block).unwrap();
        pending.write(0, bytes);
        pending.publish(BLOCK).unwrap();
    }
    // Other clients read it by messages, and after a shutdown it is in storage.
    let mut far = Client::connect(server.started().tcp.as_ref().unwrap(), 0, 1, 2);
    assert_eq!(far.read(0, FILE, 0, bytes.len()), (bytes.clone(), bytes.len() as u64));
    server.shut_down().unwrap();
    let server = start(&dir.0, 0, 1, 32);
    let mut client = Client::connect(&server.started().unix, 0, 1, 1);
    assert_eq!(client.read(0, FILE, 0, bytes.len()), (bytes, 2 * u64::from(BLOCK)));
    server.shut_down().unwrap();
}

#[test]
fn a_successor_adopts_blocks_that_were_only_in_the_pool() {
    let dir = Scratch::new("adopt");
    let server = start(&dir.0, 0, 1, 32);
    let mut client = Client::connect(&server.started().unix, 0, 1, 1);
    let bytes = pattern(10_000, 3);
    client.write(0, FILE, 0, &bytes);
    drop(client);
    server.abandon().unwrap();
    let server = start(&dir.0, 0, 1, 32);
    assert!(server.started().adopted.as_ref().is_some_and(|adopted| adopted.dirty > 0));
    let mut client = Client::connect(&server.started().unix, 0, 1, 1);
    assert_eq!(client.read(0, FILE, 0, bytes.len()).0, bytes);
    drop(client);
    server.abandon().unwrap();
    // The same with a pool of another size.
    let server = start(&dir.0, 0, 1, 64);
    let mut client = Client::connect(&server.started().unix, 0, 1, 1);
    assert_eq!(client.read(0, FILE, 0, bytes.len()).0, bytes);
    assert_eq!(status(&mut client).pool.slots, 64);
    server.shut_down().unwrap();
}

#[test]
fn a_pool_much_smaller_than_the_data_is_enough() {
    let dir = Scratch::new("storm");
    let server = start(&dir.0, 0, 1, 16);
    let address = server.started().unix.clone();
    std::thread::scope(|scope| {
        for writer in 0..3u64 {
            let address = address.clone();
            scope.spawn(move || {
                let mut client = Client::connect(&address, 0, 1, 10 + u128::from(writer));
                let file = FileId(100 + writer);
                for turn in 0..20 {
                    let bytes = pattern(30_000, (turn + writer) as u8);
                    assert_eq!(client.write(0, file, turn * 30_000, &bytes), Reply::Done);
                }
                for turn in 0..20 {
                    let (bytes, end) = client.read(0, file, turn * 30_000, 30_000);
                    assert_eq!((bytes, end), (pattern(30_000, (turn + writer) as u8), 600_000));
                }
            });
        }
    });
    server.shut_down().unwrap();
}

#[test]
fn files_are_truncated_and_removed() {
    let dir = Scratch::new("cut");
    let server = start(&dir.0, 0, 1, 32);
    let mut client = Client::connect(&server.started().unix, 0, 1, 1);
    let bytes = pattern(20_000, 5);
    client.write(0, FILE, 0, &bytes);
    assert_eq!(
        client.ask(&Request::Truncate { file: FILE, end: 5000, truncation: TruncationId(0) }),
        Reply::Done
    );
    assert_eq!(client.ask(&Request::End { file: FILE }), Reply::End { end: 5000 });
    assert_eq!(
        client.ask(&Request::Truncate { file: FILE, end: 9000, truncation: TruncationId(0) }),
        Reply::Done
    );
    let (read, end) = client.read(0, FILE, 0, 9000);
    assert_eq!((&read[..5000], &read[5000..], end), (&bytes[..5000], &[0; 4000][..], 9000));
    assert_eq!(client.ask(&Request::RemoveParts { files: vec![FILE] }), Reply::Done);
    assert_eq!(client.ask(&Request::End { file: FILE }), Reply::End { end: 0 });
    server.shut_down().unwrap();
}

#[test]
fn requests_to_another_server_are_forwarded() {
    let dir = Scratch::new("peers");
    let servers = start_all(&dir.0, 3, 32);
    let mut client = Client::connect(&servers[2].started().unix, 2, 3, 1);
    let bytes = pattern(50_000, 9);
    assert_eq!(client.write(1, FILE, 100, &bytes), Reply::Done);
    assert_eq!(client.read(1, FILE, 100, bytes.len()), (bytes.clone(), 50_100));
    let mut direct = Client::connect(&servers[1].started().unix, 1, 3, 2);
    assert_eq!(direct.read(1, FILE, 100, bytes.len()).0, bytes);
    // The same for the name space: files that were opened through another server are closed when the client disconnects.
    let mut names = Client::connect(&servers[0].started().unix, 0, 3, 3);
    let opened = names.create("/here");
    assert_eq!(opened.opens, 1);
    let request = Request::Lookup { path: "/here".into() };
    let through = client.exchange(pario_types::ServerId(0), &request, &[], &mut []);
    assert!(matches!(through, Reply::Attributes(found) if found.file == opened.file), "{through:?}");
    assert_eq!(status(&mut client).traffic.forwarded, 3);
    for server in servers {
        server.shut_down().unwrap();
    }
}

#[test]
fn stripes_of_removed_files_are_removed_when_no_client_has_them_open() {
    let dir = Scratch::new("reap");
    let servers = start_all(&dir.0, 2, 32);
    let mut client = Client::connect(&servers[0].started().unix, 0, 2, 1);
    let file = client.create("/gone").file;
    let mut other = Client::connect(&servers[1].started().unix, 1, 2, 1);
    client.write(0, file, 0, b"here");
    other.write(1, file, 0, b"there");
    assert_eq!(client.ask(&Request::Unlink { path: "/gone".into() }), Reply::Done);
    assert_eq!(other.read(1, file, 0, 5).0, b"there");
    assert_eq!(client.ask(&Request::Close { file, wrote: None }), Reply::Done);
    let gone = |client: &mut Client| client.ask(&Request::End { file }) == Reply::End { end: 0 };
    wait_until("the stripes are not removed", || gone(&mut client) && gone(&mut other));
    for server in servers {
        server.shut_down().unwrap();
    }
}

#[test]
fn unauthenticated_clients_are_refused_without_effect_on_others() {
    let dir = Scratch::new("unauthenticated");
    let server = start(&dir.0, 0, 1, 32);
    let Address::Unix(path) = server.started().unix.clone() else { panic!() };
    let mut client = Client::connect(&server.started().unix, 0, 1, 1);
    client.write(0, FILE, 0, b"mine");
    let tries: [(&str, ErrorKind, Secret, [u16; 2]); 3] = [
        ("secret", ErrorKind::Access, Secret::new([1; 32]), [0, 1]),
        ("server", ErrorKind::Protocol, Secret::new([9; 32]), [1, 1]),
        ("count", ErrorKind::Protocol, Secret::new([9; 32]), [0, 2]),
    ];
    for (what, kind, secret, [number, count]) in tries {
        let hello = hello(number, count, 5);
        let refused = Connection::connect(
            &server.started().unix,
            &SocketOptions::default(),
            &hello,
            &secret,
            deadline(),
        );
        assert_eq!(refused.err().map(|e| e.kind()), Some(kind), "{what}");
    }
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 300], &[0; 5000]] {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(garbage).unwrap();
        let mut answer = Vec::new();
        // The server closes the connection.
        let _ = stream.read_to_end(&mut answer);
    }
    assert_eq!(client.read(0, FILE, 0, 4).0, b"mine");
    // A client that finds a wrong proof of the server disconnects by itself.
    assert!(status(&mut client).traffic.refused >= 5);
    server.shut_down().unwrap();
}

#[test]
fn invalid_requests_fail_without_effect_on_others() {
    let dir = Scratch::new("nonsense");
    let server = start(&dir.0, 0, 1, 32);
    let mut client = Client::connect(&server.started().tcp.clone().unwrap(), 0, 1, 1);
    let blocks = vec![BlockRange { first: u64::MAX / 4096, count: 5 }];
    let requests = [
        Request::End { file: FileId(0) },
        Request::Acquire { file: FILE, intent: AcquireIntent::Read, blocks, ahead: 0 },
        Request::Truncate { file: FILE, end: u64::MAX, truncation: TruncationId(0) },
        Request::Lookup { path: "not/absolute".into() },
        Request::Close { file: FileId(12345), wrote: None },
    ];
    for request in requests {
        assert!(matches!(client.ask(&request), Reply::Failed(_)), "{request:?}");
    }
    assert_eq!(client.ask(&Request::Ping), Reply::Done);
    server.shut_down().unwrap();
}

#[test]
fn a_client_that_disconnects_releases_its_slots_and_files() {
    let dir = Scratch::new("leaver");
    let server = start(&dir.0, 0, 1, 16);
    let mut stays = Client::connect(&server.started().unix, 0, 1, 1);
    for round in 0..40 {
        let mut leaves = Client::connect(&server.started().unix, 0, 1, 100 + round);
        let file = leaves.create("/shared").file;
        let blocks = vec![BlockRange { first: 0, count: 16 }];
        let _ = leaves.ask(&Request::Acquire { file, intent: AcquireIntent::Overwrite, blocks, ahead: 3 });
        drop(leaves);
    }
    let bytes = pattern(16 * BLOCK as usize, 1);
    assert_eq!(stays.write(0, FILE, 0, &bytes), Reply::Done);
    assert_eq!(stays.read(0, FILE, 0, bytes.len()).0, bytes);
    // The server notices the end of the last one a moment later.
    wait_until("the file is still open", || match stays.ask(&Request::Lookup { path: "/shared".into() }) {
        Reply::Attributes(found) => found.opens == 0,
        other => panic!("{other:?}"),
    });
    server.shut_down().unwrap();
}

#[test]
fn a_client_that_connects_again_ends_its_older_connection() {
    let dir = Scratch::new("again");
    let server = start(&dir.0, 0, 1, 16);
    let mut first = Client::connect(&server.started().unix, 0, 1, 42);
    let file = first.create("/kept").file;
    assert_eq!(first.ask(&Request::Unlink { path: "/kept".into() }), Reply::Done);
    first.write(0, file, 0, b"still here");
    let mut second = Client::connect(&server.started().unix, 0, 1, 42);
    // The file has no name, and its client was always connected.
    assert_eq!(second.read(0, file, 0, 10).0, b"still here");
    let envelope = pario_wire::Envelope::new(pario_types::ServerId(0), pario_types::RequestId(77));
    let late = first.connection.call(envelope, &Request::Ping, &[], &mut [], deadline());
    assert_eq!(late.err().map(|e| e.kind()), Some(ErrorKind::Unreachable));
    assert_eq!(second.ask(&Request::Close { file, wrote: None }), Reply::Done);
    server.shut_down().unwrap();
}

#[test]
fn a_server_may_forward_requests_and_a_client_may_not() {
    let dir = Scratch::new("origin");
    let server = start(&dir.0, 0, 1, 16);
    for (role, fine) in [(Role::Peer, true), (Role::Client, false)] {
        let hello = pario_wire::greeting::Hello { role, ..hello(0, 1, 8) };
        let secret = Secret::new([9; 32]);
        let (mut connection, _, _) = Connection::connect(
            &server.started().unix,
            &SocketOptions::default(),
            &hello,
            &secret,
            deadline(),
        )
        .unwrap();
        let envelope = pario_wire::Envelope {
            server: pario_types::ServerId(0),
            id: pario_types::RequestId(1),
            origin: Some(pario_types::ClientId(55)),
        };
        let answer = connection.call(envelope, &Request::Ping, &[], &mut [], deadline());
        assert_eq!(answer.is_ok(), fine, "{role:?}");
    }
    server.shut_down().unwrap();
}

/// The part of a reply that a socket does not accept at once is copied out of the pool.
#[test]
fn large_reads_are_complete_also_for_slow_readers() {
    let dir = Scratch::new("large");
    let server = start(&dir.0, 0, 1, 512);
    let addresses = [server.started().unix.clone(), server.started().tcp.clone().unwrap()];
    let bytes = pattern(1_500_000, 8);
    let mut writer = Client::connect(&addresses[0], 0, 1, 1);
    for (index, part) in bytes.chunks(500_000).enumerate() {
        writer.write(0, FILE, index as u64 * 500_000, part);
    }
    for (number, address) in (2..).zip(&addresses) {
        let mut reader = Client::connect(address, 0, 1, number);
        let asked = [(0u64, 1_500_000u64), (1, 1_400_001), (70_000, 65_536), (4095, 1_000_000)];
        for (id, (at, len)) in (1..).zip(asked) {
            let what = ByteSelection::Ranges(vec![ByteRange { at, len }]);
            let request = Request::Read { file: FILE, what };
            let envelope = pario_wire::Envelope::new(pario_types::ServerId(0), pario_types::RequestId(id));
            reader.connection.send(envelope, &request, &[], deadline()).unwrap();
        }
        // The client does not read, and the server unpins the blocks all the same.
        wait_until("blocks stay pinned", || status(&mut writer).pool.pinned_slots == 0);
        for (at, len) in asked {
            let mut got = vec![0; len as usize];
            let mut into = [std::io::IoSliceMut::new(&mut got)];
            let (_, reply) = reader.connection.receive(&mut into, deadline()).unwrap();
            assert_eq!(reply, Reply::Data { end: 1_500_000 });
            assert!(got == bytes[at as usize..(at + len) as usize], "{at}..+{len}");
        }
    }
    server.shut_down().unwrap();
}

#[test]
fn a_removed_file_that_a_client_has_open_survives_an_orderly_shutdown() {
    let dir = Scratch::new("reclaim");
    let server = start(&dir.0, 0, 1, 32);
    let mut client = Client::connect(&server.started().unix, 0, 1, 1);
    let file = client.create("/file").file;
    let bytes = pattern(100_000, 5);
    client.write(0, file, 0, &bytes);
    assert_eq!(client.ask(&Request::Unlink { path: "/file".into() }), Reply::Done);
    server.shut_down().unwrap();
    let server = start(&dir.0, 0, 1, 32);
    let mut client = Client::connect(&server.started().unix, 0, 1, 1);
    let files = vec![OpenFileEntry { file, access: OpenAccess::Both }];
    assert_eq!(client.ask(&Request::Reopen { files, repeated: 0 }), Reply::Reopened { gone: Vec::new() });
    assert!(client.read(0, file, 0, bytes.len()) == (bytes, 100_000), "the bytes of an open file are gone");
    server.shut_down().unwrap();
}

#[test]
fn the_space_of_removed_files_is_free_after_an_orderly_shutdown() {
    let dir = Scratch::new("reclaimed");
    let server = start(&dir.0, 0, 1, 32);
    let mut client = Client::connect(&server.started().unix, 0, 1, 1);
    let file = client.create("/file").file;
    client.write(0, file, 0, &pattern(100_000, 5));
    assert_eq!(client.ask(&Request::Sync { file, durable: true }), Reply::Done);
    assert_eq!(client.ask(&Request::Unlink { path: "/file".into() }), Reply::Done);
    assert_eq!(
        client.ask(&Request::Reopen { files: Vec::new(), repeated: 0 }),
        Reply::Reopened { gone: Vec::new() }
    );
    server.shut_down().unwrap();
    let server = start(&dir.0, 0, 1, 32);
    let mut client = Client::connect(&server.started().unix, 0, 1, 2);
    let mut parts = || match client.ask(&Request::ListParts { after: FileId(0), most: 9 }) {
        Reply::Parts { parts, .. } => parts.len(),
        other => panic!("{other:?}"),
    };
    wait_until("the server waits for clients of its predecessor", || parts() == 0);
    server.shut_down().unwrap();
}

#[test]
fn a_metadata_server_never_starts_an_empty_name_space_over_old_parts() {
    let dir = Scratch::new("lost-names");
    let server = start(&dir.0, 0, 1, 32);
    let mut client = Client::connect(&server.started().unix, 0, 1, 1);
    let file = client.create("/file").file;
    client.write(0, file, 0, &pattern(10_000, 5));
    drop(client);
    server.shut_down().unwrap();
    let (names, moved) = (dir.0.join("data0/names"), dir.0.join("moved"));
    std::fs::rename(&names, &moved).unwrap();
    let started =
        |made| pario_server::Server::start(pario_server::Config { made, ..common::config(&dir.0, 0, 1, 32) });
    for made in [false, true] {
        let error = started(made).err().expect("the names are lost");
        assert_eq!(error.kind(), ErrorKind::Damaged);
        assert!(
            error.to_string().contains("holds no name space, though the partition has been in use"),
            "{error}"
        );
    }
    // The operator removes the files of that attempt and restores the names.
    std::fs::remove_dir_all(&names).unwrap();
    std::fs::rename(&moved, &names).unwrap();
    let server = start(&dir.0, 0, 1, 32);
    let mut client = Client::connect(&server.started().unix, 0, 1, 1);
    assert_eq!(client.create("/file").file, file);
    server.shut_down().unwrap();
}
