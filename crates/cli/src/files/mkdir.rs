//! `pario mkdir`: makes directories in partitions.

use super::error::Error;
use super::tally::Tally;
use crate::env::Environment;
use clap::Args;
use pario_copy::PartitionPath;
use std::ffi::OsString;
use std::process::ExitCode;

/// Make directories in a partition.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Arguments {
    /// Those above as well, as far as they are missing; one that is there is no error
    #[arg(short = 'p', long)]
    parents: bool,
    /// Say in JSON what was done
    #[arg(long)]
    json: bool,
    /// Directories, as NAME:/path or pario:NAME/path
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
}

const NOTES: &str = "\
Example:
  pario mkdir -p scratch:/runs/2024/a

Exit code: 0 all made, 1 one could not be, 2 wrong arguments.";

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    let mut connections = env.metadata_connections();
    let paths = PartitionPath::parse_all(&arguments.paths, connections.default_partition())?;
    let mut tally = Tally::default();
    for path in paths {
        let partition = connections.partition(&path.partition)?;
        let made = match arguments.parents {
            true => partition.create_dir_all(&path.path),
            false => partition.create_dir(&path.path),
        };
        tally.note(&path, made.map_err(Error::in_partition("cannot make", &path)));
    }
    tally.report(arguments.json)
}
