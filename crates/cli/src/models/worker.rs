//! `pario models-worker`: the workers of `pario models` on the hosts. Users do not call it.

use clap::{Args, ValueEnum};
use pario_benchmarks::{host_worker, process_worker};
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

/// Run a part of 'pario models' on a host (started by it)
#[derive(Args)]
pub struct Arguments {
    /// Which part
    #[arg(long, value_enum)]
    part: Part,
}

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Starts the processes of a host and reports for them
    Host,
    /// One process
    Process,
}

/// Runs the part.
pub fn main(arguments: &Arguments) -> Result<ExitCode, (String, u8)> {
    let done = match arguments.part {
        Part::Host => command(Part::Process).and_then(|command| host_worker::run(&command)),
        Part::Process => process_worker::run(),
    };
    // Its output fails when `pario models` has ended.
    done.map(|()| ExitCode::SUCCESS).map_err(|error| (error.to_string(), 1))
}

/// The command line that runs a part.
pub fn command(part: Part) -> io::Result<[OsString; 4]> {
    let name = match part {
        Part::Host => "host",
        Part::Process => "process",
    };
    Ok([std::env::current_exe()?.into(), "models-worker".into(), "--part".into(), name.into()])
}
