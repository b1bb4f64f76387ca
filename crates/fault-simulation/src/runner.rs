//! Runs histories, each in a child process, and reports the first that fails.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Instant;

use pario_runtime::simulation::planted;
use pario_runtime::simulation::scheduler::{self, RunEnd, RunOptions};

use crate::arguments::{self, Arguments, KEPT_SEEDS};
use crate::plan::{FaultKind, KINDS, Plan};
use crate::{history, settings};

/// Most steps of a history.
const MOST_STEPS: u64 = 20_000_000;

/// The result of a history, as its process reports it.
#[derive(Debug)]
struct Report {
    violation: Option<String>,
    steps: u64,
    bytes: u64,
    fingerprint: u64,
}

/// The program.
pub fn main() -> ExitCode {
    let arguments = match arguments::parse(std::env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            print!("{}", arguments::HELP);
            return ExitCode::SUCCESS;
        }
        Err(why) => {
            eprintln!("simulate: {why}");
            return ExitCode::from(2);
        }
    };
    if let Some(bug) = &arguments.bug {
        planted::plant(bug);
    }
    let outcome = if arguments.bugs { try_bugs(&arguments) } else { run_all(&arguments) };
    match outcome {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn allowed(arguments: &Arguments) -> Result<Vec<FaultKind>, String> {
    let Some(names) = &arguments.faults else { return Ok(KINDS.iter().map(|(kind, _)| *kind).collect()) };
    let find = |name: &String| {
        let found = KINDS.iter().find(|(_, one)| one == name).map(|(kind, _)| *kind);
        found.ok_or_else(|| format!("there is no fault `{name}`"))
    };
    names.iter().map(find).collect()
}

fn run_all(arguments: &Arguments) -> Result<String, String> {
    let allowed = allowed(arguments)?;
    let begun = Instant::now();
    let (mut done, mut steps, mut bytes) = (0u64, 0u64, 0u64);
    // A single history with its log is the one that was asked for.
    let kept = if arguments.log { &[] } else { KEPT_SEEDS };
    let seeds = kept.iter().copied().chain(arguments.first..);
    let mut seeds = seeds.take(usize::try_from(arguments.seeds).unwrap_or(usize::MAX));
    let mut running: BTreeMap<libc::pid_t, (u64, File)> = BTreeMap::new();
    loop {
        while running.len() < arguments.jobs && begun.elapsed().as_secs() < arguments.seconds {
            let Some(seed) = seeds.next() else { break };
            let mut plan = Plan::new(seed, &allowed);
            arguments.set.iter().try_for_each(|(name, value)| settings::set(&mut plan, name, *value))?;
            let (child, pipe) = start(plan, arguments.log)?;
            running.insert(child, (seed, pipe));
        }
        if running.is_empty() {
            break;
        }
        let (child, status) = wait_for_child();
        let Some((seed, pipe)) = running.remove(&child) else { continue };
        let report = read_report(pipe, status);
        if let Some(violation) = report.violation {
            return Err(format!("seed {seed}: {violation}\nagain: cargo xtask simulate --seed {seed} --log"));
        }
        (done, steps, bytes) = (done + 1, steps + report.steps, bytes + report.bytes);
        if arguments.log {
            println!("fingerprint {:016x}", report.fingerprint);
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    Ok(format!(
        "{done} histories in {seconds:.1} s ({:.0} per second), {steps} steps, {bytes} bytes compared: nothing was lost",
        done as f64 / seconds
    ))
}

/// Plants each bug in a process of its own; a table of how soon each is found.
fn try_bugs(arguments: &Arguments) -> Result<String, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let seconds = if arguments.seconds == u64::MAX { 600 } else { arguments.seconds };
    let mut missed = 0;
    for (bug, what) in planted::BUGS {
        let begun = Instant::now();
        let mut command = std::process::Command::new(&program);
        command.args([
            "--bug",
            bug,
            "--seconds",
            &seconds.to_string(),
            "--seed",
            &arguments.first.to_string(),
        ]);
        let output = command.output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stderr);
        let found = text.lines().find(|line| line.starts_with("seed ")).unwrap_or("not found");
        missed += u32::from(output.status.success());
        println!("{bug:<32} {:>6.1} s  {found:.100}  ({what})", begun.elapsed().as_secs_f64());
    }
    match missed {
        0 => Ok(format!("all {} planted bugs were found", planted::BUGS.len())),
        _ => Err(format!("{missed} of {} planted bugs were not found", planted::BUGS.len())),
    }
}

/// Starts a history in a child process.
fn start(plan: Plan, log: bool) -> Result<(libc::pid_t, File), String> {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors, which are new and ours.
    let (read, write) = unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(format!("pipe: {}", std::io::Error::last_os_error()));
        }
        (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1]))
    };
    // SAFETY: this process has one thread, so the child may do anything.
    match unsafe { libc::fork() } {
        -1 => Err(format!("fork: {}", std::io::Error::last_os_error())),
        0 => {
            drop(read);
            let report = run_one(plan, log);
            report_to(write, &report);
            // SAFETY: ends the child without destructors: the simulation has leaked what they would need.
            unsafe { libc::_exit(0) }
        }
        child => {
            drop(write);
            Ok((child, read))
        }
    }
}

fn run_one(plan: Plan, verbose: bool) -> Report {
    let options =
        RunOptions { seed: plan.seed, switch_one_in: plan.switch_one_in, most_steps: MOST_STEPS, verbose };
    let verdict = Rc::new(RefCell::new(Err("the test driver did not return".to_owned())));
    let result = Rc::clone(&verdict);
    let shape = format!("{plan:?}\n{}", settings::describe(&plan));
    let report = scheduler::run(options, move || *result.borrow_mut() = history::run(&plan));
    let verdict = verdict.borrow().clone();
    let violation = match (&report.end, &verdict) {
        (RunEnd::Done, Ok(_)) => None,
        (RunEnd::Done, Err(why)) => Some(why.clone()),
        (end, _) => Some(format!("{end:?}")),
    };
    let (log, blocked) = (report.log.join("\n"), report.blocked.join(", "));
    let report_of = |why| format!("{why}\n{shape}\nthe last steps:\n{log}\nthreads that wait: {blocked}");
    let violation = violation.map(report_of);
    Report { violation, steps: report.steps, bytes: verdict.unwrap_or(0), fingerprint: report.fingerprint }
}

fn report_to(mut pipe: File, report: &Report) {
    let text = report.violation.as_deref().unwrap_or_default();
    let line = format!("{} {} {}\n{text}", report.steps, report.bytes, report.fingerprint);
    // The parent may have gone.
    let _ = pipe.write_all(line.as_bytes());
}

fn read_report(mut pipe: File, status: i32) -> Report {
    let mut text = String::new();
    let read = pipe.read_to_string(&mut text);
    let (numbers, violation) = text.split_once('\n').unwrap_or_default();
    let mut numbers = numbers.split(' ').filter_map(|number| number.parse().ok());
    let (steps, bytes, fingerprint) = (numbers.next(), numbers.next(), numbers.next());
    let violation = match (read, fingerprint) {
        (Ok(_), Some(_)) => Some(violation.to_owned()).filter(|text| !text.is_empty()),
        _ => Some(format!("the process of the history ended with status {status:#x} and without a report")),
    };
    let or_zero = |number: Option<u64>| number.unwrap_or(0);
    Report { violation, steps: or_zero(steps), bytes: or_zero(bytes), fingerprint: or_zero(fingerprint) }
}

fn wait_for_child() -> (libc::pid_t, i32) {
    let mut status = 0;
    // SAFETY: the pointer is to a local.
    let child = unsafe { libc::waitpid(-1, &mut status, 0) };
    (child, status)
}
