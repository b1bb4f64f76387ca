//! The program `pario` as simulated processes run it: the functions behind its subcommands, with the settings of a history.

use std::cell::RefCell;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use pario_check::CheckReport;
use pario_client::OpenOptions;
use pario_copy::{Connections, CopyObserver, CopyOptions, pairs};
use pario_launch::serve::{self, ServePart};
use pario_launch::{LaunchSettings, StopOptions, bring_up, bring_up_known, take_down};
use pario_registry::{Description, Registry};
use pario_runtime::fs;
use pario_runtime::simulation::process::{SimulatedPid, current_process};
use pario_runtime::simulation::{host, process_table, scheduler};
use pario_types::Progress;

use crate::cluster::host_of;
use crate::plan::{BLOCK, FaultKind, Plan};
use crate::scaling;

/// The directory of the registry, on a file system that all hosts share.
pub const HOME: &str = "/home/pario";

/// The name of the partition.
pub const NAME: &str = "scratch";

/// How long `up` and `down` wait for servers and for each other.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The bytes per second of a slow copy that is not killed: it ends before it notes its progress, so that only its close stores it.
const SLOW_RATE: u64 = 80_000;

/// The bytes per second of a slow copy that may be killed: it notes its progress once or twice.
const SLOWER_RATE: u64 = 30_000;

/// The bytes per second of a slow copy whose threads pause for long: it notes its progress several times.
const SLOWEST_RATE: u64 = 12_000;

/// A command that was run.
#[derive(Clone, Debug)]
pub struct CommandRun {
    pub process: SimulatedPid,
    pub words: Vec<String>,
    pub start: u64,
    /// When it ended by itself, and its exit code.
    pub end: Option<(u64, u8)>,
    /// The message for the user.
    pub message: String,
    /// The content of the copy that it has made, as far as it could be read afterwards.
    pub copied: Option<Vec<u8>>,
}

/// All commands of a history, in the order of their starts.
pub type CommandRuns = Rc<RefCell<Vec<CommandRun>>>;

/// The exit code of a command, and its message.
type CommandOutcome = (u8, String);

/// From now on simulated processes can start `pario`.
pub fn install(plan: &Plan, runs: &CommandRuns) {
    let (plan, runs) = (plan.clone(), Rc::clone(runs));
    process_table::set_program(move |words| main(words, &plan, &runs));
}

fn main(words: &[String], plan: &Plan, runs: &CommandRuns) -> u8 {
    let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
    if let ["serve", "--part", part] = arguments[..] {
        let part: ServePart = part.parse().expect("a part of a server");
        return serve::run(part).value();
    }
    let index = runs.borrow().len();
    let (process, words, start) = (current_process(), words.to_vec(), scheduler::now());
    runs.borrow_mut().push(CommandRun {
        process,
        words,
        start,
        end: None,
        message: String::new(),
        copied: None,
    });
    let (code, message) = match arguments[..] {
        ["up"] => code_of(up(plan)),
        ["down"] => code_of(down()),
        ["scale"] => code_of(scaling::scale(plan)),
        ["check"] => check(false),
        ["check", "--repair"] => check(true),
        ["cp", ref options @ .., from, to] => code_of(copy(plan, options, from, to)),
        _ => panic!("there is no command {arguments:?}"),
    };
    scheduler::log(format!("{} exits with {code}: {message:.400}", arguments.join(" ")));
    let copied = match arguments[..] {
        ["cp", .., to] if code == 0 => read_copy(to).ok(),
        _ => None,
    };
    let run = &mut runs.borrow_mut()[index];
    run.copied = copied;
    (run.end, run.message) = (Some((scheduler::now(), code)), message);
    code
}

/// The content of a copy, on this host or in the partition.
fn read_copy(path: &str) -> Result<Vec<u8>, String> {
    let Some(path) = path.strip_prefix(&format!("{NAME}:")) else {
        return fs::read(path).map_err(text_of);
    };
    let mut connections = Connections::for_data(Some(Path::new(HOME)), None);
    let partition = connections.partition(NAME).map_err(text_of)?;
    let file = partition.open(path, OpenOptions::new().read(true)).map_err(text_of)?;
    let mut bytes = vec![0; file.len().map_err(text_of)? as usize];
    let read = file.read_at(&mut bytes, 0).map_err(text_of)?;
    bytes.truncate(read);
    Ok(bytes)
}

fn code_of(outcome: Result<String, String>) -> CommandOutcome {
    match outcome {
        Ok(text) => (0, text),
        Err(why) => (1, why),
    }
}

pub fn settings() -> LaunchSettings {
    let run_base = Some(PathBuf::from("/dev/shm"));
    LaunchSettings { ssh: vec!["ssh".to_owned()], run_base, ..LaunchSettings::default() }
}

/// The directory of a server.
pub fn place(plan: &Plan, server: u16) -> String {
    format!("{}:/disk/{server}", host::name_of(host_of(server.into(), plan)))
}

/// The partition file of a history.
fn description(plan: &Plan) -> Description {
    let server = |index: u16| format!("'{}'", place(plan, index));
    let servers = (0..plan.servers).map(server).collect::<Vec<_>>().join(", ");
    let Plan { stripe, slots, workers, tier1, .. } = plan;
    let listen = if plan.hosts > 1 { "all" } else { "auto" };
    let (cache, high, low) = (slots * u64::from(BLOCK), slots / 2, slots / 4);
    let text = format!(
        "servers = [{servers}]\nstripe_size = {stripe}\nblock_size = {BLOCK}\ncache = {cache}\nhigh_water = {high}\n\
         low_water = {low}\nworkers = {workers}\ntier1 = {tier1}\ndeadline = '4s'\nlisten = '{listen}'\n"
    );
    Description::parse(&text, Some(NAME)).expect("a partition file")
}

pub fn text_of(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn up(plan: &Plan) -> Result<String, String> {
    let registry = Registry::open(Path::new(HOME)).map_err(text_of)?;
    let started = match registry.get(NAME) {
        Ok(_) => bring_up_known(&registry, NAME, Ok, PATIENCE, &settings()),
        Err(_) => bring_up(&registry, description(plan), PATIENCE, &settings()),
    };
    let started = started.map_err(text_of)?;
    Ok(format!("{} servers were started; {}", started.started, started.note))
}

fn down() -> Result<String, String> {
    let registry = Registry::open(Path::new(HOME)).map_err(text_of)?;
    take_down(&registry, NAME, StopOptions::default(), PATIENCE, &settings()).map_err(text_of)
}

/// Nobody watches.
struct Unwatched;

impl Progress for Unwatched {
    fn expect(&self, _: u64) {}
    fn total_known(&self) {}
    fn advance(&self, _: u64) {}
}

impl CopyObserver for Unwatched {
    fn failed(&self, error: &pario_copy::Error) {
        scheduler::log(error.to_string());
    }

    fn is_interrupted(&self) -> bool {
        false
    }
}

fn check(is_repair: bool) -> CommandOutcome {
    match try_check(is_repair) {
        Err(why) => (2, why),
        Ok(report) => {
            let all_right = report.findings.iter().all(|finding| finding.repaired);
            let findings: Vec<String> =
                report.findings.iter().map(|finding| format!("{finding:?}")).collect();
            let errors: Vec<String> = report.errors.iter().map(ToString::to_string).collect();
            let code = if !errors.is_empty() { 2 } else { u8::from(!all_right) };
            (code, [findings, errors].concat().join("; "))
        }
    }
}

fn try_check(is_repair: bool) -> Result<CheckReport, String> {
    let mut connections = Connections::for_metadata(Some(Path::new(HOME)), None);
    let partition = connections.partition(NAME).map_err(text_of)?;
    let block = connections.entry(NAME).map_err(text_of)?.description.structure().block_size;
    let mut report = pario_check::inspect(&partition, block, &Unwatched).map_err(text_of)?;
    if is_repair {
        pario_check::repair(&partition, &mut report, false);
    }
    Ok(report)
}

fn copy(plan: &Plan, options: &[&str], from: &str, to: &str) -> Result<String, String> {
    let slow_rate = match (plan.long_stalls, plan.has_kind(FaultKind::Kill)) {
        (true, _) => SLOWEST_RATE,
        (false, true) => SLOWER_RATE,
        (false, false) => SLOW_RATE,
    };
    let mut connections = Connections::for_data(Some(Path::new(HOME)), None);
    let paths = [OsString::from(from), OsString::from(to)];
    let pairs = pairs(&paths, false, &mut connections).map_err(text_of)?;
    let options = CopyOptions {
        resume: options.contains(&"--resume"),
        sync: options.contains(&"--sync"),
        chunk: 8 << 10,
        rate_limit: options.contains(&"--slow").then_some(slow_rate),
        threads: NonZeroUsize::new(2),
        ..CopyOptions::default()
    };
    let outcome = pario_copy::copy(pairs, options, &Unwatched);
    match outcome.failures {
        0 => Ok(format!("{} bytes", outcome.bytes)),
        _ => Err("not everything could be copied".to_owned()),
    }
}
