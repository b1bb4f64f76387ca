//! `pario list`: the partitions in the registry, and what servers that are gone have left unsaved.

use super::error::{Error, amount};
use super::{print, registry};
use crate::env::Environment;
use clap::Args;
use pario_launch::message::HostMessage;
use pario_launch::pools::{HostPool, PoolState, survey, sweep};
use pario_launch::task::{self, HostTask};
use pario_launch::{NodeLauncher, host, reach};
use pario_registry::{Entry, spell_size};
use pario_types::{PartitionId, ServerId};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// List the partitions that the registry knows.
///
/// A partition is up if the registry says so and its servers can be connected to. Data that only the pool of a dead server
/// has is listed as well, also of partitions that the registry does not know (on this host).
#[derive(Args)]
pub struct Arguments {
    /// List in JSON, with everything the registry knows
    #[arg(long)]
    json: bool,
}

/// How long another host may take to say which pools it has, and a server there to be connected to.
const ASK: Duration = Duration::from_secs(10);
const CONNECT: Duration = Duration::from_secs(2);

/// Runs the subcommand.
pub fn main(arguments: &Arguments, env: &Environment) -> Result<ExitCode, Error> {
    let entries = registry(env)?.list()?;
    let silent: Vec<Silent> = entries.iter().map(Silent::of).collect();
    let (found, unasked) = left(&entries, &silent, env)?;
    let text = match arguments.json {
        true => {
            let strangers = strangers(&entries, &found);
            let strangers =
                strangers.into_iter().map(|one| json!({ "state": "unregistered", "pool": one.in_json() }));
            let known =
                entries.iter().zip(&silent).map(|(entry, silent)| in_json(entry, silent, &found, &unasked));
            let all = known.chain(strangers);
            format!("{:#}\n", all.collect::<Value>())
        }
        false if entries.is_empty() => {
            "no partitions ('pario up FILE' creates one)\n".to_owned() + &unsaved(&entries, &found)
        }
        false => {
            let unknown: String = unasked.iter().map(|host| host.to_string()).collect();
            table(&entries, &silent) + &unsaved(&entries, &found) + &unknown
        }
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// A pool with unsaved data, and the host that it is on.
pub struct Found {
    /// Which host.
    pub host: String,
    /// The pool.
    pub pool: HostPool,
}

impl Found {
    /// How much data only this pool has, and of which server.
    pub fn what(&self, name: &str) -> String {
        let Found { host, pool: HostPool { server, path, state, .. } } = self;
        match state {
            PoolState::Left { unsaved, .. } => {
                format!("{} in the pool of server {server} of {name} on {host}", amount(*unsaved))
            }
            PoolState::Unreadable { why } => {
                format!("the pool of server {server} of {name} on {host} cannot be read: {why}")
            }
            PoolState::Missing { .. } => {
                format!("the pool of server {server} of {name} on {host} is gone: {}", path.display())
            }
            PoolState::Lost => format!(
                "the pool of server {server} of {name} on {host} is of another boot: {}",
                path.display()
            ),
            PoolState::Served => {
                format!("the pool of server {server} of {name} on {host} is in use: {}", path.display())
            }
        }
    }

    fn in_json(&self) -> Value {
        let mut value = json!(self.pool);
        value["host"] = json!(self.host);
        value
    }
}

/// A host that could not be asked whether servers of a partition have left unsaved data there.
struct Unasked {
    partition: PartitionId,
    name: String,
    host: String,
    why: String,
}

impl Unasked {
    fn new(entry: &Entry, host: &str, why: String) -> Unasked {
        Unasked { partition: entry.id, name: entry.name().to_owned(), host: host.to_owned(), why }
    }
}

impl fmt::Display for Unasked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unasked { name, host, why, .. } = self;
        writeln!(
            f,
            "unknown: {host} cannot be asked whether servers of {name} have left unsaved data there: {why}"
        )
    }
}

/// The pools of dead servers with unsaved data: on this host, and on those of servers that do not answer. And the hosts that
/// could not be asked.
fn left(
    entries: &[Entry],
    silent: &[Silent],
    env: &Environment,
) -> Result<(Vec<Found>, Vec<Unasked>), Error> {
    let settings = env.launch();
    let base = settings.run_base();
    sweep(&base);
    let here = survey(&base)?.into_iter().map(|pool| Found { host: host::name(), pool });
    let mut found: Vec<Found> = here.filter(|found| found.pool.holds_data()).collect();
    let mut unasked = Vec::new();
    let asked: Vec<(&Entry, BTreeSet<&str>)> =
        entries.iter().zip(silent).map(|(entry, silent)| (entry, silent.hosts(entry))).collect();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (entry, hosts) in asked {
            let launcher = NodeLauncher::new(entry.description.settings().launcher, &settings);
            let launcher = std::sync::Arc::new(launcher);
            for host in hosts {
                let launcher = launcher.clone();
                threads.push(scope.spawn(move || {
                    let task = HostTask::Pools { run_base: env.run_base.clone(), directories: Vec::new() };
                    let said = task::ask(&*launcher, host, &task, Instant::now() + ASK);
                    let pools = match said {
                        Ok(HostMessage::Pools { pools, .. }) => pools,
                        Ok(_) => {
                            return Err(Unasked::new(
                                entry,
                                host,
                                "another version of pario is there".into(),
                            ));
                        }
                        Err(why) => return Err(Unasked::new(entry, host, why)),
                    };
                    let own =
                        pools.into_iter().filter(|pool| pool.partition == entry.id && pool.holds_data());
                    Ok(own.map(|pool| Found { host: host.to_owned(), pool }).collect::<Vec<_>>())
                }));
            }
        }
        for thread in threads {
            match thread.join().expect("a thread that asks a host does not panic") {
                Ok(pools) => found.extend(pools),
                Err(host) => unasked.push(host),
            }
        }
    });
    Ok((found, unasked))
}

/// The servers of a partition that should run and cannot be connected to.
struct Silent {
    here: Vec<ServerId>,
    elsewhere: Vec<ServerId>,
}

impl Silent {
    fn of(entry: &Entry) -> Silent {
        let silent = entry.running.iter().filter(|(_, running)| !reach::answers(running, CONNECT));
        let (here, elsewhere): (Vec<_>, Vec<_>) =
            silent.partition(|(_, running)| host::is_here(&running.host));
        let numbers = |all: Vec<(&ServerId, _)>| all.into_iter().map(|(server, _)| *server).collect();
        Silent { here: numbers(here), elsewhere: numbers(elsewhere) }
    }

    /// The other hosts of these servers, and of those that were given up.
    fn hosts<'a>(&self, entry: &'a Entry) -> BTreeSet<&'a str> {
        let servers = self.elsewhere.iter().chain(&entry.abandoned);
        servers.filter_map(|server| entry.host_of(*server)).filter(|host| !host::is_here(host)).collect()
    }
}

/// The pools of partitions that the registry does not know.
fn strangers<'a>(entries: &[Entry], found: &'a [Found]) -> Vec<&'a Found> {
    let known = |id: PartitionId| entries.iter().any(|entry| entry.id == id);
    found.iter().filter(|found| !known(found.pool.partition)).collect()
}

/// Lines about unsaved data and how to save it.
fn unsaved(entries: &[Entry], found: &[Found]) -> String {
    let mut text = String::new();
    for entry in entries {
        let name = entry.name();
        for one in found.iter().filter(|found| found.pool.partition == entry.id) {
            text +=
                &format!("unsaved: {}: 'pario up {name}' or 'pario down {name}' saves it\n", one.what(name));
        }
    }
    for one in strangers(entries, found) {
        text += &match (&one.pool.owner, one.pool.is_orphaned()) {
            (Some(owner), false) => format!(
                "unsaved: {}: 'PARIO_HOME={} pario down {}' saves it\n",
                one.what(&owner.name),
                owner.home.display(),
                owner.name
            ),
            (owner, _) => {
                orphan(one, owner.as_ref().map(|owner| (owner.name.as_str(), owner.servers.join(" "))))
            }
        };
    }
    text
}

/// A line on a pool of a partition that no registry knows.
pub fn orphan(found: &Found, owner: Option<(&str, String)>) -> String {
    let id = found.pool.partition;
    let (name, directories) = owner.unwrap_or(("an unknown partition", "DIRECTORIES".to_owned()));
    format!(
        "orphaned pool: {} ({id}): 'pario up --adopt {directories}' saves it, 'pario clean --discard {id}' loses it\n",
        found.what(name)
    )
}

/// A server of this host that cannot be connected to has ended; of another host that is not known.
fn state(entry: &Entry, silent: &Silent) -> &'static str {
    match entry.running.len() - silent.here.len() {
        0 => "down",
        _ if !silent.elsewhere.is_empty() => "not answering",
        left if left == entry.description.structure().servers.len() => "up",
        _ => "partly up",
    }
}

fn in_json(entry: &Entry, silent: &Silent, found: &[Found], unasked: &[Unasked]) -> Value {
    let mut value = json!(entry);
    value["state"] = json!(state(entry, silent));
    let own = found.iter().filter(|found| found.pool.partition == entry.id);
    value["unsaved"] = own.map(Found::in_json).collect();
    let hosts = unasked.iter().filter(|host| host.partition == entry.id);
    value["unasked"] = hosts.map(|host| json!({ "host": host.host, "why": host.why })).collect();
    value
}

fn table(entries: &[Entry], silent: &[Silent]) -> String {
    let head = ["NAME", "STATE", "SERVERS", "STRIPE", "CACHE", "METADATA ON"].map(str::to_owned);
    let mut rows = vec![head];
    for (entry, silent) in entries.iter().zip(silent) {
        let structure = entry.description.structure();
        rows.push([
            entry.name().to_owned(),
            state(entry, silent).to_owned(),
            structure.servers.len().to_string(),
            spell_size(structure.stripe_size),
            spell_size(entry.description.settings().cache),
            entry.host_of(structure.metadata).unwrap_or_default().to_owned(),
        ]);
    }
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}
