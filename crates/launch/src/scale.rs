//! Changes the set of servers of a partition that is up.
//!
//! The set has an epoch. Servers are added in these steps, under the partition's lock:
//!
//! 1. The registry names the new servers as *joining*. Clients do not use them, and the other servers do not know them.
//! 2. The new servers are started. If one does not start, all of them are stopped, and the registry names the old set again.
//! 3. The registry names them as members, with the next epoch. From here on the addition is valid, whatever is killed.
//! 4. Each server is told the new set, the metadata server last. It records the set in its directory before it answers. From then on the
//!    metadata server places new files on all servers.
//!
//! The next `pario up` or `pario scale` undoes an addition that was interrupted before step 3, and completes one that was interrupted
//! later.

use crate::bring_up::dead;
use crate::error::Error;
use crate::reach::{self, addresses};
use crate::settings::LaunchSettings;
use crate::start::Starter;
use crate::task::{self, HostTask, ServerInstance};
use crate::{NodeLauncher, host};
use pario_registry::{Entry, PartitionLock, Registry, Resource, Running, Secret};
use pario_runtime::time::Instant;
use pario_transport::Address;
use pario_types::{Epoch, ServerId};
use pario_wire::message::{ServerMember, ServerSet};
use pario_wire::{Reply, Request};
use std::path::PathBuf;
use std::time::Duration;

/// The pause between attempts to tell a server that does not answer.
const PAUSE: Duration = Duration::from_millis(50);

/// How long a supervisor may take to start a server again.
const RESTART: Duration = Duration::from_secs(5);

/// The reason why the set of servers was not changed, or not everywhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScaleError {
    /// A server does not run.
    #[error("server {server} of partition {name} does not run: start it first ('pario up {name}')")]
    NotUp {
        /// The partition.
        name: String,
        /// The server.
        server: ServerId,
    },
    /// A server on another host, for a partition whose servers listen on their own host only.
    #[error(
        "the servers of partition {name} listen on their own host only, so one on {host} cannot be added: restart it \
         ('pario down {name}', 'pario up {name} --set listen=all') and try again"
    )]
    LocalOnly {
        /// The partition.
        name: String,
        /// The other host.
        host: String,
    },
    /// A server could not be told.
    #[error(
        "partition {name} has a new set of servers (epoch {epoch}), but server {server} does not take it: {why}; \
         'pario scale {name}' tries again"
    )]
    Untold {
        /// The partition.
        name: String,
        /// The version of the set.
        epoch: Epoch,
        /// The server.
        server: ServerId,
        /// The reason.
        why: String,
    },
}

/// A partition whose set of servers was changed.
#[derive(Debug)]
pub struct ScaledPartition {
    /// Its entry in the registry.
    pub entry: Entry,
    /// Notes for the user.
    pub note: String,
}

/// Adds servers in these directories to a partition that is up. Existing files stay where they are, and new ones use all servers.
pub fn add_servers(
    registry: &Registry,
    name: &str,
    places: &[Resource],
    deadline: Duration,
    settings: &LaunchSettings,
) -> Result<ScaledPartition, Error> {
    let Prepared { lock, entry, secret, mut note, until } = prepare(registry, name, deadline, settings)?;
    let places = places.iter().map(|place| on_host(&entry, place));
    let servers: Vec<Resource> =
        entry.description.structure().servers.iter().cloned().chain(places).collect();
    let joining = (servers.len() - entry.members()) as u16;
    let entry = registry.update_servers(&lock, servers, |entry| entry.joining = joining)?;
    let added = start_joining(registry, &entry, until, settings);
    let (entry, notes) = match added {
        Ok(added) => added,
        Err(error) => {
            // The error that prevented the addition is reported. If it cannot be undone now, the next command does it.
            if let Ok(entry) = registry.get(name) {
                let _ = undo_addition(registry, &lock, entry, Instant::now() + deadline, settings);
            }
            return Err(error);
        }
    };
    note += &notes;
    let servers = entry.description.structure().servers.clone();
    let entry = registry.update_servers(&lock, servers, |entry| {
        if entry.origin.is_empty() {
            let members = &entry.description.structure().servers[..entry.members()];
            entry.origin = members.iter().map(ToString::to_string).collect();
        }
        entry.joining = 0;
        entry.epoch = entry.epoch.next();
    })?;
    tell_servers(&entry, &secret, until)?;
    Ok(ScaledPartition { entry, note })
}

/// Completes or undoes a change of the set of servers that was interrupted.
pub fn resume_scaling(
    registry: &Registry,
    name: &str,
    deadline: Duration,
    settings: &LaunchSettings,
) -> Result<ScaledPartition, Error> {
    let Prepared { lock: _lock, entry, secret, note, until } = prepare(registry, name, deadline, settings)?;
    tell_servers(&entry, &secret, until)?;
    Ok(ScaledPartition { entry, note })
}

/// A partition of which all members run, and which no other command changes.
struct Prepared {
    lock: PartitionLock,
    entry: Entry,
    secret: Secret,
    note: String,
    until: Instant,
}

fn prepare(
    registry: &Registry,
    name: &str,
    deadline: Duration,
    settings: &LaunchSettings,
) -> Result<Prepared, Error> {
    let until = Instant::now() + deadline;
    // Before the lock, whose file would stay behind for a name that nobody has.
    registry.get(name)?;
    let lock = registry.lock_partition(name, deadline)?;
    let (entry, note) = undo_addition(registry, &lock, registry.get(name)?, until, settings)?;
    let secret = registry.secret(entry.id)?;
    // A server that has died is started again by its supervisor.
    let restarted = until.min(Instant::now() + RESTART);
    while let Some(&server) = dead(&entry, &secret).first() {
        if entry.running.is_empty() || Instant::now() >= restarted {
            return Err(ScaleError::NotUp { name: name.to_owned(), server }.into());
        }
        pario_runtime::thread::sleep(PAUSE);
    }
    Ok(Prepared { lock, entry, secret, note, until })
}

/// The place of a new server. One that names no node is on this host, also if the partition was created on another.
fn on_host(entry: &Entry, place: &Resource) -> Resource {
    match place.node {
        None if !host::is_here(&entry.host) => Resource { node: Some(host::name()), ..place.clone() },
        _ => place.clone(),
    }
}

/// Starts the servers that are being added.
fn start_joining(
    registry: &Registry,
    entry: &Entry,
    until: Instant,
    settings: &LaunchSettings,
) -> Result<(Entry, String), Error> {
    let launcher = NodeLauncher::new(entry.description.settings().launcher, settings);
    let joining: Vec<ServerId> = entry.joining_servers().collect();
    let is_local_only = entry.running.values().any(|running| running.tcp.is_none());
    for &server in &joining {
        let host = entry.host_of(server).expect("one of the servers");
        if is_local_only && entry.running.values().any(|running| !is_same_host(&running.host, host)) {
            let name = entry.name().to_owned();
            return Err(ScaleError::LocalOnly { name, host: host.to_owned() }.into());
        }
        // An addition that was interrupted on that host may have left a server of this number.
        remove_server(entry, server, &launcher, until, settings).map_err(|why| Error::Start {
            server,
            host: host.to_owned(),
            why: crate::LaunchFailure::Said(why),
        })?;
    }
    let starter = Starter { registry, launcher: &launcher, settings };
    starter.start(entry.clone(), &joining, until)
}

/// Drops servers whose addition was interrupted: none of them stores anything. Returns the entry and a note for the user.
pub(crate) fn undo_addition(
    registry: &Registry,
    lock: &PartitionLock,
    entry: Entry,
    until: Instant,
    settings: &LaunchSettings,
) -> Result<(Entry, String), Error> {
    if entry.joining == 0 {
        return Ok((entry, String::new()));
    }
    let launcher = NodeLauncher::new(entry.description.settings().launcher, settings);
    let mut note =
        "an interrupted 'pario scale' was undone: the servers that it was adding are not part of the \
                    partition\n"
            .to_owned();
    for server in entry.joining_servers() {
        // A host that is gone must not keep the partition from starting. Its server knows of no data and is not used by anybody.
        if let Err(why) = remove_server(&entry, server, &launcher, until, settings) {
            note += &format!("server {server}, which is not part of it, may still run: {why}\n");
        }
    }
    let servers = entry.description.structure().servers[..entry.members()].to_vec();
    let entry = registry.update_servers(lock, servers, |entry| entry.joining = 0)?;
    Ok((entry, note))
}

/// Ends a server that is no member, and removes its pool.
fn remove_server(
    entry: &Entry,
    server: ServerId,
    launcher: &NodeLauncher,
    until: Instant,
    settings: &LaunchSettings,
) -> Result<(), String> {
    let whose = ServerInstance { run_base: settings.run_base.clone(), partition: entry.id, server };
    let host = entry.host_of(server).expect("one of the servers");
    for task in [HostTask::Kill(whose.clone()), HostTask::Discard(whose)] {
        task::ask(launcher, host, &task, until)?;
    }
    Ok(())
}

/// Tells all servers the set of the registry. The metadata server is the last, so no file is placed on a server that another one does not
/// know. A server that dies meanwhile is told once its supervisor has started it again.
pub(crate) fn tell_servers(entry: &Entry, secret: &Secret, until: Instant) -> Result<(), Error> {
    if entry.epoch == Epoch(0) {
        return Ok(());
    }
    let metadata = entry.description.structure().metadata;
    let others = entry.running.keys().copied().filter(|server| *server != metadata);
    for server in others.chain([metadata]) {
        let Some(running) = entry.running.get(&server) else { continue };
        let request = Request::SetServers { set: set_for(entry, running) };
        loop {
            let why = match reach::ask(entry, server, running, secret, &request, until) {
                Ok(Reply::Done) => break,
                Ok(Reply::Failed(failure)) => failure.text,
                Ok(other) => format!("it answered {}", other.name()),
                Err(why) => why,
            };
            if Instant::now() >= until {
                let (name, epoch) = (entry.name().to_owned(), entry.epoch);
                return Err(ScaleError::Untold { name, epoch, server, why }.into());
            }
            pario_runtime::thread::sleep(PAUSE);
        }
    }
    Ok(())
}

/// The set of servers, with addresses as the server `told` uses them.
fn set_for(entry: &Entry, told: &Running) -> ServerSet {
    let places = &entry.description.structure().servers;
    let members = (0..entry.members()).map(|server| {
        let running = entry.running.get(&ServerId(server as u16));
        let addresses = running.map(|running| addresses_for(told, running)).unwrap_or_default();
        ServerMember { place: places[server].to_string(), addresses }
    });
    ServerSet { epoch: entry.epoch, servers: members.collect() }
}

fn addresses_for(told: &Running, running: &Running) -> Vec<String> {
    let unix = is_same_host(&told.host, &running.host).then(|| Address::Unix(PathBuf::from(&running.unix)));
    let tcp = addresses(running).into_iter().find(|address| !address.is_local());
    unix.into_iter().chain(tcp).map(|address| address.to_string()).collect()
}

fn is_same_host(one: &str, other: &str) -> bool {
    one == other || host::is_here(one) && host::is_here(other)
}
