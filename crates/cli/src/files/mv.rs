//! `pario mv`: gives files and directories of a partition other names.

use super::address::Spot;
use super::error::Error;
use super::session::Session;
use super::tally::Tally;
use crate::env::Environment;
use clap::Args;
use pario_client::Partition;
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
    let mut session = Session::of_tool(env);
    let mut spots = Spot::parse_all(&arguments.paths, session.usual())?;
    let target = spots.pop().expect("two at least");
    if let Some(other) = spots.iter().find(|spot| spot.partition != target.partition) {
        let why = "they are in different partitions; use 'pario cp', then 'pario rm'";
        return Err(Error::RefusedBoth(other.to_string(), target.to_string(), why));
    }
    let partition = session.partition(&target.partition)?;
    let into = is_directory(&partition, &target)?;
    if spots.len() > 1 && !into {
        return Err(Error::Refused(target.to_string(), "no directory, and several are to go into it"));
    }
    let mut tally = Tally::default();
    for spot in spots {
        tally.note(&spot, rename(arguments, &partition, &spot, &target, into));
    }
    tally.report(arguments.json)
}

/// Whether there is a directory.
pub fn is_directory(partition: &Partition, spot: &Spot) -> Result<bool, Error> {
    match partition.metadata(&spot.path) {
        Ok(metadata) => Ok(metadata.is_dir()),
        Err(error) if error.kind() == ErrorKind::NoSuchFile => Ok(false),
        Err(error) => Err(Error::there("cannot look at", spot)(error)),
    }
}

fn rename(
    arguments: &Arguments,
    partition: &Partition,
    spot: &Spot,
    target: &Spot,
    into: bool,
) -> Result<(), Error> {
    let name = spot.name().ok_or_else(|| {
        Error::Refused(spot.to_string(), "the root directory of a partition keeps its name")
    })?;
    let target = if into { target.join(name) } else { target.clone() };
    let renamed = match arguments.no_clobber {
        true => partition.rename_new(&spot.path, &target.path),
        false => partition.rename(&spot.path, &target.path),
    };
    renamed.map_err(Error::there("cannot rename", format!("{spot} to {}", target.path)))
}
