//! The files of partitions (`pario ls`, `stat`, `cat`, `cp`, `mv`, `rm`, `mkdir`, `du`, `df`), and a
//! partition's state (`pario status`, `check`).
//!
//! What the user writes becomes an [`address::Address`]; a [`session::Session`] finds the partition in the
//! registry and connects to it. Everything else is done through `pario-client`.

pub mod address;
mod cat;
mod check;
mod cp;
mod df;
mod du;
mod error;
mod ls;
mod mkdir;
mod mv;
mod pattern;
pub mod placing;
pub mod progress;
mod rm;
pub mod session;
pub mod stage;
mod stat;
mod status;
pub mod table;
mod tally;
pub mod text;

use crate::env::Environment;
use clap::Subcommand;
pub use error::Error;
pub use pattern::Pattern;
use std::io::Write;
use std::process::ExitCode;
pub use table::{Side, Table};

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
    // A partition that cannot be checked is not one that was found to be wrong.
    let is_check = matches!(command, Command::Check(_));
    done.map_err(|error| (error.to_string(), if is_check { 2 } else { error.exit_code() }))
}

/// Writes a command's output. Whoever reads it may have seen enough.
fn print(text: &str) -> Result<(), Error> {
    print_more(text).map(|_| ())
}

/// The same; whether somebody wants to see more.
fn print_more(text: &str) -> Result<bool, Error> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true).map_err(Error::Output),
    }
}
