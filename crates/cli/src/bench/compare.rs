//! `pario bench compare`: everybody runs everything, in turn.
//!
//! The contenders of a workload alternate, and who starts moves on with each round, so that what a machine does
//! besides, and what one run leaves in caches for the next, meets all alike. A contender that fails is not run again
//! at that workload; the others go on. After a signal what was measured so far is reported.

use super::contender::{Contender, Place, Rival, Setting, contenders, order};
use super::results::{PHASES, Results, Series};
use super::{Error, html, program, summary};
use crate::env::Environment;
use crate::run::{Family, cores, family_of};
use crate::signal;
use clap::Args;
use pario_workloads::{Ranks, Report, Workload, workload};
use std::fs::{self, File};
use std::io::Write;
use std::num::{NonZeroU16, NonZeroU32};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// Measure Pario against others
///
/// Prints a table: the median time of the runs for writing the files and for reading them back, each from the first
/// open to the last close, and how many times as fast that is as the first of --against, with an interval that
/// holds it with 95 % confidence.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Arguments {
    /// What to run, small unless said otherwise; several with commas, or the option several times
    #[arg(long, value_name = "NAME[:PRESET]", value_delimiter = ',', default_value = "coll_perf:medium")]
    workload: Vec<String>,
    /// Numbers of ranks [default: the number of cores]
    #[arg(short = 'n', long, value_name = "N", value_delimiter = ',')]
    ranks: Vec<NonZeroU32>,
    /// What Pario is compared with
    #[arg(long, value_enum, value_name = "RIVAL", value_delimiter = ',', default_value = "host")]
    against: Vec<Rival>,
    /// Where Pario's files are
    #[arg(long, value_enum, value_name = "PLACE", value_delimiter = ',', default_value = "plain")]
    on: Vec<Place>,
    /// Values of the hint pario_strategy to try
    #[arg(long, value_name = "STRATEGY", value_delimiter = ',', value_parser = strategy)]
    strategy: Vec<String>,
    /// How often each runs
    #[arg(long, value_name = "K", default_value = "5")]
    repeat: NonZeroU32,
    /// Whose MPI library
    #[arg(long, value_enum, value_name = "FAMILY")]
    mpi: Option<Family>,
    /// The compiler for the workloads, instead of the mpicc in PATH
    #[arg(long, value_name = "PATH")]
    mpicc: Option<PathBuf>,
    /// The directory whose file system is measured
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Servers of a partition
    #[arg(long, value_name = "N", default_value = "2")]
    servers: NonZeroU16,
    /// After so long a run is ended and counts as failed
    #[arg(long, value_name = "SECONDS", default_value = "600")]
    timeout: NonZeroU32,
    /// Write the measurements to a file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with charts to a file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Do not say how far it is
    #[arg(short, long)]
    quiet: bool,
    /// Options for the workloads, after --: such as --steps 5, --sync, --compute-ms 10
    #[arg(last = true, value_name = "OPTION")]
    options: Vec<String>,
}

const NOTES: &str = "\
Rules for a measurement that says something: a machine with nothing else to do, no more ranks than cores, five runs or
more, a directory on the file system that matters. Intervals are of the ratio of medians, by bootstrap; below three
runs there is none.

Exit code: 0 all was measured; 1 a run failed; 2 nothing could be measured; 130 interrupted, and what was measured
before is reported.";

/// A value that the hint takes: another would be passed over, and something else be measured.
fn strategy(text: &str) -> Result<String, String> {
    let kind = &pario_hints::find("pario_strategy").ok_or("there is no such hint")?.kind;
    kind.parse(text).map(|_| text.to_owned()).ok_or_else(|| format!("has to be {}", kind.allowed()))
}

/// One workload on so many ranks.
struct Case {
    workload: &'static Workload,
    preset: &'static str,
    ranks: u32,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    let cases = cases(arguments)?;
    let program = program::find(arguments.mpi, arguments.mpicc.as_deref(), env)?;
    let contenders = contenders(&arguments.against, &arguments.on, &arguments.strategy);
    let particular = arguments.against.iter().find(|r| matches!(r, Rival::Romio | Rival::Ompio));
    if let Some(rival) = particular
        && family_of(&program, env)? != Family::OpenMpi
    {
        return Err(Error::OnlyOpenMpi(Contender::Rival(*rival).to_string()));
    }
    signal::watch().map_err(Error::Start)?;
    let place = Scratch::new(&arguments.dir)?;
    let measured = measure(arguments, &cases, &contenders, &program, &place);
    place.remove()?;
    report(arguments, &measured?)
}

fn report(arguments: &Arguments, results: &Results) -> Result<ExitCode, Error> {
    std::io::stdout().lock().write_all(summary::text(results).as_bytes()).map_err(Error::Output)?;
    if let Some(file) = &arguments.json {
        results.save(file)?;
    }
    if let Some(file) = &arguments.html {
        fs::write(file, html::page(results)).map_err(|e| Error::Write(file.clone(), e))?;
    }
    let failed = results.series.iter().any(|series| series.failure.is_some());
    Ok(match (signal::was_asked_to_end(), failed) {
        (true, _) => ExitCode::from(130),
        (_, true) => ExitCode::from(1),
        (_, false) => ExitCode::SUCCESS,
    })
}

/// What is to be run, checked.
fn cases(arguments: &Arguments) -> Result<Vec<Case>, Error> {
    let ranks: Vec<u32> = match &arguments.ranks[..] {
        [] => vec![cores::available()],
        some => some.iter().map(|n| n.get()).collect(),
    };
    let mut cases = Vec::new();
    for asked in &arguments.workload {
        let (name, preset) = asked.split_once(':').unwrap_or((asked, "small"));
        let workload = workload(name).ok_or_else(|| Error::NoWorkload(name.to_owned()))?;
        let known = workload.presets.iter().map(|p| p.name);
        let preset = known
            .clone()
            .find(|p| *p == preset)
            .ok_or_else(|| Error::NoPreset(workload.name, preset.to_owned(), known.collect()))?;
        for &ranks in &ranks {
            if !workload.ranks.allow(ranks) {
                let rule = match workload.ranks {
                    Ranks::Square => "it has to be a square",
                    Ranks::PowerOfTwo => "it has to be a power of two",
                    Ranks::Any => "there has to be one",
                };
                return Err(Error::Ranks(workload.name, ranks, rule));
            }
            cases.push(Case { workload, preset, ranks });
        }
    }
    Ok(cases)
}

fn measure(
    arguments: &Arguments,
    cases: &[Case],
    contenders: &[Contender],
    program: &Path,
    place: &Scratch,
) -> Result<Results, Error> {
    let machine = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    let mut results = Results::new(machine, cores::available(), arguments.options.clone());
    let rounds = arguments.repeat.get() as usize;
    let (mut done, all) = (0, cases.len() * contenders.len() * rounds);
    for case in cases {
        let first = results.series.len();
        results.series.extend(contenders.iter().enumerate().map(|(i, contender)| Series {
            workload: format!("{}:{}", case.workload.name, case.preset),
            ranks: case.ranks,
            contender: contender.to_string(),
            baseline: i == 0,
            runs: Vec::new(),
            failure: None,
        }));
        for round in 0..rounds {
            for i in order(contenders.len(), round) {
                done += 1;
                let series = &mut results.series[first + i];
                if series.failure.is_some() {
                    continue;
                }
                let run = run_once(arguments, case, &contenders[i], program, place)?;
                if signal::was_asked_to_end() {
                    return Ok(results);
                }
                match run {
                    Ok(report) => {
                        results.mpi.clone_from(&report.mpi);
                        series.runs.push(report.all);
                    }
                    Err(why) => series.failure = Some(why),
                }
                if !arguments.quiet {
                    eprintln!("{done}/{all}  {}", progress(series));
                }
            }
        }
    }
    results.complete = results.series.iter().all(|series| series.failure.is_none());
    Ok(results)
}

/// What the last run of a series brought.
fn progress(series: &Series) -> String {
    let who = format!("{}, {} ranks, {}", series.workload, series.ranks, series.contender);
    if let Some(why) = &series.failure {
        return format!("{who}: {why}");
    }
    let times = PHASES.into_iter().filter_map(|phase| {
        let seconds = *series.seconds(phase).last()?;
        Some(format!("{} {}", phase.name(), summary::seconds_text(seconds)))
    });
    format!("{who}: {}", times.collect::<Vec<_>>().join(", "))
}

/// One run: what it reports, or why it failed.
fn run_once(
    arguments: &Arguments,
    case: &Case,
    contender: &Contender,
    program: &Path,
    place: &Scratch,
) -> Result<Result<Report, String>, Error> {
    let (json, said) = (place.path("result.json"), place.path("said"));
    let _ = fs::remove_file(&json); // of the run before
    let files = place.path("files");
    let placed = |path: &Path, e| Error::Place(path.to_owned(), e);
    fs::create_dir_all(&files).map_err(|e| placed(&files, e))?;
    let setting = Setting { program, dir: &files, json: &json, servers: arguments.servers.get() };
    let words =
        contender.arguments(&setting, case.workload.name, case.preset, case.ranks, &arguments.options);
    let mut command = Command::new(std::env::current_exe().map_err(Error::Start)?);
    let log = File::create(&said).map_err(|e| placed(&said, e))?;
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let limit = Duration::from_secs(arguments.timeout.get().into());
    let started = std::time::Instant::now();
    let status = signal::supervise_within(&mut command, Some(limit)).map_err(Error::Start)?;
    // What a run leaves behind when it fails, and what --keep keeps.
    fs::remove_dir_all(&files).map_err(|e| placed(&files, e))?;
    if !status.success() {
        let text = String::from_utf8_lossy(&fs::read(&said).unwrap_or_default()).into_owned();
        return Ok(Err(match started.elapsed() >= limit {
            true => format!("did not end within {} s", limit.as_secs()),
            false => telling_line(&text).map_or_else(|| status.to_string(), str::to_owned),
        }));
    }
    let text = fs::read_to_string(&json).map_err(|e| Error::Read(json.clone(), e))?;
    let reports = Report::parse(&text).map_err(|e| Error::NotResults(json, e.to_string()))?;
    Ok(reports.into_iter().next().ok_or_else(|| "it reported nothing".to_owned()))
}

/// The line of a failed run that says why: the first of ours, else the last there is.
fn telling_line(text: &str) -> Option<&str> {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines().find(|line| line.starts_with("pario")).or_else(|| lines().next_back())
}

/// A directory for one comparison.
struct Scratch(PathBuf);

impl Scratch {
    fn new(parent: &Path) -> Result<Scratch, Error> {
        let failed = |e| Error::Place(parent.to_owned(), e);
        let parent = parent.canonicalize().map_err(failed)?;
        let dir = parent.join(format!("pario-bench-{}", std::process::id()));
        fs::create_dir(&dir).map_err(failed)?;
        Ok(Scratch(dir))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn remove(&self) -> Result<(), Error> {
        fs::remove_dir_all(&self.0).map_err(|e| Error::Place(self.0.clone(), e))
    }
}

#[cfg(test)]
mod tests {
    use super::telling_line;

    #[test]
    fn the_line_that_says_why_is_found() {
        let text = "\npario-workload: rank 1: MPI_File_open x: no such file\nabort\n";
        assert_eq!(telling_line(text), Some("pario-workload: rank 1: MPI_File_open x: no such file"));
        assert_eq!(telling_line("one\ntwo\n\n"), Some("two"));
        assert_eq!(telling_line(""), None);
    }
}
