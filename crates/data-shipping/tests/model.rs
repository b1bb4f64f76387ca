//! Shipped accesses against a flat vector of bytes, with several ranks at once.

mod fleet;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use fleet::*;
use pario_buffer::lend;
use pario_data_shipping::ShippingLimits;
use pario_posix::{AccessAdvice, Errno, PlainFile, PlainOpenOptions, Syscalls};
use pario_reference_model::{FlatView, arb_file_type};
use pario_types::{AccessTuning, PrefetchLimits, Toggle};
use pario_types::{Offset, Pos};
use pario_view::{Datatype, Pattern, View};
use proptest::prelude::*;

fn old_bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8 | 1).collect()
}

fn plan() -> impl Strategy<Value = Plan> {
    let agents = (1u32..4).prop_flat_map(|ranks| (Just(ranks), prop::collection::vec(0..ranks, 1..6)));
    let unit = prop_oneof![Just(16u64), 16u64..300, Just(4096)];
    let frame = prop_oneof![1u64..40, Just(512), Just(1 << 20)];
    let toggle = prop_oneof![Just(Toggle::Enable), Just(Toggle::Disable), Just(Toggle::Automatic)];
    let prefetch = (1u64..200, 0usize..5, 0usize..5).prop_map(|(block, max_pre, max_acc)| PrefetchLimits {
        block,
        max_pre,
        max_acc,
    });
    (agents, unit, frame, 1usize..4, toggle, any::<(bool, bool)>(), prefetch).prop_map(
        |((ranks, agents), unit, frame, threads, sieve_write, (partitioned, tcp), prefetch)| Plan {
            prefetch,
            limits: ShippingLimits { frame, threads, deadline: Duration::from_secs(20), sessions: 64 },
            tuning: AccessTuning { sieve_write, write_buffer: 64, ..AccessTuning::default() },
            partitioned,
            tcp,
            ..Plan::new(ranks, unit, &agents)
        },
    )
}

/// A request of one rank: a view, a position, a length.
fn request() -> impl Strategy<Value = (Datatype, u64, u64, u64)> {
    (arb_file_type(), 0u64..300, 0u64..200, 0u64..1500)
        .prop_filter("bytes", |(filetype, ..)| Pattern::native(filetype).unwrap().size() > 0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn ranks_that_write_different_bytes_at_once_change_those_and_no_other(
        plan in plan(), requests in prop::collection::vec(request(), 3), old in 0usize..3000,
        in_memory: bool,
    ) {
        let before = old_bytes(old);
        let site = Site::with(in_memory, &before);
        let fleet = plan.launch_on(&site);
        let mut expected = before;
        // Each byte belongs to one rank: ranks whose bytes were taken by one before stay away.
        let mut taken = std::collections::HashSet::new();
        let mut writes = Vec::new();
        for (rank, (filetype, disp, at, len)) in requests.iter().enumerate().take(plan.ranks as usize) {
            let flat = FlatView::new(*disp, filetype);
            let offsets: Vec<i64> = (*at..at + len).map(|p| flat.offset(p)).collect();
            if offsets.iter().any(|offset| taken.contains(offset)) {
                continue;
            }
            taken.extend(offsets);
            let data: Vec<u8> = (0..*len).map(|i| (i * 13) as u8 ^ (rank as u8 + 1) << 6).collect();
            flat.write(&mut expected, *at, &data);
            writes.push((rank, View::new(Offset(*disp), Pattern::native(filetype).unwrap()), *at, data));
        }
        std::thread::scope(|scope| {
            for (rank, view, at, data) in &writes {
                let (shipper, tune) = (&fleet.shippers[*rank], &plan.tuning);
                scope.spawn(move || {
                    let written = write(shipper, view, *at, data, tune).unwrap();
                    assert_eq!(written, data.len() as u64);
                });
            }
        });
        prop_assert_eq!(site.bytes(), expected);
        fleet.stop();
    }

    #[test]
    fn reads_get_the_leading_bytes_below_the_end(
        plan in plan(), requests in prop::collection::vec(request(), 3), old in 0usize..5000,
        skip in 0usize..9, in_memory: bool,
    ) {
        let before = old_bytes(old);
        let site = Site::with(in_memory, &before);
        let fleet = plan.launch_on(&site);
        std::thread::scope(|scope| {
            for (shipper, (filetype, disp, at, len)) in fleet.shippers.iter().zip(&requests) {
                let (before, tune) = (&before, &plan.tuning);
                scope.spawn(move || {
                    let view = View::new(Offset(*disp), Pattern::native(filetype).unwrap());
                    let mut memory = vec![UNTOUCHED; skip + *len as usize];
                    let read = |buffer: &_| shipper.read(&view, Pos(*at), buffer, skip as u64, *len, tune);
                    let got = lend(&mut memory, read).unwrap();
                    let there = FlatView::new(*disp, filetype).read(before, *at, *len);
                    assert_eq!(got, there.len() as u64);
                    let mut expected = vec![UNTOUCHED; skip];
                    expected.extend(there);
                    expected.resize(memory.len(), UNTOUCHED);
                    assert_eq!(memory, expected);
                });
            }
        });
        prop_assert_eq!(site.bytes(), before);
        fleet.stop();
        if let Site::Memory(memory) = site {
            prop_assert!(memory.is_nothing_ready());
            prop_assert_eq!(memory.taken.load(Relaxed), memory.released.load(Relaxed));
        }
    }
}

/// Every rank has bytes in every block, so agents sieve, each for all ranks at once.
#[test]
fn interleaved_ranks_lose_no_byte() {
    for (partitioned, in_memory) in [(false, false), (true, false), (true, true)] {
        let ranks = 4u64;
        let tuning =
            AccessTuning { sieve_write: Toggle::Enable, write_buffer: 256, ..AccessTuning::default() };
        let plan = Plan { partitioned, tuning, ..Plan::new(ranks as u32, 64, &[0, 2, 2, 1]) };
        let site = Site::with(in_memory, &[]);
        let fleet = plan.launch_on(&site);
        std::thread::scope(|scope| {
            for (rank, shipper) in (0..ranks).zip(&fleet.shippers) {
                scope.spawn(move || {
                    let view = tiled(rank * 4, &[(0, 4)], 4 * ranks as i64);
                    for step in 0..40 {
                        let data = vec![rank as u8 * 50 + step as u8; 80];
                        assert_eq!(write(shipper, &view, step * 80, &data, &tuning).unwrap(), 80);
                    }
                });
            }
        });
        let expected: Vec<u8> = (0..40 * 80 * ranks)
            .map(|offset| (offset / 4 % ranks * 50 + offset / (4 * ranks) * 4 / 80) as u8)
            .collect();
        assert_eq!(site.bytes(), expected);
        let view = View::contiguous(Offset(0));
        assert_eq!(read(&fleet.shippers[3], &view, 0, 12800, &tuning).unwrap(), (12800, expected));
        fleet.stop();
    }
}

/// More data in both directions than all sockets hold, with one thread per agent: there is no deadlock.
#[test]
fn large_requests_of_all_ranks_to_all_agents_complete() {
    let ranks = 4u32;
    let mut plan = Plan::new(ranks, 4096, &[3, 1, 0, 2]);
    plan.limits = ShippingLimits { threads: 1, ..plan.limits };
    let path = TempPath::with(&[]);
    let fleet = plan.launch(&path.0);
    let each = 6u64 << 20;
    std::thread::scope(|scope| {
        for (rank, shipper) in (0..u64::from(ranks)).zip(&fleet.shippers) {
            scope.spawn(move || {
                let (tune, view) = (AccessTuning::default(), tiled(rank * 100, &[(0, 100)], 400));
                let data: Vec<u8> = (0..each).map(|i| (i / 100 * 31 + i + rank) as u8).collect();
                assert_eq!(write(shipper, &view, 0, &data, &tune).unwrap(), each);
                let (got, back) = read(shipper, &view, 0, each, &tune).unwrap();
                assert!(got == each && back == data);
            });
        }
    });
    let counts = fleet.shippers[0].counts();
    assert_eq!((counts.requests, counts.direct, counts.views), (2, 0, 3));
    assert_eq!(counts.shipped + counts.home, 2 * each);
    let served: u64 = fleet.agents.iter().flatten().map(|agent| agent.counts().written).sum();
    assert_eq!(served, fleet.shippers.iter().map(|shipper| shipper.counts().shipped / 2).sum());
    fleet.stop();
}

#[test]
fn a_view_is_sent_once_and_old_ones_are_evicted() {
    let plan = Plan::new(2, 64, &[1]);
    let path = TempPath::with(&old_bytes(5000));
    let fleet = plan.launch(&path.0);
    let tune = AccessTuning::default();
    let view = |i: u64| tiled(i * 7, &[(0, 3)], 9);
    let check = |i: u64| {
        let (got, bytes) = read(&fleet.shippers[0], &view(i), 5, 30, &tune).unwrap();
        let offset = |p: u64| (i * 7 + p / 3 * 9 + p % 3) as usize;
        let expected: Vec<u8> = (5..35).map(|p| old_bytes(5000)[offset(p)]).collect();
        assert_eq!((got, bytes), (30, expected));
    };
    (0..3).for_each(|_| check(0));
    assert_eq!(fleet.shippers[0].counts().views, 1);
    (0..40).for_each(check);
    (38..40).for_each(check);
    assert_eq!(fleet.shippers[0].counts().views, 40);
    check(0);
    assert_eq!(fleet.shippers[0].counts().views, 41);
    assert_eq!(fleet.agents[1].as_ref().unwrap().counts().sessions, 1);
    fleet.stop();
}

#[test]
fn agents_prefetch_irregular_reads_until_told_otherwise() {
    /// Counts the announced ranges.
    #[derive(Default)]
    struct Told(AtomicU64);
    impl Syscalls for Told {
        fn is_in_memory(&self, _: i32, _: u64) -> bool {
            false
        }
        fn advise(&self, _: i32, _: AccessAdvice, _: u64, _: u64) -> Result<(), Errno> {
            self.0.fetch_add(1, Relaxed);
            Ok(())
        }
    }
    let path = TempPath::with(&old_bytes(3000));
    let plan = Plan::new(2, 64, &[1]);
    let told = Arc::new(Told::default());
    let how = PlainOpenOptions { read: true, ..PlainOpenOptions::default() };
    let file = PlainFile::open_with(&path.0, &how, told.clone(), None).unwrap();
    let agents = [None, Some(plan.agent(1, Arc::new(file)).unwrap())];
    let shipper = plan.shipper(0, Arc::new(open(&path.0)), exchanged(&agents));
    let told_by = |view: &View| {
        let before = told.0.load(Relaxed);
        assert_eq!(read(&shipper, view, 0, 100, &plan.tuning).unwrap().0, 100);
        told.0.load(Relaxed) - before
    };
    let irregular = tiled(0, &[(3, 5), (90, 8), (200, 7)], 256);
    assert_eq!(told_by(&tiled(0, &[(3, 5)], 100)), 0);
    // Three blocks a tile, each got ready and given up.
    assert_eq!(told_by(&irregular), 2 * 3 * 5);
    agents[1].as_ref().unwrap().retune(plan.tuning, PrefetchLimits::OFF);
    assert_eq!(told_by(&irregular), 0);
}

#[test]
fn a_file_that_refuses_prefetching_is_read_all_the_same() {
    let memory = Memory::with(&old_bytes(3000));
    let site = Site::Memory(memory.clone());
    // It gets four ranges at a time and has space for three.
    let plan = Plan::new(2, 64, &[1]);
    let fleet = plan.launch_on(&site);
    let pieces = [(3, 5), (90, 8), (200, 7)];
    let irregular = tiled(0, &pieces, 256);
    let (got, bytes) = read(&fleet.shippers[0], &irregular, 0, 100, &plan.tuning).unwrap();
    let offsets = (0..).flat_map(|tile| pieces.map(|(at, len)| (tile * 256 + at as usize, len as usize)));
    let expected = offsets.flat_map(|(at, len)| old_bytes(3000)[at..at + len].to_vec()).take(100);
    assert_eq!((got, bytes), (100, expected.collect()));
    // Three blocks a tile, five tiles: every one was ready before it was read.
    let [taken, refused, released] =
        [&memory.taken, &memory.refused, &memory.released].map(|n| n.load(Relaxed));
    assert_eq!((taken, released), (15, 15));
    assert!(refused > 0);
    fleet.stop();
}

#[test]
fn unordered_views_keep_stream_order() {
    for (partitioned, in_memory) in [(false, false), (false, true), (true, false), (true, true)] {
        let plan = Plan { partitioned, ..Plan::new(2, 16, &[0, 1]) };
        let site = Site::with(in_memory, &old_bytes(200));
        let fleet = plan.launch_on(&site);
        let pieces = [(40, 20), (0, 10), (50, 5)];
        let view = tiled(3, &pieces, 64);
        let data: Vec<u8> = (0..50).collect();
        assert_eq!(write(&fleet.shippers[0], &view, 2, &data, &plan.tuning).unwrap(), 50);
        let offset = |at: u64| {
            let (tile, within) = (at / 35, at % 35);
            let offset = match within {
                0..20 => 40 + within,
                20..30 => within - 20,
                _ => 50 + within - 30,
            };
            (3 + tile * 64 + offset) as usize
        };
        let mut expected = old_bytes(200);
        (0..50).for_each(|i| expected[offset(2 + i)] = data[i as usize]);
        assert_eq!(site.bytes(), expected);
        let (got, bytes) = read(&fleet.shippers[1], &view, 0, 60, &plan.tuning).unwrap();
        assert_eq!((got, bytes), (60, (0..60).map(|at| expected[offset(at)]).collect()));
        let counts = fleet.shippers[0].counts();
        assert_eq!((counts.requests, counts.direct), if partitioned { (1, 0) } else { (0, 1) });
        fleet.stop();
    }
}
