//! `pario models`: measures every I/O model here. The models are in `pario-io-models`, the run in `pario-benchmarks`.

mod error;
mod launch;
mod mark;
pub mod worker;

use crate::env::Environment;
use crate::output::print;
use crate::signal;
use crate::size_argument::size;
use clap::{ArgGroup, Args};
use error::Error;
use launch::WorkerLauncher;
use pario_benchmarks::{ModelRun, ModelRunOutcome, Stop, TracedProgram};
use pario_copy::Location;
use pario_io_models::{Board, Measurement, ModelGrid, Reducer};
use pario_launch::NodeLauncher;
use pario_registry::Launcher;
use pario_reports::{
    ProgressDisplay, measurement_csv, measurement_notes, measurements_object, measurements_text,
    model_charts, model_page, planned_model, planned_models_table,
};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Measure every I/O model between one process with one file, a file per process and one file for all.
///
/// A model is a number of nodes, of processes on each, of files per node, and of nodes that share each file, all of
/// them powers of two. Every model writes the same bytes in all, each process a contiguous part of one file. What
/// was written is read back by another process and compared, and removed; neither counts in the time.
///
/// Measurements are sorted into cells by the number of processes and the number of processes per file, which gives
/// a picture of what the storage likes and a place for any program in it (--mark).
#[derive(Args)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("what").args(["size", "from"]).required(true))]
pub struct Arguments {
    /// Bytes that each model writes in all, such as 32M; each process's share has to be whole stripes
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "nodes", requires = "ppn")]
    size: Option<u64>,
    /// Most nodes, a power of two
    #[arg(long, value_name = "N")]
    nodes: Option<u32>,
    /// Most processes per node, a power of two
    #[arg(long, value_name = "P")]
    ppn: Option<u32>,
    /// Where the files go: a directory, or pario:NAME/DIR on a partition, which is used through its servers;
    /// several are measured in turn and can be compared
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: Vec<OsString>,
    /// Insist on how files are accessed: by POSIX calls in directories, or through Pario on partitions (without --dir
    /// on the one that PARIO_PARTITION names)
    #[arg(long, value_name = "WORD", value_parser = ["posix", "pario"])]
    io: Option<String>,
    /// Also measure reading, each process what another one wrote
    #[arg(long)]
    reads: bool,
    /// How often each model runs; its median counts
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Have the time of a write include that it reached the storage (fsync)
    #[arg(long)]
    fsync: bool,
    /// What shares have to be multiples of
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = size)]
    stripe: u64,
    /// Bytes that a process writes or reads by one call
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = transfer)]
    transfer: u64,
    /// Hosts to use as nodes, as many as --nodes; without it nodes are groups of processes of this host
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    hosts: Vec<String>,
    /// How hosts are reached: auto, local, ssh, srun or mpiexec
    #[arg(long, value_name = "WORD", default_value = "auto", requires = "hosts", value_parser = launcher)]
    launcher: Launcher,
    /// Seconds after which a step of a model is given up
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86400))]
    timeout: u64,
    /// Only list the models
    #[arg(long, requires = "size", conflicts_with_all = ["csv", "html", "svg", "mark"])]
    plan: bool,
    /// Draw the measurements of an earlier run (its --csv) again, without running anything
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nodes", "ppn", "csv", "plan", "hosts"])]
    from: Option<PathBuf>,
    /// Place a traced program (a directory of PARIO_TRACE=all) in the pictures, and say what its place costs
    #[arg(long, value_name = "TRACE")]
    mark: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArguments,
}

/// Where results go, and how.
#[derive(Args)]
struct OutputArguments {
    /// Write a row for each measurement, as it is made
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write everything as JSON; without FILE or to '-', to standard output instead of words
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Write one page with pictures to switch and the models of each cell
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the pictures
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// What a cell of --svg shows of its models
    #[arg(long, value_name = "WORD", default_value = "max")]
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(Reducer::ALL.map(Reducer::word)))]
    reducer: String,
    /// A line to put under the pictures, such as the name of the machine
    #[arg(long, value_name = "TEXT")]
    note: Vec<String>,
    /// Say how far it is also where there is no terminal
    #[arg(long)]
    progress: bool,
}

const EXAMPLES: &str = "\
Examples:
  pario models --size 32M --nodes 4 --ppn 4 --dir /scratch --html models.html
      36 models with up to 16 processes of this host; open models.html in a browser
  pario models --size 32G --nodes 32 --ppn 16 --hosts $(scontrol show hostnames | paste -sd,) \\
        --dir /lustre/me --repeat 3 --csv models.csv
      315 models on 32 hosts; /lustre/me is the same directory on all of them
  pario models --size 1G --nodes 4 --ppn 4 --reads --dir /scratch --dir pario:fast/ --svg models.svg
      the same by POSIX calls and on the partition 'fast', writing and reading
  pario models --from models.csv --html models.html --mark pario-trace
      draws again, and shows where a program that ran with PARIO_TRACE=all stands
  pario models --size 32M --nodes 32 --ppn 16 --plan
      lists the models

The time of a write runs from a barrier to the last process done: the writes, fsync if asked for, and close.
Creating and opening files is timed apart (open_seconds). Without --fsync much of what is measured is memory;
--reads on one host are answered by its memory, too. Ctrl-C ends a run; what was measured is kept and marked
as partial.

Exit code: 0 done, 1 something failed or data was wrong, 2 wrong arguments, 130 interrupted.";

/// Each process has memory for two of them.
fn transfer(text: &str) -> Result<u64, String> {
    size(text).and_then(|size| if size <= 256 << 20 { Ok(size) } else { Err("more than 256M".to_owned()) })
}

/// The most processes of one host.
const MOST_PROCESSES: u32 = 1024;

fn launcher(text: &str) -> Result<Launcher, String> {
    let known = [Launcher::Auto, Launcher::Local, Launcher::Ssh, Launcher::Srun, Launcher::Mpiexec];
    let found = known.into_iter().find(|launcher| launcher.word() == text);
    found.ok_or_else(|| format!("not one of {}", known.map(Launcher::word).join(", ")))
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    let grid = match (arguments.size, arguments.nodes, arguments.ppn) {
        (Some(size), Some(nodes), Some(ppn)) => {
            Some(ModelGrid::new(nodes, ppn, size, arguments.stripe).map_err(Error::Grid)?)
        }
        _ => None,
    };
    if let Some(grid) = grid.filter(|_| arguments.plan) {
        arguments.plan(&grid)?;
        return Ok(ExitCode::SUCCESS);
    }
    // Errors of other files are to show before a long run.
    let program = arguments.mark.as_deref().map(mark::read).transpose()?;
    let outputs = [&arguments.output.json, &arguments.output.html, &arguments.output.svg];
    for path in outputs.into_iter().flatten().filter(|path| !is_stdout(path)) {
        File::options().append(true).create(true).open(path).map_err(Error::file(path))?;
    }
    match (grid, &arguments.from) {
        (Some(grid), _) => arguments.measure(grid, program.as_ref(), env),
        (None, Some(path)) => arguments.draw_again(path, program.as_ref()),
        (None, None) => unreachable!("the arguments need one of them"),
    }
}

impl Arguments {
    fn plan(&self, grid: &ModelGrid) -> Result<(), Error> {
        match &self.output.json {
            None => print_text(&planned_models_table(grid)),
            Some(path) => {
                let models: Value =
                    grid.models().into_iter().map(|model| planned_model(model, grid)).collect();
                put(path, &format!("{models:#}\n"))
            }
        }
    }

    fn draw_again(&self, path: &Path, program: Option<&TracedProgram>) -> Result<ExitCode, Error> {
        let text = std::fs::read_to_string(path).map_err(Error::file(path))?;
        let measurements = measurement_csv::read(&text).map_err(|why| Error::Csv(path.to_owned(), why))?;
        self.show(&measurements, None, program, Value::Null)?;
        Ok(ExitCode::SUCCESS)
    }

    fn measure(
        &self,
        grid: ModelGrid,
        program: Option<&TracedProgram>,
        env: &Environment,
    ) -> Result<ExitCode, Error> {
        self.check_hosts(&grid)?;
        let targets = self.targets(env)?;
        let launcher = WorkerLauncher(NodeLauncher::new(self.launcher, &env.launch()));
        let run = ModelRun {
            grid,
            targets: &targets,
            hosts: &self.hosts,
            launcher: &launcher,
            reads: self.reads,
            fsync: self.fsync,
            repeat: self.repeat,
            transfer: self.transfer,
            timeout: Duration::from_secs(self.timeout),
            home: env.home.clone(),
            default_partition: env.partition.clone(),
        };
        let mut rows = self.output.csv.as_deref().map(Rows::create).transpose()?;
        signal::watch().map_err(Error::Output)?;
        let display = ProgressDisplay::start(self.output.progress);
        let outcome =
            run.run(&display, &mut |measurement| rows.as_mut().map_or(Ok(()), |rows| rows.add(measurement)));
        drop(display);
        let ModelRunOutcome { measurements, order_seconds, left_behind, stop } = outcome;
        left_behind.iter().for_each(|error| eprintln!("pario: {error}"));
        let planned = run.measurements();
        let run = json!({
            "host": pario_launch::host::name(),
            "hosts": self.hosts,
            "size": grid.size(),
            "nodes": grid.nodes(),
            "ppn": grid.ppn(),
            "stripe": grid.stripe(),
            "transfer": self.transfer,
            "fsync": self.fsync,
            "repeat": self.repeat,
            "order_seconds": order_seconds,
        });
        let shown = self.show(&measurements, Some(planned), program, run);
        match stop {
            None => shown.map(|()| ExitCode::SUCCESS),
            Some(Stop::Interrupted(signal)) => {
                shown?;
                eprintln!("pario: interrupted after {} measurements", measurements.len());
                Ok(ExitCode::from(128 + signal as u8))
            }
            Some(Stop::Failed(error)) => Err(error.into()),
        }
    }

    /// The directories, if they fit the interface that the user asked for.
    fn targets(&self, env: &Environment) -> Result<Vec<OsString>, Error> {
        let Some(io) = self.io.as_deref() else { return Ok(self.dir.clone()) };
        let unnamed = self.dir.len() == 1 && self.dir[0] == ".";
        let targets = if io == "pario" && unnamed { vec!["pario:/".into()] } else { self.dir.clone() };
        for dir in &targets {
            let address = Location::parse(dir, env.partition.as_deref())?;
            let dir = || dir.to_string_lossy().into_owned();
            match (address, io == "pario") {
                (Location::Host(_), true) => return Err(Error::PlainDirectory(dir())),
                (Location::Partition(_), false) => {
                    return Err(Error::OnPartition { io: io.to_owned(), dir: dir() });
                }
                _ => {}
            }
        }
        Ok(targets)
    }

    fn check_hosts(&self, grid: &ModelGrid) -> Result<(), Error> {
        let nodes = grid.nodes();
        let procs = if self.hosts.is_empty() { grid.procs() } else { grid.ppn() };
        if procs > MOST_PROCESSES {
            return Err(Error::TooManyProcesses { procs, most: MOST_PROCESSES });
        }
        if !self.hosts.is_empty() && self.hosts.len() != nodes as usize {
            return Err(Error::Hosts { nodes, hosts: self.hosts.len() });
        }
        let twice = self.hosts.iter().enumerate().find(|(place, host)| self.hosts[..*place].contains(host));
        twice.map_or(Ok(()), |(_, host)| Err(Error::Twice(host.clone())))
    }

    /// Writes what was asked for.
    fn show(
        &self,
        measurements: &[Measurement],
        planned: Option<usize>,
        program: Option<&TracedProgram>,
        run: Value,
    ) -> Result<(), Error> {
        let boards = Board::all(measurements);
        let mark = program.map(|program| &program.mark);
        let mut notes = measurement_notes(measurements, planned);
        notes.extend(run["order_seconds"].as_f64().map(|seconds| {
            format!(
                "an order to do nothing took all processes {:.3} ms: times near that say little",
                seconds * 1e3
            )
        }));
        notes.extend(self.output.note.iter().cloned());
        let gap = program.map(|program| program.gap(&boards));
        notes.extend(gap.iter().flat_map(|gap| gap.lines().map(|line| line.trim().to_owned())));
        if let Some(path) = &self.output.svg {
            let reducer = Reducer::ALL.into_iter().find(|reducer| reducer.word() == self.output.reducer);
            put(path, &model_charts(&boards, reducer.expect("one of the words"), mark, &notes))?;
        }
        if let Some(path) = &self.output.html {
            put(path, &model_page(&boards, mark, &notes))?;
        }
        if let Some(path) = &self.output.json {
            put(path, &format!("{:#}\n", measurements_object(measurements, &boards, planned, run)))?;
            if is_stdout(path) {
                return Ok(());
            }
        }
        print_text(&format!(
            "{}{}\n",
            measurements_text(&boards),
            notes.iter().map(|n| format!("\n{n}")).collect::<String>()
        ))
    }
}

/// The CSV file of measurements, which grows as they are made.
struct Rows<'a> {
    file: File,
    path: &'a Path,
}

impl<'a> Rows<'a> {
    fn create(path: &'a Path) -> Result<Rows<'a>, pario_benchmarks::Error> {
        let file = File::create(path).map_err(pario_benchmarks::Error::file(path))?;
        let mut rows = Rows { file, path };
        rows.put(&measurement_csv::head())?;
        Ok(rows)
    }

    fn add(&mut self, measurement: &Measurement) -> Result<(), pario_benchmarks::Error> {
        self.put(&measurement_csv::line(measurement))
    }

    fn put(&mut self, text: &str) -> Result<(), pario_benchmarks::Error> {
        self.file.write_all(text.as_bytes()).map_err(pario_benchmarks::Error::file(self.path))
    }
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

fn put(path: &Path, text: &str) -> Result<(), Error> {
    if is_stdout(path) { print_text(text) } else { std::fs::write(path, text).map_err(Error::file(path)) }
}

fn print_text(text: &str) -> Result<(), Error> {
    print(text).map_err(Error::Output)
}
