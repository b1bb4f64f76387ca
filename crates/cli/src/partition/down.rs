//! `pario down`: stops a partition's servers, which write everything to storage first.

use super::error::Error;
use super::{print, registry, seconds};
use crate::env::Environment;
use clap::Args;
use pario_launch::{StopOptions, take_down};
use std::process::ExitCode;
use std::time::Duration;

/// Stop the servers of a partition; what they hold goes to storage first.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Arguments {
    /// The partition's name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    options: Options,
    /// How long each server may take, and others who start or stop the partition
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = seconds())]
    timeout: u64,
}

/// The options of stopping.
#[derive(Args)]
struct Options {
    /// Forget the partition as well; its data stays in the servers' directories ('pario up --adopt' finds it there)
    #[arg(long)]
    forget: bool,
    /// Kill servers that do not stop, and give those up that cannot be reached; unsaved data stays in their pools
    #[arg(long)]
    force: bool,
    /// Remove the pools of dead servers with all that they hold: what was not stored is lost
    #[arg(long)]
    discard: bool,
    /// Remove the partition with all its files: forget it, and remove the servers' directories
    #[arg(long)]
    erase: bool,
}

impl Options {
    fn value(&self) -> StopOptions {
        StopOptions { forget: self.forget, force: self.force, discard: self.discard, erase: self.erase }
    }
}

const NOTES: &str = "\
Examples:
  pario down scratch             stop it; 'pario up scratch' starts it again
  pario down scratch --forget    the same, and take it out of the registry
  pario down scratch --erase     the same, and remove all its files

Data that was written and not yet stored is in a pool in memory on each server's
host. If a server was killed, 'pario down' starts another that stores what the
pool holds. If that is not possible, the partition is not down: it is said what
is where. --force gives such servers up and keeps their pools, so that a later
'pario up' or 'pario down' can save them; --discard removes the pools.

Exit code: 0 everything is stored and all servers are stopped (with --force: or
given up), 1 not so. With --erase: 0 nothing is left of the partition, 1 not so.";

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    let Arguments { name, options, timeout } = arguments;
    let patience = Duration::from_secs(*timeout);
    let text = take_down(&registry(env)?, name, options.value(), patience, &env.launch())?;
    let word = match options {
        Options { erase: true, .. } => "is down and erased",
        Options { forget: true, .. } => "is down and forgotten",
        _ => "is down",
    };
    print(&format!("partition {name} {word}\n{text}"))?;
    Ok(ExitCode::SUCCESS)
}
