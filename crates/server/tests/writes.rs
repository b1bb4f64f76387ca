//! Large writes, whose payload a server receives in pieces of any size, also if they end early.

mod common;

use std::io::Write;
use std::net::TcpStream;

use common::{BLOCK, Client, Scratch, config, deadline, hello, start, start_with, wait_until};
use pario_server::{Config, Server};
use pario_transport::{Address, Connection, RecordReader, Stream};
use pario_types::{ClientId, ErrorKind, FileId, RequestId, ServerId};
use pario_wire::message::{ByteRange, ByteSelection};
use pario_wire::{Envelope, RecordSealer, Reply, Request, Secret, encode_reply, encode_request};
use proptest::prelude::*;

const FILE: FileId = FileId(99);
const OLD: u8 = 0xff;

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| ((i / 7) as u8).wrapping_mul(31).wrapping_add(seed) & 0x7f).collect()
}

/// A client that sends raw bytes.
struct RawClient {
    stream: TcpStream,
    sealer: RecordSealer,
    reader: RecordReader,
}

impl RawClient {
    fn connect(server: &Server, client: u128) -> RawClient {
        let Some(Address::Tcp(host, port)) = &server.started().tcp else { panic!("it listens") };
        let stream = TcpStream::connect((host.as_str(), *port)).unwrap();
        let same = Stream::Tcp(stream.try_clone().unwrap());
        let secret = Secret::new([9; 32]);
        let (connection, ..) =
            Connection::over(same, "the server".into(), &hello(0, 1, client), &secret, deadline()).unwrap();
        let (_, sealer, opener) = connection.into_parts().unwrap();
        stream.set_nonblocking(false).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        RawClient { stream, sealer, reader: RecordReader::new(opener) }
    }

    /// The bytes of a write and where its payload begins.
    fn frame(id: u64, ranges: &[ByteRange], payload: &[u8]) -> (Vec<u8>, usize) {
        let mut bytes = Vec::new();
        let request = Request::Write { file: FILE, what: ByteSelection::Ranges(ranges.to_vec()) };
        encode_request(&mut bytes, Envelope::new(ServerId(0), RequestId(id)), &request).unwrap();
        let head = bytes.len();
        bytes.extend_from_slice(payload);
        (bytes, head)
    }

    fn expect_done(&mut self, id: u64) {
        let mut expected = Vec::new();
        encode_reply(&mut expected, Envelope::new(ServerId(0), RequestId(id)), &Reply::Done, 0).unwrap();
        let mut got = vec![0; expected.len()];
        let stream = Stream::Tcp(self.stream.try_clone().unwrap());
        let mut filled = 0;
        while filled < got.len() {
            filled += self.reader.read(&stream, &mut got[filled..]).unwrap();
        }
        assert_eq!(got, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// With pools that are smaller and larger than the written bytes.
    #[test]
    fn writes_are_correct_in_pieces_of_any_size(
        slots in prop_oneof![Just(32u64), Just(512)],
        writes in prop::collection::vec(
            (prop::collection::vec((0u64..400_000, 1u64..300_000), 1..4), prop::collection::vec(1usize..200_000, 1..6)),
            1..4,
        ),
    ) {
        let dir = Scratch::new("pieces");
        let server = start(&dir.0, 0, 1, slots);
        let mut raw = RawClient::connect(&server, 1);
        let mut other = Client::connect(&server.started().unix, 0, 1, 2);
        let mut model = Vec::new();
        for (id, (ranges, cuts)) in (1..).zip(writes) {
            let ranges: Vec<ByteRange> = ranges.iter().map(|(at, len)| ByteRange { at: *at, len: *len }).collect();
            let payload = pattern(ranges.iter().map(|range| range.len as usize).sum(), id as u8 * 9);
            let mut rest = &payload[..];
            for range in &ranges {
                let (here, after) = rest.split_at(range.len as usize);
                let (at, end) = (range.at as usize, (range.at + range.len) as usize);
                model.resize(model.len().max(end), 0);
                model[at..end].copy_from_slice(here);
                rest = after;
            }
            let frame = raw.sealer.records(&RawClient::frame(id, &ranges, &payload).0);
            let (mut rest, mut cuts) = (&frame[..], cuts.into_iter().cycle());
            while !rest.is_empty() {
                let (now, later) = rest.split_at(cuts.next().expect("endless").min(rest.len()));
                raw.stream.write_all(now).unwrap();
                // Other clients are served in between.
                prop_assert_eq!(other.ask(&Request::Ping), Reply::Done);
                rest = later;
            }
            raw.expect_done(id);
            let (got, end) = other.read(0, FILE, 0, model.len());
            prop_assert_eq!(end, model.len() as u64);
            prop_assert!(got == model);
        }
        server.shut_down().unwrap();
    }
}

/// A client that disconnects in the middle of a write has written part of it; one that stays connected delays no other client.
#[test]
fn an_incomplete_write_is_written_in_part_and_holds_no_blocks() {
    const LEN: usize = 1_000_000;
    let dir = Scratch::new("half");
    let server = start(&dir.0, 0, 1, 512);
    let mut other = Client::connect(&server.started().unix, 0, 1, 2);
    assert_eq!(other.write(0, FILE, 0, &[OLD; LEN + 300]), Reply::Done);
    let payload = pattern(LEN, 3);
    let (frame, head) = RawClient::frame(1, &[ByteRange { at: 100, len: LEN as u64 }], &payload);
    let mut raw = RawClient::connect(&server, 1);
    let records = raw.sealer.records(&frame);
    raw.stream.write_all(&records[..head + LEN / 2]).unwrap();
    wait_until("received bytes are not written", || other.read(0, FILE, 100, 1).0 == payload[..1]);
    // The client stays connected. A team gets its lease, without a recall.
    let mut mailbox = Client::connect(&server.started().unix, 0, 1, 3);
    assert!(matches!(
        mailbox.ask(&Request::PollRecalls { team: 7, anew: true, wait_ms: 0 }),
        Reply::Recalled { .. }
    ));
    let mut member = Client::connect(&server.started().unix, 0, 1, 4);
    assert_eq!(member.ask(&Request::JoinTeam { team: 7, mailbox: ClientId(3) }), Reply::Done);
    let ranges = vec![ByteRange { at: 0, len: BLOCK.into() }];
    let lease = member.ask(&Request::Lease { team: 7, file: FILE, ranges });
    assert!(matches!(lease, Reply::Leased { .. }), "{lease:?}");
    assert_eq!(member.ask(&Request::ReleaseLeases { team: 7, file: FILE }), Reply::Done);
    wait_until("blocks stay pinned", || match other.ask(&Request::Status) {
        Reply::Status(status) => status.pool.pinned_slots == 0,
        other => panic!("{other:?}"),
    });
    // The client disconnects.
    drop(raw);
    let (bytes, end) = other.read(0, FILE, 0, LEN + 300);
    assert_eq!(end, LEN as u64 + 300);
    assert!(bytes[..100].iter().chain(&bytes[100 + LEN / 2..]).all(|byte| *byte == OLD));
    let written = bytes[100..].iter().take_while(|byte| **byte != OLD).count();
    assert!(bytes[100..100 + written] == payload[..written]);
    assert!(bytes[100 + written..].iter().all(|byte| *byte == OLD));
    server.shut_down().unwrap();
}

/// The server reads the payload of a failed write to its end, and then the next request.
#[test]
fn the_payload_of_a_failed_write_is_skipped() {
    let dir = Scratch::new("skipped");
    let server = start(&dir.0, 0, 1, 64);
    let mut client = Client::connect(server.started().tcp.as_ref().unwrap(), 0, 1, 1);
    let bytes = pattern(3_000_000, 5);
    let Reply::Failed(failure) = client.write(0, FileId(0), 0, &bytes) else { panic!("it worked") };
    assert_eq!(failure.kind, ErrorKind::Arg);
    let what = ByteSelection::View { view: 9, at: 0, len: 1 << 30, bytes: bytes.len() as u64 };
    let unknown = Request::Write { file: FILE, what };
    assert_eq!(client.exchange(ServerId(0), &unknown, &bytes, &mut []), Reply::NoView);
    assert_eq!(client.write(0, FILE, 7, b"abc"), Reply::Done);
    assert_eq!(client.read(0, FILE, 0, 10), (b"\0\0\0\0\0\0\0abc".to_vec(), 10));
    server.shut_down().unwrap();
}

/// Requests that arrive together are read together. Each gets a reply, also if other clients are served in between.
#[test]
fn requests_that_arrive_together_all_get_replies() {
    const AT_ONCE: u64 = 20;
    let dir = Scratch::new("together");
    // With one worker there is always another client to serve.
    let server = start_with(Config { workers: 1, ..config(&dir.0, 0, 1, 64) });
    std::thread::scope(|scope| {
        for client in 1..=6 {
            let server = &server;
            scope.spawn(move || {
                let mut raw = RawClient::connect(server, client);
                for round in 0..20 {
                    let ids = round * AT_ONCE..(round + 1) * AT_ONCE;
                    let mut records = Vec::new();
                    for id in ids.clone() {
                        let mut frame = Vec::new();
                        let envelope = Envelope::new(ServerId(0), RequestId(id));
                        encode_request(&mut frame, envelope, &Request::Ping).unwrap();
                        records.extend(raw.sealer.records(&frame));
                    }
                    raw.stream.write_all(&records).unwrap();
                    ids.for_each(|id| raw.expect_done(id));
                }
            });
        }
    });
    server.shut_down().unwrap();
}
