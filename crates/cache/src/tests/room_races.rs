//! Writers against a flusher and a server that runs out of space, in every order of their steps: every accepted write can
//! be stored.
//!
//! The store of these tests is a number of blocks for which it has space. A reservation takes one of them, a flush uses a
//! reservation up, and one without a reservation fails once there is no space.

use crate::geometry::{Geometry, PoolIdentity};
use crate::mapping::PoolMapping;
use crate::pool::{Lookup, Pool};
use crate::tests::explore::every_order;
use crate::{LedgerId, SlotRef};
use pario_types::{FileId, PartitionId, ServerId};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const BLOCK: usize = 4096;
const FILE: FileId = FileId(1);

/// The space of the store: versions of the only block.
#[derive(Default)]
struct Room {
    free: u32,
    reserved: u32,
}

struct Stage {
    pool: Pool,
    client: PoolMapping,
    place: SlotRef,
    room: Mutex<Room>,
    stored: Mutex<Vec<u8>>,
    /// The client's write is accepted.
    counts: AtomicBool,
    /// The client was told that there is no space.
    refused: AtomicBool,
}

impl Stage {
    /// With a pool of one slot, `free` versions to store, and a clean block, or one that is lent.
    fn new(free: u32, plenty: bool, lent: bool) -> Stage {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!("/dev/shm/pario-cache-room-{}-{number}", std::process::id()));
        let identity = PoolIdentity { partition: PartitionId(5), server: ServerId(0) };
        let geometry = Geometry { block: BLOCK as u32, slots: 1, ledgers: 1 };
        let pool = Pool::create(&path, geometry, identity).unwrap();
        std::fs::remove_file(&path).unwrap();
        let ledger: LedgerId = pool.take_ledger(std::process::id()).unwrap();
        let client = PoolMapping::open(pool.descriptor().try_clone_to_owned().unwrap(), ledger).unwrap();
        let mut room = Room { free, reserved: 0 };
        pool.set_plenty(plenty);
        let Lookup::Fill(fill) = pool.get(FILE, 0) else { panic!("it is empty") };
        let place = match lent {
            true => {
                let reserved = !plenty;
                if reserved {
                    room = Room { free: free - 1, reserved: 1 };
                }
                fill.lend(ledger, reserved)
            }
            false => fill.done(BLOCK as u32).slot_ref(),
        };
        Stage {
            pool,
            client,
            place,
            room: Mutex::new(room),
            stored: Mutex::new(vec![0; BLOCK]),
            counts: AtomicBool::new(false),
            refused: AtomicBool::new(false),
        }
    }

    /// Whether there is space for the block's next version.
    fn reserve(&self) -> bool {
        let mut room = self.room.lock().unwrap();
        if room.reserved == 0 && room.free > 0 {
            (room.free, room.reserved) = (room.free - 1, 1);
        }
        room.reserved > 0
    }

    /// The server's reaction when a client requests the block, to modify it.
    fn acquire(&self) -> bool {
        let Lookup::Hit(pin) = self.pool.get(FILE, 0) else { return false };
        if pin.has_room() {
            return true;
        }
        if !self.reserve() {
            self.refused.store(true, Ordering::Relaxed);
            return false;
        }
        pin.grant_room();
        true
    }

    /// The client writes, and records whether the write was accepted.
    fn attempt(&self, byte: u8) {
        let written = self.client.pin(self.place, FILE, 0).map(|guard| guard.write(0, &[byte; BLOCK]));
        self.counts.fetch_or(written.is_ok_and(|written| written.is_ok()), Ordering::Relaxed);
    }

    /// The client fills the lent block.
    fn fill(&self, byte: u8) {
        let Ok(mut pending) = self.client.claim(self.place, FILE, 0) else { return };
        pending.write(0, &[byte; BLOCK]);
        self.counts.fetch_or(pending.publish(BLOCK as u32) == Ok(()), Ordering::Relaxed);
    }

    /// Stores the dirty block, if there is space. A new version takes space also if the block was stored before.
    fn flush(&self) {
        for flush in self.pool.next_dirty(1) {
            let mut bytes = vec![0; flush.end() as usize];
            flush.copy_to(&mut bytes);
            if !self.reserve() {
                return flush.failed();
            }
            self.room.lock().unwrap().reserved = 0;
            self.stored.lock().unwrap()[..bytes.len()].copy_from_slice(&bytes);
            flush.clean();
        }
    }

    /// There is no longer space for everything: it is reserved for accepted writes.
    fn run_short(&self) {
        for (file, block) in self.pool.set_plenty(false) {
            if self.reserve() {
                self.pool.grant_room(file, block);
            }
        }
    }

    /// A refused write is repeated after a request to the server. In the end all accepted writes are stored.
    fn check(self, byte: u8) -> (bool, bool) {
        if !self.counts.load(Ordering::Relaxed) && self.acquire() {
            self.attempt(byte);
            assert!(self.counts.load(Ordering::Relaxed), "there is room now");
        }
        self.pool.retry_failed(usize::MAX);
        self.flush();
        let counts = self.counts.into_inner();
        if counts {
            assert_eq!(*self.stored.lock().unwrap(), [byte; BLOCK], "what counted was not stored");
        }
        assert!(self.pool.granted() <= 1);
        (counts, self.refused.into_inner())
    }
}

/// A version of the block is dirty when the client writes another. The server stores, grants space if there is some, and
/// stores again.
#[test]
fn a_write_counts_only_if_it_can_be_stored() {
    let outcomes = Mutex::new(std::collections::BTreeSet::new());
    for free in 0..4 {
        let runs = every_order(
            3,
            || {
                let stage = Stage::new(free, false, false);
                if stage.acquire() {
                    stage.client.pin(stage.place, FILE, 0).unwrap().write(0, b"first").unwrap();
                }
                stage.refused.store(false, Ordering::Relaxed);
                stage
            },
            &[&|stage: &Stage| stage.attempt(b'w'), &|stage: &Stage| {
                stage.flush();
                stage.acquire();
                stage.flush();
            }],
            |stage| {
                outcomes.lock().unwrap().insert((free, stage.check(b'w')));
            },
        );
        assert!(runs > 10, "{runs}");
    }
    let outcomes = outcomes.into_inner().unwrap();
    let some = |free, counts| outcomes.iter().any(|(room, (counted, _))| (*room, *counted) == (free, counts));
    assert!(!some(0, true) && some(0, false), "{outcomes:?}");
    // With space for one version it depends on whether the first was stored before.
    assert!(some(1, true) && some(1, false), "{outcomes:?}");
    assert!(some(3, true) && !some(3, false), "{outcomes:?}");
}

/// There is space for everything until there is not, while a client writes and the flusher works.
#[test]
fn a_write_that_was_accepted_with_enough_room_can_be_stored() {
    for lent in [false, true] {
        let runs = every_order(
            4,
            // Plenty: one version that is stored meanwhile, and one that is dirty then.
            || Stage::new(2, true, lent),
            &[
                &|stage: &Stage| if lent { stage.fill(b'w') } else { stage.attempt(b'w') },
                &|stage: &Stage| {
                    stage.flush();
                    stage.run_short();
                    stage.flush();
                },
            ],
            |stage| assert_eq!(stage.check(b'w'), (true, false)),
        );
        assert!(runs > 10, "{runs}");
    }
}

/// A lent block with reserved space is accepted whenever it is published.
#[test]
fn a_lent_block_has_room_reserved() {
    every_order(
        4,
        || Stage::new(1, false, true),
        &[&|stage: &Stage| stage.fill(b'w'), &|stage: &Stage| stage.flush()],
        |stage| assert_eq!(stage.check(b'w'), (true, false)),
    );
}
