//! A survey of all partitions of a registry: which are up, and which servers that are gone have left unsaved data in their
//! pools, on this host and on those of servers that do not answer.

use crate::error::Error;
use crate::message::HostMessage;
use crate::pools::{HostPool, survey, sweep};
use crate::settings::LaunchSettings;
use crate::task::{self, HostTask};
use crate::{Launch, NodeLauncher, host, reach};
use pario_registry::{Entry, Registry};
use pario_runtime::time::Instant;
use pario_types::{PartitionId, ServerId};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long another host may take to say which pools it has, and a server there to be connected to.
const ASK: Duration = Duration::from_secs(10);
const CONNECT: Duration = Duration::from_secs(2);

/// All partitions of a registry, and the pools with unsaved data.
#[derive(Debug)]
pub struct PartitionSurvey {
    /// The partitions that the registry knows.
    pub partitions: Vec<SurveyedPartition>,
    /// The pools of dead servers with unsaved data, also those of partitions that the registry does not know.
    pub pools: Vec<FoundPool>,
    /// The hosts that could not be asked for pools.
    pub unasked: Vec<UnaskedHost>,
}

/// A partition that the registry knows.
#[derive(Debug)]
pub struct SurveyedPartition {
    /// Its entry.
    pub entry: Entry,
    silent: SilentServers,
}

impl PartitionSurvey {
    /// Looks at all partitions of a registry.
    pub fn take(registry: &Registry, settings: &LaunchSettings) -> Result<PartitionSurvey, Error> {
        let entries = registry.list()?;
        let silent: Vec<SilentServers> = entries.iter().map(SilentServers::of).collect();
        let (pools, unasked) = left_pools(&entries, &silent, settings)?;
        let partitions = entries.into_iter().zip(silent);
        let partitions = partitions.map(|(entry, silent)| SurveyedPartition { entry, silent }).collect();
        Ok(PartitionSurvey { partitions, pools, unasked })
    }

    /// The pools of partitions that the registry does not know.
    pub fn unregistered_pools(&self) -> impl Iterator<Item = &FoundPool> {
        let is_known = |id: PartitionId| self.partitions.iter().any(|one| one.entry.id == id);
        self.pools.iter().filter(move |found| !is_known(found.pool.partition))
    }

    /// The pools of a partition.
    pub fn pools_of(&self, partition: PartitionId) -> impl Iterator<Item = &FoundPool> {
        self.pools.iter().filter(move |found| found.pool.partition == partition)
    }
}

impl SurveyedPartition {
    /// The state of the partition in a word or two. A server of this host that cannot be connected to has ended; of another
    /// host that is not known.
    pub fn state(&self) -> &'static str {
        match self.entry.running.len() - self.silent.here.len() {
            0 => "down",
            _ if !self.silent.elsewhere.is_empty() => "not answering",
            left if left == self.entry.members() => "up",
            _ => "partly up",
        }
    }
}

/// A pool with unsaved data, and the host that it is on.
#[derive(Debug)]
pub struct FoundPool {
    /// Which host.
    pub host: String,
    /// The pool.
    pub pool: HostPool,
}

/// A host that could not be asked whether servers of a partition have left unsaved data there.
#[derive(Debug)]
pub struct UnaskedHost {
    /// The partition.
    pub partition: PartitionId,
    /// Its name.
    pub name: String,
    /// The host.
    pub host: String,
    /// The reason.
    pub why: String,
}

impl UnaskedHost {
    fn new(entry: &Entry, host: &str, why: String) -> UnaskedHost {
        UnaskedHost { partition: entry.id, name: entry.name().to_owned(), host: host.to_owned(), why }
    }
}

/// The pools of dead servers with unsaved data: on this host, and on those of servers that do not answer. And the hosts that
/// could not be asked.
fn left_pools(
    entries: &[Entry],
    silent: &[SilentServers],
    settings: &LaunchSettings,
) -> Result<(Vec<FoundPool>, Vec<UnaskedHost>), Error> {
    let base = settings.run_base();
    sweep(&base);
    let here = survey(&base)?.into_iter().map(|pool| FoundPool { host: host::name(), pool });
    let mut found: Vec<FoundPool> = here.filter(|found| found.pool.holds_data()).collect();
    let mut unasked = Vec::new();
    let asked: Vec<(&Entry, BTreeSet<&str>)> =
        entries.iter().zip(silent).map(|(entry, silent)| (entry, silent.hosts(entry))).collect();
    pario_runtime::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (entry, hosts) in asked {
            let launcher = NodeLauncher::new(entry.description.settings().launcher, settings);
            let launcher = std::sync::Arc::new(launcher);
            for host in hosts {
                let launcher = launcher.clone();
                threads.push(scope.spawn(move || pools_on(&*launcher, entry, host, settings)));
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

/// The pools with unsaved data of one partition on another host.
fn pools_on(
    launcher: &dyn Launch,
    entry: &Entry,
    host: &str,
    settings: &LaunchSettings,
) -> Result<Vec<FoundPool>, UnaskedHost> {
    let task = HostTask::Pools { run_base: settings.run_base.clone(), directories: Vec::new() };
    let pools = match task::ask(launcher, host, &task, Instant::now() + ASK) {
        Ok(HostMessage::Pools { pools, .. }) => pools,
        Ok(_) => return Err(UnaskedHost::new(entry, host, "another version of pario is there".into())),
        Err(why) => return Err(UnaskedHost::new(entry, host, why)),
    };
    let own = pools.into_iter().filter(|pool| pool.partition == entry.id && pool.holds_data());
    Ok(own.map(|pool| FoundPool { host: host.to_owned(), pool }).collect())
}

/// The servers of a partition that should run and cannot be connected to.
#[derive(Debug)]
struct SilentServers {
    here: Vec<ServerId>,
    elsewhere: Vec<ServerId>,
}

impl SilentServers {
    fn of(entry: &Entry) -> SilentServers {
        let silent = entry.running.iter().filter(|(_, running)| !reach::answers(running, CONNECT));
        let (here, elsewhere): (Vec<_>, Vec<_>) =
            silent.partition(|(_, running)| host::is_here(&running.host));
        let numbers = |all: Vec<(&ServerId, _)>| all.into_iter().map(|(server, _)| *server).collect();
        SilentServers { here: numbers(here), elsewhere: numbers(elsewhere) }
    }

    /// The other hosts of these servers, and of those that were given up.
    fn hosts<'a>(&self, entry: &'a Entry) -> BTreeSet<&'a str> {
        let servers = self.elsewhere.iter().chain(&entry.abandoned);
        servers.filter_map(|server| entry.host_of(*server)).filter(|host| !host::is_here(host)).collect()
    }
}
