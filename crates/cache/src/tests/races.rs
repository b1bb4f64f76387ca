//! Clients against the server, in every order of their steps; and the server killed at every step.

use crate::error::PinError;
use crate::geometry::{Geometry, PoolIdentity};
use crate::mapping::PoolMapping;
use crate::pin::Pin;
use crate::pool::{Lookup, Pool};
use crate::tests::explore::{every_order, point};
use crate::{LedgerId, SlotRef};
use pario_types::{FileId, PartitionId, ServerId, TruncationId};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const BLOCK: usize = 4096;
const FILE: FileId = FileId(1);
const OTHER: FileId = FileId(2);

fn identity() -> PoolIdentity {
    PoolIdentity { partition: PartitionId(5), server: ServerId(0) }
}

fn path(name: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    PathBuf::from(format!("/dev/shm/pario-cache-{name}-{}-{number}", std::process::id()))
}

/// A pool of one slot, clients that have mapped it, and a record of events.
struct Stage {
    pool: Pool,
    clients: Vec<PoolMapping>,
    place: SlotRef,
    client_did: AtomicBool,
    server_did: AtomicBool,
    stored: Mutex<Vec<u8>>,
    /// By another thread of the server.
    pinned: Option<Pin>,
}

impl Stage {
    fn empty(clients: usize) -> Stage {
        let geometry = Geometry { block: BLOCK as u32, slots: 1, ledgers: 1 };
        let path = path("race");
        let pool = Pool::create(&path, geometry, identity()).unwrap();
        std::fs::remove_file(&path).unwrap();
        let ledger = pool.take_ledger(std::process::id()).unwrap();
        let map = |_| PoolMapping::open(pool.descriptor().try_clone_to_owned().unwrap(), ledger).unwrap();
        Stage {
            clients: (0..clients).map(map).collect(),
            pool,
            place: SlotRef { slot: 0, generation: 0 },
            client_did: AtomicBool::new(false),
            server_did: AtomicBool::new(false),
            stored: Mutex::new(vec![0; BLOCK]),
            pinned: None,
        }
    }

    /// With a clean block of `FILE` that is full of `byte`.
    fn holding(byte: u8, clients: usize) -> Stage {
        let mut stage = Stage::empty(clients);
        stage.place = fill(stage.pool.get(FILE, 0), byte).slot_ref();
        stage
    }

    /// With a lent one.
    fn lent() -> Stage {
        let mut stage = Stage::empty(1);
        let Lookup::Fill(fill) = stage.pool.get(FILE, 0) else { panic!("empty") };
        stage.place = fill.lend(stage.clients[0].ledger(), false);
        stage
    }

    fn flush(&self) {
        for flush in self.pool.next_dirty(1) {
            let mut stored = self.stored.lock().unwrap();
            flush.copy_to(&mut stored[..flush.end() as usize]);
            drop(stored);
            flush.clean();
        }
    }
}

fn fill(got: Lookup, byte: u8) -> Pin {
    let Lookup::Fill(mut fill) = got else { panic!("{got:?}") };
    fill.bytes(0..BLOCK as u32, |bytes| bytes.fill(byte));
    fill.done(BLOCK as u32)
}

fn all_of(pin: &Pin) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    pin.read(0, &mut bytes);
    bytes
}

#[test]
fn a_slot_that_a_client_uses_is_not_evicted() {
    let client = |stage: &Stage| {
        if let Ok(guard) = stage.clients[0].pin(stage.place, FILE, 0) {
            let mut byte = [0];
            guard.read(0, &mut byte);
            assert_eq!(byte, [b'a']);
            point();
            guard.read(4095, &mut byte);
            assert_eq!(byte, [b'a']);
            guard.write(100, b"w").expect("not retired");
            stage.client_did.store(true, Ordering::Relaxed);
        }
    };
    let server = |stage: &Stage| {
        if let got @ Lookup::Fill(_) = stage.pool.get(OTHER, 0) {
            let pin = fill(got, b'b');
            point();
            assert_eq!(all_of(&pin), [b'b'; BLOCK]);
            stage.server_did.store(true, Ordering::Relaxed);
        }
    };
    let outcomes = Mutex::new(std::collections::BTreeMap::new());
    let runs = every_order(
        5,
        || Stage::holding(b'a', 1),
        &[&client, &server],
        |stage| {
            let wrote = stage.client_did.load(Ordering::Relaxed);
            let evicted = stage.server_did.load(Ordering::Relaxed);
            assert!(!(wrote && evicted), "a written block was evicted");
            *outcomes.lock().unwrap().entry((wrote, evicted)).or_insert(0) += 1;
            if wrote {
                let Lookup::Hit(pin) = stage.pool.get(FILE, 0) else { panic!("written and gone") };
                assert_eq!(all_of(&pin)[100], b'w');
                assert_eq!(stage.pool.dirty(), 1);
            }
        },
    );
    let outcomes = outcomes.into_inner().unwrap();
    assert!(outcomes.contains_key(&(true, false)) && outcomes.contains_key(&(false, true)), "{outcomes:?}");
    assert!(runs > 100, "{runs}");
}

#[test]
fn no_write_is_lost_between_two_clients_and_the_flusher() {
    fn write(stage: &Stage, client: usize) {
        let byte = b'x' + client as u8;
        let guard = stage.clients[client].pin(stage.place, FILE, 0).expect("nobody evicts");
        guard.write(client as u32 * 2000, &[byte; 2000]).expect("not retired");
    }
    let flusher = |stage: &Stage| {
        stage.flush();
        stage.flush();
    };
    every_order(
        2,
        || Stage::holding(b'a', 2),
        &[&|stage: &Stage| write(stage, 0), &flusher, &|stage: &Stage| write(stage, 1)],
        |stage| {
            stage.flush();
            stage.flush();
            assert_eq!(stage.pool.counters().dirty, 0);
            let Lookup::Hit(pin) = stage.pool.get(FILE, 0) else { panic!("gone") };
            let mut right = vec![b'a'; BLOCK];
            right[..2000].fill(b'x');
            right[2000..4000].fill(b'y');
            assert_eq!(all_of(&pin), right);
            assert_eq!(*stage.stored.lock().unwrap(), right);
            // The count is right again after a flush that finds nothing.
            stage.flush();
            assert_eq!(stage.pool.dirty(), 0);
        },
    );
}

#[test]
fn a_lent_slot_is_filled_by_the_client_or_the_server_never_by_both() {
    let client = |stage: &Stage| match stage.clients[0].claim(stage.place, FILE, 0) {
        Ok(mut pending) => {
            pending.write(0, &[b'c'; BLOCK]);
            pending.publish(BLOCK as u32).expect("pinned, so nobody ends the loan");
            stage.client_did.store(true, Ordering::Relaxed);
        }
        Err(refused) => assert_eq!(refused, PinError::Stale),
    };
    let server = |stage: &Stage| {
        stage.pool.give_ledger(stage.clients[0].ledger());
        if let got @ Lookup::Fill(_) = stage.pool.get(FILE, 0) {
            let pin = fill(got, b's');
            point();
            assert_eq!(all_of(&pin), [b's'; BLOCK]);
            stage.server_did.store(true, Ordering::Relaxed);
        }
    };
    every_order(4, Stage::lent, &[&client, &server], |stage| {
        let published = stage.client_did.load(Ordering::Relaxed);
        let filled = stage.server_did.load(Ordering::Relaxed);
        assert!(!(published && filled));
        if published {
            let Lookup::Hit(pin) = stage.pool.get(FILE, 0) else { panic!("published and gone") };
            assert_eq!(all_of(&pin), [b'c'; BLOCK]);
            assert_eq!(stage.pool.counters().dirty, 1);
        } else if !filled {
            assert!(matches!(stage.pool.get(FILE, 0), Lookup::Fill(_)), "the loan is over");
        }
    });
}

#[test]
fn an_abandoned_loan_is_free_for_the_next() {
    let client = |stage: &Stage| drop(stage.clients[0].claim(stage.place, FILE, 0));
    let server = |stage: &Stage| {
        let got = stage.pool.get(FILE, 0);
        assert!(matches!(got, Lookup::Busy | Lookup::Fill(_)), "{got:?}");
    };
    every_order(8, Stage::lent, &[&client, &server], |stage| {
        drop(fill(stage.pool.get(FILE, 0), b'n'));
        assert!(matches!(stage.pool.get(FILE, 0), Lookup::Hit(_)));
    });
}

#[test]
fn truncated_blocks_do_not_come_back() {
    let client = |stage: &Stage| {
        if let Ok(guard) = stage.clients[0].pin(stage.place, FILE, 0) {
            guard.write(1000, &[b'w'; 3000]).expect("not retired");
        }
    };
    let server = |stage: &Stage| {
        let mut truncation = stage.pool.begin_truncation(FILE, 1500).expect("the only one");
        assert!(matches!(stage.pool.get(FILE, 0), Lookup::Busy));
        let ready = truncation.ready() || truncation.ready();
        point();
        stage.server_did.store(ready, Ordering::Relaxed);
        if ready {
            assert!(truncation.record(TruncationId(1)));
            truncation.finish();
            assert_eq!(stage.pool.end(FILE), 1500);
        }
    };
    every_order(
        4,
        || Stage::holding(b'a', 1),
        &[&client, &server],
        |stage| {
            let Lookup::Hit(pin) = stage.pool.get(FILE, 0) else { panic!("the first block stays") };
            if stage.server_did.load(Ordering::Relaxed) {
                let bytes = all_of(&pin);
                let after = &bytes[1500..];
                // A write after the cut is whole, one before it is cut.
                let wrote_after = pin.end() == 4000;
                let right = |at: usize| if wrote_after && at < 4000 { b'w' } else { 0 };
                assert!(after.iter().enumerate().all(|(at, &byte)| byte == right(at + 1500)));
                assert!(wrote_after || pin.end() == 1500);
            } else {
                assert_eq!(pin.end(), BLOCK as u32);
            }
            assert!(stage.clients[0].pin(stage.place, FILE, 0).is_ok(), "open again");
        },
    );
}

#[test]
fn a_client_with_an_old_slot_of_an_invalidated_block_is_seen_or_fails() {
    let client = |stage: &Stage| {
        if let Ok(guard) = stage.clients[0].pin(stage.place, FILE, 0) {
            assert!(!stage.server_did.load(Ordering::Relaxed), "pinned by old knowledge");
            guard.write(100, b"w").expect("not retired");
            assert!(!stage.server_did.load(Ordering::Relaxed), "not seen");
            stage.client_did.store(true, Ordering::Relaxed);
        }
    };
    let server = |stage: &Stage| {
        // Also while it is being stored.
        let flushes = stage.pool.next_dirty(1);
        let mut renewal = stage.pool.invalidate(FILE, 0..1);
        let ready = renewal.ready() || renewal.ready();
        stage.server_did.store(ready, Ordering::Relaxed);
        drop(flushes);
    };
    let outcomes = Mutex::new(std::collections::BTreeSet::new());
    every_order(
        4,
        || Stage::holding(b'a', 1),
        &[&client, &server],
        |stage| {
            let wrote = stage.client_did.load(Ordering::Relaxed);
            outcomes.lock().unwrap().insert((wrote, stage.server_did.load(Ordering::Relaxed)));
            assert!(stage.pool.invalidate(FILE, 0..1).ready(), "nobody uses it");
            assert_eq!(stage.clients[0].pin(stage.place, FILE, 0).err(), Some(PinError::Stale));
            let Lookup::Hit(pin) = stage.pool.get(FILE, 0) else { panic!("it stays where it is") };
            assert_eq!(all_of(&pin)[100], if wrote { b'w' } else { b'a' });
            assert!(stage.clients[0].pin(pin.slot_ref(), FILE, 0).is_ok(), "who asks finds it");
            drop(pin);
            stage.pool.retry_failed(usize::MAX);
            stage.flush();
            let stored = stage.stored.lock().unwrap()[100];
            assert_eq!(stored, if wrote { b'w' } else { 0 }, "and what is dirty is stored");
            assert_eq!((stage.pool.counters().dirty, stage.pool.dirty()), (0, 0));
        },
    );
    // Neither is possible, too: a failing client is visible for a moment.
    assert_eq!(outcomes.into_inner().unwrap().len(), 4);
}

#[test]
fn a_loan_is_renewed_when_it_has_ended() {
    let client = |stage: &Stage| {
        if let Ok(mut pending) = stage.clients[0].claim(stage.place, FILE, 0) {
            pending.write(0, &[b'c'; BLOCK]);
            pending.publish(BLOCK as u32).expect("nobody ends the loan");
            assert!(!stage.server_did.load(Ordering::Relaxed), "not seen");
        }
        if let Ok(guard) = stage.clients[0].pin(stage.place, FILE, 0) {
            assert!(!stage.server_did.load(Ordering::Relaxed), "pinned by old knowledge");
            guard.write(0, b"d").expect("not retired");
            assert!(!stage.server_did.load(Ordering::Relaxed), "not seen");
            stage.client_did.store(true, Ordering::Relaxed);
        }
    };
    let server = |stage: &Stage| {
        let mut renewal = stage.pool.invalidate(FILE, 0..1);
        let ready = renewal.ready() || renewal.ready();
        stage.server_did.store(ready, Ordering::Relaxed);
    };
    every_order(4, Stage::lent, &[&client, &server], |stage| {
        let mut renewal = stage.pool.invalidate(FILE, 0..1);
        assert!(renewal.ready());
        assert_eq!(stage.clients[0].pin(stage.place, FILE, 0).err(), Some(PinError::Stale));
        let Lookup::Hit(pin) = stage.pool.get(FILE, 0) else { panic!("published and gone") };
        let second = stage.client_did.load(Ordering::Relaxed);
        assert_eq!(all_of(&pin)[..2], [if second { b'd' } else { b'c' }, b'c']);
        assert_eq!(stage.pool.counters().dirty, 1);
    });
}

/// The steps of a server at its end, however long it waits for clients.
fn retire(stage: &Stage) {
    stage.flush();
    stage.pool.close();
    stage.pool.retire();
    stage.flush();
    stage.server_did.store(true, Ordering::Relaxed);
}

/// Writer and store agree on whether a write is accepted: returns the number of outcomes after all orders of the writer's
/// steps and the server's.
fn a_write_counts_or_not(set: impl Fn() -> Stage, write: impl Fn(&Stage) -> Option<u8> + Sync) -> usize {
    let writer = |stage: &Stage| {
        if let Some(byte) = write(stage) {
            stage.client_did.store(true, Ordering::Relaxed);
            assert_eq!(byte, b'w');
        }
    };
    let outcomes = Mutex::new(std::collections::BTreeSet::new());
    every_order(5, set, &[&writer, &retire], |stage| {
        let counts = stage.client_did.load(Ordering::Relaxed);
        let stored = stage.stored.lock().unwrap()[100];
        assert!(!counts || stored == b'w', "a write counts and is not stored");
        outcomes.lock().unwrap().insert((counts, stored));
        assert!(stage.clients[0].pin(stage.place, FILE, 0).is_err(), "pinned in a pool that is given up");
        assert!(stage.clients[0].claim(stage.place, FILE, 0).is_err(), "claimed in a pool that is given up");
    });
    outcomes.into_inner().unwrap().len()
}

#[test]
fn a_write_to_a_pool_that_is_given_up_is_stored_or_refused() {
    let outcomes = a_write_counts_or_not(
        || Stage::holding(b'a', 1),
        |stage| {
            let guard = stage.clients[0].pin(stage.place, FILE, 0).ok()?;
            guard.write(100, b"w").ok().map(|()| b'w')
        },
    );
    assert!(outcomes >= 2, "{outcomes}");
}

#[test]
fn a_block_filled_in_a_pool_that_is_given_up_is_stored_or_refused() {
    let outcomes = a_write_counts_or_not(Stage::lent, |stage| {
        let mut pending = stage.clients[0].claim(stage.place, FILE, 0).ok()?;
        pending.write(0, &[b'w'; BLOCK]);
        pending.publish(BLOCK as u32).ok().map(|()| b'w')
    });
    assert!(outcomes >= 2, "{outcomes}");
}

#[test]
fn a_servers_own_write_to_a_pool_that_is_given_up_is_stored_or_refused() {
    let outcomes = a_write_counts_or_not(
        || {
            let mut stage = Stage::holding(b'a', 1);
            let Lookup::Hit(pin) = stage.pool.get(FILE, 0) else { panic!("just filled") };
            stage.pinned = Some(pin);
            stage
        },
        |stage| stage.pinned.as_ref()?.write(100, b"w").ok().map(|()| b'w'),
    );
    assert!(outcomes >= 2, "{outcomes}");
}

#[test]
fn a_pool_that_is_kept_after_all_takes_writes_again() {
    let stage = Stage::holding(b'a', 1);
    let guard = stage.clients[0].pin(stage.place, FILE, 0).unwrap();
    stage.pool.close();
    stage.pool.retire();
    assert_eq!(guard.write(100, b"w"), Err(PinError::Retired));
    drop(guard);
    stage.pool.reopen();
    stage.clients[0].pin(stage.place, FILE, 0).unwrap().write(100, b"x").unwrap();
    stage.flush();
    assert_eq!(stage.stored.lock().unwrap()[100], b'x');
}

/// The server of the crash test: it writes blocks and stores them, until it is killed, and prints what it has done.
fn script(at: &std::path::Path) {
    let geometry = Geometry { block: BLOCK as u32, slots: 3, ledgers: 2 };
    let pool = Pool::create(&at.with_extension("pool"), geometry, identity()).unwrap();
    let ledger = pool.take_ledger(std::process::id()).unwrap();
    let client = PoolMapping::open(pool.descriptor().try_clone_to_owned().unwrap(), ledger).unwrap();
    for version in 1..=9u8 {
        let block = u64::from(version) * 5 % 4;
        println!("begin {block} {version}");
        let (mut loan, mut place) = (None, None);
        while loan.is_none() && place.is_none() {
            match pool.get(FILE, block) {
                Lookup::Hit(pin) => place = Some(pin.slot_ref()),
                Lookup::Fill(fill) if version % 2 == 0 => loan = Some(fill.lend(ledger, false)),
                Lookup::Fill(mut fill) => {
                    let stored = std::fs::read(at.with_extension(block.to_string())).unwrap_or_default();
                    fill.bytes(0..stored.len() as u32, |bytes| bytes.copy_from_slice(&stored));
                    place = Some(fill.done(stored.len() as u32).slot_ref());
                }
                Lookup::Busy => unreachable!("nobody else"),
                Lookup::Full => store(&pool, at, 1),
            }
        }
        if let Some(loan) = loan {
            let mut pending = client.claim(loan, FILE, block).unwrap();
            pending.write(0, &[version; BLOCK]);
            pending.publish(BLOCK as u32).unwrap();
        } else if let Some(place) = place {
            client.pin(place, FILE, block).unwrap().write(0, &[version; BLOCK]).unwrap();
        }
        println!("end {block} {version}");
        if version % 3 == 0 {
            assert!(pool.invalidate(FILE, 0..4).ready(), "nobody has anything pinned");
        }
    }
    store(&pool, at, 9);
}

fn store(pool: &Pool, at: &std::path::Path, most: usize) {
    for flush in pool.next_dirty(most) {
        let mut bytes = vec![0; flush.end() as usize];
        flush.copy_to(&mut bytes);
        std::fs::write(at.with_extension(flush.block().to_string()), &bytes).unwrap();
        flush.clean();
    }
}

const DIE: &str = "PARIO_CACHE_TEST_DIE";

/// The child of the next test: it ends itself at a given step.
fn run_as_child(told: &str) {
    let (step, at) = told.split_once(' ').expect("a step and a path");
    crate::tests::explore::die_at(step.parse().unwrap());
    script(std::path::Path::new(at));
}

/// Returns the output of the child that was killed at a step, and whether it reached its end.
fn run_child(step: u32, at: &std::path::Path) -> (Vec<String>, bool) {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "tests::races::a_server_killed_at_any_step_leaves_all_that_was_written",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(DIE, format!("{step} {}", at.display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<String> = said.lines().map(String::from).collect();
    (lines, output.status.success())
}

#[test]
fn a_server_killed_at_any_step_leaves_all_that_was_written() {
    if let Ok(told) = std::env::var(DIE) {
        return run_as_child(&told);
    }
    let mut adopted_dirty = 0;
    let mut dropped = 0;
    for step in 0.. {
        let at = path("crash");
        let (said, ended) = run_child(step, &at);
        // Per block: the last version that was certainly written, and one that may have been begun.
        let mut sure = [0u8; 4];
        let mut begun = [0u8; 4];
        for line in &said {
            let words: Vec<&str> = line.split(' ').collect();
            // The harness's own output may precede ours in a line.
            let Some(start) = words.iter().position(|word| word.ends_with("begin") || *word == "end") else {
                continue;
            };
            let number = |index: usize| words.get(start + index).and_then(|word| word.parse().ok());
            let (Some(block), Some(version)) = (number(1), number(2)) else { continue };
            let list = if words[start] == "end" { &mut sure } else { &mut begun };
            list[usize::from(block)] = version;
        }
        match Pool::adopt(&at.with_extension("pool"), identity()) {
            Ok((pool, adopted)) => {
                adopted_dirty += adopted.dirty;
                dropped += adopted.dropped;
                assert_eq!(pool.counters().lent, 0);
                store(&pool, &at, 9);
                assert_eq!(pool.counters().dirty, 0);
                pool.discard().unwrap();
            }
            // It was killed before the pool was complete.
            Err(_) => {
                assert_eq!(begun, [0; 4]);
                std::fs::remove_file(at.with_extension("new")).unwrap_or(());
            }
        }
        for block in 0..4 {
            let stored = std::fs::read(at.with_extension(block.to_string())).unwrap_or_default();
            std::fs::remove_file(at.with_extension(block.to_string())).unwrap_or(());
            let version = stored.first().copied().unwrap_or(0);
            assert!(
                version == sure[block] || version == begun[block],
                "step {step}, block {block}: {version}"
            );
            assert!(stored.iter().all(|&byte| byte == version), "step {step}, block {block}: torn");
            assert!(version == 0 || stored.len() == BLOCK);
        }
        if ended {
            assert!(step > 300, "{step}");
            break;
        }
    }
    assert!(adopted_dirty > 50 && dropped > 5, "{adopted_dirty} {dropped}");
}

#[test]
fn ledgers_of_live_processes_are_kept_and_those_of_others_refused() {
    let stage = Stage::holding(b'a', 1);
    let ledger = stage.clients[0].ledger();
    let me = std::process::id();
    assert_eq!(stage.pool.take_ledger(me), None, "there is one only, and a session has it");
    assert_eq!(stage.pool.take_ledger(0), None);
    assert!(!stage.pool.resume_ledger(ledger, me), "a session has it");
    let guard = stage.clients[0].pin(stage.place, FILE, 0).unwrap();
    stage.pool.give_ledger(ledger);
    stage.pool.give_ledger(LedgerId(77));
    assert!(matches!(stage.pool.get(OTHER, 0), Lookup::Full), "we live and hold it");
    assert!(!stage.pool.resume_ledger(ledger, 1), "another's");
    assert!(!stage.pool.resume_ledger(LedgerId(77), me));
    assert!(stage.pool.resume_ledger(ledger, me));
    drop(guard);
    stage.pool.give_ledger(ledger);
    assert_eq!(stage.pool.take_ledger(me), Some(ledger), "the same process gets its own again");
    assert!(matches!(stage.pool.get(OTHER, 0), Lookup::Fill(_)));
}

#[test]
fn a_process_has_so_many_pins_and_no_more() {
    let stage = Stage::holding(b'a', 1);
    let guards: Vec<_> =
        (0..crate::LEDGER_WORDS).map(|_| stage.clients[0].pin(stage.place, FILE, 0).unwrap()).collect();
    assert_eq!(stage.clients[0].pin(stage.place, FILE, 0).err(), Some(PinError::Crowded));
    drop(guards);
    assert!(stage.clients[0].pin(stage.place, FILE, 0).is_ok());
    let elsewhere = SlotRef { slot: 77, ..stage.place };
    assert_eq!(stage.clients[0].pin(elsewhere, FILE, 0).err(), Some(PinError::Stale));
    assert_eq!(stage.clients[0].pin(stage.place, OTHER, 0).err(), Some(PinError::Stale));
    assert_eq!(stage.clients[0].pin(stage.place, FILE, 1).err(), Some(PinError::Stale));
    assert_eq!(stage.clients[0].claim(stage.place, FILE, 0).err(), Some(PinError::Stale));
}
