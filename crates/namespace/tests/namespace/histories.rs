//! Seeded histories on faulty storage: writes that are torn, lost or reordered, flushes that fail and lose their bytes, a
//! full disk, killed processes, and losses of power after which any of the unflushed sectors and names are there.
//! Acknowledged changes survive a kill, synced changes survive a loss of power, and no id is used twice.
//!
//! `PARIO_SEEDS` is the number of histories; one that fails names its seed.

use pario_namespace::{CreateMode, Error, Inode, LayoutRequest, Namespace, NamespaceConfig, OpenAccess};
use pario_types::{FileId, Stamp, TruncationId};

use crate::disk::{EIO, ENOSPC, Fault, MemoryDisk, Rng};
use crate::random::{caller, config, fingerprint};

const SEEDS: u64 = 3000;
const STEPS: u64 = 60;

struct History {
    seed: u64,
    rng: Rng,
    disk: MemoryDisk,
    names: Namespace,
    /// The states since the last sync that succeeded: after a loss of power one of them is there.
    states: Vec<Vec<Inode>>,
    now: i64,
    /// The largest ids that were assigned.
    file: FileId,
    truncation: TruncationId,
}

fn open_on(disk: &MemoryDisk, journal: u64, stored: FileId) -> Result<Namespace, Error> {
    let config = NamespaceConfig { made: stored != FileId(0), highest_file: stored, ..config(journal) };
    Namespace::open_on(disk.boxed(), config, Stamp(1)).map(|(names, _)| names)
}

fn journal_of(seed: u64) -> u64 {
    [200, 900, 1 << 30][(seed % 3) as usize]
}

impl History {
    fn new(seed: u64) -> History {
        let disk = MemoryDisk::new();
        let names = open_on(&disk, journal_of(seed), FileId(0)).expect("new");
        let states = vec![fingerprint(&names)];
        let rng = Rng::new(seed + 1);
        History { seed, rng, disk, names, states, now: 10, file: FileId(1), truncation: TruncationId(0) }
    }

    fn path(&mut self) -> String {
        format!("/{}", self.rng.below(6))
    }

    /// One change, at most one record.
    fn change(&mut self) -> Result<(), Error> {
        self.now += 1;
        let (by, path) = (caller(0, 0, self.now), self.path());
        match self.rng.below(6) {
            0..=1 => {
                let access = if self.rng.coin() { OpenAccess::Both } else { OpenAccess::Read };
                let opened = self.names.open_file(
                    &path,
                    access,
                    CreateMode::Missing,
                    0o644,
                    LayoutRequest::default(),
                    by,
                )?;
                if opened.created {
                    self.is_new_file(opened.attributes.file);
                }
            }
            2 => self.names.unlink(&path, by)?,
            3 => {
                let to = self.path();
                self.names.rename(&path, &to, true, by)?;
            }
            4 => {
                let made = self.names.make_directory(&path, 0o755, false, by)?.file;
                self.is_new_file(made);
            }
            _ => {
                let file = self.names.lookup(&path)?.file;
                let id = self.names.begin_truncate(file, 7, by)?;
                assert!(id > self.truncation, "seed {}: {id:?} again", self.seed);
                self.truncation = id;
                self.states.push(fingerprint(&self.names));
                self.names.end_truncate(file, id, by)?;
            }
        }
        Ok(())
    }

    fn is_new_file(&mut self, file: FileId) {
        assert!(file > self.file, "seed {}: {file} again", self.seed);
        self.file = file;
    }

    fn fault(&mut self) {
        let from = self.disk.steps() + self.rng.below(6);
        let part = self.rng.below(8) as usize;
        let fault = match self.rng.below(8) {
            0..=1 => Fault::None,
            2..=5 => {
                let errno = if self.rng.coin() { EIO } else { ENOSPC };
                Fault::Fail { from, steps: 1 + self.rng.below(4), part, errno }
            }
            _ => Fault::Stop { step: from, part },
        };
        self.disk.set_fault(fault);
        let capacity = (self.rng.below(8) == 0).then(|| 20_000 + self.rng.below(400_000));
        self.disk.set_capacity(capacity);
    }

    fn sync(&mut self) {
        if self.names.sync().is_ok() {
            let last = self.states.pop().expect("there is always one");
            self.states = vec![last];
        }
    }

    /// Ends the process in some way, and starts another.
    fn restart(&mut self) {
        let orderly = self.rng.below(3) == 0 && self.names.shut_down().is_ok();
        let power = self.rng.coin();
        self.disk.set_fault(Fault::None);
        self.disk.set_capacity(None);
        let after = match power {
            true => self.disk.after_power_loss(self.rng.next()),
            false => self.disk.after_kill(),
        };
        let opened = open_on(&after, journal_of(self.seed), self.file);
        self.names = opened.unwrap_or_else(|error| panic!("seed {}, power {power}: {error}", self.seed));
        self.disk = after;
        let found = fingerprint(&self.names);
        let last = self.states.last().expect("there is always one");
        match power && !orderly {
            true => assert!(self.states.contains(&found), "seed {}: after a loss of power", self.seed),
            false => assert_eq!(&found, last, "seed {}: killed, or ended in order ({orderly})", self.seed),
        }
        // After a loss of power everything that is there is on the medium; after a kill it may not be.
        self.states = if power { vec![found] } else { self.states.clone() };
        self.names.end_grace_period();
        for left in self.names.take_truncations() {
            self.names.truncation_resolved(left.file, left.truncation, Stamp(self.now)).expect("no fault");
            self.states.push(fingerprint(&self.names));
        }
    }

    fn step(&mut self) {
        match self.rng.below(20) {
            0 => self.restart(),
            1..=3 => self.fault(),
            4..=6 => self.sync(),
            _ => {
                let before = fingerprint(&self.names);
                match self.change() {
                    Ok(()) => self.states.push(fingerprint(&self.names)),
                    Err(_) => {
                        // A truncation that has begun and could not be ended has changed something before.
                        let now = fingerprint(&self.names);
                        let known = self.states.last().is_some_and(|last| *last == now);
                        assert!(
                            now == before || known,
                            "seed {}: a failed change changes nothing",
                            self.seed
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn acknowledged_and_synced_changes_survive_faulty_storage() {
    let seeds = std::env::var("PARIO_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    for seed in 0..seeds {
        let mut history = History::new(seed);
        for _ in 0..STEPS {
            history.step();
        }
        history.restart();
    }
}
