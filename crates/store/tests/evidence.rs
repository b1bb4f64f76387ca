//! The store knows from more than one source which files must exist: missing or truncated files of a part are damage.

mod scratch;

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use pario_store::{Error, FileStore, Store, StoreIdentity};
use pario_types::{ErrorKind, FileId, PartitionId, ServerId};
use scratch::Scratch;

const SIZE: usize = 4096;
const WHO: StoreIdentity = StoreIdentity { partition: PartitionId(1), server: ServerId(0) };
const FILE: FileId = FileId(0x107);

fn open(path: &Path) -> FileStore {
    FileStore::open(path, SIZE, WHO).expect("a sound store")
}

fn path(scratch: &Scratch, ending: &str) -> PathBuf {
    scratch.path().join("parts/07/0000000000000107").with_extension(ending)
}

fn write(store: &FileStore, first: u64, bytes: &[u8]) {
    let blocks: Vec<[u8; SIZE]> = bytes.iter().map(|byte| [*byte; SIZE]).collect();
    let blocks: Vec<&[u8]> = blocks.iter().map(|block| &block[..]).collect();
    store.write(FILE, first, &blocks, u64::MAX).expect("room");
}

fn read(store: &FileStore, block: u64) -> Result<u8, ErrorKind> {
    let mut bytes = [0xaa; SIZE];
    store.read(FILE, block, &mut [&mut bytes]).map_err(|error| error.kind())?;
    assert!(bytes.iter().all(|byte| *byte == bytes[0]));
    Ok(bytes[0])
}

fn shorten(path: &Path, len: u64) {
    OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(len)).expect("it is there");
}

/// A part of six blocks: 0 and 3 in order, 1 in its second home, 5 a hole.
fn make(scratch: &Scratch, synced: bool) {
    let store = open(scratch.path());
    store.arrange(FILE, &[3..4, 0..1]).expect("room");
    write(&store, 0, &[1, 2, 3, 4, 5]);
    store.set_end(FILE, 6 * SIZE as u64, 0).expect("room");
    store.sync(FILE).expect("it can be synced");
    write(&store, 1, &[9]);
    if synced {
        store.sync_all().expect("it can be synced");
    }
}

#[test]
fn a_missing_or_shortened_part_is_damage_never_zeros() {
    let expected = [Ok(1), Ok(9), Ok(3), Ok(4), Ok(5), Ok(0)];
    // The file, its length afterwards (none: it is deleted), and the blocks that cannot be read then.
    let losses: [(&[&str], Option<u64>, &[u64]); 9] = [
        (&[""], None, &[2, 4]),
        (&[""], Some(3 * SIZE as u64), &[4]),
        (&["alt"], None, &[1]),
        (&["alt"], Some(100), &[1]),
        (&["ordered"], None, &[0, 3]),
        (&["ordered"], Some(2 * SIZE as u64), &[0]),
        (&["sums"], None, &[0, 1, 2, 3, 4, 5]),
        (&["sums"], Some(1024 + 3 * 16), &[3, 4, 5]),
        (&["", "sums", "alt", "ordered"], None, &[0, 1, 2, 3, 4, 5]),
    ];
    for synced in [true, false] {
        for (endings, len, gone) in losses {
            let scratch = Scratch::new();
            make(&scratch, synced);
            for ending in endings {
                match len {
                    Some(len) => shorten(&path(&scratch, ending), len),
                    None => fs::remove_file(path(&scratch, ending)).expect("it is there"),
                }
            }
            // A start detects it, and the next one does so again.
            for _ in 0..2 {
                let store = open(scratch.path());
                for block in 0..6 {
                    let wanted = match gone.contains(&block) {
                        true => Err(ErrorKind::Damaged),
                        false => expected[block as usize],
                    };
                    assert_eq!(read(&store, block), wanted, "{endings:?} {len:?}: block {block}");
                }
                assert_eq!(store.room().map(|room| room.parts), Ok(1));
                let found = store.verify(FILE, 0, u64::MAX).expect("it can be looked at").damaged;
                let all_lost = gone.len() == 6;
                assert!(found == gone || all_lost && !found.is_empty(), "{endings:?} {len:?}: {found:?}");
                assert_eq!(store.end(FILE).is_err(), all_lost);
            }
            // The loss can be accepted, and the part be used again.
            let store = open(scratch.path());
            let found = store.verify(FILE, 0, u64::MAX).expect("it can be looked at").damaged;
            store.accept(FILE, &found).expect("room");
            assert!(store.verify(FILE, 0, u64::MAX).expect("it can be looked at").damaged.is_empty());
            write(&store, 0, &[7, 7]);
            store.sync(FILE).expect("it can be synced");
            assert_eq!((read(&store, 0), read(&store, 1)), (Ok(7), Ok(7)));
        }
    }
}

#[test]
fn a_lost_part_takes_no_writes_until_it_is_accepted_or_emptied() {
    let scratch = Scratch::new();
    make(&scratch, true);
    fs::remove_file(path(&scratch, "sums")).expect("it is there");
    fs::remove_file(path(&scratch, "")).expect("it is there");
    let store = open(scratch.path());
    let lost = Error::Lost { file: FILE, path: path(&scratch, "sums") };
    assert_eq!(store.write(FILE, 0, &[&[1; SIZE]], u64::MAX), Err(lost.clone()));
    assert_eq!(store.set_end(FILE, 5, 3), Err(lost.clone()));
    assert_eq!(store.sync(FILE), Err(lost));
    assert_eq!(store.set_end(FILE, 0, 3), Ok(true));
    write(&store, 0, &[1]);
    assert_eq!((store.end(FILE), read(&store, 0)), (Ok(SIZE as u64), Ok(1)));
    assert_eq!(store.set_end(FILE, 0, 3), Ok(false));
}

#[test]
fn a_lost_manifest_is_refused_until_its_loss_is_accepted() {
    let scratch = Scratch::new();
    make(&scratch, true);
    let manifest = scratch.path().join("manifest");
    let sound = fs::read(&manifest).expect("it is there");
    for at in [0, 40, sound.len() - 33] {
        let mut bytes = sound.clone();
        bytes[at] ^= 1;
        fs::write(&manifest, &bytes).expect("room");
        let refused = FileStore::open(scratch.path(), SIZE, WHO).err();
        assert_eq!(refused, Some(Error::NoManifest { path: manifest.clone() }), "byte {at}");
    }
    fs::remove_file(&manifest).expect("it is there");
    assert!(FileStore::open(scratch.path(), SIZE, WHO).is_err());
    fs::write(scratch.path().join("manifest.rebuild"), "").expect("room");
    let store = open(scratch.path());
    assert_eq!((read(&store, 1), store.highest_file_id()), (Ok(9), FILE));
    assert!(!scratch.path().join("manifest.rebuild").exists());
}

#[test]
fn the_highest_file_id_survives_removals() {
    let scratch = Scratch::new();
    let store = open(scratch.path());
    for file in 1..40 {
        store.write(FileId(file), 0, &[&[1; SIZE]], u64::MAX).expect("room");
    }
    for file in 2..40 {
        store.remove(FileId(file)).expect("it can be removed");
    }
    drop(store);
    let store = open(scratch.path());
    assert_eq!(store.highest_file_id(), FileId(39));
    assert_eq!(store.list(FileId(0), 99).map(|parts| parts.len()), Ok(1));
    assert!(!scratch.path().join("parts/27/0000000000000027.sums").exists());
}
