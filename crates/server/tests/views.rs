//! Views by their hashes, and shared counters.

mod common;

use common::{Client, Scratch, start, start_all, wait_until};
use pario_layout::{StripedView, Striping};
use pario_types::{ErrorKind, FileId, ServerId};
use pario_wire::message::{ByteSelection, CounterChange};
use pario_wire::{Reply, Request};

const FILE: FileId = FileId(99);

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

/// Every other 3 bytes of 7 from byte 5 on, as a client would encode it.
fn view(striping: &Striping) -> StripedView {
    let mut bytes = striping.stripe().to_le_bytes().to_vec();
    for word in [striping.count(), striping.first(), striping.servers()] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(5u64.to_le_bytes());
    // Version, displacement, bound, extent, one node: a block of 3 bytes.
    bytes.extend([1, 0, 0, 14, 1, 0, 3, 0, 1, 1]);
    StripedView::from_bytes(&bytes).unwrap()
}

#[test]
fn accesses_through_a_view_go_where_the_ranges_would() {
    let dir = Scratch::new("views");
    let servers = start_all(&dir.0, 2, 64);
    let striping = Striping::new(100, 2, 1, 2).unwrap();
    let view = view(&striping);
    let (hash, bytes) = (view.hash(), view.to_bytes());
    let put = Request::PutView { hash, len: bytes.len() as u64 };
    for (number, server) in (0..).zip(&servers) {
        let place = striping.place(ServerId(number)).unwrap();
        let here = ServerId(number);
        let mut client = Client::connect(server.started().tcp.as_ref().unwrap(), number, 2, 1);
        // From and to the middle of a piece.
        let (at, len) = (1001u64, 30_000u64);
        let extent = view.extent(place, at..at + len).unwrap();
        let named = |bytes| ByteSelection::View { view: hash, at, len, bytes };
        let data = pattern(extent.bytes as usize, number as u8);
        let write = Request::Write { file: FILE, what: named(extent.bytes) };
        assert_eq!(client.exchange(here, &write, &data, &mut []), Reply::NoView);
        let wrong = Request::PutView { hash: hash + 1, len: bytes.len() as u64 };
        assert!(matches!(client.exchange(here, &wrong, &bytes, &mut []), Reply::Failed(_)));
        assert_eq!(client.exchange(here, &put, &bytes, &mut []), Reply::Done);
        assert_eq!(client.exchange(here, &write, &data, &mut []), Reply::Done);
        // Another client need not send the view.
        let mut other = Client::connect(&server.started().unix, number, 2, 2);
        let (local, end) = other.read(number, FILE, 0, extent.local.end as usize + 9);
        assert_eq!(end, extent.local.end);
        let mut expected = vec![0; local.len()];
        let mut rest = &data[..];
        for (at, len) in view.pieces(place, at..at + len) {
            let (piece, after) = rest.split_at(len as usize);
            expected[at as usize..][..piece.len()].copy_from_slice(piece);
            rest = after;
        }
        assert!(local == expected, "the pieces are in their places");
        let mut back = vec![0xee; data.len()];
        let read = Request::Read { file: FILE, what: named(extent.bytes) };
        assert_eq!(other.exchange(here, &read, &[], &mut back), Reply::Data { end });
        assert!(back == data, "and come back");
        // A wrong number of bytes is an error.
        let read = Request::Read { file: FILE, what: named(extent.bytes - 1) };
        let reply = other.exchange(here, &read, &[], &mut back[1..]);
        assert!(matches!(&reply, Reply::Failed(failure) if failure.kind == ErrorKind::Arg), "{reply:?}");
        let endless = ByteSelection::View { view: hash, at: 0, len: 1 << 60, bytes: 0 };
        let reply = other.ask(&Request::Read { file: FILE, what: endless });
        assert!(matches!(reply, Reply::Failed(_)), "{reply:?}");
    }
    servers.into_iter().for_each(|server| server.shut_down().unwrap());
}

#[test]
fn shared_counters_end_with_the_client_that_set_them() {
    let dir = Scratch::new("counters");
    let server = start(&dir.0, 0, 1, 64);
    let address = server.started().tcp.clone().unwrap();
    let (mut owner, mut other) = (Client::connect(&address, 0, 1, 1), Client::connect(&address, 0, 1, 2));
    let ask = |client: &mut Client, change| client.ask(&Request::Counter { key: 9, change });
    assert!(matches!(ask(&mut other, CounterChange::Add(1)), Reply::Failed(_)));
    assert_eq!(ask(&mut owner, CounterChange::Set(100)), Reply::Counted { before: 0 });
    assert_eq!(ask(&mut other, CounterChange::Add(20)), Reply::Counted { before: 100 });
    assert_eq!(ask(&mut owner, CounterChange::Add(0)), Reply::Counted { before: 120 });
    drop(owner);
    let mut reply = Reply::Done;
    wait_until("the counter outlives its owner", || {
        reply = ask(&mut other, CounterChange::Add(0));
        matches!(reply, Reply::Failed(_))
    });
    assert!(
        matches!(&reply, Reply::Failed(lost) if lost.text.contains("shared file pointer was lost")),
        "{reply:?}"
    );
    assert_eq!(ask(&mut other, CounterChange::Set(3)), Reply::Counted { before: 0 });
    assert_eq!(ask(&mut other, CounterChange::Drop), Reply::Counted { before: 3 });
    server.shut_down().unwrap();
}
