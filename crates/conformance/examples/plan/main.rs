//! Programs whose files lie on one host, striped over all, and as a plan says: `cargo xtask bench plan`.
//!
//! Four hosts, which are sets of namespaces on this machine, each with a rank and a server that keeps its data in the
//! host's own memory, are joined by links that `tc tbf` makes slow in each direction. A program is run once with
//! `pario profile`, `pario plan` makes a plan of that, and then the same program is run by `pario run` in several
//! ways that take turns, so that a slow minute of the machine hits all of them. The files of each are copied out and compared,
//! byte by byte, with what the host's own MPI-IO makes of the program.

mod jobs;
mod options;
mod results;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use pario_conformance::partition::{NAME, TestPartition};
use pario_conformance::{Hosts, Output, ProgramRun, Scratch, same_directory, scratch, target_dir};
use pario_workloads::{WorkloadOutcome, WorkloadReport};
use serde_json::Value;

use jobs::{CONTENDERS, Contender, Job, SHARED};
use options::{Options, Runs};
use results::{Measured, PlanShares, Result, Shares};

/// Every host has a server and a rank.
const HOSTS: usize = 4;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(Runs::Help) => {
            print!("{}", options::HELP);
            return ExitCode::SUCCESS;
        }
        Ok(Runs::With(options)) => options,
        Err(why) => {
            eprintln!("bench plan: {why}");
            return ExitCode::from(2);
        }
    };
    let Some(hosts) = Hosts::new(HOSTS).map(Arc::new) else { return ExitCode::FAILURE };
    match measure(&options, &hosts) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("bench plan: {why}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: &Options, hosts: &Arc<Hosts>) -> std::result::Result<(), String> {
    let cache = format!("cache = \"{}\"\n", options.cache);
    let partition = TestPartition::in_memory_of(hosts, &hosts.numbers(), &cache);
    let program = pario_workloads::build(&options.host.mpicc(), &target_dir().join("conformance-programs"));
    let program = program.map_err(|e| e.to_string())?;
    println!("{}", results::legend(options));
    let mut results = Vec::new();
    for &mbit in &options.rates {
        let bench = Bench { options, hosts, partition: &partition, program: &program, mbit };
        println!("\n{}", results::heading(mbit));
        for job in &options.jobs {
            let result = bench.take_turns(job)?;
            print!("{result}");
            results.push(result);
            if let Some(path) = &options.json {
                let written = std::fs::write(path, results::json(options, &results));
                written.map_err(|e| format!("{}: {e}", path.display()))?;
            }
        }
    }
    println!("\nAll files were the same, byte by byte, as those of the host's own MPI-IO.");
    Ok(())
}

struct Bench<'a> {
    options: &'a Options,
    hosts: &'a Arc<Hosts>,
    partition: &'a TestPartition,
    program: &'a Path,
    mbit: u32,
}

impl Bench<'_> {
    fn take_turns(&self, job: &Job) -> std::result::Result<Result, String> {
        let dir = scratch();
        self.hosts.limit(None)?;
        let expected = self.by_the_host(job, &dir);
        let plan_of = |contender: Contender| dir.join(contender.name());
        let shares = self.plan(job, &dir, plan_of);
        let mut contenders = CONTENDERS.to_vec();
        // The same plan would be the same run.
        contenders.retain(|c| {
            *c != Contender::IfCheaper || shares[*c as usize] != shares[Contender::ByPlan as usize]
        });
        let mut result = Result::new(job, self.mbit, shares);
        // One turn that does not count, of which the files are looked at.
        for &contender in &contenders {
            self.say(job, contender, "trial");
            self.start(job, contender, &plan_of(contender), &["--keep"]);
            let got = dir.join(format!("files {}", contender.name()));
            self.partition.copy_out(&got);
            self.partition.remove(&same_directory(&expected, &got));
        }
        self.hosts.limit(Some(self.mbit))?;
        for turn in 0..self.options.turns {
            for index in 0..contenders.len() {
                let contender = contenders[(index + turn) % contenders.len()];
                self.say(job, contender, &format!("turn {} of {}", turn + 1, self.options.turns));
                let (before, idle) = (self.hosts.sent_bytes(), idle_ticks()?);
                let output = self.start(job, contender, &plan_of(contender), &[]);
                let busy = 1.0 - idle.share_until(idle_ticks()?);
                let sent = self.hosts.sent_bytes().into_iter().sum::<u64>() - before.into_iter().sum::<u64>();
                result.add(contender, Measured::of(&output, sent, busy)?);
            }
        }
        self.hosts.limit(None)?;
        Ok(result)
    }

    fn say(&self, job: &Job, contender: Contender, what: &str) {
        eprintln!("{} Mbit/s: {job}, {}, {what}", self.mbit, contender.name());
    }

    /// The directory with the files that the program writes without Pario on this machine.
    fn by_the_host(&self, job: &Job, dir: &Scratch) -> PathBuf {
        let files = dir.join("expected");
        std::fs::create_dir(&files).expect("a scratch directory takes directories");
        let run = ProgramRun::new(self.options.host, HOSTS as u32, self.program).args(job.arguments());
        run.arg("--keep").arg("--dir").arg(&files).timeout(self.options.timeout).run().expect_success();
        files
    }

    /// Profiles the program where it will run, and makes the contenders' plans; how many bytes they place in which way.
    fn plan(&self, job: &Job, dir: &Scratch, at: impl Fn(Contender) -> PathBuf) -> PlanShares {
        let trace = dir.join("trace").to_string_lossy().into_owned();
        let run = self.program(job, &[]).by_pario(self.partition, "profile", &["--dir", &trace]);
        run.env("PARIO_HINTS", SHARED).run().expect_success();
        CONTENDERS.map(|contender| {
            let options = contender.planned_with()?;
            let plan = at(contender).to_string_lossy().into_owned();
            let words = [&["plan", &trace, "--out", &plan, "--json"], options].concat();
            let said: Value =
                serde_json::from_str(&self.partition.pario(&words)).expect("pario plan --json prints JSON");
            Some(Shares::of(&said["summary"]))
        })
    }

    /// One run of the program, which has to succeed and to find every byte right.
    fn start(&self, job: &Job, contender: Contender, plan: &Path, more: &[&str]) -> Output {
        let plan = plan.to_string_lossy();
        let options: &[&str] = if contender.planned_with().is_some() { &["--plan", &plan] } else { &[] };
        let run = self.program(job, more).by_pario(self.partition, "run", options);
        let run = match contender.hints() {
            "" => run,
            hints => run.env("PARIO_HINTS", hints),
        };
        run.run().expect_success()
    }

    fn program(&self, job: &Job, more: &[&str]) -> ProgramRun {
        ProgramRun::new(self.options.host, HOSTS as u32, self.program)
            .hosts(self.hosts)
            .args(job.arguments())
            .args(["--json", "-", "--dir", &format!("pario:{NAME}")])
            .args(more.to_vec())
            .timeout(self.options.timeout)
    }
}

impl Measured {
    fn of(output: &Output, sent_bytes: u64, busy: f64) -> std::result::Result<Measured, String> {
        let reports = WorkloadReport::parse(&output.stdout).map_err(|e| format!("{e}: {output}"))?;
        match reports.as_slice() {
            [report] if report.verified == Some(true) => {
                let io_s =
                    io_seconds(report).ok_or_else(|| format!("the program said no times: {output}"))?;
                let calls_s = report.all.seconds.clone();
                Ok(Measured { run_s: output.took.as_secs_f64(), io_s, calls_s, sent_bytes, busy })
            }
            _ => Err(format!("the program has not verified what it read: {output}")),
        }
    }
}

/// Seconds in calls of MPI-IO of the rank that has most of them. Ranks come together before they read or write, but who is
/// early to open or to close waits for those that still check what they read: there the quickest counts for all.
fn io_seconds(report: &WorkloadReport) -> Option<f64> {
    let of = |rank: &WorkloadOutcome, calls: &[&str]| -> Option<f64> {
        calls.iter().map(|call| rank.seconds.get(*call).copied()).sum()
    };
    let each =
        |calls: &[&str]| -> Option<Vec<f64>> { report.each.iter().map(|rank| of(rank, calls)).collect() };
    let moving = each(&["view", "read", "write", "sync"])?.into_iter().reduce(f64::max)?;
    let waiting = ["open", "close"].map(|call| each(&[call])?.into_iter().reduce(f64::min));
    waiting.into_iter().sum::<Option<f64>>().map(|waiting| moving + waiting)
}

/// CPU time of the machine since it started, in ticks.
#[derive(Clone, Copy)]
struct Ticks {
    idle: u64,
    all: u64,
}

impl Ticks {
    fn share_until(self, later: Ticks) -> f64 {
        (later.idle - self.idle) as f64 / (later.all - self.all).max(1) as f64
    }
}

/// All processors together: where they are busy all the time, it is not the links that are measured.
fn idle_ticks() -> std::result::Result<Ticks, String> {
    let text = std::fs::read_to_string("/proc/stat").map_err(|e| format!("/proc/stat: {e}"))?;
    // Idle time and time of waiting for a disk do not count; the time of virtual machines is part of the first eight fields.
    let line = text.lines().next().and_then(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
    match ticks[..] {
        [_, _, _, idle, waiting, ..] => Ok(Ticks { idle: idle + waiting, all: ticks.iter().sum() }),
        _ => Err(format!("/proc/stat: no times of processors in {line:?}")),
    }
}
