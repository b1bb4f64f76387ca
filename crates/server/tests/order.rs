//! Parts whose blocks lie in storage in the order of their first use.

mod common;

use std::path::PathBuf;

use common::{BLOCK, Client, Scratch, start};
use pario_types::{ErrorKind, FileId, TruncationId};
use pario_wire::message::{AcquireIntent, BlockRange, ByteRange};
use pario_wire::{Reply, Request};

const FILE: FileId = FileId(0x199);
const SIZE: u64 = BLOCK as u64;

fn arrange(client: &mut Client, blocks: &[std::ops::Range<u64>]) -> Reply {
    let range =
        |run: &std::ops::Range<u64>| ByteRange { at: run.start * SIZE, len: (run.end - run.start) * SIZE };
    client.ask(&Request::Arrange { file: FILE, ranges: blocks.iter().map(range).collect() })
}

/// Blocks, each full of its number plus one.
fn numbered(count: u8) -> Vec<u8> {
    (1..=count).flat_map(|number| [number; SIZE as usize]).collect()
}

/// The first bytes of the blocks, in the order of storage.
fn stored(dir: &Scratch) -> Option<Vec<u8>> {
    let path: PathBuf = dir.0.join("data0/parts/99/0000000000000199.ordered");
    let bytes = std::fs::read(path).ok()?;
    Some(bytes[SIZE as usize..].chunks(SIZE as usize).map(|block| block[0]).collect())
}

/// A client that acquires ahead gets the blocks that are next in storage.
#[test]
fn acquires_in_the_order_of_first_use_read_storage_sequentially() {
    let dir = Scratch::new("order");
    let server = start(&dir.0, 0, 1, 512);
    let mut client = Client::connect(&server.started().unix, 0, 1, 1);
    let order = [30..34, 0..9, 20..30, 12..20, 9..12];
    assert_eq!(arrange(&mut client, &order), Reply::Done);
    let bytes = numbered(40);
    assert_eq!(client.write(0, FILE, 0, &bytes), Reply::Done);
    server.shut_down().unwrap();
    let in_order: Vec<u64> = order.iter().cloned().flatten().collect();
    assert_eq!(stored(&dir), Some(in_order.iter().map(|block| *block as u8 + 1).collect()));

    let server = start(&dir.0, 0, 1, 512);
    let mut client = Client::connect(&server.started().unix, 0, 1, 1);
    let mut got = Vec::new();
    for block in in_order.iter().copied() {
        if !got.contains(&block) {
            let blocks = vec![BlockRange { first: block, count: 1 }];
            let request = Request::Acquire { file: FILE, intent: AcquireIntent::Read, blocks, ahead: 5 };
            let Reply::Slots(slots) = client.ask(&request) else { panic!() };
            got.extend(slots.iter().map(|slot| slot.block));
        }
    }
    assert_eq!(got, in_order);
    assert_eq!(client.read(0, FILE, 0, bytes.len()), (bytes, 40 * SIZE));
    server.shut_down().unwrap();
}

#[test]
fn an_order_that_is_late_or_makes_no_sense_has_no_effect() {
    let dir = Scratch::new("late");
    let server = start(&dir.0, 0, 1, 32);
    let mut client = Client::connect(&server.started().unix, 0, 1, 1);
    let overlapping = vec![ByteRange { at: 0, len: 3 * SIZE }, ByteRange { at: SIZE, len: 5 * SIZE }];
    let beyond = vec![ByteRange { at: 0, len: 1 }, ByteRange { at: i64::MAX as u64 - 10, len: 10 }];
    for ranges in [overlapping, beyond] {
        let Reply::Failed(failure) = client.ask(&Request::Arrange { file: FILE, ranges }) else { panic!() };
        assert_eq!(failure.kind, ErrorKind::Arg);
    }
    let bytes = numbered(4);
    assert_eq!(client.write(0, FILE, 0, &bytes), Reply::Done);
    assert_eq!(client.ask(&Request::Sync { file: FILE, durable: false }), Reply::Done);
    assert_eq!(arrange(&mut client, &[2..4, 0..2]), Reply::Done);
    assert_eq!(stored(&dir), None);
    assert_eq!(client.read(0, FILE, 0, bytes.len()).0, bytes);
    // After a truncation to 0 the part has nothing in storage.
    assert_eq!(
        client.ask(&Request::Truncate { file: FILE, end: 0, truncation: TruncationId(0) }),
        Reply::Done
    );
    assert_eq!(arrange(&mut client, &[2..4, 0..2]), Reply::Done);
    assert_eq!(client.write(0, FILE, 0, &bytes), Reply::Done);
    drop(client);
    // The successor of a killed server stores it.
    server.abandon().unwrap();
    let server = start(&dir.0, 0, 1, 32);
    let mut client = Client::connect(&server.started().unix, 0, 1, 1);
    assert_eq!(client.ask(&Request::Sync { file: FILE, durable: true }), Reply::Done);
    assert_eq!(stored(&dir), Some(vec![3, 4, 1, 2]));
    assert_eq!(client.read(0, FILE, 0, bytes.len()), (bytes, 4 * SIZE));
    assert_eq!(client.ask(&Request::RemoveParts { files: vec![FILE] }), Reply::Done);
    assert_eq!(stored(&dir), None);
    server.shut_down().unwrap();
}
