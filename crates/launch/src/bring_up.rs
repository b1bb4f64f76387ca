//! Brings partitions up: creates one if need be, and starts the servers of it that do not run.
//!
//! It holds the partition's lock all the while: of several commands that run at once, one starts the servers and the others find
//! them running.

use crate::adoption::{AdoptionRequest, adopt};
use crate::error::Error;
use crate::pools::sweep;
use crate::settings::LaunchSettings;
use crate::start::Starter;
use crate::{NodeLauncher, host, reach, scale};
use pario_registry::{Description, Entry, Registry, Secret};
use pario_runtime::thread::ScopedJoinHandle;
use pario_runtime::time::Instant;
use pario_types::ServerId;
use std::time::Duration;

/// Whether something answers at a server's address shows at once, or the node is gone.
const ANSWER: Duration = Duration::from_secs(5);

/// A partition that is up.
#[derive(Debug)]
pub struct StartedPartition {
    /// Its entry in the registry.
    pub entry: Entry,
    /// How many servers were started for that.
    pub started: usize,
    /// Notes for the user.
    pub note: String,
}

/// Starts the servers of a partition that do not run; creates it if it is new.
pub fn bring_up(
    registry: &Registry,
    description: Description,
    deadline: Duration,
    settings: &LaunchSettings,
) -> Result<StartedPartition, Error> {
    let name = description.name().to_owned();
    bring_up_described(registry, &name, deadline, settings, |_| Ok(description))
}

/// Starts the servers of a partition that the registry knows, with its description as `change` changes it.
pub fn bring_up_known(
    registry: &Registry,
    name: &str,
    change: impl FnOnce(Description) -> Result<Description, pario_registry::Error>,
    deadline: Duration,
    settings: &LaunchSettings,
) -> Result<StartedPartition, Error> {
    // Before the lock, whose file would stay behind for a name that nobody has.
    registry.get(name)?;
    bring_up_described(registry, name, deadline, settings, |known| {
        change(known.ok_or_else(|| pario_registry::Error::NoPartition(name.to_owned()))?)
    })
}

/// The same with the description that `describe` makes of the one in the registry, if there is one. No other command changes it meanwhile.
fn bring_up_described(
    registry: &Registry,
    name: &str,
    deadline: Duration,
    settings: &LaunchSettings,
    describe: impl FnOnce(Option<Description>) -> Result<Description, pario_registry::Error>,
) -> Result<StartedPartition, Error> {
    sweep(&settings.run_base());
    let lock = registry.lock_partition(name, deadline)?;
    let until = Instant::now() + deadline;
    let (known, mut note) = match registry.get(name) {
        Err(pario_registry::Error::NoPartition(_)) => (None, String::new()),
        entry => {
            let (entry, note) = scale::undo_addition(registry, &lock, entry?, until, settings)?;
            (Some(entry.description), note)
        }
    };
    let (entry, description) = entry(registry, &describe(known)?)?;
    let secret = registry.secret(entry.id)?;
    let stopped = dead(&entry, &secret);
    // Servers of one partition have the same settings: those of the first to run.
    let all = stopped.len() == entry.members();
    if entry.description.settings() != description.settings() && !all {
        note += "changed settings count from the next start of all its servers on\n";
    }
    let (entry, started) = match stopped.len() {
        0 => (entry, 0),
        _ => {
            let entry = registry.update(lock.name(), |entry| {
                if all {
                    entry.description = description;
                }
            })?;
            let launcher = NodeLauncher::new(entry.description.settings().launcher, settings);
            let starter = Starter { registry, launcher: &launcher, settings };
            let StartedServers { entry, started, notes } = start(&starter, entry, &secret, stopped, until)?;
            note += &notes;
            (entry, started)
        }
    };
    // Servers that went on running while 'pario scale' was interrupted may not know of the last change of the set.
    scale::tell_servers(&entry, &secret, until)?;
    Ok(StartedPartition { entry, started, note })
}

/// Servers that were started, and the partition's entry afterwards.
struct StartedServers {
    entry: Entry,
    started: usize,
    notes: String,
}

/// Starts these servers. A server that has died may be started by its supervisor at the same time: then the start fails, and those that
/// still do not run are tried again.
fn start(
    starter: &Starter<'_>,
    entry: Entry,
    secret: &Secret,
    mut stopped: Vec<ServerId>,
    until: Instant,
) -> Result<StartedServers, Error> {
    loop {
        let error = match starter.start(entry.clone(), &stopped, until) {
            Ok((entry, notes)) => return Ok(StartedServers { entry, started: stopped.len(), notes }),
            Err(error) => error,
        };
        let entry = starter.registry.get(entry.name())?;
        let still = dead(&entry, secret);
        if still.is_empty() {
            return Ok(StartedServers { entry, started: 0, notes: String::new() });
        }
        if still.len() >= stopped.len() || Instant::now() >= until {
            return Err(error);
        }
        stopped = still;
    }
}

/// The partition's entry, new if there was none, and the description with its present servers; what is fixed has to be as it was.
fn entry(registry: &Registry, description: &Description) -> Result<(Entry, Description), Error> {
    let here = host::name();
    let entry = match registry.get(description.name()) {
        Err(pario_registry::Error::NoPartition(_)) => {
            return Ok((registry.create(description, &here)?, description.clone()));
        }
        other => other?,
    };
    if !entry.made && entry.running.is_empty() {
        // It never came up, perhaps because of a mistake in its description.
        let entry = registry.update(description.name(), |entry| {
            entry.description = description.clone();
            entry.host = here;
        })?;
        return Ok((entry, description.clone()));
    }
    let description = entry.with_present_servers(description)?;
    entry.description.check_same_structure(&description)?;
    let has_local = description.structure().servers.iter().any(|resource| resource.node.is_none());
    if has_local && !host::is_here(&entry.host) {
        let name = entry.name().to_owned();
        return Err(Error::OtherHost { name, created: entry.host, here });
    }
    Ok((entry, description))
}

/// The members that do not run. All are tried at once: each of a node that is gone takes its time.
pub(crate) fn dead(entry: &Entry, secret: &Secret) -> Vec<ServerId> {
    let all =
        (0..entry.members()).map(|index| ServerId(u16::try_from(index).expect("checked by the description")));
    pario_runtime::thread::scope(|scope| {
        let asked: Vec<_> = all
            .map(|server| (server, entry.running.get(&server)))
            .map(|(server, running)| {
                let serves = |r| scope.spawn(move || reach::serves(entry, server, r, secret, ANSWER));
                (server, running.map(serves))
            })
            .collect();
        let answers = |thread: ScopedJoinHandle<'_, bool>| thread.join().expect("it does not panic");
        asked.into_iter().filter_map(|(server, one)| (!one.is_some_and(answers)).then_some(server)).collect()
    })
}

/// Registers a partition again and starts it. If it does not start, it is not registered either.
pub fn bring_up_adopted(
    registry: &Registry,
    request: &AdoptionRequest,
    deadline: Duration,
    settings: &LaunchSettings,
) -> Result<StartedPartition, Error> {
    let entry = adopt(registry, request, Instant::now() + deadline, settings)?;
    bring_up(registry, entry.description.clone(), deadline, settings).inspect_err(|_| {
        let nothing_runs = |entry: &Entry| entry.running.is_empty() && entry.abandoned.is_empty();
        if registry.get(entry.name()).is_ok_and(|entry| nothing_runs(&entry)) {
            // The first error is reported; a partition that stays registered does no harm.
            let _ = registry.lock_partition(entry.name(), deadline).and_then(|lock| registry.remove(lock));
        }
    })
}
