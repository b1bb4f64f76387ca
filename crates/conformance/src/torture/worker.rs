//! A process that uses a partition through the crate `pario` and keeps a journal of it.
//!
//! The seed says what it does. It may be doomed: at a call that the seed chooses, some microseconds after its
//! beginning, it kills or stops itself by the signal that it would get from outside.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pario::{OpenOptions, Options, Partition, TierOptions};
use rustix::process::{Signal, getpid, kill_process};

use super::history::{CallOutcome, How, Journal, Op, content};
use super::names;
use super::worker_file::{WorkerFile, failed, outcome};
use crate::dice::Dice;

/// The variable that says what a worker has to do.
pub const VARIABLE: &str = "PARIO_TORTURE_WORKER";

/// The partition's name.
pub const NAME: &str = "torture";

/// Within this a call to a server returns, if it does not store everything.
pub const DEADLINE: Duration = Duration::from_secs(4);
/// And within this, if it does.
pub const FLUSH_DEADLINE: Duration = Duration::from_secs(8);

/// The most bytes of a file.
pub const LIMIT: u64 = 384 << 10;

/// The longest read whose bytes get into the journal.
const LONGEST_READ: u64 = 6000;

/// The task of a worker.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its own number, of all workers of a session.
    pub worker: u32,
    /// Which of the workers at a time it is, and of how many.
    pub slot: usize,
    pub slots: usize,
    pub seed: u64,
    pub journal: PathBuf,
    /// How long it works; 0: it looks at everything once.
    pub millis: u64,
    /// Whether it reaches servers by TCP.
    pub far: bool,
    /// Whether it keeps blocks in its own memory (tier 1).
    pub keeps: bool,
    pub files: usize,
    pub doom: Option<Doom>,
}

/// The end of a worker, or its interruption, in the middle of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doom {
    pub signal: Fate,
    /// Which call.
    pub call: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Kill,
    Stop,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Task { worker, slot, slots, seed, millis, far, keeps, files, .. } = self;
        let doom = match self.doom {
            None => "none".to_owned(),
            Some(Doom { signal: Fate::Kill, call }) => format!("kill:{call}"),
            Some(Doom { signal: Fate::Stop, call }) => format!("stop:{call}"),
        };
        let journal = self.journal.display();
        write!(f, "{worker} {slot} {slots} {seed} {millis} {far} {keeps} {files} {doom} {journal}")
    }
}

impl FromStr for Task {
    type Err = String;

    fn from_str(text: &str) -> Result<Task, String> {
        fn next<T: FromStr>(words: &mut std::str::SplitN<'_, char>) -> Result<T, String> {
            let word = words.next().ok_or("a word is missing")?;
            word.parse().map_err(|_| format!("`{word}` is not understood"))
        }
        let words = &mut text.splitn(10, ' ');
        let (worker, slot, slots, seed) = (next(words)?, next(words)?, next(words)?, next(words)?);
        let (millis, far, keeps, files) = (next(words)?, next(words)?, next(words)?, next(words)?);
        let doom: String = next(words)?;
        let doom = doom.split_once(':').map(|(signal, call)| {
            let signal = if signal == "kill" { Fate::Kill } else { Fate::Stop };
            call.parse().map(|call| Doom { signal, call }).map_err(|_| format!("`{call}` is no number"))
        });
        let (doom, journal) = (doom.transpose()?, next(words)?);
        Ok(Task { worker, slot, slots, seed, journal, millis, far, keeps, files, doom })
    }
}

/// The path of a shared file.
pub fn file_path(file: usize) -> String {
    format!("/f{file}")
}

/// The directory in which a slot's workers change names.
pub fn directory(slot: usize) -> String {
    format!("/w{slot}")
}

/// Does the task that the environment names; `false` if it names none.
pub fn run_if_told() -> bool {
    let Ok(text) = std::env::var(VARIABLE) else { return false };
    let task: Task = text.parse().unwrap_or_else(|why| panic!("{VARIABLE}: {why}"));
    let journal = Journal::create(&task.journal).expect("a new journal");
    let mut worker = Worker::new(task, journal);
    if let Some(partition) = worker.connect() {
        match worker.task.millis {
            0 => worker.look(&partition),
            _ => worker.work(&partition),
        }
    }
    true
}

struct Worker {
    task: Task,
    journal: Journal,
    dice: Dice,
    files: Vec<Option<WorkerFile>>,
    calls: u64,
    serials: u64,
    until: Instant,
}

impl Worker {
    fn new(task: Task, journal: Journal) -> Worker {
        let files = (0..task.files).map(|_| None).collect();
        let until = Instant::now() + Duration::from_millis(task.millis);
        Worker { dice: Dice::new(task.seed), task, journal, files, calls: 0, serials: 0, until }
    }

    /// A number that no other write or name has.
    fn serial(&mut self) -> u64 {
        self.serials += 1;
        (u64::from(self.task.worker) << 32) + self.serials
    }

    /// Makes a call, in which the worker may end.
    fn call(&mut self, op: Op, act: impl FnOnce() -> CallOutcome) -> CallOutcome {
        self.calls += 1;
        let doomed = self.task.doom.filter(|doom| doom.call == self.calls);
        let most = self.dice.pick(&[300, 5000]);
        let delay = Duration::from_micros(self.dice.below(most));
        let fate = doomed.map(|doom| {
            let signal = if doom.signal == Fate::Kill { Signal::KILL } else { Signal::STOP };
            std::thread::spawn(move || {
                let until = Instant::now() + delay;
                while Instant::now() < until {
                    std::hint::spin_loop();
                }
                kill_process(getpid(), signal).expect("a process may send itself signals");
            })
        });
        let outcome = self.journal.call(&op, act);
        if let Some(fate) = fate {
            fate.join().expect("it does not panic");
        }
        outcome
    }

    /// Tries until it works or the time is over.
    fn connect(&mut self) -> Option<Partition> {
        // A worker that only reads has time: servers wait for a dead process's leases.
        let looks = self.task.millis == 0;
        let options = Options {
            deadline: if looks { Duration::from_secs(40) } else { DEADLINE },
            flush_deadline: FLUSH_DEADLINE,
            far: self.task.far,
            ..Options::default()
        };
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let mut partition = None;
            self.call(Op::Connect, || match pario::open_with(NAME, options) {
                Ok(open) => {
                    partition = Some(open);
                    CallOutcome::Done
                }
                Err(error) => failed(&error),
            });
            if partition.is_some() || Instant::now() >= until {
                return partition;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Looks at all files and all directories.
    fn look(&mut self, partition: &Partition) {
        for file in 0..self.task.files {
            if self.open(partition, file, How::Read) {
                self.len(file);
                self.read(file, 0, LIMIT * 2);
                self.close(file);
            }
        }
        for slot in 0..self.task.slots {
            self.list(partition, slot);
        }
    }

    fn work(&mut self, partition: &Partition) {
        while Instant::now() < self.until {
            // The check takes time for every call, so there are not too many.
            if self.dice.one_in(2) {
                std::thread::sleep(Duration::from_micros(self.dice.below(4000)));
            }
            let doomed = self.task.doom.is_some_and(|doom| doom.call == self.calls + 1);
            if self.dice.one_in(12) {
                self.change_names(partition);
                continue;
            }
            let file = self.dice.index(self.task.files);
            if self.files[file].is_none() {
                let how = if self.dice.one_in(20) { How::Truncate } else { How::Write };
                if !self.open(partition, file, how) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                continue;
            }
            if doomed {
                // The calls that are most worth being interrupted.
                match self.dice.one_in(2) {
                    true => self.set_len(file),
                    false => self.write_large(file),
                }
                continue;
            }
            match self.dice.below(40) {
                0 => self.set_len(file),
                1 => self.sync(file),
                2 => self.flush(file),
                3 => self.close(file),
                4 => self.files[file] = None,
                5 => self.len(file),
                6..=11 => {
                    let (at, len) = (self.dice.below(LIMIT), 1 + self.dice.below(LONGEST_READ));
                    self.read(file, at, len);
                }
                12..=14 => self.write_large(file),
                15..=17 => self.write_pieces(file),
                _ => self.write_small(file),
            }
        }
        if self.dice.one_in(2) {
            // As a program ends that does not care: what it wrote is there all the same.
            std::process::exit(0);
        }
        for file in 0..self.task.files {
            if self.dice.one_in(2) {
                self.sync(file);
            }
            self.close(file);
        }
    }

    fn open(&mut self, partition: &Partition, file: usize, how: How) -> bool {
        let mut options = OpenOptions::new();
        options.read(true).write(how != How::Read).truncate(how == How::Truncate);
        let mut opened = None;
        self.call(Op::Open { file, how }, || match partition.open(&file_path(file), &options) {
            Ok(file) => {
                opened = Some(WorkerFile { file, cached: None });
                CallOutcome::Done
            }
            Err(error) => failed(&error),
        });
        if let Some(open) = opened.as_mut().filter(|_| self.task.keeps && how != How::Read) {
            // A team of its own; if servers are away it does without.
            let options = TierOptions { bytes: 256 << 10, ..TierOptions::default() };
            let team = u128::from(self.task.worker) << 64 | u128::from(self.task.seed);
            open.cached = partition.tier1().open(&open.file, team, &options).ok().map(Arc::new);
        }
        self.files[file] = opened;
        self.files[file].is_some()
    }

    /// Makes a call that is about an open file.
    fn with(&mut self, file: usize, op: Op, act: impl FnOnce(&WorkerFile) -> CallOutcome) {
        let Some(open) = self.files[file].clone() else { return };
        self.call(op, || act(&open));
    }

    fn close(&mut self, file: usize) {
        let Some(open) = self.files[file].take() else { return };
        self.call(Op::Close { file }, || outcome(open.close()));
    }

    fn sync(&mut self, file: usize) {
        self.with(file, Op::Sync { file }, |open| outcome(open.stage().and_then(|()| open.file.sync())));
    }

    fn flush(&mut self, file: usize) {
        self.with(file, Op::Flush { file }, |open| outcome(open.stage().and_then(|()| open.file.flush())));
    }

    fn len(&mut self, file: usize) {
        self.with(file, Op::Len { file }, |open| {
            open.file.len().map_or_else(|error| failed(&error), CallOutcome::Size)
        });
    }

    fn set_len(&mut self, file: usize) {
        let most = self.dice.pick(&[1, 10_000, LIMIT, LIMIT]);
        let size = self.dice.below(most);
        self.with(file, Op::SetLen { file, size }, |open| outcome(open.set_len(size)));
    }

    fn read(&mut self, file: usize, at: u64, len: u64) {
        self.with(file, Op::Read { file, at, len }, |open| {
            // Not zeros, which might pass for what was read.
            let mut bytes = vec![0xa5; len as usize];
            match open.read(&mut bytes, at) {
                Ok(read) => {
                    bytes.truncate(read);
                    CallOutcome::Bytes(bytes)
                }
                Err(error) => failed(&error),
            }
        });
    }

    /// Mostly in this worker's own slice of the file, where no other worker overwrites lost bytes.
    fn place(&mut self, len: u64) -> u64 {
        let slice = LIMIT / self.task.slots as u64;
        match self.dice.one_in(4) {
            true => self.dice.below(LIMIT - len),
            false => self.task.slot as u64 * slice + self.dice.below(slice.saturating_sub(len).max(1)),
        }
    }

    fn write_small(&mut self, file: usize) {
        let most = self.dice.pick(&[20, 600, 5000]);
        let len = 1 + self.dice.below(most);
        let at = self.place(len);
        self.write(file, vec![(at, len)]);
    }

    fn write_large(&mut self, file: usize) {
        let len = 4096 + self.dice.below(90_000);
        let at = self.place(len) / 512 * 512;
        self.write(file, vec![(at, len)]);
    }

    fn write_pieces(&mut self, file: usize) {
        let (len, stride) = (1 + self.dice.below(300), 400 + self.dice.below(9000));
        let count = 2 + self.dice.below(6);
        let at = self.place(count * stride);
        self.write(file, (0..count).map(|i| (at + i * stride, len)).collect());
    }

    fn write(&mut self, file: usize, extents: Vec<(u64, u64)>) {
        let serial = self.serial();
        let bytes: Vec<_> = extents.iter().map(|(at, len)| (*at, content(serial, *at, *len))).collect();
        let kept = self.files[file].as_ref().is_some_and(|open| open.cached.is_some());
        self.with(file, Op::Write { file, serial, extents, kept }, |open| {
            let pieces: Vec<_> = bytes.iter().map(|(at, bytes)| (*at, bytes.as_slice())).collect();
            outcome(open.write(&pieces))
        });
    }

    fn name(&mut self) -> String {
        format!("n{}", self.dice.below(5))
    }

    fn change_names(&mut self, partition: &Partition) {
        let directory = directory(self.task.slot);
        let path = |name: &str| format!("{directory}/{name}");
        let name = self.name();
        match self.dice.below(6) {
            0 => {
                self.call(Op::Remove { name: name.clone() }, || outcome(partition.remove_file(&path(&name))));
            }
            1 | 2 => {
                let to = self.name();
                if to != name {
                    let op = Op::Rename { from: name.clone(), to: to.clone() };
                    self.call(op, || outcome(partition.rename(&path(&name), &path(&to))));
                }
            }
            3 => self.list(partition, self.task.slot),
            _ => self.put(partition, name, &path),
        }
    }

    /// A new file with its number in it.
    fn put(&mut self, partition: &Partition, name: String, path: &dyn Fn(&str) -> String) {
        let number = self.serial();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).stripe(4096);
        let mut created = None;
        self.call(Op::Create { name: name.clone(), number }, || {
            match partition.open(&path(&name), &options) {
                Ok(file) => {
                    created = Some(file);
                    CallOutcome::Done
                }
                Err(error) => failed(&error),
            }
        });
        let Some(file) = created else { return };
        let filled = self.call(Op::Fill { name: name.clone(), number }, || {
            outcome(file.write_at(&names::content(number), 0))
        });
        if filled == CallOutcome::Done {
            self.call(Op::CloseNew { name }, || outcome(file.close()));
        }
    }

    fn list(&mut self, partition: &Partition, slot: usize) {
        let list = || -> pario::Result<Vec<(String, Vec<u8>)>> {
            let mut names = Vec::new();
            for entry in partition.read_dir(&directory(slot)) {
                let entry = entry?;
                let path = format!("{}/{}", directory(slot), entry.name());
                let file = partition.open(&path, OpenOptions::new().read(true))?;
                let mut bytes = vec![0xa5; 64];
                let read = file.read_at(&mut bytes, 0)?;
                bytes.truncate(read);
                names.push((entry.name().to_owned(), bytes));
            }
            Ok(names)
        };
        self.call(Op::List { slot }, || list().map_or_else(|error| failed(&error), CallOutcome::Names));
    }
}
