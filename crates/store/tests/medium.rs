//! Media that are full or read-only: a small file system in memory, mounted for the test where that is allowed.

mod scratch;

use std::path::Path;
use std::process::Command;

use pario_store::{FileStore, Store, StoreIdentity};
use pario_types::{ErrorKind, FileId, PartitionId, ServerId};
use scratch::Scratch;

const SIZE: usize = 4096;
const WHO: StoreIdentity = StoreIdentity { partition: PartitionId(1), server: ServerId(0) };

/// A file system that exists until the test is over.
struct Medium(Scratch);

impl Medium {
    /// `None`, with a message, where mounting is not allowed.
    fn new(options: &str) -> Option<Medium> {
        let medium = Medium(Scratch::new());
        if medium.mount(&["-t", "tmpfs", "-o", options, "tmpfs"]) {
            return Some(medium);
        }
        println!("skipped: no file system can be mounted here, so a full or read-only one was not tried");
        None
    }

    fn mount(&self, arguments: &[&str]) -> bool {
        let mount = Command::new("mount").args(arguments).arg(self.path()).output();
        mount.is_ok_and(|output| output.status.success())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn open(&self) -> pario_store::Result<FileStore> {
        FileStore::open(self.path(), SIZE, WHO)
    }
}

impl Drop for Medium {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).output();
    }
}

fn write(store: &FileStore, file: u64, first: u64, count: usize, byte: u8) -> Result<(), ErrorKind> {
    let block = [byte; SIZE];
    store.write(FileId(file), first, &vec![&block[..]; count], u64::MAX).map_err(|error| error.kind())
}

fn read(store: &FileStore, file: u64, number: u64) -> Vec<u8> {
    let mut block = vec![0xaa; SIZE];
    store.read(FileId(file), number, &mut [&mut block]).unwrap();
    block
}

#[test]
fn a_full_medium_is_an_error_and_loses_nothing() {
    let Some(medium) = Medium::new("size=1m,mode=700") else { return };
    let store = medium.open().unwrap();
    write(&store, 1, 0, 100, 1).unwrap();
    assert_eq!(write(&store, 2, 0, 400, 2), Err(ErrorKind::NoSpace));
    assert!(store.room().unwrap().free < SIZE as u64);
    // Existing bytes stay and may be overwritten.
    assert_eq!(read(&store, 1, 99), [1; SIZE]);
    write(&store, 1, 50, 10, 3).unwrap();
    assert_eq!(write(&store, 1, 100, 1, 3), Err(ErrorKind::NoSpace));
    assert_eq!(store.end(FileId(1)).unwrap(), 100 * SIZE as u64);
    let end = store.end(FileId(2)).unwrap();
    assert!(end < 400 * SIZE as u64);
    for block in 0..end / SIZE as u64 {
        assert_eq!(read(&store, 2, block), [2; SIZE]);
    }
    for file in [1, 2] {
        assert!(store.verify(FileId(file), 0, u64::MAX).unwrap().damaged.is_empty());
    }
    // With enough space, the same write succeeds.
    store.remove(FileId(1)).unwrap();
    store.set_end(FileId(2), 0, 0).unwrap();
    write(&store, 2, 0, 150, 2).unwrap();
    drop(store);
    let store = medium.open().unwrap();
    assert_eq!(read(&store, 2, 149), [2; SIZE]);
    assert_eq!(store.unverified(), 0);
}

#[test]
fn a_full_medium_loses_nothing_of_an_ordered_part() {
    let Some(medium) = Medium::new("size=1m,mode=700") else { return };
    let store = medium.open().unwrap();
    store.arrange(FileId(1), &[100..400, 0..50]).unwrap();
    write(&store, 1, 0, 60, 1).unwrap();
    assert_eq!(write(&store, 1, 60, 340, 2), Err(ErrorKind::NoSpace));
    assert_eq!(store.arrange(FileId(2), &[1..2, 0..1]).unwrap_err().kind(), ErrorKind::NoSpace);
    let end = store.end(FileId(1)).unwrap() / SIZE as u64;
    assert!((60..=400).contains(&end));
    assert!((0..60).all(|block| read(&store, 1, block) == [1; SIZE]));
    assert!((60..end).all(|block| matches!(read(&store, 1, block)[0], 0 | 2)));
    assert!(store.verify(FileId(1), 0, u64::MAX).unwrap().damaged.is_empty());
    // A truncation frees space, and the same write succeeds.
    store.set_end(FileId(1), 60 * SIZE as u64, 0).unwrap();
    write(&store, 1, 60, 100, 2).unwrap();
    assert!((60..160).all(|block| read(&store, 1, block) == [2; SIZE]));
    drop(store);
    let store = medium.open().unwrap();
    assert_eq!(read(&store, 1, 159), [2; SIZE]);
    assert_eq!(store.unverified(), 0);
}

#[test]
fn a_read_only_medium_can_be_read() {
    let Some(medium) = Medium::new("size=4m,mode=700") else { return };
    let store = medium.open().unwrap();
    store.arrange(FileId(3), &[2..3, 0..2]).unwrap();
    [1, 3].iter().for_each(|file| write(&store, *file, 0, 3, 1).unwrap());
    drop(store);
    assert!(medium.mount(&["-o", "remount,ro"]));
    let store = medium.open().unwrap();
    assert_eq!(write(&store, 2, 0, 1, 2), Err(ErrorKind::ReadOnly));
    assert_eq!(store.arrange(FileId(2), &[1..2, 0..1]).unwrap_err().kind(), ErrorKind::ReadOnly);
    for file in [1, 3] {
        assert!(store.verify(FileId(file), 0, 9).unwrap().damaged.is_empty());
        assert_eq!(write(&store, file, 0, 1, 2), Err(ErrorKind::ReadOnly));
        assert_eq!(store.set_end(FileId(file), 5, 0).unwrap_err().kind(), ErrorKind::ReadOnly);
        assert_eq!(store.remove(FileId(file)).unwrap_err().kind(), ErrorKind::ReadOnly);
        assert_eq!(store.end(FileId(file)).unwrap(), 3 * SIZE as u64);
        assert_eq!(read(&store, file, 2), [1; SIZE]);
    }
    // The same store can write once it is permitted.
    assert!(medium.mount(&["-o", "remount,rw"]));
    for file in [1, 3] {
        write(&store, file, 0, 1, 2).unwrap();
        assert_eq!(read(&store, file, 0), [2; SIZE]);
    }
}

#[test]
fn no_store_is_created_on_a_read_only_medium() {
    let Some(medium) = Medium::new("size=1m,mode=700,ro") else { return };
    assert_eq!(medium.open().err().unwrap().kind(), ErrorKind::ReadOnly);
}
