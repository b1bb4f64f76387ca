//! `pario mv`: gives files and directories of a partition other names.

use super::error::Error;
use super::tally::Tally;
use crate::env::Environment;
use clap::Args;
use pario_client::Partition;
use pario_copy::PartitionPath;
use pario_types::ErrorKind;
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
    if let Some(other) = paths.iter().find(|path| path.partition != target.partition) {
        let why = "they are in different partitions; use 'pario cp', then 'pario rm'";
        return Err(pario_copy::Error::RefusedBoth(other.to_string(), target.to_string(), why).into());
    }
    let partition = connections.partition(&target.partition)?;
    let into = is_directory(&partition, &target)?;
    if paths.len() > 1 && !into {
        return Err(Error::refused(target, "no directory, and several are to go into it"));
    }
    let mut tally = Tally::default();
    for path in paths {
        tally.note(&path, rename(arguments, &partition, &path, &target, into));
    }
    tally.report(arguments.json)
}

/// Whether there is a directory.
pub fn is_directory(partition: &Partition, path: &PartitionPath) -> Result<bool, Error> {
    match partition.metadata(&path.path) {
        Ok(metadata) => Ok(metadata.is_dir()),
        Err(error) if error.kind() == ErrorKind::NoSuchFile => Ok(false),
        Err(error) => Err(Error::in_partition("cannot look at", path)(error)),
    }
}

fn rename(
    arguments: &Arguments,
    partition: &Partition,
    path: &PartitionPath,
    target: &PartitionPath,
    into: bool,
) -> Result<(), Error> {
    let name = path
        .name()
        .ok_or_else(|| Error::refused(path, "the root directory of a partition keeps its name"))?;
    let target = if into { target.join(name) } else { target.clone() };
    let renamed = match arguments.no_clobber {
        true => partition.rename_new(&path.path, &target.path),
        false => partition.rename(&path.path, &target.path),
    };
    renamed.map_err(Error::in_partition("cannot rename", format!("{path} to {}", target.path)))
}
