//! `pario df`: room on the storage of partitions.

use super::error::Error;
use super::print;
use crate::env::Environment;
use clap::{ArgAction, Args};
use pario_registry::Entry;
use pario_reports::{storage_space_json, storage_space_text};
use serde_json::Value;
use std::process::ExitCode;

/// Show the room on a partition's storage, for each server and in all.
#[derive(Args)]
#[command(after_help = NOTES, disable_help_flag = true)]
pub struct Arguments {
    /// Sizes in two or three digits and a unit, instead of bytes
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// In JSON
    #[arg(long)]
    json: bool,
    /// Partitions; all that are up if none
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

const NOTES: &str = "\
TOTAL and FREE are those of the file system that a server's directory is on,
USED is what the partition's files take there. Servers that share a file system
each show all of its room.

Example:
  pario df -h scratch

Exit code: 0 all shown, 1 a partition could not be asked, 2 wrong arguments.";

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    let mut connections = env.metadata_connections();
    let entries: Vec<Entry> = match arguments.names.is_empty() {
        true => connections.registry()?.list()?.into_iter().filter(Entry::is_up).collect(),
        false => arguments.names.iter().map(|name| connections.entry(name)).collect::<Result<_, _>>()?,
    };
    let (mut words, mut objects) = (Vec::new(), Vec::new());
    let mut failed = false;
    for entry in entries {
        let rooms = connections
            .partition(entry.name())
            .map_err(Error::from)
            .and_then(|partition| partition.rooms().map_err(Error::partition(entry.name())));
        match rooms {
            Ok(rooms) => {
                words.push(storage_space_text(&entry, &rooms, arguments.human_readable));
                objects.push(storage_space_json(&entry, &rooms));
            }
            Err(error) => {
                eprintln!("pario: {error}");
                failed = true;
            }
        }
    }
    match arguments.json {
        true => print(&format!("{:#}\n", Value::from(objects)))?,
        false if words.is_empty() && !failed => print("no partition is up ('pario up NAME' starts one)\n")?,
        false => print(&words.join("\n"))?,
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
