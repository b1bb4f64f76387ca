//! The files of partitions (`pario ls`, `stat`, `cat`, `cp`, `mv`, `rm`, `mkdir`, `du`, `df`), and a
//! partition's state (`pario status`, `check`).
//!
//! The user's paths are `pario_copy::Location`s. `pario_copy::Connections` finds partitions in the registry and connects
//! to them; `pario-client` does the rest.

mod cat;
mod check;
mod cp;
mod df;
mod du;
mod error;
mod ls;
mod mkdir;
mod mv;
pub mod placing;
mod ranks;
mod rm;
pub mod stage;
mod stat;
mod status;
mod tally;

use crate::env::Environment;
use crate::output;
use clap::Subcommand;
pub use error::Error;
use std::process::ExitCode;

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    Status(status::Arguments),
    Check(check::Arguments),
    Ls(ls::Arguments),
    Stat(stat::Arguments),
    Cat(cat::Arguments),
    Cp(cp::Arguments),
    Mv(mv::Arguments),
    Rm(rm::Arguments),
    Mkdir(mkdir::Arguments),
    Du(du::Arguments),
    Df(df::Arguments),
}

/// Runs one of them; if it fails as a whole, why and the exit code.
pub fn main(command: &Command, env: &Environment) -> Result<ExitCode, (String, u8)> {
    let done = match command {
        Command::Status(arguments) => status::main(arguments, env),
        Command::Check(arguments) => check::main(arguments, env),
        Command::Ls(arguments) => ls::main(arguments, env),
        Command::Stat(arguments) => stat::main(arguments, env),
        Command::Cat(arguments) => cat::main(arguments, env),
        Command::Cp(arguments) => cp::main(arguments, env),
        Command::Mv(arguments) => mv::main(arguments, env),
        Command::Rm(arguments) => rm::main(arguments, env),
        Command::Mkdir(arguments) => mkdir::main(arguments, env),
        Command::Du(arguments) => du::main(arguments, env),
        Command::Df(arguments) => df::main(arguments, env),
    };
    // A partition that cannot be checked differs from one with findings.
    let is_check = matches!(command, Command::Check(_));
    done.map_err(|error| (error.to_string(), if is_check { 2 } else { error.exit_code() }))
}

fn print(text: &str) -> Result<(), Error> {
    output::print(text).map_err(Error::Output)
}
