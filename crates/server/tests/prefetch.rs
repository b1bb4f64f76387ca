//! Prefetching, as clients see it.

mod common;

use common::{BLOCK, Client, Scratch, start, start_all, wait_until};
use pario_types::{FileId, ServerId};
use pario_wire::message::{ByteRange, PrefetchCounters, ServerStatus};
use pario_wire::{Reply, Request};

const FILE: FileId = FileId(99);

fn status(client: &mut Client) -> ServerStatus {
    match client.ask(&Request::Status) {
        Reply::Status(status) => *status,
        other => panic!("{other:?}"),
    }
}

fn blocks(blocks: std::ops::Range<u64>) -> ByteRange {
    ByteRange { at: blocks.start * u64::from(BLOCK), len: (blocks.end - blocks.start) * u64::from(BLOCK) }
}

fn prefetch(client: &mut Client, ranges: &[ByteRange]) -> u32 {
    match client.ask(&Request::Prefetch { file: FILE, ranges: ranges.to_vec() }) {
        Reply::Prefetched { taken } => taken,
        other => panic!("{other:?}"),
    }
}

/// Waits for a condition of the server's counters.
fn status_when(client: &mut Client, condition: impl Fn(&PrefetchCounters) -> bool) -> ServerStatus {
    let mut last = status(client);
    wait_until("the counters do not change", || {
        last = status(client);
        condition(&last.prefetches)
    });
    last
}

#[test]
fn prefetched_blocks_are_read_without_the_store() {
    let dir = Scratch::new("prefetch");
    let server = start(&dir.0, 0, 1, 64);
    let mut client = Client::connect(&server.started().unix, 0, 1, 1);
    let bytes: Vec<u8> = (0..100 * BLOCK).map(|i| (i / BLOCK) as u8 ^ i as u8).collect();
    client.write(0, FILE, 0, &bytes);
    server.shut_down().unwrap();
    // The pool is empty now.
    let server = start(&dir.0, 0, 1, 64);
    let mut near = Client::connect(&server.started().unix, 0, 1, 1);
    let mut far = Client::connect(server.started().tcp.as_ref().unwrap(), 0, 1, 2);
    assert_eq!(prefetch(&mut near, &[blocks(10..14), blocks(90..94), blocks(20..21)]), 2);
    assert_eq!(prefetch(&mut far, &[blocks(50..52)]), 1);
    let loaded = status_when(&mut near, |prefetches| prefetches.loaded_blocks == 10);
    assert_eq!(loaded.storage.read_bytes, 10 * u64::from(BLOCK));
    for (client, range) in [(&mut near, blocks(10..14)), (&mut far, blocks(50..52))] {
        let (at, len) = (range.at as usize, range.len as usize);
        assert_eq!(client.read(0, FILE, range.at, len).0, bytes[at..at + len]);
    }
    let after = status(&mut far);
    assert_eq!(after.storage.read_bytes, loaded.storage.read_bytes);
    let expected =
        PrefetchCounters { taken: 3, refused: 1, released: 2, loaded_blocks: 10, hits: 6, kept_blocks: 4 };
    assert_eq!(after.prefetches, expected);
    // Ranges that were not prefetched are ignored.
    let cancel =
        Request::CancelPrefetch { file: FILE, ranges: vec![blocks(90..94), blocks(1..2), blocks(90..94)] };
    assert_eq!(near.ask(&cancel), Reply::Done);
    assert_eq!((status(&mut near).prefetches.released, status(&mut near).pool.pinned_slots), (3, 0));
    server.shut_down().unwrap();
}

#[test]
fn a_client_that_disconnects_or_uses_another_server_holds_no_blocks() {
    let dir = Scratch::new("leaves");
    let servers = start_all(&dir.0, 2, 64);
    let mut stays = Client::connect(&servers[0].started().unix, 0, 2, 1);
    stays.write(0, FILE, 0, &[1; 50_000]);
    let mut leaves = Client::connect(&servers[0].started().unix, 0, 2, 2);
    assert_eq!(prefetch(&mut leaves, &[blocks(0..3)]), 1);
    drop(leaves);
    let after = status_when(&mut stays, |prefetches| prefetches.released == 1);
    assert_eq!(after.prefetches.kept_blocks, 0);
    let mut elsewhere = Client::connect(&servers[1].started().unix, 1, 2, 3);
    let request = Request::Prefetch { file: FILE, ranges: vec![blocks(0..3)] };
    let through = elsewhere.exchange(ServerId(0), &request, &[], &mut []);
    assert_eq!(through, Reply::Prefetched { taken: 0 });
    let nonsense = Request::Prefetch { file: FileId(0), ranges: vec![] };
    assert!(matches!(stays.ask(&nonsense), Reply::Failed(_)));
    servers.into_iter().for_each(|server| server.shut_down().unwrap());
}
