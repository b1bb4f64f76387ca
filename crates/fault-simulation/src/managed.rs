//! A partition that commands bring up and take down, with the supervisors of its servers.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use pario_client::Target;
use pario_registry::{Registry, run_directories};
use pario_runtime::simulation::command::start_program;
use pario_runtime::simulation::process::{self, HostId, SimulatedPid};
use pario_runtime::simulation::{file_system, planned_kill, process_table, random, scheduler};
use pario_runtime::thread;

use crate::client::Resolver;
use crate::copies;
use crate::events::Events;
use crate::faults::later;
use crate::plan::{FaultKind, Plan};
use crate::program::{self, CommandRun, CommandRuns, HOME, NAME};

/// How long a command may take if nothing is wrong.
const LONGEST_COMMAND: Duration = Duration::from_secs(240);

/// How long the processes of a server may take to end after `down` has.
const LAST_PROCESSES: Duration = Duration::from_secs(20);

/// The longest time until a command is killed: one that only waits for processes of its host is quick.
const SHORT: Duration = Duration::from_millis(5);
const LONG: Duration = Duration::from_secs(6);

/// One of these is the most scheduling points of a process until it is killed: a command has about a hundred.
const MOST_POINTS: [u64; 4] = [40, 100, 100, 400];

/// The signal that asks a server to end.
pub const SIGTERM: i32 = 15;

/// A partition under the control of commands.
pub struct Managed {
    plan: Plan,
    runs: CommandRuns,
    /// Decides when an administrator looks after the partition.
    random: RefCell<Rng>,
}

impl Managed {
    pub fn new(plan: &Plan) -> Managed {
        let runs: CommandRuns = Rc::new(RefCell::new(Vec::new()));
        program::install(plan, &runs);
        let random = RefCell::new(random::stream(plan.seed, "administrator", 0));
        Managed { plan: plan.clone(), runs, random }
    }

    /// Finds the partition as a program does: in the registry.
    pub fn resolver() -> Resolver {
        Arc::new(|| {
            let registry = Registry::existing(Path::new(HOME))?;
            let entry = registry.get(NAME)?;
            let secret = registry.secret(entry.id)?;
            Target::of_entry(&entry, secret)
        })
    }

    /// Starts a command on a host.
    pub fn start(&self, host: HostId, words: &[&str]) -> SimulatedPid {
        scheduler::log(format!("starts pario {} on host {}", words.join(" "), host.0));
        start_program(host, words)
    }

    /// The processes that are this part of a server.
    pub fn parts(part: &str) -> Vec<SimulatedPid> {
        process_table::find_processes(|words| words == ["serve", "--part", part])
    }

    /// The commands that run.
    fn commands() -> Vec<SimulatedPid> {
        process_table::find_processes(|words| words.first().is_some_and(|word| word != "serve"))
    }

    /// The commands of that name that run.
    fn commands_named(name: &str) -> Vec<SimulatedPid> {
        process_table::find_processes(|words| words.first().is_some_and(|word| word == name))
    }

    /// A process for a fault: a server, a supervisor, or a command.
    pub fn victim(&self, random: &mut Rng) -> Option<SimulatedPid> {
        let candidates = match random.u32(0..4) {
            0 => Managed::parts("supervisor"),
            1 => process_table::find_processes(|words| words.last().is_some_and(|word| word != "server")),
            _ => Managed::parts("server"),
        };
        random.choice(candidates)
    }

    /// Sends SIGTERM to a server or its supervisor.
    pub fn terminate(&self, random: &mut Rng) {
        let part = if random.bool() { "server" } else { "supervisor" };
        if let Some(process) = random.choice(Managed::parts(part)) {
            process_table::deliver_signal(process, SIGTERM);
        }
    }

    /// An administrator who sees now and then that servers are missing runs `up`.
    pub fn tend(&self) {
        let mut random = self.random.borrow_mut();
        let is_missing = Managed::parts("server").len() < self.plan.servers.into();
        let is_busy = ["up", "down"].iter().any(|name| !Managed::commands_named(name).is_empty());
        if is_missing && !is_busy && random.u32(0..20) == 0 {
            let process = self.start(HostId(random.u32(1..=self.plan.hosts)), &["up"]);
            self.disturb(process, SHORT, &mut random);
        }
    }

    /// An administrator who has seen that a host started again runs `up`.
    pub fn bring_up_soon(&self, random: &mut Rng) {
        let host = HostId(random.u32(1..=self.plan.hosts));
        later(&[500], random, move || {
            start_program(host, &["up"]);
        });
    }

    /// Runs a command to its end.
    fn finish(&self, words: &[&str]) -> Result<CommandRun, String> {
        let process = self.start(HostId(1), words);
        self.await_end(process)?;
        let runs = self.runs.borrow();
        let run = runs.iter().rfind(|run| run.process == process).cloned();
        run.ok_or_else(|| format!("pario {} did not begin", words.join(" ")))
    }

    fn await_end(&self, process: SimulatedPid) -> Result<(), String> {
        let until = scheduler::now() + LONGEST_COMMAND.as_nanos() as u64;
        while process::is_alive(process) {
            if scheduler::now() > until {
                return Err(format!("process {} does not end", process.0));
            }
            scheduler::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Runs a command that has to succeed.
    pub fn succeed(&self, words: &[&str]) -> Result<CommandRun, String> {
        let run = self.finish(words)?;
        match run.end {
            Some((_, 0)) => Ok(run),
            _ => Err(format!("pario {} fails though nothing disturbs it: {}", words.join(" "), run.message)),
        }
    }

    /// Waits for the commands that run, and brings the partition up.
    pub fn bring_up(&self) -> Result<(), String> {
        for process in Managed::commands() {
            self.await_end(process)?;
        }
        self.succeed(&["up"]).map(drop)
    }

    /// Takes the partition down. Nothing of it is left then but what is on the disks.
    pub fn take_down(&self) -> Result<(), String> {
        self.succeed(&["down"])?;
        let until = scheduler::now() + LAST_PROCESSES.as_nanos() as u64;
        loop {
            let left = process_table::find_processes(|_| true);
            if left.is_empty() {
                break;
            }
            if scheduler::now() > until {
                let left: Vec<String> = left.into_iter().map(|process| process.0.to_string()).collect();
                return Err(format!("after pario down the processes {} run", left.join(", ")));
            }
            scheduler::sleep(Duration::from_millis(20));
        }
        let registry = Registry::existing(Path::new(HOME)).map_err(|error| error.to_string())?;
        let entry = registry.get(NAME).map_err(|error| error.to_string())?;
        if !entry.running.is_empty() || !entry.abandoned.is_empty() {
            return Err("after pario down the registry has servers".to_owned());
        }
        (1..=self.plan.hosts).map(HostId).try_for_each(nothing_left)
    }

    /// Takes the partition down, and all hosts lose their memory, or even power: nothing is lost by that. After a failed sync a server may refuse
    /// to end.
    pub fn take_down_and_lose_memory(&self, is_storage_damaged: bool) -> Result<(), String> {
        match self.take_down() {
            Err(_) if is_storage_damaged => return self.bring_up(),
            outcome => outcome?,
        }
        for host in (1..=self.plan.hosts).map(HostId) {
            process::reboot(host);
            if self.plan.has_kind(FaultKind::PowerLost) {
                file_system::lose_power(host);
            }
        }
        Ok(())
    }

    /// The end of a history: nothing is wrong with the partition, and it goes down without a trace. Damage of the storage stays: `check`
    /// reports it, and a server may refuse to end.
    pub fn finish_history(&self, events: &Events) -> Result<(), String> {
        if events.is_storage_damaged {
            return self.finish(&["check"]).map(drop);
        }
        copies::check(self, &events.power_losses)?;
        // A truncation of a dead client may be left to be repaired.
        self.succeed(&["check", "--repair"])?;
        let run = self.succeed(&["check"])?;
        if !run.message.is_empty() {
            return Err(format!("pario check finds something after a repair: {}", run.message));
        }
        self.take_down()
    }

    /// The commands so far.
    pub fn runs(&self) -> Vec<CommandRun> {
        self.runs.borrow().clone()
    }

    /// Starts a command, which others may disturb.
    pub fn start_command(&self, kind: FaultKind, random: &mut Rng) {
        let host = HostId(random.u32(1..=self.plan.hosts));
        let words = match kind {
            FaultKind::Up => vec!["up".to_owned()],
            FaultKind::Down => vec!["down".to_owned()],
            FaultKind::Scale => vec!["scale".to_owned()],
            FaultKind::Copy => copies::draw(&self.plan, self.runs.borrow().len(), random),
            _ if random.bool() => vec!["check".to_owned(), "--repair".to_owned()],
            _ => vec!["check".to_owned()],
        };
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let process = self.start(host, &words);
        if words.contains(&"--slow") {
            self.disturb(process, LONG, random);
        } else {
            self.disturb(process, SHORT, random);
        }
        if random.u32(0..3) == 0 {
            let victim = self.victim(random).filter(|_| self.has_kills());
            victim.into_iter().for_each(|victim| kill_soon(victim, random));
        }
        let (other, kind) = if random.bool() { ("up", FaultKind::Up) } else { ("down", FaultKind::Down) };
        if random.u32(0..3) == 0 && self.plan.has_kind(kind) {
            // Two commands at once.
            let process = self.start(HostId(random.u32(1..=self.plan.hosts)), &[other]);
            self.disturb(process, SHORT, random);
        }
    }

    fn has_kills(&self) -> bool {
        self.plan.has_kind(FaultKind::Kill)
    }

    /// Kills a command in the middle, if processes are killed in this history at all. A copy is resumed then.
    fn disturb(&self, command: SimulatedPid, longest: Duration, random: &mut Rng) {
        if !self.has_kills() || random.bool() {
            return;
        }
        if longest == SHORT && random.u32(0..4) > 0 {
            return kill_soon(command, random);
        }
        let time = Duration::from_nanos(random.u64(0..longest.as_nanos() as u64));
        thread::spawn(move || {
            scheduler::sleep(time);
            let words = process_table::words_of(command);
            if process::is_alive(command) {
                let host = process::host_of(command);
                process::kill(command);
                if words.iter().any(|word| word == "--slow") {
                    let quick = words.iter().filter(|word| !word.starts_with("--")).map(String::as_str);
                    let mut words: Vec<&str> = quick.collect();
                    words.insert(1, "--resume");
                    start_program(host, &words);
                }
            }
        });
    }

    /// Whether everything that was acknowledged is on the disks: the last thing that happened to the partition is a `down` that
    /// succeeded.
    pub fn is_stored(&self) -> bool {
        let runs = self.runs.borrow();
        let is = |run: &CommandRun, name: &str| run.words.first().is_some_and(|word| word == name);
        let down = runs.iter().rev().find(|run| is(run, "down") && matches!(run.end, Some((_, 0))));
        let Some(down) = down else { return false };
        let is_earlier = |run: &CommandRun| {
            run.end.is_some_and(|(end, _)| end < down.start) && !process::is_alive(run.process)
        };
        runs.iter().filter(|run| is(run, "up")).all(is_earlier)
    }
}

/// Kills a process at one of its next steps.
fn kill_soon(process: SimulatedPid, random: &mut Rng) {
    let most = MOST_POINTS[random.usize(0..MOST_POINTS.len())];
    planned_kill::kill_after(process, random.u64(1..most));
}

/// No run directory is left on a host.
fn nothing_left(host: HostId) -> Result<(), String> {
    let found = Rc::new(RefCell::new(Vec::new()));
    let result = Rc::clone(&found);
    let look = move || *result.borrow_mut() = run_directories(Path::new("/dev/shm")).unwrap_or_default();
    let process = process::start_process(host, "look", look);
    while process::is_alive(process) {
        scheduler::sleep(Duration::from_micros(100));
    }
    match found.borrow().first() {
        None => Ok(()),
        Some(left) => Err(format!("after pario down there is {}", left.path.display())),
    }
}
