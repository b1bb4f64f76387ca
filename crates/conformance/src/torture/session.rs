//! A session: one partition, and rounds in which workers work while faults happen. At the end of each round everything is
//! brought up again, read by a fresh process, and judged.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use pario::{OpenOptions, Options, Partition, PlacementMap, ServerId};

use super::cluster::{Cluster, LaunchWorker};
use super::contents::{Contents, seconds};
use super::fault::{Ending, Fault, FaultKind};
use super::history::{Nanos, now};
use super::names::Names;
use super::tally::Tally;
use super::worker::{Doom, FLUSH_DEADLINE, Fate, LIMIT, NAME, Task, directory, file_path};
use crate::dice::Dice;
use crate::processes::ProcessHandle;

/// No call takes longer: the longest deadline twice, and what a busy machine may add to it.
pub(super) const LONGEST_CALL: Nanos = (FLUSH_DEADLINE.as_secs() * 2 + 12) * 1_000_000_000;

/// A worker that was told to end has ended after that.
const LONGEST_END: Duration = Duration::from_secs(150);

/// Running servers complete the requests of a killed client within this time.
const AFTERMATH: Nanos = 2_000_000_000;

/// A description of a violation.
pub type Violation = String;

/// A session.
pub struct Session<'a> {
    pub(super) cluster: Cluster<'a>,
    pub(super) dice: Dice,
    kinds: Vec<FaultKind>,
    pub(super) tally: &'a Tally,
    slots: usize,
    pub(super) files: Vec<Contents>,
    pub(super) names: Vec<Names>,
    pub(super) workers: BTreeMap<usize, Running>,
    next_worker: u32,
    log: fs::File,
    /// Of this round.
    pub(super) round: Round,
}

/// A worker's process.
pub(super) struct Running {
    pub child: Child,
    pub task: Task,
}

/// The events of a round.
#[derive(Default)]
pub(super) struct Round {
    pub until: Option<Instant>,
    /// All workers, dead or alive.
    pub tasks: Vec<Task>,
    pub deaths: BTreeMap<u32, Nanos>,
    /// When workers were stopped.
    pub stops: Vec<(u32, Nanos, Nanos)>,
    /// When servers were not as they should be.
    pub disturbed: Vec<(Nanos, Nanos)>,
    /// When all memory was lost.
    pub losses: Vec<Nanos>,
    pub was_full: bool,
    /// How often servers ended in order.
    pub downs: u32,
}

impl Round {
    /// The time after which no call of a killed worker takes effect.
    pub fn over(&self, worker: u32) -> Nanos {
        let Some(death) = self.deaths.get(&worker) else { return Nanos::MAX };
        let mut at = *death;
        for (start, end) in &self.disturbed {
            if *start <= at + AFTERMATH {
                at = at.max(*end);
            }
        }
        at + AFTERMATH
    }
}

pub(super) fn io(error: std::io::Error) -> Violation {
    format!("the torture itself failed: {error}")
}

impl<'a> Session<'a> {
    /// Runs so many rounds in a directory of its own.
    pub fn run(
        dir: PathBuf,
        seed: u64,
        rounds: u32,
        kinds: &[FaultKind],
        launch: LaunchWorker<'a>,
        tally: &'a Tally,
    ) -> Result<(), Violation> {
        let mut dice = Dice::new(seed);
        let small = kinds.contains(&FaultKind::Full) && dice.one_in(2);
        let log = fs::File::create(dir.join("session.log")).map_err(io)?;
        let cluster = Cluster::new(dir, &mut dice, small, launch).map_err(io)?;
        let mut kinds = kinds.to_vec();
        kinds.retain(|kind| *kind != FaultKind::Full || cluster.small.is_some());
        let slots = 1 + dice.index(4);
        let mut session = Session {
            cluster,
            dice,
            kinds,
            tally,
            slots,
            files: Vec::new(),
            names: (0..slots).map(|_| Names::default()).collect(),
            workers: BTreeMap::new(),
            next_worker: 1,
            log,
            round: Round::default(),
        };
        let outcome =
            session.set_up().and_then(|()| (0..rounds).try_for_each(|round| session.one_round(round)));
        let outcome = outcome.and_then(|()| session.tear_down());
        outcome.map_err(|why| session.report(seed, &why))
    }

    pub(super) fn note(&mut self, text: &str) {
        // For people only.
        let _ = writeln!(self.log, "{} {text}", seconds(now()));
    }

    fn report(&mut self, seed: u64, why: &str) -> Violation {
        let log = fs::read_to_string(self.cluster.dir.join("session.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(40)..].join("\n");
        let text =
            format!("seed {seed}: {why}\nwhat was done (session.log):\n{tail}\n{}", self.cluster.logs());
        // It is printed in any case.
        let _ = fs::write(self.cluster.dir.join("violation.txt"), &text);
        text
    }

    /// The partition comes up, with its directories and empty files.
    fn set_up(&mut self) -> Result<(), Violation> {
        let said = self.cluster.up().map_err(io)?;
        if !said.succeeded() {
            return Err(format!("a new partition did not come up: {}", said.text));
        }
        let made = self.make_files();
        made.map_err(|error| format!("files of a new partition cannot be made: {error}"))
    }

    fn make_files(&mut self) -> pario::Result<()> {
        let home = self.cluster.dir.join("home");
        let partition = Partition::open_by_name(&home, NAME, Options::default())?;
        for slot in 0..self.slots {
            partition.create_dir(&directory(slot))?;
        }
        let servers = self.cluster.servers as u64;
        for file in 0..2 + self.dice.index(3) {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).stripe(self.dice.pick(&[0, 4096, 10_000, 64 << 10]));
            options.stripe_count(self.dice.below(servers + 1) as u16);
            if self.dice.one_in(3) {
                // One copy each: what an unfinished write left different in two copies may show later.
                let kept = (0..4u64)
                    .map(|i| (i * LIMIT / 4..(i + 1) * LIMIT / 4, vec![ServerId((i % servers) as u16)]));
                options.table(PlacementMap::new(kept.collect::<Vec<_>>()).expect("in order"));
            }
            partition.open(&file_path(file), &options)?.close()?;
            let mut contents = Contents::default();
            contents.rebase(Vec::new(), now());
            self.files.push(contents);
        }
        Ok(())
    }

    fn one_round(&mut self, number: u32) -> Result<(), Violation> {
        // Long enough, now and then, for what a dead client had begun to be over.
        let millis = if self.dice.one_in(3) { 4500 } else { 700 + self.dice.below(2200) };
        self.round =
            Round { until: Some(Instant::now() + Duration::from_millis(millis)), ..Round::default() };
        let faults: Vec<Fault> = (0..1 + self.dice.below(4))
            .filter_map(|_| Fault::choose(&mut self.dice, &self.kinds, self.cluster.servers, self.slots))
            .collect();
        let ending = Ending::choose(&mut self.dice, &self.kinds);
        self.note(&format!("round {number}: {millis} ms, {faults:?}, then {ending:?}"));
        for slot in 0..self.slots {
            let stop = faults.contains(&Fault::DownUpAround { slot });
            self.start_worker(slot, stop)?;
        }
        for fault in faults {
            let pause = Duration::from_millis(20 + self.dice.below(millis / 3));
            self.wait(pause)?;
            self.note(&format!("{fault:?}"));
            self.tally.fault(fault.kind());
            self.strike(fault)?;
            self.note("done");
        }
        self.finish_workers()?;
        self.bring_up()?;
        self.end(ending)?;
        self.judge()?;
        if ending == Ending::LostFiles {
            for _ in 0..1 + self.dice.below(3) {
                self.lose_files()?;
            }
            self.round = Round::default();
            self.judge()?;
        }
        self.tally.round();
        Ok(())
    }

    fn start_worker(&mut self, slot: usize, stop: bool) -> Result<(), Violation> {
        let left =
            self.round.until.map_or(0, |until| until.saturating_duration_since(Instant::now()).as_millis());
        let most = self.dice.pick(&[30, 300]);
        let call = 3 + self.dice.below(most);
        let doom = match stop {
            true => Some(Doom { signal: Fate::Stop, call }),
            false if self.kinds.contains(&FaultKind::Kill) && self.dice.one_in(3) => {
                Some(Doom { signal: Fate::Kill, call })
            }
            false => None,
        };
        let task = self.task(slot, (left as u64).max(1), doom);
        self.note(&format!("worker {} starts in slot {slot}, {doom:?}", task.worker));
        let child = self.cluster.spawn(&task).map_err(io)?;
        self.round.tasks.push(task.clone());
        self.workers.insert(slot, Running { child, task });
        Ok(())
    }

    pub(super) fn task(&mut self, slot: usize, millis: u64, doom: Option<Doom>) -> Task {
        let worker = self.next_worker;
        self.next_worker += 1;
        Task {
            worker,
            slot,
            slots: self.slots,
            seed: self.dice.next(),
            journal: self.cluster.dir.join(format!("worker-{worker:04}")),
            millis,
            far: self.dice.one_in(3),
            keeps: self.dice.one_in(8),
            files: self.files.len(),
            doom,
        }
    }

    /// Lets time pass, and starts successors of workers that died.
    pub(super) fn wait(&mut self, time: Duration) -> Result<(), Violation> {
        let until = Instant::now() + time;
        loop {
            for slot in 0..self.slots {
                self.tend(slot)?;
            }
            if Instant::now() >= until {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn tend(&mut self, slot: usize) -> Result<(), Violation> {
        let Some(running) = self.workers.get_mut(&slot) else { return Ok(()) };
        let status = running.child.try_wait().map_err(io)?;
        let process = ProcessHandle(running.child.id());
        if let Some(status) = status {
            self.ended(slot, status)?;
            let left = self.round.until.is_some_and(|until| Instant::now() < until);
            return if left && status.signal().is_some() { self.start_worker(slot, false) } else { Ok(()) };
        }
        if self.round.until.is_some_and(|until| Instant::now() > until) && process.is_stopped() {
            // It stopped itself, and no fault waited for that.
            process.go_on();
        }
        Ok(())
    }

    fn ended(&mut self, slot: usize, status: ExitStatus) -> Result<(), Violation> {
        let Some(running) = self.workers.remove(&slot) else { return Ok(()) };
        let worker = running.task.worker;
        match (status.code(), status.signal()) {
            (Some(0), _) => Ok(()),
            (_, Some(9)) => {
                self.note(&format!("worker {worker} is dead"));
                self.tally.died();
                self.round.deaths.insert(worker, now());
                Ok(())
            }
            _ => {
                let log = running.task.journal.with_extension("log");
                let said = fs::read_to_string(log).unwrap_or_default();
                Err(format!("worker {worker} ended with {status}: {said}"))
            }
        }
    }

    fn finish_workers(&mut self) -> Result<(), Violation> {
        let until = self.round.until.unwrap_or_else(Instant::now).max(Instant::now()) + LONGEST_END;
        while !self.workers.is_empty() {
            self.wait(Duration::from_millis(5))?;
            if Instant::now() > until {
                let workers: Vec<u32> = self.workers.values().map(|running| running.task.worker).collect();
                return Err(format!("workers {workers:?} do not end: a call hangs"));
            }
        }
        Ok(())
    }
}
