//! Calls that succeed.

use std::io::{IoSlice, IoSliceMut};

use pario_transport::{Connection, Error, MOST_OUTSTANDING, SocketOptions, Stream};
use pario_types::{ClientId, ErrorKind, FileId, RequestId};
use pario_wire::message::{ByteRange, ByteSelection};
use pario_wire::{Envelope, Reply, Request};
use proptest::prelude::*;

use crate::support::{
    Directory, Medium, Server, accepted, envelope, hello, on_all, reply_bytes, secret, soon, welcome,
};

const FILE: FileId = FileId(3);
const LARGE: usize = 8 << 20;

/// Bytes that differ from offset to offset.
fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| ((i + seed) ^ ((i + seed) >> 8) ^ ((i + seed) >> 16)) as u8).collect()
}

fn read(at: usize, len: usize) -> Request {
    Request::Read {
        file: FILE,
        what: ByteSelection::Ranges(vec![ByteRange { at: at as u64, len: len as u64 }]),
    }
}

fn write(at: usize, len: usize) -> Request {
    Request::Write {
        file: FILE,
        what: ByteSelection::Ranges(vec![ByteRange { at: at as u64, len: len as u64 }]),
    }
}

#[test]
fn payloads_go_both_ways() {
    on_all(Server::serve_memory, |_, mut connection| {
        let data = pattern(0, 5000);
        // Two ranges from three slices, one of them empty.
        let ranges = vec![ByteRange { at: 100, len: 3000 }, ByteRange { at: 6000, len: 2000 }];
        let slices = [&data[..10], &[], &data[10..]].map(IoSlice::new);
        let request = Request::Write { file: FILE, what: ByteSelection::Ranges(ranges.clone()) };
        let reply = connection.call(envelope(1), &request, &slices, &mut [], soon()).unwrap();
        assert_eq!(reply, Reply::Done);

        let (mut one, mut two, mut three) = ([0; 4000], [0; 1], [0; 999]);
        let mut into = [&mut one[..], &mut [], &mut two, &mut three].map(IoSliceMut::new);
        let request = Request::Read { file: FILE, what: ByteSelection::Ranges(ranges) };
        let reply = connection.call(envelope(2), &request, &[], &mut into, soon()).unwrap();
        assert_eq!(reply, Reply::Data { end: 8000 });
        assert_eq!([&one[..], &two, &three].concat(), data);
        assert!(!connection.is_dead());
    });
}

#[test]
fn the_largest_payloads_pass() {
    on_all(Server::serve_memory, |_, mut connection| {
        let data = pattern(7, LARGE);
        // More slices than the system takes at once.
        let slices: Vec<_> = data.chunks(LARGE / 3000).map(IoSlice::new).collect();
        connection.call(envelope(1), &write(0, LARGE), &slices, &mut [], soon()).unwrap();
        let mut back = vec![0; LARGE];
        let mut into: Vec<_> = back.chunks_mut(LARGE / 2000).map(IoSliceMut::new).collect();
        connection.call(envelope(2), &read(0, LARGE), &[], &mut into, soon()).unwrap();
        assert!(back == data);
    });
}

#[test]
fn replies_come_in_the_order_of_the_requests() {
    on_all(Server::serve_memory, |_, mut connection| {
        for id in 0..20 {
            let data = pattern(id, 1000);
            let (request, slices) = (write(id * 1000, 1000), [IoSlice::new(&data)]);
            connection.send(envelope(2 * id as u64), &request, &slices, soon()).unwrap();
            assert_eq!(connection.receive(&mut [], soon()).unwrap().1, Reply::Done);
            connection.send(envelope(2 * id as u64 + 1), &read(id * 1000, 1000), &[], soon()).unwrap();
            let mut back = [0; 1000];
            let (got, _) = connection.receive(&mut [IoSliceMut::new(&mut back)], soon()).unwrap();
            assert_eq!((got, &back[..]), (RequestId(2 * id as u64 + 1), &data[..]));
        }
        for id in 0..20u64 {
            connection.send(envelope(100 + id), &read(id as usize * 1000, 500), &[], soon()).unwrap();
        }
        assert_eq!(connection.outstanding(), 20);
        for id in 0..20u64 {
            let mut back = [0; 500];
            let (got, _) = connection.receive(&mut [IoSliceMut::new(&mut back)], soon()).unwrap();
            assert_eq!((got, &back[..]), (RequestId(100 + id), &pattern(id as usize, 500)[..]));
        }
    });
}

/// The server writes replies that the client does not read, and so does not read the client's requests: without early
/// reading both would wait for ever.
#[test]
fn large_transfers_in_both_directions_do_not_deadlock() {
    on_all(Server::serve_memory, |_, mut connection| {
        let data = pattern(1, LARGE);
        connection.call(envelope(1), &write(0, LARGE), &[IoSlice::new(&data)], &mut [], soon()).unwrap();
        for id in 2..5 {
            connection.send(envelope(id), &read(0, LARGE), &[], soon()).unwrap();
        }
        let other = pattern(9, LARGE);
        connection.send(envelope(5), &write(0, LARGE), &[IoSlice::new(&other)], soon()).unwrap();
        connection.send(envelope(6), &read(0, LARGE), &[], soon()).unwrap();
        let mut back = vec![0; LARGE];
        for id in 2..7 {
            if id == 5 {
                assert_eq!(connection.receive(&mut [], soon()).unwrap(), (RequestId(5), Reply::Done));
                continue;
            }
            back.fill(0);
            let mut into: Vec<_> = back.chunks_mut(1 << 20).map(IoSliceMut::new).collect();
            assert_eq!(connection.receive(&mut into, soon()).unwrap().0, RequestId(id));
            assert!(back == if id == 6 { &other[..] } else { &data });
        }
    });
}

#[test]
fn outstanding_requests_are_bounded() {
    on_all(Server::serve_memory, |_, mut connection| {
        for id in 0..MOST_OUTSTANDING as u64 {
            connection.send(envelope(id), &Request::Ping, &[], soon()).unwrap();
        }
        let full = connection.send(envelope(99), &Request::Ping, &[], soon());
        assert!(matches!(full, Err(Error::Full { .. })));
        while connection.outstanding() > 0 {
            connection.receive(&mut [], soon()).unwrap();
        }
        for id in 0..4 {
            connection.send(envelope(id), &read(0, LARGE), &[], soon()).unwrap();
        }
        assert!(!connection.has_room_for(&read(0, 1)));
        assert!(connection.has_room_for(&Request::Ping));
        let mut back = vec![1; LARGE];
        for _ in 0..4 {
            connection.receive(&mut [IoSliceMut::new(&mut back)], soon()).unwrap();
        }
    });
}

#[test]
fn a_request_that_cannot_be_sent_leaves_the_connection_usable() {
    on_all(Server::serve_memory, |_, mut connection| {
        let path = "x".repeat(2 << 20);
        let error =
            connection.call(envelope(1), &Request::Lookup { path }, &[], &mut [], soon()).unwrap_err();
        assert!(matches!(error, Error::Unsendable { .. }) && error.kind() == ErrorKind::Protocol, "{error}");
        let error = connection.call(envelope(1), &write(0, 5), &[], &mut [], soon()).unwrap_err();
        assert!(matches!(error, Error::Length { payload: 5, given: 0 }), "{error}");
        let mut short = [0; 4];
        let mut into = [IoSliceMut::new(&mut short)];
        let error = connection.call(envelope(1), &read(0, 5), &[], &mut into, soon()).unwrap_err();
        assert!(matches!(error, Error::Length { payload: 5, given: 4 }), "{error}");
        assert_eq!(connection.call(envelope(1), &Request::Ping, &[], &mut [], soon()).unwrap(), Reply::Done);
    });
}

#[test]
fn a_forwarded_request_keeps_its_client() {
    let origin = Some(ClientId(0xfeed));
    on_all(
        |mut server| {
            let (envelope, _, _) = server.next().expect("a request");
            assert_eq!(envelope.origin, origin);
            server.reply(envelope, &Reply::Done, &[]);
        },
        |_, mut connection| {
            let envelope = Envelope { origin, ..envelope(8) };
            assert_eq!(connection.call(envelope, &Request::Ping, &[], &mut [], soon()).unwrap(), Reply::Done);
        },
    );
}

#[test]
fn a_client_finds_a_server_by_its_address() {
    for medium in [Medium::Unix, Medium::Tcp] {
        let directory = Directory::new();
        let tuning = SocketOptions { buffer: Some(1 << 18), ..SocketOptions::default() };
        let listener = pario_transport::Listener::bind(&medium.address(&directory), tuning).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| Server::let_in(accepted(&listener)).serve_memory());
            let address = listener.address().to_string().parse().unwrap();
            let (mut connection, said, _) =
                Connection::connect(&address, &tuning, &hello(), &secret(), soon()).unwrap();
            assert_eq!((said, connection.peer()), (welcome(None), &address.to_string()[..]));
            connection.call(envelope(1), &Request::Ping, &[], &mut [], soon()).unwrap();
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// However the bytes of replies are divided on their way, the client sees the same.
    #[test]
    fn messages_arrive_whole_whatever_the_packet_boundaries(
        sizes in prop::collection::vec(0usize..300, 1..6),
        cuts in prop::collection::vec(1usize..70, 1..8),
    ) {
        let (near, far) = Stream::pair().unwrap();
        let total = sizes.len() as u64;
        let got = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut server = Server::let_in(far);
                let mut bytes = Vec::new();
                for _ in 0..total {
                    let (envelope, request, _) = server.next().expect("a request");
                    let len = request.reply_payload() as usize;
                    let payload = pattern(len, len);
                    bytes.extend(reply_bytes(envelope, &Reply::Data { end: 1 }, &payload));
                }
                let bytes = server.seal(&bytes);
                let (mut rest, mut cuts) = (&bytes[..], cuts.iter().cycle());
                while !rest.is_empty() {
                    let (now, later) = rest.split_at(rest.len().min(*cuts.next().expect("endless")));
                    server.write(now);
                    std::thread::yield_now();
                    rest = later;
                }
            });
            let (mut connection, _, _) =
                Connection::over(near, "pair".into(), &hello(), &secret(), soon()).unwrap();
            for (id, len) in (0..).zip(&sizes) {
                connection.send(envelope(id), &read(0, *len), &[], soon()).unwrap();
            }
            sizes.iter().map(|len| {
                let mut back = vec![0; *len];
                connection.receive(&mut [IoSliceMut::new(&mut back)], soon()).unwrap();
                back
            }).collect::<Vec<_>>()
        });
        let meant: Vec<_> = sizes.iter().map(|len| pattern(*len, *len)).collect();
        prop_assert_eq!(got, meant);
    }
}
