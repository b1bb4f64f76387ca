//! `pario bench compare`: the arguments, and the runs of a comparison.

use super::{Error, program};
use crate::env::Environment;
use crate::run::FamilyArgument;
use crate::signal;
use clap::{Args, ValueEnum};
use pario_benchmarks::{
    Case, Comparison, ComparisonResults, Contender, ContenderSeries, ParioStorage, Rival, ScratchDirectory,
    WorkloadProcess, WorkloadRunner, contenders, parse_cases,
};
use pario_launch::mpi_program::{MpiFamily, ProgramMpi, available_cores};
use pario_reports::{comparison_page, comparison_text, last_run_text};
use pario_workloads::WorkloadReport;
use std::fs;
use std::io::Write;
use std::num::{NonZeroU16, NonZeroU32};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
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
    against: Vec<RivalWord>,
    /// Where Pario's files are
    #[arg(long, value_enum, value_name = "PLACE", value_delimiter = ',', default_value = "plain")]
    on: Vec<StorageWord>,
    /// Values of the hint pario_strategy to try
    #[arg(long, value_name = "STRATEGY", value_delimiter = ',', value_parser = strategy)]
    strategy: Vec<String>,
    /// How often each runs
    #[arg(long, value_name = "K", default_value = "5")]
    repeat: NonZeroU32,
    /// The MPI library
    #[arg(long, value_enum, value_name = "FAMILY")]
    mpi: Option<FamilyArgument>,
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

/// The baselines of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RivalWord {
    /// The MPI library's own MPI-IO, as it comes
    Host,
    /// Open MPI's copy of ROMIO
    Romio,
    /// Open MPI's OMPIO
    Ompio,
    /// No MPI-IO: each rank calls pwrite and pread for each of its pieces
    Posix,
}

/// Where Pario's files are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StorageWord {
    /// In a directory
    Plain,
    /// On a partition that is made for each run
    Partition,
}

impl RivalWord {
    fn value(&self) -> Rival {
        match self {
            RivalWord::Host => Rival::Host,
            RivalWord::Romio => Rival::Romio,
            RivalWord::Ompio => Rival::Ompio,
            RivalWord::Posix => Rival::Posix,
        }
    }
}

impl StorageWord {
    fn value(&self) -> ParioStorage {
        match self {
            StorageWord::Plain => ParioStorage::PlainFiles,
            StorageWord::Partition => ParioStorage::Partition,
        }
    }
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    let ranks: Vec<u32> = match &arguments.ranks[..] {
        [] => vec![available_cores()],
        some => some.iter().map(|n| n.get()).collect(),
    };
    let cases = parse_cases(&arguments.workload, &ranks)?;
    let program = program::find(arguments.mpi.map(Into::into), arguments.mpicc.as_deref(), env)?;
    let rivals: Vec<Rival> = arguments.against.iter().map(RivalWord::value).collect();
    let storages: Vec<ParioStorage> = arguments.on.iter().map(StorageWord::value).collect();
    let of_open_mpi = rivals.iter().find(|rival| matches!(rival, Rival::Romio | Rival::Ompio));
    if let Some(rival) = of_open_mpi
        && ProgramMpi::of(&program, &env.search)?.family != MpiFamily::OpenMpi
    {
        return Err(Error::OnlyOpenMpi(Contender::Rival(*rival).to_string()));
    }
    signal::watch().map_err(pario_benchmarks::Error::Start)?;
    let scratch = ScratchDirectory::new(&arguments.dir)?;
    let comparison = Comparison {
        cases,
        contenders: contenders(&rivals, &storages, &arguments.strategy),
        rounds: arguments.repeat.get() as usize,
    };
    let machine = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    let results = ComparisonResults::new(machine, available_cores(), arguments.options.clone());
    let pario = std::env::current_exe().map_err(pario_benchmarks::Error::Start)?;
    let process = WorkloadProcess {
        pario: &pario,
        program: &program,
        scratch: &scratch,
        servers: arguments.servers.get(),
        options: &arguments.options,
        limit: Duration::from_secs(arguments.timeout.get().into()),
    };
    let mut runner = Runner { process, is_quiet: arguments.quiet };
    let measured = comparison.measure(results, &mut runner);
    scratch.remove()?;
    report(arguments, &measured?)
}

fn report(arguments: &Arguments, results: &ComparisonResults) -> Result<ExitCode, Error> {
    std::io::stdout().lock().write_all(comparison_text(results).as_bytes()).map_err(Error::Output)?;
    if let Some(file) = &arguments.json {
        results.save(file)?;
    }
    if let Some(file) = &arguments.html {
        let written = fs::write(file, comparison_page(results));
        written.map_err(|cause| pario_benchmarks::Error::Write(file.clone(), cause))?;
    }
    let failed = results.series.iter().any(|series| series.failure.is_some());
    Ok(match (signal::was_asked_to_end(), failed) {
        (true, _) => ExitCode::from(130),
        (_, true) => ExitCode::from(1),
        (_, false) => ExitCode::SUCCESS,
    })
}

/// Runs workloads with `pario run`.
struct Runner<'a> {
    process: WorkloadProcess<'a>,
    is_quiet: bool,
}

impl WorkloadRunner for Runner<'_> {
    type Error = Error;

    fn run(&mut self, case: &Case, contender: &Contender) -> Result<Result<WorkloadReport, String>, Error> {
        let supervise = |command: &mut Command, limit| signal::supervise_within(command, Some(limit));
        Ok(self.process.run(case, contender, supervise)?)
    }

    fn is_interrupted(&self) -> bool {
        signal::was_asked_to_end()
    }

    fn finished(&mut self, done: usize, all: usize, series: &ContenderSeries) {
        if !self.is_quiet {
            eprintln!("{done}/{all}  {}", last_run_text(series));
        }
    }
}
