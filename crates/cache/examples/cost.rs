//! Measures the cost of hits, misses and flushes: `cargo run --release -p pario-cache --example cost`.

use pario_cache::{Geometry, Lookup, Pool, PoolIdentity, PoolMapping};
use pario_types::{FileId, PartitionId, ServerId};
use std::hint::black_box;
use std::time::Instant;

const FILE: FileId = FileId(1);
const BLOCK: u32 = 64 << 10;
const SLOTS: u32 = 4096;

fn time(what: &str, rounds: u32, mut f: impl FnMut(u32)) {
    let start = Instant::now();
    (0..rounds).for_each(&mut f);
    println!("{what:<44} {:>9.1} ns", start.elapsed().as_nanos() as f64 / f64::from(rounds));
}

fn fill(pool: &Pool, block: u64) {
    match pool.get(FILE, block) {
        Lookup::Fill(fill) => drop(fill.done(BLOCK)),
        other => panic!("{other:?}"),
    }
}

fn main() {
    let path = std::path::PathBuf::from(format!("/dev/shm/pario-cost-{}", std::process::id()));
    let identity = PoolIdentity { partition: PartitionId(1), server: ServerId(0) };
    let geometry = Geometry { block: BLOCK, slots: SLOTS, ledgers: 256 };
    let pool = Pool::create(&path, geometry, identity).expect("room in /dev/shm");
    // The file is open, so its name is removed and nothing stays behind.
    pool.clone().discard().expect("our own file");
    let ledger = pool.take_ledger(std::process::id()).expect("a ledger");
    let fd = pool.descriptor().try_clone_to_owned().expect("a descriptor");
    let client = PoolMapping::open(fd, ledger).expect("a pool");
    (0..u64::from(SLOTS)).for_each(|block| fill(&pool, block));
    let places: Vec<_> = (0..64)
        .map(|block| match pool.get(FILE, block) {
            Lookup::Hit(pin) => pin.slot_ref(),
            other => panic!("{other:?}"),
        })
        .collect();
    let pin = |round: u32| {
        let block = round % 64;
        client.pin(places[block as usize], FILE, block.into()).expect("a hit")
    };
    let mut bytes = vec![1u8; BLOCK as usize];
    // Touch all pages first.
    (0..64).for_each(|round| pin(round).read(0, &mut bytes));
    time("client: pin and let go", 3_000_000, |round| drop(black_box(pin(round))));
    time("client: pin, read 8 bytes", 3_000_000, |round| pin(round).read(64, black_box(&mut bytes[..8])));
    time("client: pin, write 8 bytes", 3_000_000, |round| {
        pin(round).write(64, black_box(&bytes[..8])).unwrap()
    });
    time("client: pin, read 4 KiB", 1_000_000, |round| pin(round).read(4096, black_box(&mut bytes[..4096])));
    time("client: pin, write 4 KiB", 1_000_000, |round| {
        pin(round).write(4096, black_box(&bytes[..4096])).unwrap()
    });
    time("client: pin, read 64 KiB", 100_000, |round| pin(round).read(0, black_box(&mut bytes)));
    time("server: get a block that is there", 1_000_000, |round| {
        drop(black_box(pool.get(FILE, u64::from(round % SLOTS))));
    });
    clean(&pool);
    time("server: miss, eviction, 64 KiB of zeros", 20_000, |round| fill(&pool, u64::from(SLOTS + round)));
    for block in 0..SLOTS {
        if let Lookup::Hit(pin) = pool.get(FILE, u64::from(20_000 + block)) {
            pin.write(0, b"dirty").unwrap();
        }
    }
    let dirty = pool.dirty();
    let start = Instant::now();
    clean(&pool);
    let each = start.elapsed().as_nanos() as f64 / f64::from(dirty.max(1));
    println!("{:<44} {each:>9.1} ns", "server: choose a block to flush, 64 at a time");
}

fn clean(pool: &Pool) {
    loop {
        let flushes = pool.next_dirty(64);
        if flushes.is_empty() {
            break;
        }
        flushes.into_iter().for_each(|flush| flush.clean());
    }
}
