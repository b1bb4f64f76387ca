//! Takes partitions down: stops their servers, which write everything to storage first.
//!
//! A server that answers confirms that everything is stored. The state of one that does not is found on its host by a task: a live
//! server is an error, and a server that is started for that alone stores the contents of a dead server's pool. So a partition
//! that is down has everything that was acknowledged on storage; otherwise the error names what is where.

use crate::error::Error;
use crate::message::HostMessage;
use crate::pools::{self, HostPool, PoolState};
use crate::reach::{self, ShutdownFailure};
use crate::settings::LaunchSettings;
use crate::start::{Starter, log_of};
use crate::task::{self, HostTask, ServerInstance};
use crate::unsettled::UnsettledServer;
use crate::{Launch, NodeLauncher, host};
use pario_registry::{Entry, PartitionLock, Registry, Secret};
use pario_runtime::is_planted;
use pario_runtime::sync::mpsc::channel;
use pario_runtime::time::Instant;
use pario_types::{ServerId, round_size};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// For so long a server that does not answer may be alive because its supervisor tries to start it.
const STARTING: Duration = Duration::from_secs(3);

/// How a partition's servers are stopped.
#[derive(Clone, Copy, Debug, Default)]
pub struct StopOptions {
    /// Forget the partition as well; its data stays in the servers' directories.
    pub forget: bool,
    /// Kill servers that do not stop, and give those up that cannot be reached; unsaved data stays in their pools.
    pub force: bool,
    /// Remove the pools of dead servers with all that they hold: unsaved data is lost.
    pub discard: bool,
    /// Forget the partition, and remove the servers' directories with all its files.
    pub erase: bool,
}

/// Stops all servers of a partition, and returns lines about them for the user.
pub fn take_down(
    registry: &Registry,
    name: &str,
    options: StopOptions,
    patience: Duration,
    settings: &LaunchSettings,
) -> Result<String, Error> {
    // Before the lock, whose file would stay behind for a name that nobody has.
    registry.get(name)?;
    let options = StopOptions { discard: options.discard || options.erase, ..options };
    let lock = registry.lock_partition(name, patience)?;
    let entry = registry.get(name)?;
    let secret = registry.secret(entry.id)?;
    pools::sweep(&settings.run_base());
    let launcher = NodeLauncher::new(entry.description.settings().launcher, settings);
    let stop =
        Stop { registry, launcher: &launcher, settings, entry: &entry, secret: &secret, options, patience };
    let text = stop.all()?;
    if options.erase {
        stop.erase()?;
    }
    if options.forget || options.erase {
        forget(registry, lock, &entry)?;
    }
    Ok(text)
}

/// Takes the partition out of the registry. Should there be no room for that, its logs make some.
fn forget(registry: &Registry, lock: PartitionLock, entry: &Entry) -> Result<(), Error> {
    let servers = entry.description.structure().servers.len() as u16;
    for server in (0..servers).map(ServerId) {
        // They are of no use without the partition; one that stays does no harm.
        let _ = pario_runtime::fs::remove_file(log_of(registry, entry.name(), server));
    }
    registry.remove(lock)?;
    Ok(())
}

/// The outcome of stopping a server.
enum StopOutcome {
    /// Everything it held is stored, or was discarded; a line for the user.
    Settled(String),
    /// Not everything is known to be stored.
    Unsettled(UnsettledServer),
}

/// The state of a server on its host.
enum ServerState {
    /// It runs.
    Alive,
    /// It does not run, and nothing is left of it.
    Gone,
    /// It does not run, and its pool is gone, or of another boot, though not everything in it was stored.
    Lost,
    /// It does not run, and its pool is there.
    Left { unsaved: Option<u64>, path: PathBuf },
}

/// The context of stopping a partition's servers.
struct Stop<'a> {
    registry: &'a Registry,
    launcher: &'a dyn Launch,
    settings: &'a LaunchSettings,
    entry: &'a Entry,
    secret: &'a Secret,
    options: StopOptions,
    patience: Duration,
}

impl Stop<'_> {
    /// Stops them all at once.
    fn all(&self) -> Result<String, Error> {
        let (done, results) = channel();
        let (mut text, mut unsettled) = (String::new(), Vec::new());
        pario_runtime::thread::scope(|scope| {
            for server in self.servers() {
                let done = done.clone();
                scope.spawn(move || {
                    // Nobody listens any more if the registry failed.
                    let _ = done.send((server, self.one(server)));
                });
            }
            drop(done);
            // Written down one by one, so that the registry is right whenever this ends.
            for (server, fate) in results {
                let abandoned = match fate {
                    StopOutcome::Settled(words) => {
                        text += &words;
                        false
                    }
                    StopOutcome::Unsettled(one) if self.options.force => {
                        text += &format!("  {one}; it counts as stopped\n");
                        true
                    }
                    StopOutcome::Unsettled(one) => {
                        unsettled.push(one);
                        continue;
                    }
                };
                self.registry.update(self.entry.name(), |entry| {
                    entry.running.remove(&server);
                    entry.abandoned.remove(&server);
                    if abandoned {
                        entry.abandoned.insert(server);
                    }
                })?;
            }
            Ok::<(), Error>(())
        })?;
        match unsettled.is_empty() {
            true => Ok(text),
            false => Err(Error::NotDown { name: self.entry.name().to_owned(), unsettled }),
        }
    }

    /// Removes the directories of all servers, which do not run any more.
    fn erase(&self) -> Result<(), Error> {
        let directories = self.entry.description.structure().servers.iter();
        let servers: Vec<_> = (0..).map(ServerId).zip(directories).collect();
        let failed: Vec<_> = pario_runtime::thread::scope(|scope| {
            let erase = |server, directory: &str| {
                let task = HostTask::Erase { whose: self.whose(server), directory: directory.into() };
                self.ask(server, &task)
            };
            let all = servers
                .iter()
                .map(|(server, resource)| (*server, scope.spawn(move || erase(*server, &resource.dir))));
            let all: Vec<_> = all.collect();
            let outcomes =
                all.into_iter().map(|(server, thread)| (server, thread.join().expect("it does not panic")));
            outcomes.filter_map(|(server, outcome)| Some(self.unsettled(server, outcome.err()?))).collect()
        });
        match failed.is_empty() {
            true => Ok(()),
            false => Err(Error::NotErased { name: self.entry.name().to_owned(), unsettled: failed }),
        }
    }

    /// The servers that have to be looked after: those that run, those that were given up, and those of this host that have
    /// left something.
    fn servers(&self) -> BTreeSet<ServerId> {
        let base = self.settings.run_base();
        let local = pools::survey(&base).unwrap_or_default().into_iter();
        let is_here = |server| self.entry.host_of(server).is_some_and(host::is_here);
        let left = local
            .filter(|pool| pool.partition == self.entry.id && is_here(pool.server))
            .map(|pool| pool.server);
        self.entry.running.keys().chain(&self.entry.abandoned).copied().chain(left).collect()
    }

    fn one(&self, server: ServerId) -> StopOutcome {
        let until = Instant::now() + self.patience;
        let refused = loop {
            let stopped = match self.entry.running.get(&server) {
                Some(running) => reach::shut_down(self.entry, server, running, self.secret, until),
                None => Err(ShutdownFailure::Silent("it does not run".into())),
            };
            match stopped {
                Ok(()) if host::is_here(self.host(server)) => break Ok(()),
                // Only its host can tell that it has ended: if it died meanwhile, its supervisor starts another.
                Ok(()) => match self.look(server) {
                    Ok(ServerState::Alive) if Instant::now() < until => {
                        pario_runtime::thread::sleep(STARTING / 20);
                    }
                    Ok(ServerState::Gone) | Err(_) => break Ok(()),
                    Ok(_) => break Err(ShutdownFailure::Silent("it died while it ended".into())),
                },
                refused => break refused,
            }
        };
        let why = match refused {
            Ok(()) => return StopOutcome::Settled(String::new()),
            Err(ShutdownFailure::Silent(_)) if is_planted("down-trusts-silence") => {
                return StopOutcome::Settled(String::new());
            }
            Err(ShutdownFailure::Refused(why)) if !self.options.force => {
                return StopOutcome::Unsettled(UnsettledServer::refuses(server, self.host(server), &why));
            }
            Err(ShutdownFailure::Refused(why)) | Err(ShutdownFailure::Silent(why)) => why,
        };
        self.settle(server, &why).unwrap_or_else(|why| StopOutcome::Unsettled(self.unsettled(server, why)))
    }

    /// Ends a server that did not stop on request. The error is the reason why that cannot be done.
    fn settle(&self, server: ServerId, why: &str) -> Result<StopOutcome, String> {
        let unknown = |cause| format!("it does not answer ({why}), and its host cannot be asked: {cause}");
        let mut state = self.look(server).map_err(unknown)?;
        // One that tries to start, and fails, is alive for a moment.
        let until = Instant::now() + STARTING;
        while matches!(state, ServerState::Alive) && Instant::now() < until {
            pario_runtime::thread::sleep(STARTING / 20);
            state = self.look(server).map_err(unknown)?;
        }
        if matches!(state, ServerState::Alive) {
            if !self.options.force {
                return Err(format!(
                    "it is alive and does not stop: {why}; wait and try again, or --force kills it"
                ));
            }
            self.ask(server, &HostTask::Kill(self.whose(server)))?;
            state = self.look(server).map_err(unknown)?;
        }
        let words = match state {
            ServerState::Alive => return Err("it is alive, though it was killed".to_owned()),
            ServerState::Gone => "did not run any more; it has left nothing unsaved".to_owned(),
            ServerState::Lost if !self.options.discard => {
                return Ok(StopOutcome::Unsettled(UnsettledServer::lost(server, self.host(server))));
            }
            ServerState::Lost => {
                self.ask(server, &HostTask::Discard(self.whose(server)))?;
                "did not run any more; its pool is gone: writes that were not synced may be lost".to_owned()
            }
            ServerState::Left { .. } if is_planted("down-forgets-pool") => "did not run any more".to_owned(),
            ServerState::Left { .. } if self.options.discard => self.discard(server)?,
            ServerState::Left { unsaved, path } => match self.recover(server) {
                Ok(0) => "did not run any more; its pool held nothing unsaved".to_owned(),
                Ok(bytes) => {
                    format!(
                        "did not run any more; {} that only its pool had are stored now",
                        round_size(bytes)
                    )
                }
                Err(cause) => {
                    let left = UnsettledServer::left(server, self.host(server), unsaved, &path, &cause);
                    return Ok(StopOutcome::Unsettled(left));
                }
            },
        };
        Ok(StopOutcome::Settled(format!("  server {server} on {} {words}\n", self.host(server))))
    }

    /// Removes the pool of a dead server, and returns words about it for the user.
    fn discard(&self, server: ServerId) -> Result<String, String> {
        Ok(match self.ask(server, &HostTask::Discard(self.whose(server)))? {
            HostMessage::Discarded { bytes: Some(0) } => {
                "did not run any more; its pool held nothing unsaved".to_owned()
            }
            HostMessage::Discarded { bytes: Some(bytes) } => {
                format!("did not run any more; {} that only its pool had are lost", round_size(bytes))
            }
            HostMessage::Discarded { bytes: None } => {
                "did not run any more; its pool could not be read and is removed: writes \
                                                that were not synced may be lost"
                    .to_owned()
            }
            _ => return Err("its host has another version of pario".to_owned()),
        })
    }

    /// Stores the contents of the pool of a dead server.
    fn recover(&self, server: ServerId) -> Result<u64, String> {
        let ask = Starter { registry: self.registry, launcher: self.launcher, settings: self.settings };
        let start = Box::new(ask.message(self.entry, server, self.secret, false));
        match self.ask(server, &HostTask::Recover { start })? {
            HostMessage::Saved { bytes } => Ok(bytes),
            _ => Err("its host has another version of pario".to_owned()),
        }
    }

    /// The state of a server on its host.
    fn look(&self, server: ServerId) -> Result<ServerState, String> {
        let directory = self.entry.description.structure().servers[usize::from(server.0)].dir.clone();
        let run_base = self.settings.run_base.clone();
        let task = HostTask::Pools { run_base, directories: vec![directory] };
        let HostMessage::Pools { pools, in_use, unretired } = self.ask(server, &task)? else {
            return Err("another version of pario is there".to_owned());
        };
        let own = |pool: &HostPool| (pool.partition, pool.server) == (self.entry.id, server);
        match pools.into_iter().find(own) {
            Some(HostPool { state: PoolState::Served, .. }) => Ok(ServerState::Alive),
            _ if !in_use.is_empty() => Ok(ServerState::Alive),
            Some(HostPool { state: PoolState::Left { unsaved, .. }, path, .. }) => {
                Ok(ServerState::Left { unsaved: Some(unsaved), path })
            }
            Some(HostPool { state: PoolState::Unreadable { .. }, path, .. }) => {
                Ok(ServerState::Left { unsaved: None, path })
            }
            Some(HostPool { state: PoolState::Lost, .. }) => Ok(ServerState::Lost),
            Some(HostPool { state: PoolState::Missing { .. }, .. }) | None if !unretired.is_empty() => {
                Ok(ServerState::Lost)
            }
            Some(HostPool { state: PoolState::Missing { .. }, path, .. }) => {
                Ok(ServerState::Left { unsaved: Some(0), path })
            }
            None => Ok(ServerState::Gone),
        }
    }

    fn ask(&self, server: ServerId, task: &HostTask) -> Result<HostMessage, String> {
        task::ask(self.launcher, self.host(server), task, Instant::now() + self.patience)
    }

    fn host(&self, server: ServerId) -> &str {
        self.entry.host_of(server).unwrap_or("an unknown host")
    }

    fn whose(&self, server: ServerId) -> ServerInstance {
        ServerInstance { run_base: self.settings.run_base.clone(), partition: self.entry.id, server }
    }

    fn unsettled(&self, server: ServerId, why: String) -> UnsettledServer {
        UnsettledServer::new(server, self.host(server), why)
    }
}
