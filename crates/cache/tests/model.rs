//! A pool with its store behaves like plain files under any sequence of operations.

mod scene;

use pario_cache::{Adopted, BlockGuard, Lookup, PinError, Pool, PoolMapping, SlotRef, SweepStep};
use pario_types::{FileId, TruncationId};
use proptest::prelude::*;
use scene::{BLOCK, Dir, Store, WHO, create, load, map};
use std::collections::HashMap;

#[derive(Clone, Debug)]
enum Op {
    /// By the server itself.
    Write {
        file: u8,
        block: u8,
        at: u16,
        len: u16,
        byte: u8,
    },
    Read {
        file: u8,
        block: u8,
    },
    /// By a client that knows, or once knew, the slot of the block.
    ClientWrite {
        file: u8,
        block: u8,
        at: u16,
        len: u16,
        byte: u8,
    },
    ClientRead {
        file: u8,
        block: u8,
    },
    Overwrite {
        file: u8,
        block: u8,
        byte: u8,
        publish: bool,
    },
    /// The client keeps a block pinned.
    Hold {
        file: u8,
        block: u8,
    },
    LetGo,
    Flush {
        most: u8,
        works: bool,
    },
    Sweep {
        file: Option<u8>,
        most: u8,
    },
    Truncate {
        file: u8,
        end: u16,
    },
    Forget {
        file: u8,
    },
    /// Slots that the client remembers are invalidated.
    Renew {
        file: u8,
        first: u8,
        count: u8,
    },
    /// The server is killed, and another takes over.
    Adopt,
}

fn any_op() -> impl Strategy<Value = Op> {
    let (file, block, at) = (1u8..3, 0u8..5, 0u16..4096);
    let place = (file.clone(), block.clone(), at, 1u16..4096, 1u8..);
    prop_oneof![
        5 => place.clone().prop_map(|(file, block, at, len, byte)| Op::Write { file, block, at, len, byte }),
        2 => (file.clone(), block.clone()).prop_map(|(file, block)| Op::Read { file, block }),
        5 => place.prop_map(|(file, block, at, len, byte)| Op::ClientWrite { file, block, at, len, byte }),
        2 => (file.clone(), block.clone()).prop_map(|(file, block)| Op::ClientRead { file, block }),
        3 => (file.clone(), block.clone(), 1u8.., any::<bool>())
            .prop_map(|(file, block, byte, publish)| Op::Overwrite { file, block, byte, publish }),
        2 => (file.clone(), block).prop_map(|(file, block)| Op::Hold { file, block }),
        2 => Just(Op::LetGo),
        2 => (0u8..6, any::<bool>()).prop_map(|(most, works)| Op::Flush { most, works }),
        1 => (proptest::option::of(file.clone()), 1u8..4).prop_map(|(file, most)| Op::Sweep { file, most }),
        2 => (file.clone(), 0u16..24_000).prop_map(|(file, end)| Op::Truncate { file, end }),
        1 => file.clone().prop_map(|file| Op::Forget { file }),
        2 => (file, 0u8..5, 0u8..5).prop_map(|(file, first, count)| Op::Renew { file, first, count }),
        1 => Just(Op::Adopt),
    ]
}

struct Run<'a> {
    dir: &'a Dir,
    pool: Option<Pool>,
    store: Store,
    client: &'a PoolMapping,
    known: HashMap<(FileId, u64), SlotRef>,
    held: Vec<(FileId, u64, BlockGuard<'a>)>,
    /// The expected files.
    files: HashMap<FileId, Vec<u8>>,
}

impl<'a> Run<'a> {
    fn pool(&self) -> &Pool {
        self.pool.as_ref().expect("between two servers nobody asks")
    }

    fn right(&self, file: FileId, block: u64) -> Vec<u8> {
        let bytes = self.files.get(&file).map_or(&[][..], |bytes| bytes);
        let rest = bytes.get((block * u64::from(BLOCK)) as usize..).unwrap_or(&[]);
        let mut right = rest[..rest.len().min(BLOCK as usize)].to_vec();
        right.resize(BLOCK as usize, 0);
        right
    }

    fn note(&mut self, file: FileId, block: u64, at: usize, new: &[u8]) {
        let bytes = self.files.entry(file).or_default();
        let start = block as usize * BLOCK as usize + at;
        if bytes.len() < start + new.len() {
            bytes.resize(start + new.len(), 0);
        }
        bytes[start..start + new.len()].copy_from_slice(new);
    }

    /// A pin by the client, which asks the server if necessary. `None` if all slots are pinned.
    fn pin(&mut self, file: FileId, block: u64) -> Option<BlockGuard<'a>> {
        if let Some(&place) = self.known.get(&(file, block)) {
            match self.client.pin(place, file, block) {
                Ok(guard) => return Some(guard),
                Err(refused) => assert_eq!(refused, PinError::Stale),
            }
        }
        let pin = load(self.pool(), &self.store, file, block)?;
        let place = pin.slot_ref();
        self.known.insert((file, block), place);
        Some(self.client.pin(place, file, block).expect("the server has just said so"))
    }

    fn begin_truncation(&mut self, file: FileId, end: u64) {
        let mut truncation = self.pool().begin_truncation(file, end).expect("the only one");
        assert!(self.pool().begin_truncation(file, 0).is_none());
        let first = end / u64::from(BLOCK);
        let in_use = self.held.iter().any(|(held, block, _)| *held == file && *block >= first);
        assert_eq!(truncation.ready(), !in_use);
        if !in_use {
            assert!(truncation.ready());
            assert!(matches!(self.pool().get(file, first), Lookup::Busy));
            assert!(truncation.record(TruncationId(1)));
            self.store.set_end(file, end);
            truncation.finish();
            assert!(self.pool().end(file) <= end);
            self.files.entry(file).or_default().resize(end as usize, 0);
        }
    }

    fn invalidate(&mut self, file: FileId, blocks: std::ops::Range<u64>) {
        let within = |at: FileId, block: u64| at == file && blocks.contains(&block);
        let in_use = self.held.iter().any(|(held, block, _)| within(*held, *block));
        assert_eq!(self.pool().invalidate(file, blocks.clone()).ready(), !in_use);
        for (&(known, block), &place) in &self.known {
            if within(known, block) {
                assert_eq!(self.client.pin(place, known, block).err(), Some(PinError::Stale));
            }
        }
    }

    fn sweep(&mut self, file: Option<FileId>, most: usize) {
        let mut sweep = self.pool().sweep(file);
        loop {
            match sweep.next(most) {
                SweepStep::Flush(flushes) => {
                    assert!((1..=most).contains(&flushes.len()));
                    self.store.flush(flushes);
                }
                SweepStep::Wait => panic!("nobody else flushes"),
                SweepStep::Done => break,
            }
        }
        // Now the store has everything.
        for (name, right) in &self.files {
            if file.is_none_or(|file| file == *name) {
                assert_eq!(self.store.end(*name), right.len() as u64);
                let mut stored = vec![0; right.len().next_multiple_of(BLOCK as usize)];
                for (block, bytes) in stored.chunks_mut(BLOCK as usize).enumerate() {
                    self.store.read(*name, block as u64, bytes);
                }
                assert!(stored[..right.len()] == right[..]);
            }
        }
    }

    fn adopt(&mut self) {
        let before = self.pool().counters();
        self.pool = None;
        let (pool, adopted) = Pool::adopt(&self.dir.pool(), WHO).unwrap();
        assert_eq!(
            adopted,
            Adopted { valid: before.valid, dirty: before.dirty, dropped: 0, ..Adopted::default() }
        );
        assert!(pool.resume_ledger(self.client.ledger(), std::process::id()));
        self.pool = Some(pool);
    }

    fn apply(&mut self, op: Op) {
        let id = |file: u8| FileId(u64::from(file));
        match op {
            Op::Write { file, block, at, len, byte } => {
                let len = usize::from(len).min(BLOCK as usize - usize::from(at));
                if let Some(pin) = load(self.pool(), &self.store, id(file), block.into()) {
                    pin.write(at.into(), &vec![byte; len]).unwrap();
                    self.note(id(file), block.into(), at.into(), &vec![byte; len]);
                }
            }
            Op::Read { file, block } => {
                if let Some(pin) = load(self.pool(), &self.store, id(file), block.into()) {
                    let mut bytes = vec![0; BLOCK as usize];
                    pin.read(0, &mut bytes);
                    assert!(bytes == self.right(id(file), block.into()));
                }
            }
            Op::ClientWrite { file, block, at, len, byte } => {
                let len = usize::from(len).min(BLOCK as usize - usize::from(at));
                if let Some(guard) = self.pin(id(file), block.into()) {
                    guard.write(at.into(), &vec![byte; len]).unwrap();
                    self.note(id(file), block.into(), at.into(), &vec![byte; len]);
                }
            }
            Op::ClientRead { file, block } => {
                if let Some(guard) = self.pin(id(file), block.into()) {
                    let mut bytes = vec![0; BLOCK as usize];
                    guard.read(0, &mut bytes);
                    assert!(bytes == self.right(id(file), block.into()));
                }
            }
            Op::Overwrite { file, block, byte, publish } => {
                if let Lookup::Fill(fill) = self.pool().get(id(file), block.into()) {
                    let place = fill.lend(self.client.ledger(), false);
                    assert!(matches!(self.pool().get(id(file), block.into()), Lookup::Busy));
                    let mut pending = self.client.claim(place, id(file), block.into()).unwrap();
                    pending.write(0, &vec![byte; BLOCK as usize]);
                    if publish {
                        pending.publish(BLOCK).unwrap();
                        self.known.insert((id(file), block.into()), place);
                        self.note(id(file), block.into(), 0, &vec![byte; BLOCK as usize]);
                    }
                }
            }
            Op::Hold { file, block } if self.held.len() < 3 => {
                if let Some(guard) = self.pin(id(file), block.into()) {
                    self.held.push((id(file), block.into(), guard));
                }
            }
            Op::Hold { .. } => {}
            Op::LetGo => drop(self.held.pop()),
            Op::Flush { most, works } => {
                // Failed flushes are tried again.
                self.pool().retry_failed(usize::MAX);
                let dirty = self.pool().counters().dirty;
                let flushes = self.pool().next_dirty(most.into());
                assert_eq!(flushes.len(), usize::from(most).min(dirty as usize));
                assert!(flushes.is_sorted_by_key(|flush| (flush.file(), flush.block())));
                if works {
                    self.store.flush(flushes);
                } else {
                    drop(flushes);
                    assert_eq!(self.pool().counters().dirty, dirty);
                }
            }
            Op::Sweep { file, most } => self.sweep(file.map(id), most.into()),
            Op::Truncate { file, end } => self.begin_truncation(id(file), end.into()),
            Op::Forget { file } => self.begin_truncation(id(file), 0),
            Op::Renew { file, first, count } => {
                self.invalidate(id(file), first.into()..u64::from(first) + u64::from(count));
            }
            Op::Adopt => self.adopt(),
        }
        self.check();
    }

    fn check(&self) {
        assert_eq!(self.pool().check_invariants(), Ok(()));
        let counters = self.pool().counters();
        assert!(counters.valid <= self.pool().geometry().slots);
        assert_eq!(self.pool().dirty(), counters.dirty);
        let mut held: Vec<_> = self.held.iter().map(|(file, block, _)| (*file, *block)).collect();
        held.sort_unstable();
        held.dedup();
        assert_eq!(counters.pinned as usize, held.len());
        for (file, block, guard) in &self.held {
            let mut bytes = vec![0; BLOCK as usize];
            guard.read(0, &mut bytes);
            assert!(bytes == self.right(*file, *block), "a held block is what it should be");
        }
        for (file, right) in &self.files {
            assert_eq!(self.pool().end(*file).max(self.store.end(*file)), right.len() as u64);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_pool_is_like_plain_files(slots in 1u32..6, ops in proptest::collection::vec(any_op(), 1..80)) {
        let dir = Dir::new();
        let pool = create(&dir, slots, 2);
        let client = map(&pool);
        let mut run = Run {
            dir: &dir,
            pool: Some(pool),
            store: Store::default(),
            client: &client,
            known: HashMap::new(),
            held: Vec::new(),
            files: HashMap::new(),
        };
        for op in ops {
            run.apply(op);
        }
        run.held.clear();
        run.sweep(None, 2);
        assert_eq!(run.pool().counters().dirty, 0);
    }
}
