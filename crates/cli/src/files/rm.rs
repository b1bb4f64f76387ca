//! `pario rm`: removes files and directories of partitions.

use super::error::Error;
use super::tally::Tally;
use crate::env::Environment;
use clap::Args;
use pario_copy::{PartitionPath, remove};
use pario_types::ErrorKind;
use std::ffi::OsString;
use std::process::ExitCode;

/// Remove files and directories of a partition.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Arguments {
    /// Directories with all that is in them
    #[arg(short = 'r', short_alias = 'R', long)]
    recursive: bool,
    /// What is not there is no error
    #[arg(short = 'f', long)]
    force: bool,
    /// Say in JSON what was done
    #[arg(long)]
    json: bool,
    /// Files and directories, as NAME:/path or pario:NAME/path
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
}

const NOTES: &str = "\
A program that has a removed file open can go on using it; its room is free
when the last one has closed it.

Examples:
  pario rm scratch:/old.dat
  pario rm -r scratch:/runs/1 scratch:/runs/2

Exit code: 0 all removed, 1 one could not be, 2 wrong arguments.";

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    let mut connections = env.metadata_connections();
    let paths = PartitionPath::parse_all(&arguments.paths, connections.default_partition())?;
    let mut tally = Tally::default();
    for path in paths {
        let partition = connections.partition(&path.partition)?;
        let removed = match remove(&partition, &path, arguments.recursive) {
            Err(error) if arguments.force && error.kind() == ErrorKind::NoSuchFile => Ok(()),
            outcome => outcome,
        };
        tally.note(&path, removed.map_err(Error::from));
    }
    tally.report(arguments.json)
}
