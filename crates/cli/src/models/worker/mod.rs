//! `pario models-worker`: what runs on the hosts while `pario models` runs. Users do not call it.
//!
//! - *host*: one on each host; starts the processes there, passes orders on to those that take part, and answers
//!   with one report.
//! - *process*: one process of a model; does what an order says.

mod host;
mod process;

use crate::env::Environment;
use clap::{Args, ValueEnum};
use pario_launch::message::next_line;
use std::ffi::OsString;
use std::io::{self, BufReader};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, sync_channel};

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
    /// Starts the processes of a host and speaks for them
    Host,
    /// One process
    Process,
}

/// Runs the part.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, (String, u8)> {
    let done = match arguments.part {
        Part::Host => host::main(env),
        Part::Process => process::main(env),
    };
    // Its output ends when nobody is there any more to say it to.
    done.map(|()| ExitCode::SUCCESS).map_err(|error| (error.to_string(), 1))
}

/// The words that make this program such a part.
pub fn command(part: Part) -> io::Result<[OsString; 4]> {
    let name = match part {
        Part::Host => "host",
        Part::Process => "process",
    };
    Ok([std::env::current_exe()?.into(), "models-worker".into(), "--part".into(), name.into()])
}

/// The lines of standard input. Its end ends this process at once, after `last` has been done.
fn lines(last: impl FnOnce() + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, lines) = sync_channel(1);
    std::thread::spawn(move || {
        let mut input = BufReader::new(io::stdin());
        while let Ok(Some(line)) = next_line(&mut input) {
            if sender.send(line).is_err() {
                break;
            }
        }
        last();
        std::process::exit(0);
    });
    lines
}

/// The message in a line.
fn message<'a, M: serde::Deserialize<'a>>(line: &'a [u8]) -> io::Result<M> {
    serde_json::from_slice(line).map_err(io::Error::from)
}
