//! `pario bench`: the workloads of scientific programs, measured with Pario and without.
//!
//! `compare` builds `pario-workload` (`program`) and runs it for each contender; `pario-benchmarks` has the order of the
//! runs and the statistics. `diff` compares two results. `pario-reports` shows them.

mod compare;
mod diff;
mod error;
mod list;
mod program;

use crate::env::Environment;
use clap::{Args, Subcommand};
pub use error::Error;
use std::process::ExitCode;

/// Measure Pario with the file accesses of scientific programs.
///
/// The workloads are one plain MPI program, which 'pario' builds with the MPI library's own compiler. Every byte
/// that it reads is checked, so a comparison is a test as well.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  pario bench list                                what there is to be measured
  pario bench compare --workload btio:medium --ranks 4 --repeat 7
      Pario against the MPI library's own MPI-IO
  pario bench compare --workload tile:medium,s3d:medium --against romio,posix \\
        --mpi openmpi --on plain,partition --html report.html
      two rivals, two kinds of file, and a page to show around
  pario bench compare --workload seismic:small --json before.json
  pario bench diff before.json after.json         has it got slower?
  pario run -n 9 -- $(pario bench build) btio --preset bt-A --dir /scratch
      the program itself; its --help says more";

#[derive(Subcommand)]
enum Command {
    Compare(compare::Arguments),
    Diff(diff::Arguments),
    List(list::Arguments),
    Build(list::BuildArguments),
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    match &arguments.command {
        Command::Compare(arguments) => compare::main(arguments, env),
        Command::Diff(arguments) => diff::main(arguments),
        Command::List(arguments) => list::main(arguments).map(|()| ExitCode::SUCCESS),
        Command::Build(arguments) => list::build(arguments, env).map(|()| ExitCode::SUCCESS),
    }
}
