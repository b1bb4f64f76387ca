//! Tests that stop a change between any two of its steps, or in the middle of one, and look at what is left.
//!
//! Always: every byte is the old or the new one, no block is called damaged, only blocks that were being
//! changed are unverified, and what is done next is done right.

#[path = "../tests/scratch/mod.rs"]
mod scratch;

use std::ops::Range;
use std::sync::{Arc, Mutex};

use pario_units::{FileId, PartitionId, ServerId};
use proptest::prelude::*;
use scratch::Scratch;

use crate::order::tests::any_runs;
use crate::steps::{Step, Steps};
use crate::{FileStore, Identity, Store};

const SIZE: usize = 4096;
/// Blocks looked at.
const SEEN: usize = 10;
const WHO: Identity = Identity { partition: PartitionId(7), server: ServerId(1) };

/// Lets some steps through, a share of the next one's bytes, and nothing more until it is told to.
#[derive(Default)]
struct Stopping {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    armed: Option<(usize, usize)>,
    dead: bool,
    taken: Vec<Step>,
}

impl Stopping {
    /// Stops after `after` steps, with `share` 256ths of the bytes of the next.
    fn arm(&self, after: usize, share: usize) {
        *self.state.lock().unwrap() = State { armed: Some((after, share)), ..State::default() };
    }

    /// Lets everything through; whether it had stopped, and the steps that were asked for.
    fn disarm(&self) -> (bool, Vec<Step>) {
        let state = std::mem::take(&mut *self.state.lock().unwrap());
        (state.dead, state.taken)
    }
}

impl Steps for Stopping {
    fn before(&self, step: Step, bytes: usize) -> Result<usize, i32> {
        let mut state = self.state.lock().unwrap();
        if state.dead {
            return Err(libc::EIO);
        }
        state.taken.push(step);
        match &mut state.armed {
            None => Ok(bytes),
            Some((after, _)) if *after > 0 => {
                *after -= 1;
                Ok(bytes)
            }
            Some((_, share)) => {
                let some = bytes * (*share).min(255) / 256;
                state.dead = true;
                // The system writes an entry whole or not at all.
                let some = if step == Step::Data { some } else { some / 8 * 8 };
                if some > 0 { Ok(some) } else { Err(libc::ENOSPC) }
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Change {
    Write { first: usize, count: usize, end: usize, seed: u8 },
    SetEnd { end: usize },
    Remove,
    Arrange { runs: Vec<Range<u64>> },
}

fn any_change() -> impl Strategy<Value = Change> {
    let end = (0..SEEN * 8).prop_map(|eighths| eighths * SIZE / 8);
    prop_oneof![
        5 => (0..7usize, 1..4usize, end.clone(), any::<u8>())
            .prop_map(|(first, count, end, seed)| Change::Write { first, count, end, seed }),
        4 => end.prop_map(|end| Change::SetEnd { end }),
        1 => Just(Change::Remove),
        2 => any_runs(SEEN as u64).prop_map(|runs| Change::Arrange { runs }),
    ]
}

impl Change {
    fn make(&self, store: &FileStore, file: FileId) -> crate::Result<()> {
        match *self {
            Change::Write { first, count, end, seed } => {
                let blocks: Vec<_> = (first..first + count).map(|number| block(number, seed)).collect();
                let blocks: Vec<_> = blocks.iter().map(Vec::as_slice).collect();
                store.write(file, first as u64, &blocks, end as u64)
            }
            Change::SetEnd { end } => store.set_end(file, end as u64, 0).map(drop),
            Change::Remove => store.remove(file),
            Change::Arrange { ref runs } => store.arrange(file, runs),
        }
    }

    fn apply(&self, part: &[u8]) -> Vec<u8> {
        let mut part = part.to_vec();
        match *self {
            Change::Write { first, count, end, seed } => {
                let new = part.len().max(end.min((first + count) * SIZE));
                part.resize(new, 0);
                for (number, start) in (first..first + count).map(|number| (number, number * SIZE)) {
                    let kept = new.saturating_sub(start).min(SIZE);
                    if kept > 0 {
                        part[start..start + kept].copy_from_slice(&block(number, seed)[..kept]);
                    }
                }
            }
            Change::SetEnd { end } => part.resize(end, 0),
            Change::Remove => part.clear(),
            Change::Arrange { .. } => {}
        }
        part
    }
}

fn block(number: usize, seed: u8) -> Vec<u8> {
    (0..SIZE).map(|at| (at / 5 + number * 31) as u8 ^ seed).collect()
}

/// What is stored, block by block, each read by itself.
fn look(store: &FileStore, file: FileId) -> Vec<u8> {
    let mut bytes = vec![0xaa; SEEN * SIZE];
    for (number, block) in bytes.chunks_mut(SIZE).enumerate() {
        store.read(file, number as u64, &mut [block]).expect("no damage");
    }
    bytes.truncate(store.end(file).unwrap() as usize);
    bytes
}

fn padded(part: &[u8]) -> Vec<u8> {
    let mut bytes = part.to_vec();
    bytes.resize(SEEN * SIZE, 0);
    bytes
}

/// Checks what a stopped change from `old` to `new` has left.
fn check(store: &FileStore, file: FileId, old: &[u8], new: &[u8]) -> Vec<u8> {
    let before = store.unverified();
    let found = look(store, file);
    let unverified = store.unverified() - before;
    let (low, high) = (old.len().min(new.len()), old.len().max(new.len()));
    assert!((low..=high).contains(&found.len()), "{low} <= {} <= {high}", found.len());
    let (old, new, seen) = (padded(old), padded(new), padded(&found));
    assert!((0..seen.len()).all(|at| seen[at] == old[at] || seen[at] == new[at]), "neither old nor new");
    let changed = old.chunks(SIZE).zip(new.chunks(SIZE)).filter(|(old, new)| old != new).count() as u64;
    assert!(unverified <= changed, "{unverified} unverified, {changed} changed");
    found
}

/// Nothing is damaged, and after a verification nothing is unverified.
fn check_verified(store: &FileStore, file: FileId) {
    let verified = store.verify(file, 0, u64::MAX).unwrap();
    assert_eq!((verified.damaged, verified.next), (vec![], None));
    let before = store.unverified();
    look(store, file);
    assert_eq!(store.unverified(), before);
}

fn open(scratch: &Scratch, steps: &Arc<Stopping>) -> FileStore {
    FileStore::open(scratch.path(), SIZE, WHO).unwrap().with_steps(Arc::clone(steps) as Arc<dyn Steps>)
}

/// Stops a change after each number of steps, and in the middle of each, on a part that `before` has made.
fn stop_everywhere(before: &[Change], change: &Change, expected: &[Step]) {
    let scratch = Scratch::new();
    let steps = Arc::new(Stopping::default());
    let mut file = FileId(0);
    for after in 0.. {
        let mut finished = false;
        for share in [0, 100, 255] {
            file.0 += 1;
            let store = open(&scratch, &steps);
            let mut old = Vec::new();
            for change in before {
                change.make(&store, file).unwrap();
                old = change.apply(&old);
            }
            steps.arm(after, share);
            let result = change.make(&store, file);
            let (stopped, taken) = steps.disarm();
            assert_eq!(result.is_err(), stopped);
            drop(store);
            let store = open(&scratch, &steps);
            let new = change.apply(&old);
            let found = check(&store, file, &old, &new);
            check_verified(&store, file);
            if !stopped {
                assert_eq!(taken, expected);
                assert!(found == new);
                finished = true;
            }
            change.make(&store, file).unwrap();
            assert!(look(&store, file) == new);
            check_verified(&store, file);
        }
        if finished {
            return;
        }
    }
}

const FIVE: Change = Change::Write { first: 0, count: 5, end: 5 * SIZE - 100, seed: 1 };

#[test]
fn a_first_write_stops_anywhere() {
    let steps = [Step::CreateSums, Step::CreateData, Step::Mark, Step::Data, Step::Enter];
    stop_everywhere(&[], &FIVE, &steps);
}

#[test]
fn a_write_over_old_blocks_and_beyond_stops_anywhere() {
    let change = Change::Write { first: 3, count: 4, end: 7 * SIZE - 9, seed: 2 };
    stop_everywhere(&[FIVE], &change, &[Step::Mark, Step::Data, Step::Enter]);
}

#[test]
fn a_write_behind_a_hole_stops_anywhere() {
    let change = Change::Write { first: 7, count: 2, end: 9 * SIZE, seed: 2 };
    stop_everywhere(&[FIVE], &change, &[Step::Mark, Step::Data, Step::Enter]);
}

#[test]
fn a_cut_within_a_block_stops_anywhere() {
    let steps = [Step::Mark, Step::Resize, Step::Trim, Step::Enter];
    stop_everywhere(&[FIVE], &Change::SetEnd { end: 2 * SIZE + 10 }, &steps);
}

#[test]
fn a_cut_between_blocks_stops_anywhere() {
    stop_everywhere(&[FIVE], &Change::SetEnd { end: 2 * SIZE }, &[Step::Resize, Step::Trim]);
}

#[test]
fn an_extension_stops_anywhere() {
    stop_everywhere(&[FIVE], &Change::SetEnd { end: 9 * SIZE + 10 }, &[Step::Resize]);
}

#[test]
fn a_removal_stops_anywhere() {
    stop_everywhere(&[FIVE], &Change::Remove, &[Step::RemoveData, Step::RemoveSums]);
}

/// Some blocks in an order of their own: the last first, one alone between, and others not at all.
fn arranged() -> Change {
    Change::Arrange { runs: vec![3..6, 1..2, 8..9, 2..3] }
}

#[test]
fn an_order_stops_anywhere() {
    let steps = [Step::CreateSums, Step::CreateData, Step::WriteOrder, Step::Arrange];
    stop_everywhere(&[], &arranged(), &steps);
    let emptied = [FIVE, Change::SetEnd { end: 0 }];
    stop_everywhere(&emptied, &arranged(), &[Step::WriteOrder, Step::Arrange]);
    stop_everywhere(&[FIVE], &arranged(), &[]);
}

#[test]
fn a_first_write_in_order_stops_anywhere() {
    stop_everywhere(&[arranged()], &FIVE, &[Step::Mark, Step::Resize, Step::Data, Step::Enter]);
}

#[test]
fn writes_in_order_over_old_blocks_and_behind_a_hole_stop_anywhere() {
    let old = [arranged(), FIVE];
    let over = Change::Write { first: 1, count: 3, end: 0, seed: 2 };
    stop_everywhere(&old, &over, &[Step::Mark, Step::Data, Step::Enter]);
    let behind = Change::Write { first: 7, count: 2, end: 9 * SIZE - 5, seed: 2 };
    stop_everywhere(&old, &behind, &[Step::Mark, Step::Resize, Step::Data, Step::Enter]);
}

#[test]
fn cuts_in_order_stop_anywhere() {
    let old = [arranged(), FIVE];
    // Within a block that is in order: its end becomes zeros, then those beyond it.
    let steps = [Step::Mark, Step::Clear, Step::Resize, Step::Clear, Step::Clear, Step::Trim, Step::Enter];
    stop_everywhere(&old, &Change::SetEnd { end: SIZE + 10 }, &steps);
    let steps = [Step::Mark, Step::Clear, Step::Resize, Step::Enter];
    stop_everywhere(&old, &Change::SetEnd { end: 4 * SIZE + 10 }, &steps);
    // Within one that is not, and between two.
    let steps = [Step::Mark, Step::Resize, Step::Clear, Step::Trim, Step::Enter];
    stop_everywhere(&old, &Change::SetEnd { end: 100 }, &steps);
    stop_everywhere(&old, &Change::SetEnd { end: 0 }, &[Step::Resize, Step::Clear, Step::Trim]);
}

#[test]
fn a_removal_in_order_stops_anywhere() {
    let steps = [Step::Resize, Step::RemoveOrdered, Step::RemoveData, Step::RemoveSums];
    stop_everywhere(&[arranged(), FIVE], &Change::Remove, &steps);
}

#[test]
fn what_lies_beside_no_part_goes_when_the_store_is_opened() {
    let (scratch, steps) = (Scratch::new(), Arc::new(Stopping::default()));
    let store = open(&scratch, &steps);
    let file = FileId(0x1ff);
    steps.arm(3, 0);
    arranged().make(&store, file).unwrap_err();
    steps.disarm();
    let path = |name: &str| scratch.path().join("parts/ff/00000000000001ff").with_extension(name);
    assert!(path("ordered.new").exists() && !path("ordered").exists());
    drop(store);
    let store = open(&scratch, &steps);
    assert!(!path("ordered.new").exists());
    // It can still get an order.
    arranged().make(&store, file).unwrap();
    assert!(path("ordered").exists());
    drop(store);
    std::fs::remove_file(path("")).unwrap();
    let store = open(&scratch, &steps);
    assert!(!path("ordered").exists() && !path("sums").exists());
    assert_eq!(store.room().unwrap().parts, 0);
}

#[test]
fn checksums_without_a_part_go_when_the_store_is_opened() {
    let (scratch, steps) = (Scratch::new(), Arc::new(Stopping::default()));
    let store = open(&scratch, &steps);
    FIVE.make(&store, FileId(0x1ff)).unwrap();
    let sums = scratch.path().join("parts/ff/00000000000001ff.sums");
    steps.arm(1, 0);
    store.remove(FileId(0x1ff)).unwrap_err();
    steps.disarm();
    assert!(sums.exists());
    drop(store);
    let store = open(&scratch, &steps);
    assert!(!sums.exists());
    assert_eq!(store.room().unwrap().parts, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Changes one after the other, most of them stopped, with and without opening the store anew.
    #[test]
    fn changes_go_on_after_stops(
        changes in prop::collection::vec((any_change(), 0usize..8, 0usize..256, any::<bool>()), 1..16),
    ) {
        let (scratch, steps, file) = (Scratch::new(), Arc::new(Stopping::default()), FileId(1));
        let mut store = open(&scratch, &steps);
        let mut part = Vec::new();
        for (change, after, share, reopen) in changes {
            steps.arm(after, share);
            let result = change.make(&store, file);
            let (stopped, _) = steps.disarm();
            prop_assert_eq!(result.is_err(), stopped);
            if reopen {
                drop(store);
                store = open(&scratch, &steps);
            }
            let new = change.apply(&part);
            // Blocks that an earlier stop has left in flux stay so until they are written or verified.
            let found = look(&store, file);
            let (old, next, seen) = (padded(&part), padded(&new), padded(&found));
            prop_assert!((0..seen.len()).all(|at| seen[at] == old[at] || seen[at] == next[at]));
            prop_assert!(stopped || found == new);
            part = found;
        }
        check_verified(&store, file);
        prop_assert!(look(&store, file) == part);
    }
}
