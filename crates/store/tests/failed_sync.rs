//! A failed sync is reported to all callers until its bytes are on the medium.

use std::path::Path;
use std::sync::Arc;

use pario_medium::{InjectedFault, SimulatedMedium};
use pario_store::{Error, FileStore, Store, StoreIdentity};
use pario_types::{FileId, PartitionId, ServerId};

const SIZE: usize = 4096;
const WHO: StoreIdentity = StoreIdentity { partition: PartitionId(1), server: ServerId(0) };
const FILE: FileId = FileId(1);

fn open(medium: &SimulatedMedium) -> FileStore {
    FileStore::open_on(Arc::new(medium.clone()), Path::new("/s"), SIZE, WHO).expect("a sound store")
}

fn read(store: &FileStore) -> Result<u8, Error> {
    let mut block = [0; SIZE];
    store.read(FILE, 0, &mut [&mut block]).map(|()| block[0])
}

#[test]
fn sync_and_close_fail_after_a_failed_sync_until_the_part_is_repaired() {
    let mut damaged = 0;
    for seed in 0..200 {
        let medium = SimulatedMedium::new(seed);
        let store = open(&medium);
        store.write(FILE, 0, &[&[1; SIZE]], u64::MAX).expect("room");
        store.sync(FILE).expect("it can be synced");
        store.write(FILE, 0, &[&[2; SIZE]], u64::MAX).expect("room");
        medium.plan(0, InjectedFault::FailSync);
        store.sync(FILE).expect_err("it fails");
        assert!(store.sync_failure(FILE).is_err() && store.sync_failure(FileId(0)).is_err());
        medium.evict();
        // Acknowledged bytes are there, or are reported as damaged; the old version is never returned for them.
        match read(&store) {
            Ok(byte) => assert_eq!(byte, 2, "seed {seed}"),
            Err(error) => assert_eq!(error, Error::Damaged { file: FILE, block: 0 }),
        }
        if let Err(error) = store.sync(FILE) {
            damaged += 1;
            assert_eq!(error, Error::Damaged { file: FILE, block: 0 });
            assert!(
                store.sync(FILE).is_err() && store.sync_all().is_err() && store.sync_failure(FILE).is_err()
            );
            store.write(FILE, 0, &[&[2; SIZE]], u64::MAX).expect("room");
            store.sync(FILE).expect("it is written anew");
        }
        assert_eq!((store.sync_failure(FILE), store.sync_failure(FileId(0))), (Ok(()), Ok(())));
        medium.kill();
        drop(store);
        medium.lose_power();
        assert_eq!(read(&open(&medium)), Ok(2), "seed {seed}");
    }
    assert!(damaged > 0, "no sync has cost a block");
}

/// The system may drop the removal of entries, so that older ones appear again.
#[test]
fn regression_a_removed_block_does_not_come_back_after_a_failed_sync() {
    for seed in 0..200 {
        let medium = SimulatedMedium::new(seed);
        let store = open(&medium);
        store.write(FILE, 0, &[&[1; SIZE][..]; 4], u64::MAX).expect("room");
        if seed % 2 == 0 {
            store.sync(FILE).expect("it can be synced");
        }
        store.set_end(FILE, 0, 1).expect("it can be cut");
        store.write(FILE, 3, &[&[2; SIZE]], u64::MAX).expect("room");
        medium.plan(0, InjectedFault::FailSync);
        if seed % 4 < 2 { store.sync(FILE) } else { store.sync_all() }.expect_err("it fails");
        medium.evict();
        if store.sync(FILE).is_err() {
            store.write(FILE, 3, &[&[2; SIZE]], u64::MAX).expect("room");
            store.sync(FILE).expect("it is written anew");
        }
        for (block, byte) in [0, 0, 0, 2].into_iter().enumerate() {
            let mut bytes = [9; SIZE];
            let read = store.read(FILE, block as u64, &mut [&mut bytes]);
            assert_eq!((read, bytes[0]), (Ok(()), byte), "seed {seed}, block {block}");
        }
    }
}

/// A new process opens the store after the power was lost.
fn lose_power(medium: &SimulatedMedium, store: FileStore) -> FileStore {
    medium.kill();
    drop(store);
    medium.lose_power();
    open(medium)
}

/// Every block of the part is that of one of these versions, or zeros.
fn check(store: &FileStore, versions: &[u8], what: &str) {
    for block in 0..4 {
        let mut bytes = [9; SIZE];
        let read = store.read(FILE, block, &mut [&mut bytes]);
        assert_eq!(read, Ok(()), "{what}, block {block}");
        assert!(bytes[0] == 0 || versions.contains(&bytes[0]), "{what}, block {block}");
    }
}

/// Entries of the interrupted sync may be on the medium, and its header not.
#[test]
fn regression_a_truncation_after_an_interrupted_sync_leaves_no_damage() {
    for (seed, step) in (0..40).flat_map(|seed| (0..9).map(move |step| (seed, step))) {
        let what = format!("seed {seed}, step {step}");
        let medium = SimulatedMedium::new(seed);
        let store = open(&medium);
        store.write(FILE, 0, &[&[1; SIZE][..]; 4], u64::MAX).expect("room");
        medium.plan(step, InjectedFault::Kill);
        let _ = store.sync(FILE);
        let store = lose_power(&medium, store);
        check(&store, &[1], &what);
        store.set_end(FILE, 6000, 1).expect("it can be cut");
        check(&lose_power(&medium, store), &[1], &what);
    }
}

/// The system may have dropped the header that was to be synced.
#[test]
fn regression_a_change_after_a_truncation_whose_sync_failed_leaves_no_damage() {
    for (seed, step) in (0..40).flat_map(|seed| (0..12).map(move |step| (seed, step))) {
        let what = format!("seed {seed}, step {step}");
        let medium = SimulatedMedium::new(seed);
        let store = open(&medium);
        for _ in 0..2 {
            store.write(FILE, 0, &[&[1; SIZE][..]; 4], u64::MAX).expect("room");
            store.sync(FILE).expect("it can be synced");
        }
        medium.plan(0, InjectedFault::FailSync);
        store.set_end(FILE, 4096, 0).expect_err("its sync fails");
        if seed % 2 == 0 {
            medium.evict();
        }
        medium.plan(step, InjectedFault::Kill);
        let _ = store.write(FILE, 1, &[&[2; SIZE]], 6000);
        check(&lose_power(&medium, store), &[1, 2], &what);
    }
}

/// The names of the store's own directory and of everything in it are on the medium when the store is open.
#[test]
fn regression_a_new_store_survives_a_loss_of_power_with_its_own_name() {
    for (seed, step) in (0..8).flat_map(|seed| (0..27).map(move |step| (seed, step * 10))) {
        let medium = SimulatedMedium::with_directories(seed, &["/", "/data"]);
        let open = |medium: &SimulatedMedium| {
            FileStore::open_on(Arc::new(medium.clone()), Path::new("/data/0"), SIZE, WHO)
        };
        // A predecessor may have been killed while it created the store.
        medium.plan(step, InjectedFault::Kill);
        drop(open(&medium));
        medium.restart();
        let store = open(&medium).expect("it can be opened");
        store.write(FILE, 0, &[&[1; SIZE]], u64::MAX).expect("room");
        store.sync(FILE).expect("it can be synced");
        medium.kill();
        drop(store);
        medium.lose_power();
        let store = open(&medium).expect("it can be opened after a loss of power");
        assert_eq!(read(&store), Ok(1), "seed {seed}, step {step}");
    }
}
