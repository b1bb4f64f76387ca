//! `pario du`: how many bytes the files below a directory have.

use super::error::Error;
use super::print;
use crate::env::Environment;
use clap::{ArgAction, Args};
use pario_client::Partition;
use pario_copy::PartitionPath;
use pario_reports::text;
use serde_json::{Value, json};
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

/// What is at and below a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sum {
    path: String,
    bytes: u64,
    files: u64,
    directories: u64,
}

/// A directory on the way down.
struct Level {
    path: PartitionPath,
    sum: Sum,
    /// Directories in it that are still to be added up.
    left: Vec<PartitionPath>,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    let mut connections = env.metadata_connections();
    let paths = PartitionPath::parse_all(&arguments.paths, connections.default_partition())?;
    let mut sums = Vec::new();
    let mut failed = false;
    for path in paths {
        let partition = connections.partition(&path.partition)?;
        let mut complain = |error: Error| {
            eprintln!("pario: {error}");
            failed = true;
        };
        add_up(&partition, &path, arguments.summarize, &mut sums, &mut complain);
    }
    let text = match arguments.json {
        true => format!("{:#}\n", sums.iter().map(in_json).collect::<Value>()),
        false => sums.iter().map(|sum| line(sum, arguments.human_readable)).collect(),
    };
    print(&text)?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Directories come after those in them, and what cannot be read is left out aloud.
fn add_up(
    partition: &Partition,
    top: &PartitionPath,
    only_top: bool,
    sums: &mut Vec<Sum>,
    complain: &mut impl FnMut(Error),
) {
    match partition.metadata(&top.path).map_err(Error::in_partition("cannot look at", top)) {
        Err(error) => return complain(error),
        Ok(metadata) if metadata.is_file() => {
            sums.push(Sum { path: top.to_string(), bytes: metadata.len(), files: 1, directories: 0 });
            return;
        }
        Ok(_) => {}
    }
    let mut levels = vec![level(partition, top.clone(), complain)];
    while let Some(last) = levels.last_mut() {
        if let Some(inner) = last.left.pop() {
            let inner = level(partition, inner, complain);
            levels.push(inner);
            continue;
        }
        let Level { sum, .. } = levels.pop().expect("there was a last one");
        if let Some(above) = levels.last_mut() {
            above.sum.bytes = above.sum.bytes.saturating_add(sum.bytes);
            above.sum.files += sum.files;
            above.sum.directories += sum.directories;
        }
        if levels.is_empty() || !only_top {
            sums.push(sum);
        }
    }
}

fn level(partition: &Partition, path: PartitionPath, complain: &mut impl FnMut(Error)) -> Level {
    let sum = Sum { path: path.to_string(), directories: 1, ..Sum::default() };
    let mut level = Level { path, sum, left: Vec::new() };
    for entry in partition.read_dir(&level.path.path) {
        let entry = match entry.map_err(Error::in_partition("cannot list", &level.path)) {
            Ok(entry) => entry,
            Err(error) => {
                complain(error);
                break;
            }
        };
        let inner = level.path.join(entry.name());
        if entry.is_dir() {
            level.left.push(inner);
            continue;
        }
        match entry.metadata().map_err(Error::in_partition("cannot find the size of", &inner)) {
            Ok(metadata) => {
                level.sum.bytes = level.sum.bytes.saturating_add(metadata.len());
                level.sum.files += 1;
            }
            Err(error) => complain(error),
        }
    }
    level.left.reverse();
    level
}

fn line(sum: &Sum, human: bool) -> String {
    format!("{}\t{}\n", text::size(sum.bytes, human), sum.path)
}

fn in_json(sum: &Sum) -> Value {
    json!({ "path": sum.path, "bytes": sum.bytes, "files": sum.files, "directories": sum.directories })
}
