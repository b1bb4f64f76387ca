//! Concurrency: clients that copy, a server that fills, evicts, flushes and truncates. Every byte is checked.

mod scene;

use pario_cache::{Lookup, Pool, PoolMapping, SlotRef, SweepStep};
use pario_types::FileId;
use scene::{BLOCK, Dir, Store, create, load, map};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file that all write, each its own bytes of every block.
const SHARED: FileId = FileId(1);
const BLOCKS: u64 = 12;
const WRITERS: u64 = 4;
const SLICE: u32 = BLOCK / WRITERS as u32;
const ROUNDS: u32 = 20_000;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

/// A client thread: its remembered slots, and its writes.
struct Writer<'a> {
    me: u64,
    pool: &'a Pool,
    store: &'a Store,
    mapped: &'a PoolMapping,
    known: HashMap<(FileId, u64), SlotRef>,
    shared: HashMap<u64, u8>,
    /// Its own file's blocks.
    own: HashMap<u64, u8>,
    dice: Dice,
}

impl Writer<'_> {
    fn own_file(&self) -> FileId {
        FileId(10 + self.me)
    }

    /// Asks the server for the slot of a block, until it answers.
    fn ask(&mut self, file: FileId, block: u64) -> SlotRef {
        loop {
            if let Some(pin) = load(self.pool, self.store, file, block) {
                self.known.insert((file, block), pin.slot_ref());
                return pin.slot_ref();
            }
            std::thread::yield_now();
        }
    }

    fn with_block<R>(
        &mut self,
        file: FileId,
        block: u64,
        f: impl Fn(&pario_cache::BlockGuard<'_>) -> R,
    ) -> R {
        let mut place = self.known.get(&(file, block)).copied();
        loop {
            if let Some(place) = place
                && let Ok(guard) = self.mapped.pin(place, file, block)
            {
                return f(&guard);
            }
            place = Some(self.ask(file, block));
        }
    }

    fn write_slice(&mut self, block: u64) {
        let value = self.dice.roll(255) as u8 + 1;
        let at = self.me as u32 * SLICE;
        // Through the server, or by itself.
        if self.dice.roll(4) == 0 {
            let pin = loop {
                match load(self.pool, self.store, SHARED, block) {
                    Some(pin) => break pin,
                    None => std::thread::yield_now(),
                }
            };
            pin.write(at, &vec![value; SLICE as usize]).unwrap();
        } else {
            self.with_block(SHARED, block, |guard| {
                guard.write_with(at..at + SLICE, |bytes| bytes.fill(value)).unwrap();
            });
        }
        self.shared.insert(block, value);
    }

    fn read_slice(&mut self, block: u64) {
        let value = self.shared.get(&block).copied().unwrap_or(0);
        let at = self.me as u32 * SLICE;
        let right = self.with_block(SHARED, block, |guard| {
            guard.read_with(at..at + SLICE, |bytes| bytes.iter().all(|&byte| byte == value))
        });
        assert!(right, "writer {} lost what it wrote in block {block}", self.me);
    }

    /// Writes all of a block of its own file, without filling it before.
    fn overwrite(&mut self, block: u64) {
        let value = self.dice.roll(255) as u8 + 1;
        let file = self.own_file();
        match self.pool.get(file, block) {
            Lookup::Fill(fill) => {
                let place = fill.lend(self.mapped.ledger(), false);
                let mut pending = self.mapped.claim(place, file, block).unwrap();
                pending.write(0, &[value; BLOCK as usize]);
                if self.dice.roll(8) == 0 {
                    return;
                }
                pending.publish(BLOCK).unwrap();
            }
            Lookup::Hit(pin) => pin.write(0, &[value; BLOCK as usize]).unwrap(),
            Lookup::Busy | Lookup::Full => return,
        }
        self.own.insert(block, value);
    }

    fn read_own(&mut self, block: u64) {
        let value = self.own.get(&block).copied().unwrap_or(0);
        let file = self.own_file();
        let right = self.with_block(file, block, |guard| {
            guard.read_with(0..BLOCK, |bytes| bytes.iter().all(|&b| b == value))
        });
        assert!(right, "writer {} lost its block {block}", self.me);
    }

    fn cut_own(&mut self) {
        let first = self.dice.roll(BLOCKS);
        let file = self.own_file();
        let mut truncation = self.pool.begin_truncation(file, first * u64::from(BLOCK)).unwrap();
        while !truncation.ready() {
            std::thread::yield_now();
        }
        if self.store.end(file) > first * u64::from(BLOCK) {
            self.store.set_end(file, first * u64::from(BLOCK));
        }
        truncation.finish();
        self.own.retain(|&block, _| block < first);
    }

    fn sync_own(&mut self) {
        let file = self.own_file();
        let mut sweep = self.pool.sweep(Some(file));
        loop {
            match sweep.next(3) {
                SweepStep::Flush(flushes) => self.store.flush(flushes),
                SweepStep::Wait => std::thread::yield_now(),
                SweepStep::Done => break,
            }
        }
        for (&block, &value) in &self.own {
            let mut bytes = vec![0; BLOCK as usize];
            self.store.read(file, block, &mut bytes);
            assert!(bytes.iter().all(|&byte| byte == value), "writer {}: block {block} not stored", self.me);
        }
    }

    fn run(&mut self) {
        for _ in 0..ROUNDS {
            let block = self.dice.roll(BLOCKS);
            match self.dice.roll(20) {
                0..8 => self.write_slice(block),
                8..13 => self.read_slice(block),
                13..16 => self.overwrite(block),
                16..18 => self.read_own(block),
                18 => self.sync_own(),
                _ => self.cut_own(),
            }
        }
    }
}

#[test]
fn concurrent_clients_lose_no_write() {
    let dir = Dir::new();
    let pool = create(&dir, 8, 4);
    pool.set_watermarks(5, 2);
    let store = Store::default();
    let over = AtomicBool::new(false);
    // Two threads share a ledger each, as threads of one process do.
    let clients = [map(&pool), map(&pool)];
    std::thread::scope(|scope| {
        let flusher = scope.spawn(|| {
            let mut bell = pool.flush_signal();
            let mut failing = false;
            while !over.load(Ordering::SeqCst) {
                bell.wait_for_work(std::time::Duration::from_millis(20));
                while pool.dirty() > pool.watermarks().1 {
                    failing = !failing;
                    match pool.next_dirty(3) {
                        flushes if flushes.is_empty() => break,
                        flushes if failing => drop(flushes),
                        flushes => store.flush(flushes),
                    }
                }
            }
        });
        let writers: Vec<_> = (0..WRITERS)
            .map(|me| {
                let (pool, store, mapped) = (&pool, &store, &clients[(me % 2) as usize]);
                scope.spawn(move || {
                    let mut writer = Writer {
                        me,
                        pool,
                        store,
                        mapped,
                        known: HashMap::new(),
                        shared: HashMap::new(),
                        own: HashMap::new(),
                        dice: Dice(0x9e37_79b9 + me),
                    };
                    writer.run();
                    (0..BLOCKS).for_each(|block| writer.read_slice(block));
                    (writer.shared, writer.own)
                })
            })
            .collect();
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        over.store(true, Ordering::SeqCst);
        pool.wake();
        flusher.join().unwrap();
        assert_eq!(pool.counters().pinned, 0);
        let mut sweep = pool.sweep(None);
        while let SweepStep::Flush(flushes) = sweep.next(4) {
            store.flush(flushes);
        }
        assert_eq!(pool.counters().dirty, 0);
        assert!(pool.counters().evictions > 100, "{:?}", pool.counters());
        for (me, (shared, own)) in written.iter().enumerate() {
            for block in 0..BLOCKS {
                let mut bytes = vec![0; BLOCK as usize];
                store.read(SHARED, block, &mut bytes);
                let slice = &bytes[me * SLICE as usize..][..SLICE as usize];
                assert!(slice.iter().all(|byte| *byte == shared.get(&block).copied().unwrap_or(0)));
                let mut bytes = vec![0; BLOCK as usize];
                store.read(FileId(10 + me as u64), block, &mut bytes);
                assert!(bytes.iter().all(|byte| *byte == own.get(&block).copied().unwrap_or(0)));
            }
        }
    });
}
