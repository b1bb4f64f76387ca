//! A store's directory: its lock, its descriptors, its space, and the damage that is detected in it.

mod scratch;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use pario_store::{Error, FileStore, Store, StoreIdentity, StoreSpace};
use pario_types::{ErrorKind, FileId, PartitionId, ServerId};
use scratch::Scratch;

const SIZE: usize = 4096;
const WHO: StoreIdentity = StoreIdentity { partition: PartitionId(0xabc), server: ServerId(2) };

fn open(path: &Path) -> FileStore {
    FileStore::open(path, SIZE, WHO).unwrap()
}

fn filled(byte: u8) -> [u8; SIZE] {
    [byte; SIZE]
}

/// Writes so many blocks, each full of its number plus one.
fn write(store: &FileStore, file: u64, blocks: u8) {
    let blocks: Vec<_> = (1..=blocks).map(filled).collect();
    let end = (blocks.len() * SIZE) as u64;
    store.write(FileId(file), 0, &blocks.iter().map(|block| &block[..]).collect::<Vec<_>>(), end).unwrap();
}

fn read(store: &FileStore, file: u64, number: u64) -> pario_store::Result<u8> {
    let mut block = filled(0xaa);
    store.read(FileId(file), number, &mut [&mut block])?;
    assert!(block.iter().all(|byte| *byte == block[0]));
    Ok(block[0])
}

fn damaged(store: &FileStore, file: u64) -> Vec<u64> {
    store.verify(FileId(file), 0, u64::MAX).unwrap().damaged
}

fn data_of(root: &Path, file: u64) -> PathBuf {
    root.join(format!("parts/{:02x}/{file:016x}", file % 256))
}

fn sums_of(root: &Path, file: u64) -> PathBuf {
    data_of(root, file).with_extension("sums")
}

#[test]
fn a_store_is_opened_by_its_own_server_and_once_at_a_time() {
    let scratch = Scratch::new();
    let root = scratch.path().join("new");
    let store = open(&root);
    write(&store, 1, 1);
    let second = FileStore::open(&root, SIZE, WHO).err().unwrap();
    assert_eq!(second, Error::InUse { path: root.clone() });
    assert_eq!(second.kind(), ErrorKind::FileInUse);
    drop(store);

    let others = [
        (SIZE, StoreIdentity { partition: PartitionId(1), ..WHO }),
        (SIZE, StoreIdentity { server: ServerId(1), ..WHO }),
        (2 * SIZE, WHO),
    ];
    for (size, who) in others {
        let error = FileStore::open(&root, size, who).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
    }
    let text = fs::read_to_string(root.join("format")).unwrap();
    let expected = "pario-store 2\npartition 00000000000000000000000000000abc\nserver 2\nblock 4096\n";
    assert_eq!(text, expected);

    fs::write(root.join("format"), text.replace("store 2", "store 3")).unwrap();
    assert_eq!(FileStore::open(&root, SIZE, WHO).err().unwrap().kind(), ErrorKind::Protocol);
    fs::write(root.join("format"), "something").unwrap();
    assert_eq!(FileStore::open(&root, SIZE, WHO).err().unwrap().kind(), ErrorKind::Damaged);
    // A lost format file does not turn the parts into those of a new store.
    fs::remove_file(root.join("format")).unwrap();
    assert_eq!(FileStore::open(&root, SIZE, WHO).err().unwrap().kind(), ErrorKind::Damaged);

    fs::write(root.join("format"), text).unwrap();
    assert_eq!(read(&open(&root), 1, 0), Ok(1));
    let missing = FileStore::open(&root.join("no/such"), SIZE, WHO).err().unwrap();
    assert_eq!(missing.kind(), ErrorKind::NoSuchFile);
}

#[test]
fn an_incomplete_store_is_completed() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path().join("parts/07")).unwrap();
    fs::write(scratch.path().join("format.new"), "pario-st").unwrap();
    fs::write(scratch.path().join("of somebody else"), "kept").unwrap();
    let store = open(scratch.path());
    write(&store, 7, 1);
    assert!(scratch.path().join("of somebody else").exists());
    assert!(!scratch.path().join("format.new").exists());
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(data_of(scratch.path(), 7)), 0o600);
    assert_eq!(mode(sums_of(scratch.path(), 7)), 0o600);
}

#[test]
fn holes_take_no_space_and_used_space_is_counted() {
    let scratch = Scratch::new();
    let store = open(scratch.path());
    let gib = 1u64 << 30;
    store.set_end(FileId(1), gib, 0).unwrap();
    assert_eq!(store.room().unwrap().used, 0);
    store.write(FileId(1), 1000, &[&filled(7)], gib).unwrap();
    let stats = fs::metadata(data_of(scratch.path(), 1)).unwrap();
    assert_eq!(store.end(FileId(1)), Ok(gib));
    assert!(stats.blocks() * 512 <= 64 << 10, "{} bytes", stats.blocks() * 512);
    assert_eq!(store.room().unwrap().used, stats.blocks() * 512);
    let verified = store.verify(FileId(1), 0, u64::MAX).unwrap();
    assert!(verified.damaged.is_empty() && verified.next.is_none());

    write(&store, 2, 100);
    let StoreSpace { total, free, used, parts } = store.room().unwrap();
    assert!(total >= free && used >= 101 * SIZE as u64 && parts == 2);
    drop(store);
    let store = open(scratch.path());
    assert_eq!(store.room().unwrap().used, used);
    store.set_end(FileId(2), 0, 0).unwrap();
    store.remove(FileId(1)).unwrap();
    store.remove(FileId(1)).unwrap();
    let room = store.room().unwrap();
    assert_eq!((room.used, room.parts), (0, 1));
    assert!(!data_of(scratch.path(), 1).exists() && !sums_of(scratch.path(), 1).exists());
}

#[test]
fn few_files_are_open_at_a_time() {
    let scratch = Scratch::new();
    let store = open(scratch.path()).with_open_parts(3);
    for round in 1..4 {
        for file in 1..40 {
            store.write(FileId(file), 1, &[&filled(round)], u64::MAX).unwrap();
            assert_eq!(read(&store, file, 1), Ok(round));
        }
    }
    let root = scratch.path().join("parts");
    let descriptors = fs::read_dir("/proc/self/fd").unwrap();
    let targets = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    assert!(targets.filter(|target| target.starts_with(&root)).count() <= 9);
    store.sync(FileId(1)).unwrap();
}

#[test]
fn damage_of_bytes_entries_and_headers_is_found() {
    let scratch = Scratch::new();
    let store = open(scratch.path());
    for file in 1..8 {
        write(&store, file, 4);
    }
    store.set_end(FileId(1), 6 * SIZE as u64, 0).unwrap();
    drop(store);
    let change = |path: PathBuf, at: u64, bytes: &[u8]| {
        OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
    };
    let root = scratch.path();
    // A byte of a block, and of a hole.
    change(data_of(root, 1), 2 * SIZE as u64 + 5, b"x");
    change(data_of(root, 1), 5 * SIZE as u64 + 5, b"x");
    // A block in another block's place, and in another file's.
    change(data_of(root, 2), SIZE as u64, &filled(1));
    fs::copy(data_of(root, 4), data_of(root, 3)).unwrap();
    fs::copy(sums_of(root, 4), sums_of(root, 3)).unwrap();
    // A checksum, a header, and the whole file of them.
    change(sums_of(root, 5), 1024 + 16 * 3, b"....");
    change(sums_of(root, 6), 3, b"?");
    fs::remove_file(sums_of(root, 7)).unwrap();

    let store = open(root);
    let expected: [(u64, &[u64]); 7] =
        [(1, &[2, 5]), (2, &[1]), (3, &[0, 1, 2, 3]), (4, &[]), (5, &[3]), (6, &[]), (7, &[0, 1, 2, 3])];
    for (file, blocks) in expected {
        assert_eq!(damaged(&store, file), blocks, "file {file}");
        for block in 0..4 {
            let found = read(&store, file, block);
            match blocks.contains(&block) {
                // The checksums of another file, and missing ones, say nothing of any block.
                true if [3, 7].contains(&file) => {
                    assert_eq!(found, Err(Error::Lost { file: FileId(file), path: sums_of(root, file) }));
                }
                true => assert_eq!(found, Err(Error::Damaged { file: FileId(file), block })),
                false => assert_eq!(found, Ok(block as u8 + 1)),
            }
        }
        store.accept(FileId(file), blocks).unwrap();
        assert!(damaged(&store, file).is_empty());
    }
    // Writing a damaged block makes it good.
    change(data_of(root, 1), 5, b"x");
    assert!(read(&store, 1, 0).is_err());
    write(&store, 1, 1);
    assert_eq!(read(&store, 1, 0), Ok(1));
}

#[test]
fn blocks_are_stored_in_the_given_order() {
    let scratch = Scratch::new();
    let store = open(scratch.path());
    store.arrange(FileId(1), &[6..8, 0..1, 3..6]).unwrap();
    let empty = store.room().unwrap().used;
    write(&store, 1, 9);
    let beside = data_of(scratch.path(), 1).with_extension("ordered");
    let found = fs::read(&beside).unwrap();
    let numbers: Vec<u8> = found[SIZE..].chunks(SIZE).map(|block| block[0]).collect();
    assert_eq!(numbers, [7, 8, 1, 4, 5, 6]);
    let plain = fs::read(data_of(scratch.path(), 1)).unwrap();
    let numbers: Vec<u8> = plain.chunks(SIZE).map(|block| block[0]).collect();
    assert_eq!(numbers, [0, 2, 3, 0, 0, 0, 0, 0, 9]);
    let together = |first| store.contiguous_blocks(FileId(1), first, 5).unwrap();
    assert_eq!([0, 1, 2, 3, 6, 7, 8].map(together), [1, 2, 1, 3, 2, 1, 5]);

    // A late truncation changes nothing; neither does reopening.
    store.arrange(FileId(1), &[1..2, 0..1]).unwrap();
    let used = store.room().unwrap().used;
    assert!(used >= 9 * SIZE as u64);
    drop(store);
    let store = open(scratch.path());
    assert_eq!(store.room().unwrap().used, used);
    assert!((0..9).all(|number| read(&store, 1, number) == Ok(number as u8 + 1)));
    // Bytes that were cut off take no space any more.
    store.set_end(FileId(1), 0, 0).unwrap();
    assert_eq!(store.room().unwrap().used, empty);
    write(&store, 1, 1);
    store.set_end(FileId(1), 9 * SIZE as u64, 0).unwrap();
    assert!((1..9).all(|number| read(&store, 1, number) == Ok(0)));
    store.remove(FileId(1)).unwrap();
    assert_eq!(store.room().unwrap().used, 0);
    assert!(!beside.exists());
}

#[test]
fn a_lost_or_damaged_order_is_detected() {
    let scratch = Scratch::new();
    let store = open(scratch.path());
    for file in 1..3 {
        store.arrange(FileId(file), &[2..4, 0..2]).unwrap();
        write(&store, file, 4);
    }
    drop(store);
    let beside = |file| data_of(scratch.path(), file).with_extension("ordered");
    let spoilt = OpenOptions::new().write(true).open(beside(1)).unwrap();
    spoilt.write_all_at(b"?", 40).unwrap();
    fs::remove_file(beside(2)).unwrap();
    let store = open(scratch.path());
    // Blocks that cannot be found count as damaged.
    for file in 1..3 {
        assert_eq!(damaged(&store, file), [0, 1, 2, 3]);
        assert_eq!(read(&store, file, 0).unwrap_err().kind(), ErrorKind::Damaged);
    }
    for file in 1..3 {
        store.remove(FileId(file)).unwrap();
        write(&store, file, 1);
        assert_eq!(read(&store, file, 0), Ok(1));
    }
}

#[test]
fn concurrent_threads_share_parts() {
    let scratch = Scratch::new();
    let store = open(scratch.path()).with_open_parts(1);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3u64)
            .map(|me| {
                let store = &store;
                scope.spawn(move || {
                    for round in 0..150u64 {
                        let (file, number) = (1 + round % 2, me + 3 * (round % 5));
                        let byte = (me * 50 + round) as u8;
                        store.write(FileId(file), number, &[&filled(byte)], u64::MAX).unwrap();
                        assert_eq!(read(store, file, number), Ok(byte));
                        store.set_end(FileId(9), (round + 1) * 1000, 0).unwrap();
                    }
                })
            })
            .collect();
        let (store, done) = (&store, &done);
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                for file in [1, 2, 9] {
                    assert!(damaged(store, file).is_empty());
                    store.sync(FileId(file)).unwrap();
                }
                store.remove(FileId(9)).unwrap();
            }
        });
        // The other thread has to end in any case.
        let results: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok));
    });
    assert_eq!(store.unverified(), 0);
}

#[test]
fn a_run_longer_than_one_system_call_accepts_is_complete() {
    let scratch = Scratch::new();
    let store = open(scratch.path());
    let blocks: Vec<_> = (0..2500u32).map(|number| filled(number as u8 | 1)).collect();
    let slices: Vec<_> = blocks.iter().map(|block| &block[..]).collect();
    store.write(FileId(1), 3, &slices, u64::MAX).unwrap();
    let mut found = vec![0; 2600 * SIZE];
    store.read(FileId(1), 0, &mut found.chunks_mut(SIZE).collect::<Vec<_>>()).unwrap();
    for (number, block) in found.chunks(SIZE).enumerate() {
        let expected = number.checked_sub(3).and_then(|index| blocks.get(index));
        assert!(block == expected.map_or(&filled(0)[..], |block| &block[..]), "block {number}");
    }
}
