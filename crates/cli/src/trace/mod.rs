//! `pario trace`: what a run recorded with `PARIO_TRACE`, line by line or in numbers.

pub mod select;
mod show;
pub mod summary;

use clap::{Args, Subcommand};
use pario_trace::TraceSelectionError;
use std::io;
use std::process::ExitCode;

/// Look at the operations that a run recorded.
///
/// A program that runs under Pario with PARIO_TRACE=errors records every MPI-IO operation that failed or
/// moved less than was asked; with PARIO_TRACE=all it records every operation with its file, bytes, result
/// and times. Each task (rank) and each I/O agent writes a file of its own, task-RANK.ptrace or
/// agent-RANK.ptrace, into the directory pario-trace below the working directory. Files of an earlier job
/// stay as they are: the next job writes task-RANK.2.ptrace and so on.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
The setting in full: PARIO_TRACE=errors|all[,min=OFFSET][,dir=DIR][,clock=system]
  min=OFFSET   leave out reads and writes that lie wholly below this offset (64k, 1M, 2G …)
  dir=DIR      write to DIR instead of pario-trace
  clock=system tell the time by the system's clock, not by the processor's counter

Examples:
  PARIO_TRACE=all pario run -n 4 -- ./simulation   record everything
  pario trace summary                              counts, sizes and times per file and call
  pario trace show --errors                        what went wrong, on which rank, where
  PARIO_TRACE=errors,dir=/tmp/t pario run -n 4 -- ./simulation
  pario trace show /tmp/t                          failures only, recorded elsewhere";

#[derive(Subcommand)]
enum Command {
    Show(show::Arguments),
    Summary(summary::Arguments),
}

/// Why `pario trace` could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no trace to read.
    #[error(transparent)]
    Selection(#[from] TraceSelectionError),
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Error> {
    let written = match &arguments.command {
        Command::Show(arguments) => show::main(arguments),
        Command::Summary(arguments) => summary::main(arguments),
    };
    match written {
        // A reader that has closed the pipe has seen enough.
        Err(Error::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        other => other.map(|()| ExitCode::SUCCESS),
    }
}
