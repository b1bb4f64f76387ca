//! `pario up`: creates a partition if need be, and starts the servers of it that do not run.

use super::error::Error;
use super::{print, registry, seconds};
use crate::env::Environment;
use crate::signal;
use clap::Args;
use pario_launch::{
    AdoptionError, AdoptionRequest, StartedPartition, bring_up, bring_up_adopted, bring_up_known,
};
use pario_registry::{Description, Entry, Registry, Resource};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Start the servers of a partition; create it first if it is new.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Arguments {
    /// A partition file, or the name of a partition that exists
    #[arg(value_name = "FILE|NAME", required_unless_present_any = ["example", "adopt"])]
    partition: Option<PathBuf>,
    /// Set a key of the partition file otherwise; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Register a partition again that is whole in its servers' directories: those given here, or in FILE
    #[arg(long, value_name = "NODE:/DIR", num_args = 0..)]
    adopt: Option<Vec<String>>,
    /// How long to wait for the servers, and for others who start or stop the partition
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = seconds())]
    timeout: u64,
    /// Say in JSON what was started
    #[arg(long)]
    json: bool,
    /// The library runs this within an MPI program: close the descriptors of that program
    #[arg(long, hide = true)]
    autostart: bool,
    /// Print a partition file that explains every key, and do nothing else
    #[arg(long)]
    example: bool,
}

const NOTES: &str = "\
Examples:
  pario up --example > scratch.toml    a partition file to start from
  pario up scratch.toml                create the partition and start it
  pario up scratch                     start it another time
  pario up scratch --set cache=1G      the same with another cache
  pario up --adopt n0:/data n1:/data   register it again, if the registry is lost

A partition file is TOML, or plain lines such as
  stripe_size = 64k
  ahpfs_server = n0:/data
  ahpfs_server = n1:/data
  metadata = n0:/data

name, servers, metadata, stripe_size and block_size are fixed when the partition
is created; all else may change at each start. Servers that run already are left
as they are.

After 'pario down --forget', or when the registry is lost, everything is still in
the servers' directories: --adopt finds out which partition they are of, registers
it and starts it. The directories come in any order, and may have moved.

Environment:
  PARIO_HOME     where the registry of partitions is [default: ~/.pario]
  PARIO_SSH, PARIO_SRUN, PARIO_MPIEXEC
                 the programs that start servers on other nodes, with options";

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    let deadline = Duration::from_secs(arguments.timeout);
    if arguments.autostart {
        // The servers would hold them open for good, and launchers wait for their end.
        signal::close_inherited_descriptors();
    }
    if arguments.example {
        let example = Description::parse("servers = ['/tmp/scratch/0', '/tmp/scratch/1']", Some("scratch"));
        print(&example.map(|description| description.documented())?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let registry = registry(env)?;
    let StartedPartition { entry, started, note } = match (&arguments.adopt, &arguments.partition) {
        (None, partition) => {
            let partition = partition.as_deref().expect("required without the other two");
            bring_up_named(&registry, partition, &arguments.set, deadline, env)?
        }
        (Some(directories), file) => {
            let request = adoption_request(directories, file.as_deref(), &arguments.set)?;
            bring_up_adopted(&registry, &request, deadline, &env.launch())?
        }
    };
    let word = if started == 0 { "is already up" } else { "is up" };
    print(&report(&entry, word, started, arguments.json))?;
    // Not part of the JSON.
    if arguments.json {
        eprint!("{note}")
    } else {
        print(&note)?
    }
    Ok(ExitCode::SUCCESS)
}

/// The directories and the description to adopt.
fn adoption_request(
    directories: &[String],
    file: Option<&Path>,
    set: &[String],
) -> Result<AdoptionRequest, Error> {
    let description = match file {
        Some(file) => Some(Description::read(file).map_err(Error::file(file))?),
        None => None,
    };
    let parse = |text: &String| {
        Resource::parse(text).ok_or_else(|| pario_launch::Error::from(AdoptionError::Place(text.clone())))
    };
    let mut all: Vec<Resource> = directories.iter().map(parse).collect::<Result<_, _>>()?;
    if let Some(description) = description.as_ref().filter(|_| all.is_empty()) {
        all.clone_from(&description.structure().servers);
    }
    let set = set.iter().map(|text| assignment(text)).collect::<Result<_, _>>()?;
    Ok(AdoptionRequest { directories: all, description, set })
}

/// A key and a value.
fn assignment(text: &str) -> Result<(String, String), Error> {
    let (key, value) = text.split_once('=').ok_or_else(|| Error::Assignment(text.to_owned()))?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// Starts the servers of a partition that exists, if they do not run.
pub fn known(name: &str, deadline: Duration, env: &Environment) -> Result<(), Error> {
    bring_up_known(&registry(env)?, name, Ok, deadline, &env.launch())?;
    Ok(())
}

/// Creates a partition and starts its servers.
pub fn new(description: Description, deadline: Duration, env: &Environment) -> Result<(), Error> {
    bring_up(&registry(env)?, description, deadline, &env.launch())?;
    Ok(())
}

/// Starts the partition that the user means: one that exists, by its name, or one of a file.
fn bring_up_named(
    registry: &Registry,
    partition: &Path,
    set: &[String],
    deadline: Duration,
    env: &Environment,
) -> Result<StartedPartition, Error> {
    let set = set.iter().map(|text| assignment(text)).collect::<Result<Vec<_>, _>>()?;
    let change = |description: Description| {
        set.iter().try_fold(description, |description, (key, value)| description.with(key, value))
    };
    let name = partition.to_str().filter(|name| !name.contains('/'));
    match name.map(|name| (name, registry.get(name))) {
        Some((name, Ok(_))) => Ok(bring_up_known(registry, name, change, deadline, &env.launch())?),
        Some((_, Err(pario_registry::Error::NoPartition(name)))) if !partition.exists() => {
            Err(pario_registry::Error::NoPartition(name).into())
        }
        Some((_, Err(pario_registry::Error::NoPartition(_)))) | None => {
            let description = Description::read(partition).map_err(Error::file(partition))?;
            Ok(bring_up(registry, change(description)?, deadline, &env.launch())?)
        }
        Some((_, Err(error))) => Err(error.into()),
    }
}

fn report(entry: &Entry, word: &str, started: usize, as_json: bool) -> String {
    let servers: Vec<_> = entry.running.iter().map(|(id, running)| (id.0, running)).collect();
    if as_json {
        let servers: BTreeMap<_, _> = servers.into_iter().collect();
        let value = json!({
            "partition": entry.name(),
            "id": entry.id.to_string(),
            "started": started,
            "running": servers,
        });
        return format!("{value:#}\n");
    }
    let mut text = format!("partition {} {word}\n", entry.name());
    for (id, running) in servers {
        let tcp = running.tcp.as_deref().unwrap_or("local socket only");
        text += &format!("  server {id}  {}  process {}  {tcp}\n", running.host, running.pid);
    }
    text
}
