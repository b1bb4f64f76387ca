//! `pario du`: how many bytes the files below a directory have.

use super::error::Error;
use super::print;
use crate::env::Environment;
use clap::{ArgAction, Args};
use pario_copy::{PartitionPath, disk_usage};
use pario_reports::{disk_usage_json, disk_usage_text};
use std::ffi::OsString;
use std::process::ExitCode;

/// Add up the sizes of files below directories of a partition.
#[derive(Args)]
#[command(after_help = NOTES, disable_help_flag = true)]
pub struct Arguments {
    /// Only one line for each PATH
    #[arg(short = 's', long)]
    summarize: bool,
    /// Sizes in two or three digits and a unit, instead of bytes
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// In JSON
    #[arg(long)]
    json: bool,
    /// Files and directories; the root of PARIO_PARTITION if none
    #[arg(value_name = "PATH", default_value = "pario:/", hide_default_value = true)]
    paths: Vec<OsString>,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

const NOTES: &str = "\
Sizes are those that 'pario ls -l' shows: the holes of sparse files count.
'pario df' shows what is used on the servers.

Example:
  pario du -sh scratch:/runs

Exit code: 0 all added up, 1 something could not be, 2 wrong arguments.";

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    let mut connections = env.metadata_connections();
    let paths = PartitionPath::parse_all(&arguments.paths, connections.default_partition())?;
    let mut sums = Vec::new();
    let mut failed = false;
    for path in paths {
        let partition = connections.partition(&path.partition)?;
        let mut complain = |error: pario_copy::Error| {
            eprintln!("pario: {error}");
            failed = true;
        };
        sums.extend(disk_usage(&partition, &path, arguments.summarize, &mut complain));
    }
    let text = match arguments.json {
        true => format!("{:#}\n", disk_usage_json(&sums)),
        false => disk_usage_text(&sums, arguments.human_readable),
    };
    print(&text)?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
