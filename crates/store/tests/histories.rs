//! Thousands of seeded histories on a medium with all faults of storage, against a model of acknowledged and synced data.
//! `PARIO_SEEDS` is the number of seeds of each kind of history; `PARIO_FIRST_SEED` is the first one, with which each step
//! is printed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pario_medium::{InjectedFault, SimulatedMedium};
use pario_store::{Error, FileStore, Result, Store, StoreIdentity};
use pario_types::{ErrorKind, FileId, PartitionId, ServerId};

const SIZE: usize = 4096;
const BLOCKS: usize = 6;
const WHO: StoreIdentity = StoreIdentity { partition: PartitionId(1), server: ServerId(0) };
const ENOSPC: i32 = 28;
const EIO: i32 = 5;
const EROFS: i32 = 30;

/// The events of a history.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Kind {
    kills: bool,
    power: bool,
    failed_syncs: bool,
    errors: bool,
    lies: bool,
}

const NOTHING: Kind = Kind { kills: false, power: false, failed_syncs: false, errors: false, lies: false };

struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// The state of a part.
#[derive(Clone, Default)]
struct Model {
    there: bool,
    end: usize,
    /// The bytes, zeros beyond the end.
    bytes: Vec<u8>,
    /// All versions of each block since the last sync, and all ends.
    versions: Vec<Vec<Vec<u8>>>,
    ends: Vec<usize>,
    never_synced: bool,
    /// The highest id of a truncation, and that at the last sync.
    cut: u64,
    synced_cut: u64,
}

impl Model {
    fn new() -> Model {
        let versions = vec![vec![vec![0; SIZE]]; BLOCKS];
        Model {
            bytes: vec![0; BLOCKS * SIZE],
            versions,
            ends: vec![0],
            never_synced: true,
            ..Model::default()
        }
    }

    fn block(&self, block: usize) -> &[u8] {
        &self.bytes[block * SIZE..(block + 1) * SIZE]
    }

    /// Remembers the present state as one that may come back.
    fn note(&mut self) {
        for block in 0..BLOCKS {
            let now = self.block(block).to_vec();
            if self.versions[block].last() != Some(&now) {
                self.versions[block].push(now);
            }
        }
        self.ends.push(self.end);
    }

    fn synced(&mut self) {
        self.never_synced &= !self.there;
        (self.versions, self.ends, self.synced_cut) = (vec![Vec::new(); BLOCKS], Vec::new(), self.cut);
        self.note();
    }

    fn write(&mut self, first: usize, count: usize, end: usize, byte: u8) {
        let new = self.end.max(end.min((first + count) * SIZE));
        for at in first * SIZE..((first + count) * SIZE).min(new) {
            self.bytes[at] = fill(byte, at);
        }
        (self.end, self.there) = (new, self.there || new > 0);
    }

    fn set_end(&mut self, end: usize, cut: u64) {
        self.bytes[end.min(BLOCKS * SIZE)..].fill(0);
        self.there |= end > 0 || cut > 0;
        (self.end, self.cut) = (end, self.cut.max(cut));
    }
}

fn fill(byte: u8, at: usize) -> u8 {
    byte ^ (at / 7) as u8
}

struct History {
    seed: u64,
    kind: Kind,
    dice: Dice,
    medium: SimulatedMedium,
    store: Option<FileStore>,
    files: BTreeMap<u64, Model>,
    next: u64,
    cut: u64,
    /// A sync has failed, and no later one of everything has succeeded.
    sync_failed: bool,
}

impl History {
    fn new(seed: u64, kind: Kind) -> History {
        let medium = SimulatedMedium::new(seed);
        let mut history = History {
            seed,
            kind,
            dice: Dice(seed ^ 0xabcd),
            medium,
            store: None,
            files: BTreeMap::new(),
            next: 1,
            cut: 1,
            sync_failed: false,
        };
        history.open();
        for _ in 0..2 {
            history.add_file();
        }
        history
    }

    fn add_file(&mut self) {
        self.files.insert(self.next, Model::new());
        self.next += 1;
    }

    fn open(&mut self) {
        self.store = None;
        let opened = FileStore::open_on(Arc::new(self.medium.clone()), Path::new("/s"), SIZE, WHO);
        let opened = opened.unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
        self.store = Some(opened.with_open_parts(1 + self.dice.below(3)));
    }

    fn store(&self) -> &FileStore {
        self.store.as_ref().expect("always open")
    }

    fn run(&mut self) {
        for _ in 0..10 + self.dice.below(25) {
            self.plan();
            self.step();
            if self.medium.is_dead() || self.kind.kills && self.dice.one_in(12) {
                self.restart();
            }
            if self.kind.failed_syncs && self.dice.one_in(4) {
                self.medium.evict();
            }
        }
        self.medium.clear_faults();
        self.check(false);
        self.sync_everything();
    }

    /// At the end everything can be synced, and survives a loss of power.
    fn sync_everything(&mut self) {
        // Parts whose removal was not finished belong to no file.
        for part in self.store().list(FileId(0), 99).expect("it can be listed") {
            if !self.files.contains_key(&part.file.0) {
                self.store().remove(part.file).expect("it can be removed");
            }
        }
        for _ in 0..2 {
            self.repair();
            let synced = self.store().sync_all();
            if self.kind.lies {
                return;
            }
            if let Err(error) = synced {
                let allowed = error.kind() == ErrorKind::Damaged && self.kind.failed_syncs;
                assert!(allowed, "seed {}: {error}", self.seed);
                continue;
            }
            self.files.values_mut().for_each(Model::synced);
            self.medium.evict();
            self.check(false);
            self.medium.kill();
            self.store = None;
            self.medium.lose_power();
            self.open();
            return self.check(true);
        }
        panic!("seed {}: it cannot be repaired", self.seed);
    }

    /// Overwrites blocks that a failed sync has lost.
    fn repair(&mut self) {
        let files: Vec<u64> = self.files.keys().copied().collect();
        for file in files {
            for block in 0..BLOCKS {
                let model = &self.files[&file];
                if block * SIZE < model.end && self.read(file, block).is_err() {
                    let bytes = model.block(block).to_vec();
                    let end = model.end as u64;
                    let written = self.store().write(FileId(file), block as u64, &[&bytes], end);
                    written.unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
                }
            }
        }
    }

    fn plan(&mut self) {
        let mut faults = Vec::new();
        if self.kind.kills || self.kind.power {
            faults.push(InjectedFault::Kill);
        }
        if self.kind.failed_syncs {
            faults.extend([InjectedFault::FailSync; 2]);
        }
        if self.kind.errors {
            faults.extend([ENOSPC, EIO, EROFS].map(InjectedFault::Fail));
        }
        if self.kind.lies {
            faults.extend([InjectedFault::Lose, InjectedFault::Tear, InjectedFault::Misdirect]);
        }
        if !faults.is_empty() && self.dice.one_in(3) {
            let fault = faults[self.dice.below(faults.len())];
            self.medium.plan(self.dice.below(9) as u64, fault);
        }
    }

    /// Changes a part. After a failure the change may have been done or not, for each byte.
    fn step(&mut self) {
        let files: Vec<u64> = self.files.keys().copied().collect();
        let file = files[self.dice.below(files.len())];
        let id = FileId(file);
        let model = self.files[&file].clone();
        let mut next = model.clone();
        let (byte, end) = (self.dice.below(256) as u8, self.dice.below(BLOCKS * 8 + 1) * SIZE / 8);
        let done: Result<()> = match self.dice.below(20) {
            0..=7 => {
                let first = self.dice.below(BLOCKS);
                let count = 1 + self.dice.below(BLOCKS - first);
                next.write(first, count, end, byte);
                let bytes: Vec<u8> =
                    (first * SIZE..(first + count) * SIZE).map(|at| fill(byte, at)).collect();
                let blocks: Vec<&[u8]> = bytes.chunks(SIZE).collect();
                self.store().write(id, first as u64, &blocks, end as u64)
            }
            8..=10 => {
                let cut = if self.dice.one_in(2) {
                    self.cut += 1;
                    self.cut
                } else {
                    0
                };
                next.set_end(end, cut);
                if self.kind.errors && end < model.end {
                    // On a full medium the part is cut after its last block first.
                    next.ends.push(end.next_multiple_of(SIZE).min(model.end));
                }
                self.store().set_end(id, end as u64, cut).map(|done| assert!(done, "seed {}", self.seed))
            }
            11 => {
                self.cut += 1;
                (next.cut, next.there) = (self.cut, true);
                self.store().fence(id, self.cut).map(|done| assert!(done, "seed {}", self.seed))
            }
            12 if model.there => {
                let removed = self.store().remove(id);
                if removed.is_ok() || self.medium.is_dead() {
                    self.files.remove(&file);
                    self.add_file();
                }
                return;
            }
            13 => {
                next.there = true;
                self.store().arrange(id, &[3..4, 0..1, 1..2])
            }
            14 => {
                next.there = true;
                self.store().reserve(id, 1..4)
            }
            15 => {
                let done = self.store().sync_all();
                if std::env::var_os("PARIO_FIRST_SEED").is_some() {
                    println!("sync all {done:?}");
                }
                if done.is_ok() {
                    self.sync_failed = false;
                    self.files.values_mut().for_each(Model::synced);
                    self.medium.evict();
                    self.check(false);
                }
                self.sync_failed |= done.is_err() && self.kind.failed_syncs;
                return;
            }
            16 if !self.kind.lies => return drop(self.store().verify(id, 0, u64::MAX)),
            _ => {
                let done = self.store().sync(id);
                if std::env::var_os("PARIO_FIRST_SEED").is_some() {
                    println!("file {file}: sync {done:?}");
                }
                if done.is_ok() {
                    self.files.get_mut(&file).expect("it is there").synced();
                    self.medium.evict();
                    self.check(false);
                }
                self.sync_failed |= done.is_err() && self.kind.failed_syncs;
                return;
            }
        };
        if std::env::var_os("PARIO_FIRST_SEED").is_some() {
            println!("file {file}: {} -> {} cut {}, {done:?}", model.end, next.end, next.cut);
        }
        next.note();
        match done {
            Ok(()) => drop(self.files.insert(file, next)),
            Err(error) => self.learn(file, &model, next, &error),
        }
    }

    /// After a change that failed: every byte is the old or the new one.
    fn learn(&mut self, file: u64, old: &Model, mut next: Model, error: &Error) {
        if self.medium.is_dead() {
            self.restart_as(file, Some((old.clone(), next)));
            return;
        }
        // A truncation syncs, too.
        self.sync_failed |= self.kind.failed_syncs;
        self.medium.clear_faults();
        let mut found = old.clone();
        match self.store().end(FileId(file)) {
            Ok(end) => found.end = end as usize,
            Err(_) if self.is_lost(old) => return self.forget(file),
            Err(other) => panic!("seed {}: {error}, then {other}", self.seed),
        }
        let (low, high) = (old.end.min(next.end), old.end.max(next.end));
        let between = (low..=high).contains(&found.end) || self.may_be_damaged();
        assert!(between, "seed {}: end {}", self.seed, found.end);
        for block in 0..BLOCKS {
            match self.read(file, block) {
                Ok(bytes) => {
                    let fits = (0..SIZE)
                        .all(|at| bytes[at] == old.block(block)[at] || bytes[at] == next.block(block)[at]);
                    let wrong = (0..SIZE).find(|at| {
                        bytes[*at] != old.block(block)[*at] && bytes[*at] != next.block(block)[*at]
                    });
                    assert!(
                        fits || self.may_be_damaged(),
                        "seed {}: file {file}, block {block} at {wrong:?}",
                        self.seed
                    );
                    found.bytes[block * SIZE..(block + 1) * SIZE].copy_from_slice(&bytes);
                }
                Err(error) => assert!(self.may_be_damaged(), "seed {}: {error}", self.seed),
            }
        }
        found.bytes[found.end..].fill(0);
        found.there |= next.there;
        (found.versions, found.ends) = (std::mem::take(&mut next.versions), std::mem::take(&mut next.ends));
        // It may be remembered or not.
        found.cut = old.cut;
        found.note();
        self.files.insert(file, found);
    }

    fn is_listed(&self, file: u64) -> bool {
        let listed = self.store().list(FileId(file - 1), 1).expect("it can be listed");
        listed.iter().any(|part| part.file.0 == file)
    }

    /// Whether a part may be lost: none of it was ever synced, and the only sync of it failed.
    fn is_lost(&self, model: &Model) -> bool {
        self.sync_failed && model.never_synced
    }

    fn forget(&mut self, file: u64) {
        self.store().remove(FileId(file)).expect("it can be removed");
        self.files.remove(&file);
        self.add_file();
    }

    fn may_be_damaged(&self) -> bool {
        self.kind.lies || self.sync_failed
    }

    fn restart(&mut self) {
        self.restart_as(0, None);
    }

    /// Kills the process; sometimes the machine stops as well. `changed` was under way.
    fn restart_as(&mut self, file: u64, changed: Option<(Model, Model)>) {
        self.medium.kill();
        self.store = None;
        let power = self.kind.power && self.dice.one_in(2);
        if self.sync_failed {
            self.medium.evict();
        }
        if power {
            self.medium.lose_power()
        } else {
            self.medium.restart()
        }
        self.open();
        if std::env::var_os("PARIO_FIRST_SEED").is_some() {
            println!("restart, power lost: {power}");
        }
        match changed {
            Some((old, next)) if !power => self.learn_after_kill(file, &old, next),
            Some((old, next)) => {
                self.files.insert(file, Model { there: old.there, ..next });
                self.check(true);
            }
            None => self.check(power || self.sync_failed),
        }
        // Blocks that a failed sync has lost in a killed process are damaged, and are overwritten.
        if self.sync_failed && !power {
            self.repair();
        }
        self.sync_failed = false;
    }

    fn learn_after_kill(&mut self, file: u64, old: &Model, next: Model) {
        let others: Vec<u64> = self.files.keys().copied().filter(|other| *other != file).collect();
        others.into_iter().for_each(|other| self.check_file(other, self.sync_failed));
        let error = Error::TooFar { file: FileId(file) };
        self.learn(file, old, next, &error);
    }

    fn read(&self, file: u64, block: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0xaa; SIZE];
        self.store().read(FileId(file), block as u64, &mut [&mut bytes])?;
        Ok(bytes)
    }

    /// Compares everything with the model; after a loss of power, each block may be any version since the last sync.
    fn check(&mut self, lost: bool) {
        if self.medium.is_dead() {
            return;
        }
        self.medium.clear_faults();
        let files: Vec<u64> = self.files.keys().copied().collect();
        files.into_iter().for_each(|file| self.check_file(file, lost));
    }

    fn check_file(&mut self, file: u64, lost: bool) {
        let seed = self.seed;
        let mut model = self.files[&file].clone();
        match self.store().end(FileId(file)) {
            Ok(end) if lost => {
                assert!(model.ends.contains(&(end as usize)), "seed {seed}: file {file} ends at {end}");
                model.end = end as usize;
            }
            Ok(end) => assert!(
                end as usize == model.end,
                "seed {seed}: file {file} ends at {end}, not {}",
                model.end
            ),
            Err(_) if self.is_lost(&model) => return self.forget(file),
            Err(error) => panic!("seed {seed}: {error}"),
        }
        for block in 0..BLOCKS {
            let kept = model.end.saturating_sub(block * SIZE).min(SIZE);
            match self.read(file, block) {
                Ok(bytes) if lost => {
                    let fits = |version: &Vec<u8>| version[..kept] == bytes[..kept];
                    let fits =
                        model.versions[block].iter().any(fits) && bytes[kept..].iter().all(|byte| *byte == 0);
                    assert!(fits, "seed {seed}: file {file}, block {block} is no version of it");
                    model.bytes[block * SIZE..(block + 1) * SIZE].copy_from_slice(&bytes);
                }
                Ok(bytes) => {
                    assert!(bytes == model.block(block), "seed {seed}: file {file}, block {block} differs");
                }
                Err(error) => {
                    let damaged = error.kind() == ErrorKind::Damaged;
                    assert!(damaged && self.may_be_damaged(), "seed {seed}: file {file}: {error}");
                }
            }
        }
        if lost {
            // A part that was never synced may be missing.
            model.there &= !model.never_synced || self.is_listed(file);
            model.cut = model.synced_cut;
            model.note();
        }
        if model.cut > 0 {
            let again = self.store().set_end(FileId(file), 0, model.cut);
            assert_eq!(again, Ok(false), "seed {seed}: file {file} is truncated again");
        }
        self.files.insert(file, model);
    }
}

fn try_seeds(kind: Kind) {
    let seeds = std::env::var("PARIO_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
    let first = std::env::var("PARIO_FIRST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    for seed in first..first + seeds {
        History::new(seed, kind).run();
    }
}

#[test]
fn nothing_is_lost_to_kill_9_at_any_step() {
    try_seeds(Kind { kills: true, ..NOTHING });
}

#[test]
fn a_synced_block_is_readable_after_losing_power_at_any_instant() {
    try_seeds(Kind { power: true, ..NOTHING });
}

#[test]
fn a_failed_sync_is_never_forgotten() {
    try_seeds(Kind { failed_syncs: true, ..NOTHING });
}

#[test]
fn errors_of_the_medium_lose_nothing() {
    try_seeds(Kind { errors: true, ..NOTHING });
}

#[test]
fn combined_errors_kills_and_power_losses_lose_nothing() {
    try_seeds(Kind { kills: true, power: true, errors: true, ..NOTHING });
}

#[test]
fn failed_syncs_before_a_loss_of_power_lose_nothing_that_was_synced() {
    try_seeds(Kind { power: true, failed_syncs: true, ..NOTHING });
}

#[test]
fn a_medium_that_loses_synced_bytes_is_detected() {
    try_seeds(Kind { lies: true, ..NOTHING });
}
