//! The order of eviction, the wakeups, and the refusals.

mod scene;

use pario_cache::{Error, Geometry, Lookup, Pin, Pool, PoolIdentity, PoolMapping, SlotFill, SweepStep};
use pario_types::{ErrorKind, FileId, PartitionId, ServerId};
use scene::{BLOCK, Dir, Store, WHO, create, load, map};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);
const FILE: FileId = FileId(8);

fn put(pool: &Pool, file: FileId, block: u64) -> Pin {
    let pin = load(pool, &Store::default(), file, block).unwrap();
    pin.write(0, &[1; 10]).unwrap();
    pin
}

fn fill(pool: &Pool, block: u64) -> SlotFill {
    match pool.get(FILE, block) {
        Lookup::Fill(fill) => fill,
        other => panic!("{other:?}"),
    }
}

fn drop_all(pool: &Pool, file: FileId) {
    let mut truncation = pool.begin_truncation(file, 0).unwrap();
    truncation.wait(LONG).unwrap();
    truncation.finish();
}

fn blocks(pool: &Pool, most: usize) -> Vec<(u64, u64)> {
    let flushes = pool.next_dirty(most);
    let blocks = flushes.iter().map(|flush| (flush.file().0, flush.block())).collect();
    flushes.into_iter().for_each(|flush| flush.clean());
    blocks
}

#[test]
fn the_least_recently_used_block_is_evicted_first() {
    let dir = Dir::new();
    let pool = create(&dir, 4, 1);
    let client = map(&pool);
    let places: Vec<_> = (0..4).map(|block| fill(&pool, block).done(1).slot_ref()).collect();
    // The server uses 0, a client 1.
    assert!(matches!(pool.get(FILE, 0), Lookup::Hit(_)));
    assert!(client.pin(places[1], FILE, 1).is_ok());
    drop(fill(&pool, 10).done(0));
    assert!(client.pin(places[2], FILE, 2).is_err(), "the oldest");
    drop(fill(&pool, 11).done(0));
    assert!(client.pin(places[3], FILE, 3).is_err(), "the oldest but one");
    assert!(client.pin(places[0], FILE, 0).is_ok());
    assert!(client.pin(places[1], FILE, 1).is_ok());
    let counters = pool.counters();
    assert_eq!((counters.hits, counters.misses, counters.evictions), (4, 6, 2));
}

#[test]
fn the_least_recently_modified_block_is_flushed_first_with_its_neighbours() {
    let dir = Dir::new();
    let pool = create(&dir, 16, 1);
    let (a, b) = (FileId(1), FileId(2));
    for (file, block) in [(b, 5), (a, 9), (a, 3), (a, 4), (b, 6), (a, 2), (b, 8)] {
        put(&pool, file, block);
    }
    assert_eq!(blocks(&pool, 3), [(1, 9), (2, 5), (2, 6)], "the oldest, the one after it, the next oldest");
    put(&pool, a, 3);
    assert_eq!(blocks(&pool, 2), [(1, 3), (1, 4)], "4 is the oldest now, nothing after it, 3 before it");
    assert_eq!(blocks(&pool, 9), [(1, 2), (2, 8)]);
    assert_eq!(pool.dirty(), 0);
}

#[test]
fn a_block_is_flushed_by_one_thread_and_again_after_a_failure() {
    let dir = Dir::new();
    let pool = create(&dir, 4, 1);
    put(&pool, FILE, 0);
    let mut flushes = pool.next_dirty(9);
    assert_eq!((flushes.len(), flushes[0].end()), (1, 10));
    assert!(pool.next_dirty(9).is_empty());
    let mut sweep = pool.sweep(Some(FILE));
    assert!(matches!(sweep.next(9), SweepStep::Wait));
    flushes.pop().unwrap().failed();
    let SweepStep::Flush(mine) = sweep.next(9) else { panic!("it is ours now") };
    // A write while it is being stored.
    put(&pool, FILE, 0);
    mine.into_iter().for_each(|flush| flush.clean());
    assert!(matches!(sweep.next(9), SweepStep::Done), "what was written later is not this sweep's");
    assert_eq!(pool.counters().dirty, 1);
    assert!(matches!(pool.sweep(Some(FileId(99))).next(9), SweepStep::Done));
}

#[test]
fn an_invalidated_block_is_flushed_all_the_same() {
    let dir = Dir::new();
    let pool = create(&dir, 4, 1);
    let client = map(&pool);
    let places: Vec<_> = (0..3).map(|block| put(&pool, FILE, block).slot_ref()).collect();
    let held = client.pin(places[1], FILE, 1).unwrap();
    let mut sweep = pool.sweep(Some(FILE));
    let mut renewal = pool.invalidate(FILE, 0..2);
    assert!(!renewal.ready(), "one is pinned");
    assert!(client.pin(places[0], FILE, 0).is_err() && client.pin(places[1], FILE, 1).is_err());
    assert!(client.pin(places[2], FILE, 2).is_ok(), "not among them");
    drop(held);
    assert!(renewal.ready());
    let SweepStep::Flush(flushes) = sweep.next(9) else { panic!("three are dirty") };
    assert_eq!(flushes.len(), 3);
    flushes.into_iter().for_each(|flush| flush.clean());
    assert_eq!(pool.counters().dirty, 0);
}

#[test]
fn nothing_dirty_or_pinned_is_evicted() {
    let dir = Dir::new();
    let pool = create(&dir, 2, 1);
    put(&pool, FILE, 0);
    let pin = fill(&pool, 1).done(0);
    assert!(matches!(pool.get(FILE, 2), Lookup::Full));
    assert_eq!(pool.counters().pinned, 1);
    drop(pin);
    assert!(matches!(pool.get(FILE, 2), Lookup::Fill(_)));
    assert!(matches!(pool.get(FILE, 1), Lookup::Fill(_)), "gone, and the dropped fill left a free slot");
    assert!(matches!(pool.get(FILE, 0), Lookup::Hit(_)));
}

#[test]
fn a_block_is_invisible_until_it_is_filled_and_begins_as_zeros() {
    let dir = Dir::new();
    let pool = create(&dir, 1, 1);
    let mut first = fill(&pool, 0);
    assert!(matches!(pool.get(FILE, 0), Lookup::Busy));
    assert!(!pool.begin_truncation(FILE, 0).unwrap().ready());
    first.bytes(0..BLOCK, |bytes| bytes.fill(9));
    drop(first.done(BLOCK));
    let second = fill(&pool, 1).done(0);
    let mut bytes = vec![7; BLOCK as usize];
    second.read(0, &mut bytes);
    assert!(bytes.iter().all(|&byte| byte == 0));
    assert_eq!(pool.end(FILE), 0, "a block beyond the end does not make the file longer");
}

#[test]
fn unused_slots_of_a_new_pool_are_zeros_and_those_of_an_adopted_pool_may_be_anything() {
    let dir = Dir::new();
    let pool = create(&dir, 3, 1);
    let zeros = vec![0; BLOCK as usize];
    let read = |pin: &Pin| {
        let mut bytes = vec![7; BLOCK as usize];
        pin.read(0, &mut bytes);
        bytes
    };
    let first = fill(&pool, 0).done(0);
    first.write(0, &[1; 10]).unwrap();
    let mut pages = pool.page_preparer();
    (0..8).for_each(|_| pages.step(Duration::ZERO));
    assert_eq!(read(&first)[..11], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0], "what is there stays");
    let second = fill(&pool, 1).done(0);
    assert_eq!(read(&second), zeros);
    second.write(0, &[2; BLOCK as usize]).unwrap();
    let mut dropped = fill(&pool, 2);
    dropped.bytes(0..BLOCK, |bytes| bytes.fill(9));
    drop(dropped);
    assert_eq!(read(&fill(&pool, 2).done(0)), zeros, "another fill had written to it");
    drop((first, second, pages, pool));
    let (pool, _) = Pool::adopt(&dir.pool(), WHO).unwrap();
    drop_all(&pool, FILE);
    for block in 5..8 {
        assert_eq!(read(&fill(&pool, block).done(0)), zeros, "slots of a predecessor");
    }
}

#[test]
fn freed_slots_are_zeroed_and_none_is_lost() {
    let dir = Dir::new();
    let pool = create(&dir, 100, 1);
    let soil = |file: u64| {
        for block in 0..100 {
            let mut fill = match pool.get(FileId(file), block) {
                Lookup::Fill(fill) => fill,
                other => panic!("{other:?}"),
            };
            fill.bytes(0..BLOCK, |bytes| bytes.fill(9));
            drop(fill.done(BLOCK));
        }
    };
    let mut pages = pool.page_preparer();
    for file in 20..23 {
        soil(file);
        drop_all(&pool, FileId(file));
        (0..150).for_each(|_| pages.step(Duration::ZERO));
        for block in 0..100 {
            let mut bytes = vec![7; BLOCK as usize];
            fill(&pool, block).done(0).read(0, &mut bytes);
            assert!(bytes.iter().all(|&byte| byte == 0), "block {block}");
        }
        drop_all(&pool, FILE);
    }
}

#[test]
fn waking_the_pool_wakes_the_page_preparer() {
    let dir = Dir::new();
    let pool = create(&dir, 1, 1);
    let mut pages = pool.page_preparer();
    pages.step(LONG);
    pool.wake();
    let start = Instant::now();
    pages.step(LONG);
    assert!(start.elapsed() < LONG, "a call that came before the rest counts");
}

#[test]
fn a_truncation_waits_for_pins_and_gives_up() {
    let dir = Dir::new();
    let pool = create(&dir, 2, 1);
    let pin = put(&pool, FILE, 0);
    let mut truncation = pool.begin_truncation(FILE, 0).unwrap();
    let error = truncation.wait(Duration::ZERO).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FileInUse);
    assert!(pool.next_dirty(1).is_empty(), "what is being cut is not stored");
    drop(truncation);
    assert_eq!(pool.end(FILE), 10, "nothing was changed");
    std::thread::scope(|scope| {
        scope.spawn(|| drop(pin));
        drop_all(&pool, FILE);
    });
    assert_eq!((pool.end(FILE), pool.dirty()), (0, 0));
}

#[test]
fn the_first_dirty_block_and_the_high_watermark_wake_the_flusher() {
    let dir = Dir::new();
    let pool = create(&dir, 8, 1);
    pool.set_watermarks(3, 1);
    assert_eq!(pool.watermarks(), (3, 1));
    let mut bell = pool.flush_signal();
    let client = map(&pool);
    let places: Vec<_> = (0..4).map(|block| fill(&pool, block).done(1).slot_ref()).collect();
    let write = |block: usize| client.pin(places[block], FILE, block as u64).unwrap().write(0, b"x").unwrap();
    std::thread::scope(|scope| {
        let start = Instant::now();
        let first = scope.spawn(|| {
            bell.wait_for_work(LONG);
            bell
        });
        write(0);
        let mut bell = first.join().unwrap();
        write(1);
        let second = scope.spawn(move || {
            while pool.dirty() < 3 {
                bell.wait_for_work(LONG);
            }
            bell.wait_for_work(LONG);
            pool.wake();
            bell.rest(LONG);
        });
        write(2);
        second.join().unwrap();
        assert!(start.elapsed() < LONG, "nobody slept to the end");
    });
}

#[test]
fn a_pool_is_created_once_and_served_by_one_process_of_its_own_server() {
    let dir = Dir::new();
    let path = dir.pool();
    assert_eq!(Pool::adopt(&path, WHO).unwrap_err().kind(), ErrorKind::NoSuchFile);
    let geometry = Geometry { block: BLOCK, slots: 2, ledgers: 1 };
    let pool = Pool::create(&path, geometry, WHO).unwrap();
    assert_eq!(Pool::create(&path, geometry, WHO).unwrap_err().kind(), ErrorKind::FileExists);
    let error = Pool::adopt(&path, WHO).unwrap_err();
    assert!(matches!(error, Error::InUse(_)), "{error}");
    // Clients do not hold the claim, however long they live.
    let client = map(&pool);
    let mark = pool.mark();
    drop(pool);
    for other in [
        PoolIdentity { partition: PartitionId(1), ..WHO },
        PoolIdentity { partition: PartitionId(77 << 64), ..WHO },
        PoolIdentity { server: ServerId(4), ..WHO },
    ] {
        assert!(matches!(Pool::adopt(&path, other), Err(Error::OtherPool(_))));
    }
    let (pool, _) = Pool::adopt(&path, WHO).unwrap();
    assert_eq!((pool.mark(), pool.geometry()), (mark, geometry));
    assert_eq!((client.mark(), client.geometry()), (mark, geometry));
    pool.discard().unwrap();
    assert!(!path.exists());
}

#[test]
fn a_file_that_is_not_a_pool_is_refused() {
    let dir = Dir::new();
    let path = dir.pool();
    let try_both = || {
        let opened = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mapped = PoolMapping::open(opened.into(), pario_cache::LedgerId(0)).unwrap_err();
        let adopted = Pool::adopt(&path, WHO).unwrap_err();
        assert_eq!((mapped.kind(), adopted.kind()), (ErrorKind::Protocol, ErrorKind::Protocol));
        assert_eq!(mapped.to_string(), adopted.to_string());
        adopted.to_string()
    };
    std::fs::write(&path, vec![0; 10_000]).unwrap();
    assert!(try_both().contains("begin"));
    std::fs::remove_file(&path).unwrap();
    drop(create(&dir, 2, 1));
    let good = std::fs::read(&path).unwrap();
    let with = |at: usize, value: u64| {
        let mut bytes = good.clone();
        bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        std::fs::write(&path, bytes).unwrap();
        try_both()
    };
    assert!(with(8, 1).contains("version"));
    assert!(with(48, 3).contains("header"));
    assert!(with(40, 1 << 40).contains("header"));
    let long = [&good[..], &[0; 4096]].concat();
    std::fs::write(&path, long).unwrap();
    assert!(try_both().contains("length"));
    std::fs::write(&path, &good).unwrap();
    let (pool, _) = Pool::adopt(&path, WHO).unwrap();
    let fd = pool.descriptor().try_clone_to_owned().unwrap();
    assert!(PoolMapping::open(fd, pario_cache::LedgerId(1)).is_err(), "no such ledger");
}

#[test]
fn a_closed_pool_refuses_clients_and_can_still_be_flushed() {
    let dir = Dir::new();
    let pool = create(&dir, 2, 1);
    let client = map(&pool);
    let place = put(&pool, FILE, 0).slot_ref();
    let guard = client.pin(place, FILE, 0).unwrap();
    assert!(!pool.close(), "somebody is in the middle of a copy");
    guard.write(0, &[2; 20]).unwrap();
    drop(guard);
    assert!(pool.close());
    assert_eq!(client.pin(place, FILE, 0).unwrap_err(), pario_cache::PinError::Stale);
    assert_eq!(blocks(&pool, 9), [(FILE.0, 0)]);
    pool.reopen();
    assert!(client.pin(place, FILE, 0).is_ok());
}

/// Changes a word of a pool's file.
fn set_word(path: &std::path::Path, at: u64, change: impl Fn(u64) -> u64) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut word = [0; 8];
    file.read_exact_at(&mut word, at).unwrap();
    file.write_all_at(&change(u64::from_ne_bytes(word)).to_ne_bytes(), at).unwrap();
}

#[test]
fn a_pool_of_another_boot_is_never_adopted() {
    let dir = Dir::new();
    drop(create(&dir, 2, 1));
    set_word(&dir.pool(), 72, |boot| boot ^ 1);
    let error = Pool::adopt(&dir.pool(), WHO).unwrap_err();
    assert!(matches!(error, pario_cache::Error::OtherBoot(_)), "{error}");
    set_word(&dir.pool(), 72, |boot| boot ^ 1);
    let (_, adopted) = Pool::adopt(&dir.pool(), WHO).unwrap();
    assert!(!adopted.foreign);
    set_word(&dir.pool(), 88, |namespaces| namespaces + 1);
    let (_, adopted) = Pool::adopt(&dir.pool(), WHO).unwrap();
    assert!(adopted.foreign, "whether its clients live cannot be told");
}

#[test]
fn adopting_a_shortened_pool_keeps_the_rest_and_reports_what_is_missing() {
    let dir = Dir::new();
    let pool = create(&dir, 8, 1);
    let geometry = pool.geometry();
    let len = geometry.bytes().unwrap() as u64;
    for block in 0..8 {
        fill(&pool, block).done(BLOCK).write(0, &[block as u8 + 1; BLOCK as usize]).unwrap();
    }
    drop(pool);
    // The last remaining block has lost its last byte.
    let kept = len - 4096 - 4 * u64::from(BLOCK) - 1;
    std::fs::OpenOptions::new().write(true).open(dir.pool()).unwrap().set_len(kept).unwrap();
    let (pool, adopted) = Pool::adopt(&dir.pool(), WHO).unwrap();
    assert_eq!((adopted.valid, adopted.dirty), (3, 3));
    assert_eq!(adopted.lost, Some(pario_cache::LostBlocks { kept, dirty: 5 }));
    assert_eq!(std::fs::metadata(dir.pool()).unwrap().len(), len);
    let mut flushes = pool.next_dirty(8);
    assert_eq!(flushes.len(), 3);
    for flush in flushes.drain(..) {
        let mut bytes = [0; BLOCK as usize];
        flush.copy_to(&mut bytes);
        assert_eq!(bytes, [flush.block() as u8 + 1; BLOCK as usize]);
        flush.clean();
    }
    drop(pool);
    std::fs::OpenOptions::new().write(true).open(dir.pool()).unwrap().set_len(10).unwrap();
    let error = Pool::adopt(&dir.pool(), WHO).unwrap_err();
    assert!(matches!(error, pario_cache::Error::Emptied(_)), "{error}");
}

#[test]
fn an_unfinished_pool_file_is_replaced() {
    let dir = Dir::new();
    std::fs::write(dir.pool().with_extension("new"), b"half of one").unwrap();
    let pool = create(&dir, 2, 1);
    assert!(!dir.pool().with_extension("new").exists());
    let again = Pool::create(&dir.pool(), pool.geometry(), WHO).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::FileExists, "{again}");
    drop(pool);
    assert!(Pool::adopt(&dir.pool(), WHO).is_ok(), "and it is still there");
}
