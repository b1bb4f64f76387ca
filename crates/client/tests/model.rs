//! Files of a partition against a flat vector of bytes: random accesses, through pools, over sockets and
//! both.

mod fake;

use fake::{Fake, Setup};
use pario_buffer::UserBuffer;
use pario_client::{File, OpenOptions, Partition};
use pario_types::{Offset, Pos};
use pario_view::{Datatype, Pattern, Shape, View};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// The range of the accesses: some blocks of each server, and beyond.
const REACH: u64 = 60_000;

#[derive(Clone, Debug)]
enum Act {
    Read(u64, usize),
    Write(u64, usize),
    ReadMany(Vec<(u64, usize)>),
    WriteMany(Vec<(u64, usize)>),
    ReadView(usize, u64, usize),
    WriteView(usize, u64, usize),
    ReadThrough(usize, u64, usize),
    WriteThrough(usize, u64, usize),
    SetLen(u64),
    Len,
    Sync,
    Flush,
    Reopen,
}

fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![0..REACH, (0..REACH / 4096).prop_map(|block| block * 4096)]
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![0usize..300, 0usize..30_000, (1usize..6).prop_map(|blocks| blocks * 4096)]
}

fn act() -> impl Strategy<Value = Act> {
    let seen = || (0..VIEWS, 0u64..REACH / 3, length());
    let many = || prop::collection::vec((offset(), 0usize..5000), 0..6);
    prop_oneof![
        4 => (offset(), length()).prop_map(|(at, len)| Act::Read(at, len)),
        4 => (offset(), length()).prop_map(|(at, len)| Act::Write(at, len)),
        1 => many().prop_map(Act::ReadMany),
        1 => many().prop_map(Act::WriteMany),
        1 => seen().prop_map(|(view, at, len)| Act::ReadView(view, at, len)),
        1 => seen().prop_map(|(view, at, len)| Act::WriteView(view, at, len)),
        1 => seen().prop_map(|(view, at, len)| Act::ReadThrough(view, at, len)),
        1 => seen().prop_map(|(view, at, len)| Act::WriteThrough(view, at, len)),
        1 => (0..REACH).prop_map(Act::SetLen),
        1 => Just(Act::Len),
        1 => Just(Act::Sync),
        1 => Just(Act::Flush),
        1 => Just(Act::Reopen),
    ]
}

/// Tiles of this extent, each with pieces of these lengths at these displacements.
fn tiles(disp: u64, extent: i64, pieces: &[(u64, i64)]) -> View {
    let child = Datatype::byte().into();
    let shape = Shape::Hindexed { blocks: pieces.to_vec(), child };
    let pieces = Datatype { lb: 0, extent, shape };
    let shape = Shape::Resized { lb: 0, extent, child: pieces.into() };
    View::new(Offset(disp), Pattern::native(&Datatype { lb: 0, extent, shape }).expect("a pattern"))
}

const VIEWS: usize = 5;

fn view(number: usize) -> View {
    match number {
        0 => tiles(7, 300, &[(100, 0)]),
        1 => tiles(0, 977, &[(1, 3), (40, 10), (7, 60), (500, 470)]),
        2 => tiles(5000, 3, &[(1, 0)]),
        // As large as blocks are, and more.
        3 => tiles(1, 12_000, &[(9000, 100)]),
        // Not in order.
        _ => tiles(0, 400, &[(50, 200), (50, 100)]),
    }
}

/// Memory whose second half comes first.
fn memory(stream: &[u8]) -> UserBuffer {
    let len = stream.len() as u64;
    let child = Datatype::byte().into();
    let shape = Shape::Hindexed { blocks: vec![(len - len / 2, (len / 2) as i64), (len / 2, 0)], child };
    let pattern = Pattern::native(&Datatype { lb: 0, extent: len as i64, shape }).expect("a pattern");
    let buffer = UserBuffer::of(Vec::leak(vec![0; stream.len()]));
    let buffer = buffer.described_by(&pattern).expect("as large");
    buffer.unpack(0, stream);
    buffer
}

struct Pair {
    partition: Partition,
    file: File,
    /// Another program that has the same file open.
    other: File,
    model: Vec<u8>,
    mark: u8,
}

fn open(partition: &Partition) -> File {
    let mut options = OpenOptions::new();
    partition.open("/file", options.read(true).write(true).create(true)).expect("opened")
}

impl Pair {
    fn new(fake: &Fake) -> Pair {
        let partition = fake.connect();
        let (file, other) = (open(&partition), open(&fake.connect()));
        Pair { partition, file, other, model: Vec::new(), mark: 0 }
    }

    fn fresh(&mut self, len: usize) -> Vec<u8> {
        self.mark = self.mark.wrapping_add(1);
        (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(self.mark)).collect()
    }

    fn model_write(&mut self, at: u64, bytes: &[u8]) {
        let end = at as usize + bytes.len();
        if !bytes.is_empty() {
            self.model.resize(self.model.len().max(end), 0);
            self.model[at as usize..end].copy_from_slice(bytes);
        }
    }

    fn model_read(&self, at: u64, len: usize) -> &[u8] {
        let from = (at as usize).min(self.model.len());
        &self.model[from..(at as usize + len).min(self.model.len()).max(from)]
    }

    fn model_write_view(&mut self, view: &View, at: u64, bytes: &[u8]) {
        for (i, byte) in bytes.iter().enumerate() {
            let place = view.select(Pos(at + i as u64)).expect("there").0;
            self.model_write(place, &[*byte]);
        }
    }

    fn model_view(&self, view: &View, at: u64, len: usize) -> Vec<u8> {
        let places = (at..).map(|at| view.select(Pos(at)).expect("there").0 as usize);
        places.take(len).map_while(|at| self.model.get(at).copied()).collect()
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Read(at, len) => {
                for file in [&self.file, &self.other] {
                    let mut bytes = vec![0xee; *len];
                    let count = file.read_at(&mut bytes, *at).expect("read");
                    assert_eq!(&bytes[..count], self.model_read(*at, *len), "{act:?}");
                    assert!(bytes[count..].iter().all(|byte| *byte == 0xee), "beyond the end: {act:?}");
                }
            }
            Act::Write(at, len) => {
                let bytes = self.fresh(*len);
                self.file.write_at(&bytes, *at).expect("written");
                self.model_write(*at, &bytes);
            }
            Act::ReadMany(segments) => {
                let mut memory: Vec<Vec<u8>> = segments.iter().map(|(_, len)| vec![0xee; *len]).collect();
                let mut list: Vec<(u64, &mut [u8])> =
                    segments.iter().zip(&mut memory).map(|((at, _), bytes)| (*at, &mut bytes[..])).collect();
                let count = self.file.read_vectored_at(&mut list).expect("read");
                let mut expected = Vec::new();
                for (at, len) in segments {
                    let found = self.model_read(*at, *len);
                    expected.extend_from_slice(found);
                    if found.len() < *len {
                        break;
                    }
                }
                assert_eq!(memory.concat()[..count], expected, "{act:?}");
            }
            Act::WriteMany(segments) => {
                let mut last = 0;
                // In order and disjoint: overlapping writes have an undefined result.
                let mut segments = segments.clone();
                segments.sort_unstable();
                segments.retain(|(at, len)| {
                    *at >= last && {
                        last = at + *len as u64;
                        true
                    }
                });
                let memory: Vec<Vec<u8>> = segments.iter().map(|(_, len)| self.fresh(*len)).collect();
                let list: Vec<(u64, &[u8])> =
                    segments.iter().zip(&memory).map(|((at, _), bytes)| (*at, &bytes[..])).collect();
                self.file.write_vectored_at(&list).expect("written");
                for (at, bytes) in list {
                    self.model_write(at, bytes);
                }
            }
            Act::ReadView(number, at, len) => {
                let mut bytes = vec![0xee; *len];
                let view = view(*number);
                let count = self.file.read_view(&view, Pos(*at), &mut bytes).expect("read");
                assert_eq!(bytes[..count], self.model_view(&view, *at, *len), "{act:?}");
                let is_monotone = view.is_monotone();
                assert!(!is_monotone || bytes[count..].iter().all(|byte| *byte == 0xee), "{act:?}");
            }
            Act::ReadThrough(number, at, len) => {
                let (view, mut bytes) = (view(*number), vec![0xee; *len]);
                let buffer = memory(&bytes);
                let count =
                    self.other.read_user_buffer(&view, Pos(*at), &buffer, 0, *len as u64).expect("read");
                buffer.pack(0, &mut bytes);
                let count = count as usize;
                assert_eq!(bytes[..count], self.model_view(&view, *at, *len), "{act:?}");
                let is_monotone = view.is_monotone();
                assert!(!is_monotone || bytes[count..].iter().all(|byte| *byte == 0xee), "{act:?}");
            }
            Act::WriteView(number, at, len) => {
                let (view, bytes) = (view(*number), self.fresh(*len));
                self.file.write_view(&view, Pos(*at), &bytes).expect("written");
                self.model_write_view(&view, *at, &bytes);
            }
            Act::WriteThrough(number, at, len) => {
                let (view, bytes) = (view(*number), self.fresh(*len));
                // A part of the memory.
                let (whole, len) = ([&[1; 13], &bytes[..]].concat(), *len as u64);
                self.file.write_user_buffer(&view, Pos(*at), &memory(&whole), 13, len).expect("written");
                self.model_write_view(&view, *at, &bytes);
            }
            Act::SetLen(size) => {
                self.file.set_len(*size).expect("set");
                self.model.resize(*size as usize, 0);
            }
            Act::Len => {
                assert_eq!(self.file.len().expect("asked"), self.model.len() as u64);
                assert_eq!(self.other.len().expect("asked"), self.model.len() as u64);
            }
            Act::Sync => self.file.sync().expect("synced"),
            Act::Flush => self.file.flush().expect("flushed"),
            Act::Reopen => {
                let reopened = open(&self.partition);
                std::mem::replace(&mut self.file, reopened).close().expect("closed");
            }
        }
    }
}

fn check(setup: Setup, cases: u32, breaking: u64) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let acts = prop::collection::vec(act(), 1..40);
    let outcome = TestRunner::new(config).run(&acts, |acts| {
        let fake = Fake::start(setup);
        fake.break_connections(breaking);
        let mut pair = Pair::new(&fake);
        for act in &acts {
            pair.act(act);
        }
        let mut all = vec![0; pair.model.len() + 10];
        let count = pair.file.read_at(&mut all, 0).expect("read");
        assert_eq!(all[..count], pair.model, "all of it");
        pair.file.close().expect("closed");
        pair.other.close().expect("closed");
        assert_eq!(fake.opens(), 0, "everything was closed");
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

#[test]
fn over_sockets_of_this_host() {
    check(Setup { servers: 3, stripe: 1000, slots: 0, tcp: &[] }, 40, 0);
}

#[test]
fn over_tcp() {
    check(Setup { servers: 2, stripe: 4096, slots: 0, tcp: &[0, 1] }, 30, 0);
}

#[test]
fn over_tcp_to_servers_with_pools() {
    check(Setup { servers: 2, stripe: 700, slots: 16, tcp: &[0, 1] }, 20, 0);
}

#[test]
fn through_pools() {
    check(Setup { servers: 3, stripe: 1000, slots: 256, tcp: &[] }, 40, 0);
}

#[test]
fn through_pools_with_stripes_of_blocks() {
    check(Setup { servers: 2, stripe: 8192, slots: 64, tcp: &[] }, 40, 0);
}

#[test]
fn through_pools_that_are_too_small() {
    check(Setup { servers: 2, stripe: 3000, slots: 4, tcp: &[] }, 30, 0);
}

#[test]
fn through_pools_and_over_tcp() {
    check(Setup { servers: 3, stripe: 3000, slots: 32, tcp: &[1] }, 40, 0);
}

#[test]
fn through_pools_and_over_tcp_with_connections_that_break() {
    check(Setup { servers: 3, stripe: 1000, slots: 32, tcp: &[0, 2] }, 12, 30);
}

/// Enough that every server gets several messages, of which some are under way when it drops the view.
#[test]
fn large_accesses_through_a_view() {
    let fake = Fake::start(Setup { servers: 2, stripe: 65536, slots: 0, tcp: &[0, 1] });
    let (pair, view) = (Pair::new(&fake), view(1));
    let bytes: Vec<u8> = (0..4_500_000u64).map(|i| ((i * i) >> 7) as u8).collect();
    pair.file.write_view(&view, Pos(17), &bytes).expect("written");
    let mut back = vec![0; bytes.len() + 100];
    let count = pair.other.read_view(&view, Pos(17), &mut back).expect("read");
    assert!(back[..count] == bytes, "what was written, and no more");
    let buffer = memory(&vec![0; bytes.len()]);
    let count = pair.other.read_user_buffer(&view, Pos(17), &buffer, 0, buffer.len()).expect("read");
    buffer.pack(0, &mut back[..bytes.len()]);
    assert!(count == buffer.len() && back[..bytes.len()] == bytes, "the same through scattered memory");
}

#[test]
fn on_one_server() {
    check(Setup { servers: 1, stripe: 65536, slots: 64, tcp: &[] }, 30, 0);
}

#[test]
fn over_connections_that_break() {
    check(Setup { servers: 3, stripe: 1000, slots: 0, tcp: &[] }, 20, 30);
}

#[test]
fn through_pools_over_connections_that_break() {
    check(Setup { servers: 2, stripe: 3000, slots: 32, tcp: &[] }, 20, 30);
}
