//! Runs histories and reports the first that fails, reduced to a smaller one.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::arguments::{self, Arguments, KEPT_SEEDS};
use crate::child::{self, Job, Pool, Report};
use crate::plan::{FaultKind, KINDS, Mix, Plan};
use crate::shrink::{self, Reduced};
use crate::statistics::Statistics;
use crate::{bugs, focus, settings};

/// The program.
pub fn main() -> ExitCode {
    let arguments = match arguments::parse(std::env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            print!("{}", arguments::help());
            return ExitCode::SUCCESS;
        }
        Err(why) => {
            eprintln!("simulate: {why}");
            return ExitCode::from(2);
        }
    };
    match if arguments.bugs { bugs::find_all(&arguments) } else { run_all(&arguments) } {
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

/// The plan of a seed, as the command line wants it.
pub fn make_plan(arguments: &Arguments, seed: u64) -> Result<Plan, String> {
    let mut plan = unchanged_plan(arguments, seed)?;
    arguments.set.iter().try_for_each(|(name, value)| settings::set(&mut plan, name, *value))?;
    Ok(plan)
}

/// The plan of a seed without changes by `--set`.
fn unchanged_plan(arguments: &Arguments, seed: u64) -> Result<Plan, String> {
    let kinds: Vec<FaultKind> = match &arguments.faults {
        None => KINDS.iter().map(|(kind, _)| *kind).collect(),
        Some(names) => {
            let find = |name: &String| {
                let found = KINDS.iter().find(|(_, one)| one == name).map(|(kind, _)| *kind);
                found.ok_or_else(|| format!("there is no fault `{name}`"))
            };
            names.iter().map(find).collect::<Result<_, _>>()?
        }
    };
    Ok(Plan::new(seed, &kinds, arguments.mix))
}

fn run_all(arguments: &Arguments) -> Result<String, String> {
    let mut statistics = Statistics::new();
    let mut failure = None;
    let mut passed_over = Vec::new();
    let kept = if arguments.first.is_none() { KEPT_SEEDS } else { &[] };
    let seeds = kept.iter().copied().chain(arguments.first.unwrap_or(1)..);
    let mut seeds = seeds.take(usize::try_from(arguments.seeds).unwrap_or(usize::MAX));
    let (mut pool, mut shown) = (Pool::default(), Instant::now());
    while failure.is_none() {
        while pool.len() < arguments.jobs && statistics.seconds() < arguments.seconds as f64 {
            let Some(seed) = seeds.next() else { break };
            let (plan, bug) = (make_plan(arguments, seed)?, arguments.bug.clone());
            pool.start(Job { plan, bug, log: arguments.log, deadline: arguments.deadline })?;
        }
        if pool.len() == 0 {
            break;
        }
        let (job, report) = pool.wait();
        statistics.add(&report);
        match &report.violation {
            Some(why) if arguments.keep_going => passed_over.push(format!("seed {}: {why}", job.plan.seed)),
            Some(_) => failure = Some((job, report)),
            None => {}
        }
        if child::is_terminal() && !arguments.log && shown.elapsed() > Duration::from_millis(500) {
            eprint!("\r{}\x1b[K", statistics.progress());
            shown = Instant::now();
        }
    }
    drop(pool);
    if child::is_terminal() && !arguments.log {
        eprint!("\r\x1b[K");
    }
    if arguments.json {
        let failure = failure.as_ref();
        let failure =
            failure.map(|(job, report)| (job.plan.seed, report.violation.as_deref().unwrap_or_default()));
        println!("{}", statistics.json(failure));
    }
    match failure {
        Some((job, report)) => Err(describe(arguments, &job, report)?),
        None if !passed_over.is_empty() => Err(format!(
            "{}\n{} histories failed:\n{}",
            statistics.text(),
            passed_over.len(),
            passed_over.join("\n")
        )),
        None if arguments.json => Ok(String::new()),
        None => Ok(format!("{}\nnothing was lost", statistics.text())),
    }
}

/// Describes a failing history: what is wrong, the smallest history that fails, its log, and the command that repeats it.
fn describe(arguments: &Arguments, job: &Job, report: Report) -> Result<String, String> {
    let seed = job.plan.seed;
    let first = format!("seed {seed}: {}", report.violation.as_deref().unwrap_or_default());
    if let Some(bug) = &job.bug {
        let mut pool = Pool::default();
        pool.start(Job { bug: None, log: false, ..job.clone() })?;
        if let Some(why) = pool.wait().1.violation {
            return Ok(format!("{first}\nIt is not due to the planted bug {bug}: without it, {why}"));
        }
    }
    if arguments.log || arguments.shrink == 0 {
        let log = if arguments.log { "" } else { &report.log };
        return Ok(format!(
            "{first}\n{}\n{log}\nagain: {}",
            settings::describe(&job.plan),
            command(arguments, job, &job.plan)?
        ));
    }
    if child::is_terminal() {
        eprintln!("{first}\nlooking for a smaller history that fails, for at most {} s", arguments.shrink);
    }
    let begun = Instant::now();
    let Reduced { plan, report, tries } =
        shrink::shrink(job, report, arguments.jobs, Duration::from_secs(arguments.shrink))?;
    Ok(format!(
        "{}\n{first}\nreduced by {tries} tries in {:.0} s to: {}\nagain: {}",
        report.log,
        begun.elapsed().as_secs_f64(),
        report.violation.as_deref().unwrap_or_default(),
        command(arguments, job, &plan)?,
    ))
}

/// The command that repeats a history exactly.
fn command(arguments: &Arguments, job: &Job, plan: &Plan) -> Result<String, String> {
    let mut command = format!("cargo xtask simulate --seed {} --log", plan.seed);
    match arguments.mix {
        Mix::Usual => {}
        Mix::Swarm => command.push_str(" --swarm"),
        Mix::Only(topic) => command.push_str(&format!(" --mode {}", focus::name_of(topic))),
    }
    if let Some(faults) = &arguments.faults {
        command.push_str(&format!(" --faults {}", faults.join(",")));
    }
    let changes = settings::changes(&unchanged_plan(arguments, plan.seed)?, plan);
    if !changes.is_empty() {
        command.push_str(&format!(" --set {changes}"));
    }
    if let Some(bug) = &job.bug {
        command.push_str(&format!(" --bug {bug}"));
    }
    Ok(command)
}
