//! What follows from a profile of a program's file accesses: `pario plan` and its kin.
//!
//! `source` opens a profile, whatever it is stored as, and hands out its operations one by one; each command has a
//! module of its own.

mod advise;
mod convert;
mod error;
mod plan;
mod record;
mod source;

use crate::env::Environment;
use clap::Subcommand;
pub use error::Error;
use std::io;
use std::process::ExitCode;

#[derive(Subcommand)]
pub enum Command {
    Profile(record::Arguments),
    Plan(plan::Arguments),
    Advise(advise::Arguments),
    Convert(convert::Arguments),
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
