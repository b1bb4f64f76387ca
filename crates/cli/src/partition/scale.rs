//! `pario scale`: changes the set of servers of a partition while programs use it.

use super::error::Error;
use super::{print, registry, seconds};
use crate::env::Environment;
use clap::Args;
use pario_launch::{PartitionStatus, ScaledPartition, ServerCondition, add_servers, resume_scaling};
use pario_registry::{Entry, Registry, Resource};
use std::process::ExitCode;
use std::time::Duration;

/// How long a server may take to answer `--status`.
const ASK: Duration = Duration::from_secs(5);

/// Add servers to a partition while programs use it.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Arguments {
    /// The partition's name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    change: Change,
    /// Leave existing files on the servers that have them; only new files use the added ones. This is what --add and --to do
    #[arg(long, conflicts_with = "status")]
    keep: bool,
    /// Say which set of servers each server knows, and change nothing
    #[arg(long)]
    status: bool,
    /// How long to wait for the servers, and for other commands that start or stop the partition
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = seconds())]
    timeout: u64,
}

/// The change.
#[derive(Args)]
#[group(multiple = false, conflicts_with = "status")]
struct Change {
    /// Add a server in each of these directories
    #[arg(long, value_name = "NODE:/DIR", num_args = 1..)]
    add: Vec<String>,
    /// Add servers until there are so many, in directories that count on from the last one: /data/1, /data/2, …
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    to: Option<u16>,
}

const NOTES: &str = "\
Examples:
  pario scale scratch --add n2:/data n3:/data    add a server on each of two nodes
  pario scale scratch --to 4                     add servers beside the last one until there are 4
  pario scale scratch --status                   which set of servers each server knows
  pario scale scratch                            complete a change that was interrupted

The partition has to be up. Programs that use it go on meanwhile: they find the new
servers when they open a file that is on them. New files use all servers at once;
existing files stay where they are.

The set of servers has a number, its epoch, which each change increases by one. If
this command is interrupted, even by kill -9, the next 'pario scale' or 'pario up'
completes the change, or undoes it if the new servers had not all started.

The partition file from which the partition was created need not be changed: 'pario
up' knows it.";

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    let (registry, name) = (registry(env)?, &arguments.name);
    if arguments.status {
        print(&status(&registry, name)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let deadline = Duration::from_secs(arguments.timeout);
    let places = places(&registry, name, &arguments.change)?;
    let ScaledPartition { entry, note } = if places.is_empty() {
        resume_scaling(&registry, name, deadline, &env.launch())?
    } else {
        add_servers(&registry, name, &places, deadline, &env.launch())?
    };
    let servers = entry.members();
    print(&format!("partition {name} has {servers} servers (epoch {})\n{note}", entry.epoch))?;
    Ok(ExitCode::SUCCESS)
}

/// The directories of the servers to add.
fn places(registry: &Registry, name: &str, change: &Change) -> Result<Vec<Resource>, Error> {
    let parse = |text: &String| Resource::parse(text).ok_or_else(|| Error::Place(text.clone()));
    let Some(count) = change.to else { return change.add.iter().map(parse).collect() };
    let entry = registry.get(name)?;
    let servers = &entry.description.structure().servers[..entry.members()];
    if usize::from(count) < servers.len() {
        return Err(Error::Fewer { name: name.to_owned(), count, servers: servers.len() });
    }
    let mut places: Vec<Resource> = Vec::new();
    while servers.len() + places.len() < usize::from(count) {
        let last = places.last().unwrap_or_else(|| servers.last().expect("a partition has servers"));
        let next = following(last).ok_or_else(|| Error::NoSequence(last.to_string()))?;
        places.push(next);
    }
    Ok(places)
}

/// The place whose directory has the next number.
fn following(place: &Resource) -> Option<Resource> {
    let base = place.dir.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = &place.dir[base.len()..];
    let next = number.parse::<u64>().ok()?.checked_add(1)?;
    let dir = format!("{base}{next:0width$}", width = number.len());
    Some(Resource { node: place.node.clone(), dir })
}

fn status(registry: &Registry, name: &str) -> Result<String, Error> {
    let entry = registry.get(name)?;
    let PartitionStatus { entry, servers } = PartitionStatus::ask(registry, entry, ASK);
    let mut text = format!("partition {name}: {} servers (epoch {})\n", entry.members(), entry.epoch);
    for (server, condition) in servers.iter().enumerate() {
        let place = &entry.description.structure().servers[server];
        text += &format!("  server {server}  {place}  {}\n", knows(&entry, condition));
    }
    let joining = usize::from(entry.joining);
    for (offset, place) in entry.description.structure().servers.iter().rev().take(joining).rev().enumerate()
    {
        text += &format!("  server {}  {place}  is being added\n", entry.members() + offset);
    }
    Ok(text)
}

fn knows(entry: &Entry, condition: &ServerCondition) -> String {
    match condition {
        ServerCondition::Stopped => "does not run".to_owned(),
        ServerCondition::Silent(why) => format!("does not answer: {why}"),
        ServerCondition::Answers(status) if status.epoch == entry.epoch => "knows this set".to_owned(),
        ServerCondition::Answers(status) => {
            format!("knows the set of epoch {}: 'pario scale {}' tells it", status.epoch, entry.name())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_count_on_from_the_last_one() {
        let next =
            |text: &str| following(&Resource::parse(text).expect("a place")).map(|next| next.to_string());
        assert_eq!(next("n1:/data/9").as_deref(), Some("n1:/data/10"));
        assert_eq!(next("/scratch/server007").as_deref(), Some("/scratch/server008"));
        assert_eq!(next("/scratch/data"), None);
    }
}
