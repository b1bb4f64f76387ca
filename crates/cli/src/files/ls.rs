//! `pario ls`: what is in a directory of a partition.

use super::error::Error;
use super::print;
use crate::env::Environment;
use clap::{ArgAction, Args};
use pario_copy::{DirectoryListing, ListOptions, ListedFile, PartitionPath, list_directories};
use pario_reports::{ListingStyle, listing_json, listing_text};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

/// List files and directories of a partition.
#[derive(Args)]
#[command(after_help = NOTES, disable_help_flag = true)]
pub struct Arguments {
    /// One line for each: mode, opens, size, time of last change, name
    #[arg(short = 'l', long)]
    long: bool,
    /// Names that begin with a dot as well
    #[arg(short = 'a', long)]
    all: bool,
    /// Directories themselves, not what is in them
    #[arg(short = 'd', long)]
    directory: bool,
    /// What is in directories further down as well
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Sizes in two or three digits and a unit
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
Paths are NAME:/path or pario:NAME/path; pario:/path lies in the partition that
PARIO_PARTITION names.

Examples:
  pario ls scratch:/              the names in the root directory of scratch
  pario ls -lh scratch:/out       with sizes such as 1.5G, and times
  pario ls -R --json scratch:/    everything, for programs

Exit code: 0 all listed, 1 something could not be, 2 wrong arguments.";

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    let mut connections = env.metadata_connections();
    let paths = PartitionPath::parse_all(&arguments.paths, connections.default_partition())?;
    let mut named = DirectoryListing { directory: None, files: Vec::new() };
    let options = ListOptions { all: arguments.all, recursive: arguments.recursive };
    let mut listings = Vec::new();
    let mut failed = false;
    let mut complain = |error: pario_copy::Error| {
        eprintln!("pario: {error}");
        failed = true;
    };
    for path in paths {
        let partition = connections.partition(&path.partition)?;
        match partition.metadata(&path.path).map_err(pario_copy::Error::in_partition("cannot list", &path)) {
            Ok(metadata) if metadata.is_dir() && !arguments.directory => {
                listings.extend(list_directories(&partition, path, options, &mut complain));
            }
            Ok(metadata) => named.files.push(ListedFile { name: path.to_string(), metadata }),
            Err(error) => complain(error),
        }
    }
    if !named.files.is_empty() {
        listings.insert(0, named);
    }
    let text = match arguments.json {
        true => format!("{:#}\n", listing_json(&listings)),
        false => listing_text(&listings, &style(arguments)),
    };
    print(&text)?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn style(arguments: &Arguments) -> ListingStyle {
    let width = terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0));
    ListingStyle {
        long: arguments.long,
        human_sizes: arguments.human_readable,
        terminal: std::io::stdout().is_terminal().then_some(width),
    }
}
