//! Commands on profiles of a program's file accesses: `pario profile`, `plan`, `advise` and `convert`.

mod advise;
mod convert;
mod error;
mod plan;
mod record;

use crate::env::Environment;
use clap::{Args, Subcommand};
pub use error::Error;
use pario_profile::ProfileSource;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Subcommand)]
pub enum Command {
    Profile(Box<record::Arguments>),
    Plan(plan::Arguments),
    Advise(advise::Arguments),
    Convert(convert::Arguments),
}

/// The arguments that name a profile.
#[derive(Args)]
struct SourceArguments {
    /// A trace directory or file, a CSV table, a log of Darshan or what darshan-dxt-parser prints, or a plan
    #[arg(value_name = "PROFILE")]
    path: PathBuf,
    /// Which job, if several left traces in one directory; 'all' for all of them [default: the latest]
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
}

impl SourceArguments {
    fn value(&self) -> ProfileSource {
        ProfileSource { path: self.path.clone(), job: self.job.clone() }
    }
}

/// Runs the subcommand.
pub fn main(command: &Command, env: &Environment) -> Result<ExitCode, Error> {
    let done = match command {
        Command::Profile(arguments) => return record::main(arguments, env),
        Command::Plan(arguments) => plan::main(arguments),
        Command::Advise(arguments) => advise::main(arguments),
        Command::Convert(arguments) => convert::main(arguments),
    };
    match done {
        // A reader that has closed the pipe has seen enough.
        Err(Error::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        other => other.map(|()| ExitCode::SUCCESS),
    }
}
