//! Clients write random bytes over the shared tables. The server continues and accesses nothing outside of the pool.

mod scene;

use pario_cache::{Lookup, Pool, SweepStep};
use pario_shm::Segment;
use pario_types::{FileId, TruncationId};
use proptest::prelude::*;
use scene::{BLOCK, Dir, Store, WHO, create, load, map};
use std::sync::atomic::Ordering;

#[derive(Clone, Debug)]
enum Op {
    /// The position in the tables (from 0 to 1), and the value to write there.
    Scribble {
        place: f64,
        value: u64,
    },
    Write {
        file: u64,
        block: u64,
    },
    Client {
        file: u64,
        block: u64,
    },
    Lend {
        file: u64,
        block: u64,
        publish: bool,
    },
    Flush,
    Sweep,
    Truncate {
        file: u64,
        end: u64,
    },
    Ledger,
    Adopt,
}

fn any_op() -> impl Strategy<Value = Op> {
    let (file, block) = (1u64..3, 0u64..4);
    let value = prop_oneof![any::<u64>(), 0u64..130, Just(u64::MAX), Just(i64::MAX as u64)];
    let state = (0u64..4, 0u64..128).prop_map(|(generation, flags)| generation << 32 | flags);
    prop_oneof![
        8 => (0.0..1.0f64, prop_oneof![value, state])
            .prop_map(|(place, value)| Op::Scribble { place, value }),
        3 => (file.clone(), block.clone()).prop_map(|(file, block)| Op::Write { file, block }),
        3 => (file.clone(), block.clone()).prop_map(|(file, block)| Op::Client { file, block }),
        1 => (file.clone(), block, any::<bool>())
            .prop_map(|(file, block, publish)| Op::Lend { file, block, publish }),
        1 => Just(Op::Flush),
        1 => Just(Op::Sweep),
        1 => (file, 0u64..16_000).prop_map(|(file, end)| Op::Truncate { file, end }),
        1 => Just(Op::Ledger),
        1 => Just(Op::Adopt),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_bytes_in_the_pool_do_not_stop_the_server(ops in proptest::collection::vec(any_op(), 1..100)) {
        let (slots, ledgers) = (4, 3);
        let dir = Dir::new();
        let mut pool = create(&dir, slots, ledgers);
        let store = Store::default();
        let client = map(&pool);
        let raw = Segment::open_file(&dir.pool()).unwrap();
        let tables = raw.len() - (slots * BLOCK) as usize;
        for op in ops {
            match op {
                Op::Scribble { place, value } => {
                    // All but the constants at the start, which only a successor reads: other tests cover those.
                    let words = (tables - 128) / 8;
                    let word = (place * words as f64) as usize;
                    raw.word(128 + word * 8).store(value, Ordering::SeqCst);
                }
                Op::Write { file, block } => {
                    if let Some(pin) = load(&pool, &store, FileId(file), block) {
                        let _ = pin.write(5, b"hello");
                    }
                }
                Op::Client { file, block } => {
                    if let Some(pin) = load(&pool, &store, FileId(file), block)
                        && let Ok(guard) = client.pin(pin.slot_ref(), FileId(file), block)
                    {
                        let _ = guard.write(guard.end().min(BLOCK - 5), b"hello");
                    }
                }
                Op::Lend { file, block, publish } => {
                    if let Lookup::Fill(fill) = pool.get(FileId(file), block) {
                        let place = fill.lend(client.ledger(), false);
                        if let Ok(pending) = client.claim(place, FileId(file), block) && publish {
                            let _ = pending.publish(BLOCK);
                        }
                    }
                }
                Op::Flush => store.flush(pool.next_dirty(3)),
                Op::Sweep => {
                    let mut sweep = pool.sweep(None);
                    while let SweepStep::Flush(flushes) = sweep.next(2) {
                        store.flush(flushes);
                    }
                }
                Op::Truncate { file, end } => {
                    let mut truncation = pool.begin_truncation(FileId(file), end).unwrap();
                    let ready = truncation.ready() && truncation.record(TruncationId(1));
                    if ready {
                        truncation.finish();
                    }
                    prop_assert!(!ready || pool.end(FileId(file)) <= end);
                }
                Op::Ledger => {
                    if let Some(ledger) = pool.take_ledger(std::process::id()) {
                        pool.give_ledger(ledger);
                    }
                }
                Op::Adopt => {
                    drop(pool);
                    pool = Pool::adopt(&dir.pool(), WHO).unwrap().0;
                    let _ = pool.resume_ledger(client.ledger(), std::process::id());
                }
            }
            let counters = pool.counters();
            prop_assert!(counters.valid + counters.lent <= slots && pool.dirty() <= slots);
        }
    }
}
