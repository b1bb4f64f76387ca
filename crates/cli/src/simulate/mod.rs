//! `pario simulate`: partitionings, lock protocols and strategies on a machine that is not there.

mod error;
mod traced;

use crate::output::print;
use crate::size_argument::size;
use clap::{Args, ValueEnum};
use error::Error;
use pario_domain::PartitioningMethod;
use pario_reports::{
    SimulationPoint, machine_table, sensitivity_text, simulation_csv, simulation_json, simulation_page,
    simulation_svg, simulation_table,
};
use pario_simulate::{CLAIMS, Callback, Machine, PartitionStrategy, Protocol, Rounds, Setup, Size, Workload};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

/// Try partitionings of collective I/O on a simulated machine.
///
/// The ranks of a workload write or read through aggregators. How the accessed region is dealt out to them decides how
/// much they get in each other's way at the file system's locks, and which method is best depends on how it locks: at
/// its servers (Lustre), or by tokens (GPFS). Views, partitionings, striping and locks are Pario's own code; time, network,
/// servers and storage are simulated. The same seed gives the same result to the last bit.
///
/// With --strategy, the workload runs on a Pario partition instead, and the result says what saturates first.
///
/// Bandwidths are those of a made-up machine (see --machine): compare them with each other, not with yours.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// What the ranks do: coll_perf, bt, flash, s3d, tile, contiguous, or trace:DIR with a trace of PARIO_TRACE=all
    #[arg(long, value_name = "NAME", default_value = "coll_perf")]
    workload: String,
    /// Numbers of processes [default: 64,256,1024; bt: 64,144,256; of a trace: as recorded]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    procs: Vec<u32>,
    /// Servers that a file is striped over
    #[arg(long, value_name = "N", default_value_t = 64)]
    servers: u16,
    /// Bytes of a stripe, which is also the lock unit (k, M and G are understood)
    #[arg(long, value_name = "SIZE", default_value = "512k", value_parser = size)]
    stripe: u64,
    /// How the file system locks: server, token, or lease (a Pario partition, to which each aggregator is a program of its own)
    #[arg(long, value_name = "PROTOCOL,…", value_delimiter = ',', default_value = "server")]
    protocol: Vec<ProtocolWord>,
    /// How regions are dealt out [default: all four]
    #[arg(long, value_name = "METHOD,…", value_delimiter = ',', value_parser = method)]
    partition: Vec<PartitioningMethod>,
    /// Run on a partition with these strategies: server-directed, client-directed, two-phase
    #[arg(long, value_name = "STRATEGY,…", value_delimiter = ',', conflicts_with_all = ["protocol", "partition"])]
    strategy: Vec<StrategyWord>,
    /// The partition's servers run on the processes' own nodes
    #[arg(long, requires = "strategy")]
    shared_nodes: bool,
    /// Write (this is what is done if neither is said)
    #[arg(long)]
    write: bool,
    /// Read
    #[arg(long)]
    read: bool,
    #[command(flatten)]
    aggregation: AggregationArguments,
    /// Edge of each process's block (coll_perf 128, s3d 50, flash 32), of a tile (1024), of the array (bt 162), or KiB (contiguous)
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    edge: u64,
    /// Collective calls [default: coll_perf and tile 10, bt and s3d 40, flash 24, contiguous 4]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    calls: u32,
    /// How a lock's holder gives way: with the whole lock, with its part on the side of who asks, or with all but around blocks that
    /// it keeps [default: server whole, token part; lease always kept]
    #[arg(long, value_name = "whole|part|kept")]
    callback: Option<CallbackWord>,
    /// Whether aggregators begin each round together, as in ROMIO, or each as soon as it can, as in Pario
    #[arg(long, value_name = "together|free", default_value = "together")]
    rounds: RoundsWord,
    /// Change a number of the machine; --machine lists them
    #[arg(long, value_name = "NAME=NUMBER", value_parser = setting)]
    set: Vec<(String, u64)>,
    /// Chance
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// List the numbers of the machine and end
    #[arg(long)]
    machine: bool,
    /// Look which conclusions hold when the machine's numbers change (takes minutes) and end
    #[arg(long)]
    sensitivity: bool,
    #[command(flatten)]
    output: OutputArguments,
}

/// The aggregators.
#[derive(Args)]
struct AggregationArguments {
    /// Number of aggregators [default: one per node]
    #[arg(long, value_name = "N")]
    aggregators: Option<u32>,
    /// Bring the number of aggregators to a factor or multiple of the number of servers
    #[arg(long)]
    suit_servers: bool,
    /// Bytes of an aggregator's buffer
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = size)]
    buffer: u64,
}

/// Where results go, and how.
#[derive(Args)]
struct OutputArguments {
    /// Write JSON, for programs
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Write comma-separated values
    #[arg(long)]
    csv: bool,
    /// Draw charts into this SVG file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write a page with table and charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  pario simulate --procs 64,128,256,512,1024                    writes under server locks, all partitionings
  pario simulate --protocol server,token --write --read --html page.html
  pario simulate --workload bt --partition static-cyclic --procs 36,49,64,81,100
  pario simulate --edge 100 --protocol token --procs 256        blocks that do not end at lock boundaries
  pario simulate --strategy server-directed,client-directed,two-phase --procs 1000,10000
  pario simulate --workload trace:pario-trace --protocol token  what a recorded run would have cost
  pario simulate --set latency=100000 --set client_rate=1000000000
  pario simulate --sensitivity                                  which conclusions depend on the numbers";

#[derive(Clone, Copy, ValueEnum)]
enum ProtocolWord {
    Server,
    Token,
    Lease,
}

#[derive(Clone, Copy, ValueEnum)]
enum StrategyWord {
    ServerDirected,
    ClientDirected,
    TwoPhase,
}

#[derive(Clone, Copy, ValueEnum)]
enum CallbackWord {
    Whole,
    Part,
    Kept,
}

#[derive(Clone, Copy, ValueEnum)]
enum RoundsWord {
    Together,
    Free,
}

/// Runs the command.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Error> {
    let text = if arguments.machine {
        machine_table()
    } else if arguments.sensitivity {
        sensitivity(arguments.output.json)
    } else {
        let points = simulate(arguments)?;
        let pages = [
            (&arguments.output.svg, simulation_svg(&points)),
            (&arguments.output.html, simulation_page(&points)),
        ];
        for (path, text) in pages {
            if let Some(path) = path {
                std::fs::write(path, text).map_err(|e| Error::Unwritten(path.clone(), e))?;
            }
        }
        match (arguments.output.json, arguments.output.csv) {
            (true, _) => simulation_json(&points),
            (_, true) => simulation_csv(&points),
            _ => simulation_table(&points),
        }
    };
    print(&text).map_err(Error::Output)?;
    Ok(ExitCode::SUCCESS)
}

fn sensitivity(json: bool) -> String {
    let progress = Progress::new();
    let held = pario_simulate::sensitivity(|done, total| {
        progress.show(done, total, CLAIMS[done * CLAIMS.len() / total].name)
    });
    progress.clear();
    sensitivity_text(&held, json)
}

/// All runs that were asked for.
fn simulate(arguments: &Arguments) -> Result<Vec<SimulationPoint>, Error> {
    let mut machine = Machine::default();
    for (name, value) in &arguments.set {
        *machine.number(name).ok_or_else(|| Error::UnknownNumber(name.clone()))? = *value;
    }
    let directions: &[bool] = match (arguments.write, arguments.read) {
        (true, true) => &[true, false],
        (false, true) => &[false],
        _ => &[true],
    };
    let methods =
        if arguments.partition.is_empty() { &PartitioningMethod::ALL[..] } else { &arguments.partition };
    let protocols: Vec<Protocol> = arguments.protocol.iter().map(ProtocolWord::value).collect();
    let strategies: Vec<PartitionStrategy> = arguments.strategy.iter().map(StrategyWord::value).collect();
    let base = Setup {
        callback: arguments.callback.map(|word| word.value()),
        servers: arguments.servers,
        stripe: arguments.stripe,
        buffer: arguments.aggregation.buffer,
        rounds: arguments.rounds.value(),
        aggregators: arguments.aggregation.aggregators,
        suit_servers: arguments.aggregation.suit_servers,
        seed: arguments.seed,
        machine,
        ..Setup::default()
    };
    let each = if strategies.is_empty() { protocols.len() * methods.len() } else { strategies.len() };
    let progress = Progress::new();
    let mut points = Vec::new();
    for &write in directions {
        let works = workloads(arguments, write)?;
        let total = directions.len() * works.len() * each;
        for work in &works {
            let show = |points: &Vec<SimulationPoint>, what: &str| {
                progress.show(points.len(), total, &format!("{what}, {} processes", work.ranks()));
            };
            let setup = Setup { write, ..base.clone() };
            for &strategy in &strategies {
                show(&points, strategy.word());
                points.push(SimulationPoint::partition(&setup, strategy, arguments.shared_nodes, work)?);
            }
            if !strategies.is_empty() {
                continue;
            }
            for &protocol in &protocols {
                for &method in methods {
                    show(&points, method.name());
                    points.push(SimulationPoint::file_system(
                        &Setup { protocol, method, ..setup.clone() },
                        work,
                    )?);
                }
            }
        }
    }
    progress.clear();
    Ok(points)
}

/// The workload at each number of processes.
fn workloads(arguments: &Arguments, write: bool) -> Result<Vec<Workload>, Error> {
    if let Some(path) = arguments.workload.strip_prefix("trace:") {
        let work = traced::workload(path, write)?;
        return match arguments.procs.iter().find(|asked| **asked != work.ranks()) {
            Some(&asked) => Err(pario_simulate::Error::Ranks { recorded: work.ranks(), asked }.into()),
            None => Ok(vec![work]),
        };
    }
    let usual: &[u32] = if arguments.workload == "bt" { &[64, 144, 256] } else { &[64, 256, 1024] };
    let procs = if arguments.procs.is_empty() { usual } else { &arguments.procs };
    let size = Size { edge: arguments.edge, calls: arguments.calls };
    procs.iter().map(|&ranks| Ok(Workload::named(&arguments.workload, ranks, size)?)).collect()
}

/// A line on the terminal that says how far it is.
struct Progress(bool);

impl Progress {
    fn new() -> Progress {
        Progress(std::io::stderr().is_terminal())
    }

    fn show(&self, done: usize, total: usize, what: &str) {
        if self.0 {
            eprint!("\r\x1b[K{} of {total}: {what}", done + 1);
        }
    }

    fn clear(&self) {
        if self.0 {
            eprint!("\r\x1b[K");
        }
    }
}

impl ProtocolWord {
    fn value(&self) -> Protocol {
        match self {
            ProtocolWord::Server => Protocol::Server,
            ProtocolWord::Token => Protocol::Token,
            ProtocolWord::Lease => Protocol::Lease,
        }
    }
}

impl StrategyWord {
    fn value(&self) -> PartitionStrategy {
        match self {
            StrategyWord::ServerDirected => PartitionStrategy::ServerDirected,
            StrategyWord::ClientDirected => PartitionStrategy::ClientDirected,
            StrategyWord::TwoPhase => PartitionStrategy::TwoPhase,
        }
    }
}

impl CallbackWord {
    fn value(self) -> Callback {
        match self {
            CallbackWord::Whole => Callback::Whole,
            CallbackWord::Part => Callback::Part,
            CallbackWord::Kept => Callback::Kept,
        }
    }
}

impl RoundsWord {
    fn value(self) -> Rounds {
        match self {
            RoundsWord::Together => Rounds::Together,
            RoundsWord::Free => Rounds::Free,
        }
    }
}

fn method(word: &str) -> Result<PartitioningMethod, String> {
    PartitioningMethod::from_name(word).ok_or_else(|| {
        let words: Vec<&str> = PartitioningMethod::ALL.iter().map(|method| method.name()).collect();
        format!("there are: {}", words.join(", "))
    })
}

fn setting(text: &str) -> Result<(String, u64), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=NUMBER is wanted, such as latency=50000")?;
    let value = value.trim().replace('_', "").parse().map_err(|_| format!("{value:?} is no whole number"))?;
    Ok((name.trim().to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_a_name_and_a_number() {
        assert_eq!(setting("latency = 50_000"), Ok(("latency".into(), 50_000)));
        assert!(setting("latency").is_err() && setting("latency=fast").is_err());
    }
}
