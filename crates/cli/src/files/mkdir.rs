//! `pario mkdir`: makes directories in partitions.

use super::address::Spot;
use super::error::Error;
use super::session::Session;
use super::tally::Tally;
use crate::env::Environment;
use clap::Args;
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
    let mut session = Session::of_tool(env);
    let spots = Spot::parse_all(&arguments.paths, session.usual())?;
    let mut tally = Tally::default();
    for spot in spots {
        let partition = session.partition(&spot.partition)?;
        let made = match arguments.parents {
            true => partition.create_dir_all(&spot.path),
            false => partition.create_dir(&spot.path),
        };
        tally.note(&spot, made.map_err(Error::there("cannot make", &spot)));
    }
    tally.report(arguments.json)
}
