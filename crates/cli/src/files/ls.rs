//! `pario ls`: what is in a directory of a partition.

use super::error::Error;
use super::print;
use crate::env::Environment;
use clap::{ArgAction, Args};
use pario_client::{Metadata, Partition};
use pario_copy::{PartitionPath, join};
use pario_reports::text;
use pario_reports::{Align, TextTable, columns};
use serde_json::{Value, json};
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

/// Something to list.
struct Found {
    name: String,
    metadata: Metadata,
}

/// A directory and what is in it, or what the user named itself.
struct Listing {
    /// `None` for what the user named itself.
    directory: Option<PartitionPath>,
    found: Vec<Found>,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    let mut connections = env.metadata_connections();
    let paths = PartitionPath::parse_all(&arguments.paths, connections.default_partition())?;
    let mut named = Listing { directory: None, found: Vec::new() };
    let mut listings = Vec::new();
    let mut failed = false;
    let mut complain = |error: Error| {
        eprintln!("pario: {error}");
        failed = true;
    };
    for path in paths {
        let partition = connections.partition(&path.partition)?;
        match partition.metadata(&path.path).map_err(Error::in_partition("cannot list", &path)) {
            Ok(metadata) if metadata.is_dir() && !arguments.directory => {
                list(arguments, &partition, path, &mut listings, &mut complain);
            }
            Ok(metadata) => named.found.push(Found { name: path.to_string(), metadata }),
            Err(error) => complain(error),
        }
    }
    if !named.found.is_empty() {
        listings.insert(0, named);
    }
    let text = match arguments.json {
        true => format!("{:#}\n", listings.iter().flat_map(in_json).collect::<Value>()),
        false => show(arguments, &listings),
    };
    print(&text)?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Reads a directory and, if that is wanted, those in it.
fn list(
    arguments: &Arguments,
    partition: &Partition,
    top: PartitionPath,
    listings: &mut Vec<Listing>,
    complain: &mut impl FnMut(Error),
) {
    let mut left = vec![top];
    while let Some(directory) = left.pop() {
        let mut found = Vec::new();
        let mut inner = Vec::new();
        for entry in partition.read_dir(&directory.path) {
            let entry = match entry.map_err(Error::in_partition("cannot list", &directory)) {
                Ok(entry) => entry,
                Err(error) => {
                    complain(error);
                    break;
                }
            };
            let name = entry.name().to_owned();
            if name.starts_with('.') && !arguments.all {
                continue;
            }
            if entry.is_dir() && arguments.recursive {
                inner.push(directory.join(&name));
            }
            match entry
                .metadata()
                .map_err(Error::in_partition("cannot find the size of", directory.join(&name)))
            {
                Ok(metadata) => found.push(Found { name, metadata }),
                Err(error) => complain(error),
            }
        }
        listings.push(Listing { directory: Some(directory), found });
        left.extend(inner.into_iter().rev());
    }
}

fn show(arguments: &Arguments, listings: &[Listing]) -> String {
    let terminal = std::io::stdout().is_terminal();
    let width = terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0));
    let mut sections = Vec::new();
    for listing in listings {
        let mut text = String::new();
        if let Some(directory) = listing.directory.as_ref().filter(|_| listings.len() > 1) {
            text += &format!("{}:\n", shown(&directory.to_string(), terminal));
        }
        text += &match (arguments.long, terminal) {
            (true, _) => long(arguments, &listing.found, terminal),
            (false, true) => {
                columns(&listing.found.iter().map(|f| label(f, true)).collect::<Vec<_>>(), width)
            }
            (false, false) => listing.found.iter().map(|f| f.name.clone() + "\n").collect(),
        };
        sections.push(text);
    }
    sections.join("\n")
}

fn long(arguments: &Arguments, found: &[Found], terminal: bool) -> String {
    let mut table = TextTable::new(&[Align::Left, Align::Right, Align::Right, Align::Left, Align::Left]);
    for one in found {
        let Found { metadata, .. } = one;
        let size = match metadata.is_dir() {
            true => "-".to_owned(),
            false => text::size(metadata.len(), arguments.human_readable),
        };
        table.row(vec![
            text::mode(metadata.is_dir(), metadata.mode()),
            metadata.opens().to_string(),
            size,
            text::local_time(metadata.modified()),
            label(one, terminal),
        ]);
    }
    table.text(0)
}

/// On a terminal directories have a slash at their end.
fn label(found: &Found, terminal: bool) -> String {
    let name = shown(&found.name, terminal);
    if found.metadata.is_dir() && terminal && !name.ends_with('/') { name + "/" } else { name }
}

/// Programs get names as they are, terminals without what would steer them.
fn shown(name: &str, terminal: bool) -> String {
    if terminal { text::printable(name) } else { name.to_owned() }
}

fn in_json(listing: &Listing) -> Vec<Value> {
    let path = |name: &str| match &listing.directory {
        Some(directory) => format!("{}:{}", directory.partition, join(&directory.path, name)),
        None => name.to_owned(),
    };
    listing.found.iter().map(|found| object(&path(&found.name), &found.metadata)).collect()
}

/// What there is to know of a file or directory, in JSON.
pub fn object(path: &str, metadata: &Metadata) -> Value {
    let mut value = json!({
        "path": path,
        "kind": if metadata.is_dir() { "directory" } else { "file" },
        "id": metadata.id().to_string(),
        "mode": format!("{:04o}", metadata.mode()),
        "opens": metadata.opens(),
        "accessed_ns": text::nanoseconds(metadata.accessed()),
        "modified_ns": text::nanoseconds(metadata.modified()),
        "changed_ns": text::nanoseconds(metadata.changed()),
        "created_ns": text::nanoseconds(metadata.created()),
    });
    match metadata.is_dir() {
        true => value["entries"] = json!(metadata.entries()),
        false => value["size"] = json!(metadata.len()),
    }
    value
}
