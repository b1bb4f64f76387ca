//! Every store gives the guarantees of `Store`: random calls, compared with flat vectors of bytes.

mod scratch;

use std::collections::BTreeMap;
use std::ops::Range;

use pario_store::{CorruptByte, Error, FaultyStore, FileStore, MemoryStore, PartInfo, Store, StoreIdentity};
use pario_types::{ErrorKind, FileId, PartitionId, ServerId};
use proptest::prelude::*;
use scratch::Scratch;

const WHO: StoreIdentity = StoreIdentity { partition: PartitionId(7), server: ServerId(1) };

/// A call; offsets in units of a 16th of a block, so that many lie on the same blocks and edges.
#[derive(Clone, Debug)]
enum Step {
    Write { file: u64, first: u64, count: usize, end: u64, seed: u8 },
    SetEnd { file: u64, end: u64 },
    Read { file: u64, first: u64, count: usize },
    Remove { file: u64 },
    Arrange { file: u64, runs: Vec<Range<u64>> },
    Verify { file: u64, from: u64, most: u64 },
    Sync { file: u64 },
    List { after: u64, most: usize },
    Flip { file: u64, at: u64 },
    Reopen,
}

fn any_step() -> impl Strategy<Value = Step> {
    let file = 1u64..4;
    prop_oneof![
        6 => (file.clone(), 0u64..8, 0usize..5, 0u64..16 * 14, any::<u8>())
            .prop_map(|(file, first, count, end, seed)| Step::Write { file, first, count, end, seed }),
        3 => (file.clone(), 0u64..16 * 14).prop_map(|(file, end)| Step::SetEnd { file, end }),
        3 => (file.clone(), 0u64..12, 0usize..6)
            .prop_map(|(file, first, count)| Step::Read { file, first, count }),
        1 => file.clone().prop_map(|file| Step::Remove { file }),
        2 => (file.clone(), any_runs()).prop_map(|(file, runs)| Step::Arrange { file, runs }),
        1 => (file.clone(), 0u64..12, 0u64..12)
            .prop_map(|(file, from, most)| Step::Verify { file, from, most }),
        1 => file.clone().prop_map(|file| Step::Sync { file }),
        1 => (0u64..4, 0usize..4).prop_map(|(after, most)| Step::List { after, most }),
        1 => (file, 0u64..16 * 12).prop_map(|(file, at)| Step::Flip { file, at }),
        1 => Just(Step::Reopen),
    ]
}

/// Runs of some of the first blocks in any order.
fn any_runs() -> impl Strategy<Value = Vec<Range<u64>>> {
    let cuts = prop::collection::btree_set(0u64..14, 2..9).prop_map(|cuts| {
        let cuts: Vec<u64> = cuts.into_iter().collect();
        cuts.windows(2).map(|two| two[0]..two[1]).collect::<Vec<_>>()
    });
    (cuts.prop_shuffle(), 1usize..9).prop_map(|(mut runs, most)| {
        runs.truncate(most);
        runs
    })
}

/// Parts as flat bytes.
type Model = BTreeMap<u64, Vec<u8>>;

fn block(size: usize, number: u64, seed: u8) -> Vec<u8> {
    (0..size).map(|at| (at as u64 / 3 + number * 31) as u8 ^ seed).collect()
}

fn model_write(model: &mut Model, size: usize, file: u64, first: u64, blocks: &[Vec<u8>], end: u64) {
    let stored = model.get(&file).map_or(0, |part| part.len() as u64);
    let behind = (first + blocks.len() as u64) * size as u64;
    let new = if blocks.is_empty() { stored } else { stored.max(end.min(behind)) };
    if new == 0 {
        return;
    }
    let part = model.entry(file).or_default();
    part.resize(new as usize, 0);
    for (index, block) in blocks.iter().enumerate() {
        let start = (first as usize + index) * size;
        if start < part.len() {
            let kept = size.min(part.len() - start);
            part[start..start + kept].copy_from_slice(&block[..kept]);
        }
    }
}

fn model_read(model: &Model, size: usize, file: u64, first: u64, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count * size];
    if let Some(part) = model.get(&file) {
        let start = (first as usize * size).min(part.len());
        let some = (part.len() - start).min(bytes.len());
        bytes[..some].copy_from_slice(&part[start..start + some]);
    }
    bytes
}

fn read(store: &impl Store, file: u64, first: u64, count: usize) -> pario_store::Result<Vec<u8>> {
    let mut bytes = vec![0xaa; count * store.block_size()];
    store.read(FileId(file), first, &mut bytes.chunks_mut(store.block_size()).collect::<Vec<_>>())?;
    Ok(bytes)
}

fn write(store: &impl Store, file: u64, first: u64, blocks: &[Vec<u8>], end: u64) -> pario_store::Result<()> {
    store.write(FileId(file), first, &blocks.iter().map(Vec::as_slice).collect::<Vec<_>>(), end)
}

fn try_steps<S: Store + CorruptByte>(
    size: usize,
    steps: &[Step],
    mut store: S,
    reopen: impl Fn(S) -> S,
) -> std::result::Result<(), TestCaseError> {
    let unit = size as u64 / 16;
    let mut model = Model::new();
    for step in steps {
        match *step {
            Step::Arrange { file, ref runs } => {
                store.arrange(FileId(file), runs).unwrap();
                model.entry(file).or_default();
            }
            Step::Write { file, first, count, end, seed } => {
                let blocks: Vec<_> =
                    (first..first + count as u64).map(|number| block(size, number, seed)).collect();
                write(&store, file, first, &blocks, end * unit).unwrap();
                model_write(&mut model, size, file, first, &blocks, end * unit);
            }
            Step::SetEnd { file, end } => {
                store.set_end(FileId(file), end * unit, 0).unwrap();
                if end > 0 || model.contains_key(&file) {
                    model.entry(file).or_default().resize((end * unit) as usize, 0);
                }
            }
            Step::Read { file, first, count } => {
                let found = read(&store, file, first, count).unwrap();
                prop_assert!(found == model_read(&model, size, file, first, count));
            }
            Step::Remove { file } => {
                store.remove(FileId(file)).unwrap();
                model.remove(&file);
            }
            Step::Verify { file, from, most } => {
                let blocks = model.get(&file).map_or(0, |part| part.len().div_ceil(size) as u64);
                let verified = store.verify(FileId(file), from, most).unwrap();
                prop_assert!(verified.damaged.is_empty());
                prop_assert_eq!(verified.repaired, 0);
                prop_assert_eq!(verified.next, (from + most < blocks).then_some(from + most));
            }
            Step::Sync { file } => {
                store.sync(FileId(file)).unwrap();
                store.sync_all().unwrap();
            }
            Step::List { after, most } => {
                let parts = model.range(after + 1..).take(most);
                let parts: Vec<_> = parts
                    .map(|(file, part)| PartInfo { file: FileId(*file), end: part.len() as u64 })
                    .collect();
                prop_assert_eq!(store.list(FileId(after), most).unwrap(), parts);
            }
            Step::Flip { file, at } => {
                let at = at * unit;
                if at >= store.end(FileId(file)).unwrap() {
                    continue;
                }
                let number = at / size as u64;
                store.flip_byte(FileId(file), at).unwrap();
                let damaged = Error::Damaged { file: FileId(file), block: number };
                prop_assert_eq!(damaged.kind(), ErrorKind::Damaged);
                prop_assert_eq!(read(&store, file, number, 1), Err(damaged.clone()));
                prop_assert_eq!(read(&store, file, 0, 14), Err(damaged));
                let verified = store.verify(FileId(file), 0, u64::MAX).unwrap();
                prop_assert_eq!((verified.damaged, verified.next), (vec![number], None));
                // A cut and an extension do not hide it.
                let end = store.end(FileId(file)).unwrap();
                if at + 1 < end && number == (end - 1) / size as u64 {
                    store.set_end(FileId(file), end - 1, 0).unwrap();
                    store.set_end(FileId(file), end, 0).unwrap();
                    let part = model.get_mut(&file).unwrap();
                    *part.last_mut().unwrap() = 0;
                    prop_assert!(read(&store, file, number, 1).is_err());
                }
                store.accept(FileId(file), &[number, 1 << 40]).unwrap();
                let byte = &mut model.get_mut(&file).unwrap()[at as usize];
                *byte = !*byte;
            }
            Step::Reopen => store = reopen(store),
        }
        for file in 0..5 {
            let end = model.get(&file).map_or(0, |part| part.len() as u64);
            prop_assert_eq!(store.end(FileId(file)).unwrap(), end);
        }
        let room = store.room().unwrap();
        prop_assert_eq!(room.parts, model.len() as u64);
        prop_assert!(room.free <= room.total);
        // The order itself takes a block.
        let orders = model.len() as u64 * size as u64;
        prop_assert!(model.values().any(|part| !part.is_empty()) || room.used <= orders);
    }
    for file in 0..5 {
        prop_assert!(read(&store, file, 0, 14).unwrap() == model_read(&model, size, file, 0, 14));
        prop_assert!(store.verify(FileId(file), 0, u64::MAX).unwrap().damaged.is_empty());
    }
    prop_assert_eq!(store.unverified(), 0);
    Ok(())
}

fn any_size() -> impl Strategy<Value = usize> {
    prop_oneof![3 => Just(4096usize), 1 => Just(8192), 1 => Just(65536)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn in_a_directory(
        size in any_size(),
        steps in prop::collection::vec(any_step(), 1..24),
        open in 1usize..4,
    ) {
        let scratch = Scratch::new();
        let make = || FileStore::open(scratch.path(), size, WHO).unwrap().with_open_parts(open);
        try_steps(size, &steps, make(), |old| {
            drop(old);
            make()
        })?;
    }

    #[test]
    fn in_memory(size in any_size(), steps in prop::collection::vec(any_step(), 1..24)) {
        try_steps(size, &steps, MemoryStore::new(size).unwrap(), |same| same)?;
    }

    #[test]
    fn in_a_fault_injecting_one_without_faults(steps in prop::collection::vec(any_step(), 1..24)) {
        let store = FaultyStore::new(MemoryStore::new(4096).unwrap());
        store.fail(None, 1 << 40, 1, 5);
        try_steps(4096, &steps, store, |same| same)?;
    }
}

#[test]
fn offsets_beyond_any_file_are_refused() {
    let scratch = Scratch::new();
    let stores: [Box<dyn Store>; 2] = [
        Box::new(FileStore::open(scratch.path(), 4096, WHO).unwrap()),
        Box::new(MemoryStore::new(4096).unwrap()),
    ];
    for store in stores {
        let file = FileId(1);
        let mut block = [0; 4096];
        for first in [u64::MAX, 1 << 51] {
            assert_eq!(store.read(file, first, &mut [&mut block]), Err(Error::TooFar { file }));
            assert_eq!(store.write(file, first, &[&block], u64::MAX), Err(Error::TooFar { file }));
        }
        assert_eq!(store.set_end(file, 1 << 63, 0), Err(Error::TooFar { file }));
        assert_eq!(store.arrange(file, &[4..6, 5..7]), Err(Error::Order { file }));
        assert_eq!(store.arrange(file, &[0..1, 1 << 51..1 << 52]), Err(Error::Order { file }));
        assert!(store.verify(file, u64::MAX, u64::MAX).unwrap().next.is_none());
        assert!(store.accept(file, &[u64::MAX]).is_ok());
        assert!(store.list(FileId(0), 9).unwrap().is_empty());
    }
    for bytes in [0, 1, 2048, 4097, 12288, 1 << 31] {
        assert_eq!(MemoryStore::new(bytes).err(), Some(Error::BlockSize { bytes }));
        assert_eq!(FileStore::open(scratch.path(), bytes, WHO).err(), Some(Error::BlockSize { bytes }));
    }
}

#[test]
fn a_stale_truncate_never_destroys_later_writes() {
    let scratch = Scratch::new();
    let open = || FileStore::open(scratch.path(), 4096, WHO).unwrap();
    let reopened: &dyn Fn(Box<dyn Store>) -> Box<dyn Store> = &|old| {
        drop(old);
        Box::new(open())
    };
    let same: &dyn Fn(Box<dyn Store>) -> Box<dyn Store> = &|old| old;
    let memory = FaultyStore::new(MemoryStore::new(4096).unwrap());
    let stores: [(Box<dyn Store>, _); 2] = [(Box::new(open()), reopened), (Box::new(memory), same)];
    for (mut store, reopen) in stores {
        let file = FileId(1);
        let block = [7; 4096];
        let write = |store: &dyn Store| store.write(file, 0, &[&block, &block], u64::MAX).unwrap();
        write(&*store);
        assert_eq!(store.set_end(file, 100, 5), Ok(true));
        store = reopen(store);
        write(&*store);
        // The same truncation again, and one with a lower id.
        for cut in [5, 4, 1] {
            assert_eq!(store.set_end(file, 100, cut), Ok(false));
            assert_eq!(store.fence(file, cut), Ok(false));
        }
        assert_eq!(store.end(file), Ok(8192));
        assert_eq!(store.fence(file, 9), Ok(true));
        store = reopen(store);
        assert_eq!(store.set_end(file, 0, 8), Ok(false));
        assert_eq!(store.set_end(file, 0, 9), Ok(false));
        assert_eq!(store.set_end(file, 4096, 0), Ok(true));
        assert_eq!(store.set_end(file, 4095, 10), Ok(true));
        // A part without bytes remembers ids as well.
        for (number, changed) in [(2, FileId(2)), (3, FileId(3))] {
            match number {
                2 => assert_eq!(store.set_end(changed, 0, 7), Ok(true)),
                _ => assert_eq!(store.fence(changed, 7), Ok(true)),
            }
            store = reopen(store);
            store.write(changed, 0, &[&block], u64::MAX).unwrap();
            assert_eq!(store.set_end(changed, 0, 7), Ok(false));
            assert_eq!(store.end(changed), Ok(4096));
        }
        assert_eq!(store.highest_file_id(), FileId(3));
    }
}

#[test]
fn reserved_room_is_available_and_changes_no_byte() {
    let scratch = Scratch::new();
    let stores: [Box<dyn Store>; 2] = [
        Box::new(FileStore::open(scratch.path(), 4096, WHO).unwrap()),
        Box::new(MemoryStore::with_capacity(4096, 1 << 20).unwrap()),
    ];
    for store in stores {
        let file = FileId(1);
        store.reserve(file, 2..5).unwrap();
        assert_eq!(store.end(file), Ok(0));
        store.write(file, 3, &[&[1; 4096]], u64::MAX).unwrap();
        store.reserve(file, 2..5).unwrap();
        let mut block = [9; 4096];
        store.read(file, 2, &mut [&mut block]).unwrap();
        assert_eq!(block, [0; 4096]);
        assert!(store.verify(file, 0, 9).unwrap().damaged.is_empty());
        let error = store.reserve(file, 0..1 << 48).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::Arg | ErrorKind::Io), "{error}");
    }
}
