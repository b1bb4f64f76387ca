//! `pario trace`: what a run recorded with `PARIO_TRACE`, line by line or in numbers.

pub mod select;
mod show;
pub mod summary;

use clap::{Args, Subcommand};
use pario_trace::TraceReadError;
use select::Selection;
use std::fmt;
use std::io;
use std::path::PathBuf;
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
#[derive(Debug)]
pub enum Error {
    /// A directory or file is not there or cannot be listed.
    Unlisted(PathBuf, io::Error),
    /// A directory without trace files.
    Empty(PathBuf),
    /// A file gave no trace.
    Unread(TraceReadError),
    /// No operation is called so.
    UnknownOp(String),
    /// No file is of that job; the jobs there are.
    UnknownJob(String, Vec<String>),
    /// The output could not be written.
    Output(io::Error),
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

impl From<io::Error> for Error {
    fn from(e: io::Error) -> Error {
        Error::Output(e)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unlisted(path, e) if e.kind() == io::ErrorKind::NotFound => {
                write!(f, "no trace in {}: {e}; a run with PARIO_TRACE=all makes one", path.display())
            }
            Error::Unlisted(path, e) => write!(f, "cannot look into {}: {e}", path.display()),
            Error::Empty(path) => {
                write!(
                    f,
                    "no trace files (*.ptrace) in {}; a run with PARIO_TRACE=all makes some",
                    path.display()
                )
            }
            Error::Unread(e) => e.fmt(f),
            Error::UnknownOp(word) => {
                write!(
                    f,
                    "no operation is called {word:?}; examples: write, write_at_all, iread, open, set_view"
                )
            }
            Error::UnknownJob(word, jobs) => {
                write!(f, "no trace is of job {word:?}; there are: {}", jobs.join(", "))
            }
            Error::Output(e) => write!(f, "cannot write the output: {e}"),
        }
    }
}
