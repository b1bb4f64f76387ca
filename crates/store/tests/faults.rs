//! Injected faults occur as specified, and a full store in memory reports it.

use pario_store::{CorruptByte, Error, FaultyStore, MemoryStore, Store, StoreCall};
use pario_types::{ErrorKind, FileId};

const SIZE: usize = 4096;
const FILE: FileId = FileId(1);
const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;

fn store() -> FaultyStore<MemoryStore> {
    FaultyStore::new(MemoryStore::new(SIZE).unwrap())
}

fn write(store: &impl Store, count: usize, byte: u8) -> Result<(), ErrorKind> {
    store.write(FILE, 0, &vec![&[byte; SIZE][..]; count], u64::MAX).map_err(|error| error.kind())
}

#[test]
fn faults_begin_after_a_number_of_calls_and_last_for_a_number() {
    let store = store();
    store.fail(Some(StoreCall::Write), 1, 2, EROFS);
    store.fail(Some(StoreCall::Sync), 0, u64::MAX, EIO);
    assert_eq!(write(&store, 1, 1), Ok(()));
    assert_eq!(write(&store, 2, 2), Err(ErrorKind::ReadOnly));
    assert_eq!(store.end(FILE), Ok(SIZE as u64));
    assert_eq!(write(&store, 2, 2), Err(ErrorKind::ReadOnly));
    assert_eq!(write(&store, 2, 2), Ok(()));
    for _ in 0..3 {
        assert_eq!(store.sync(FILE).unwrap_err().errno(), EIO);
        assert_eq!(store.sync_all().unwrap_err().errno(), EIO);
    }
    store.clear_faults();
    assert_eq!(store.sync_all(), Ok(()));
    assert_eq!(store.calls(), 12);
}

#[test]
fn a_short_write_writes_some() {
    let store = store();
    store.short_write(0, 2);
    assert_eq!(write(&store, 5, 1), Err(ErrorKind::NoSpace));
    assert_eq!(store.end(FILE), Ok(2 * SIZE as u64));
    assert_eq!(write(&store, 5, 1), Ok(()));
    assert_eq!(store.end(FILE), Ok(5 * SIZE as u64));
}

#[test]
fn a_stopped_store_does_nothing_more() {
    let store = store();
    store.stop(1);
    assert_eq!(write(&store, 1, 1), Ok(()));
    assert_eq!(write(&store, 1, 2), Err(ErrorKind::Io));
    assert!(store.remove(FILE).is_err() && store.set_end(FILE, 0, 0).is_err() && store.end(FILE).is_err());
    assert!(store.read(FILE, 0, &mut [&mut [0; SIZE]]).is_err());
    assert!(store.list(FileId(0), 1).is_err() && store.room().is_err());
    assert!(store.verify(FILE, 0, 1).is_err() && store.accept(FILE, &[0]).is_err());
    let mut block = [0; SIZE];
    store.inner().read(FILE, 0, &mut [&mut block]).unwrap();
    assert_eq!(block, [1; SIZE]);
}

#[test]
fn a_flipped_byte_is_reported_as_damage() {
    let store = store();
    write(&store, 3, 1).unwrap();
    store.flip_byte(FILE, SIZE as u64 + 7).unwrap();
    let damaged = Err(Error::Damaged { file: FILE, block: 1 });
    assert_eq!(store.read(FILE, 1, &mut [&mut [0; SIZE]]), damaged);
    assert_eq!(store.verify(FILE, 0, 9).unwrap().damaged, [1]);
}

#[test]
fn full_memory_is_an_error() {
    let store = MemoryStore::with_capacity(SIZE, 3 * SIZE as u64).unwrap();
    assert_eq!(store.write(FILE, 0, &[&[1; SIZE][..]; 5], u64::MAX).unwrap_err().errno(), ENOSPC);
    assert_eq!(store.end(FILE), Ok(3 * SIZE as u64));
    assert_eq!(write(&store, 3, 2), Ok(()));
    let room = store.room().unwrap();
    assert_eq!((room.free, room.used, room.parts), (0, room.total, 1));
    store.set_end(FILE, 1, 0).unwrap();
    assert_eq!(store.room().unwrap().free, 2 * SIZE as u64);
}
