//! `pario mv`: gives files and directories of a partition other names.

use super::error::Error;
use super::tally::Tally;
use crate::env::Environment;
use clap::Args;
use pario_copy::{PartitionPath, check_same_partition, is_directory, rename};
use std::ffi::OsString;
use std::process::ExitCode;

/// Rename files and directories within a partition.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Arguments {
    /// Replace nothing: something that has the new name already is an error
    #[arg(short = 'n', long)]
    no_clobber: bool,
    /// Say in JSON what was done
    #[arg(long)]
    json: bool,
    /// What to rename, and then the new name or the directory to put it into
    #[arg(value_name = "PATH", required = true, num_args = 2..)]
    paths: Vec<OsString>,
}

const NOTES: &str = "\
A file with the new name is replaced, at one moment: nobody finds none or half
of one. From one partition to another, or out of one, use 'pario cp' and then
'pario rm'.

Examples:
  pario mv scratch:/out.tmp scratch:/out       a new name
  pario mv scratch:/a scratch:/b scratch:/dir  into a directory

Exit code: 0 all renamed, 1 one could not be, 2 wrong arguments.";

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    let mut connections = env.metadata_connections();
    let mut paths = PartitionPath::parse_all(&arguments.paths, connections.default_partition())?;
    let target = paths.pop().expect("two at least");
    check_same_partition(&paths, &target)?;
    let partition = connections.partition(&target.partition)?;
    let into = is_directory(&partition, &target)?;
    if paths.len() > 1 && !into {
        return Err(Error::refused(target, "no directory, and several are to go into it"));
    }
    let mut tally = Tally::default();
    for path in paths {
        let renamed = rename(&partition, &path, &target, into, arguments.no_clobber);
        tally.note(&path, renamed.map_err(Error::from));
    }
    tally.report(arguments.json)
}
