//! Starts servers of a partition through a launcher, and goes through the conversation with them.
//!
//! The registry says that a server runs before that server is told to serve: if this process is killed in between, the
//! servers end by themselves, and the next `up` finds that they do not answer.

use super::error::{Error, Why};
use super::join::{self, NotStopped};
use super::launch::{Launcher, Started, Way};
use super::message::{Peers, Said, Start, VERSION, line};
use super::{host, serve};
use crate::env::Environment;
use pario_registry::{Entry, Registry, Running, Secret};
use pario_types::{ServerId, Stamp};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Whether something answers at a server's address shows at once, or the node is gone.
const ANSWER: Duration = Duration::from_secs(5);

/// Starting servers needs these.
pub struct Ask<'a> {
    pub registry: &'a Registry,
    pub launcher: &'a dyn Launcher,
    pub env: &'a Environment,
}

/// A server that is being started.
struct Starting {
    server: ServerId,
    host: String,
    started: Started<Said>,
}

impl Ask<'_> {
    /// Starts these servers, all at once; if one fails, the others are stopped again. What comes back is the entry and what
    /// the user has to know.
    pub fn start(&self, entry: Entry, which: &[ServerId], until: Instant) -> Result<(Entry, String), Error> {
        let secret = self.registry.secret(entry.id)?;
        let program = std::env::current_exe().map_err(Error::NoProgram)?;
        let mut starting = Vec::new();
        let done = self
            .launch(&entry, which, &secret, &program, &mut starting)
            .and_then(|()| self.bring_up(&entry, &mut starting, until));
        match done {
            Ok(up) => {
                starting.into_iter().for_each(|one| one.started.let_go());
                Ok(up)
            }
            Err(error) => {
                starting.into_iter().for_each(|one| one.started.give_up());
                self.take_back(entry.name(), which, &secret);
                Err(error)
            }
        }
    }

    /// Stops those of these servers that serve already. Best effort, and the error is another: a server of which it is
    /// not known that it ended in order counts as abandoned, so that the next 'up' or 'down' looks after what it has left.
    fn take_back(&self, name: &str, which: &[ServerId], secret: &Secret) {
        let Ok(entry) = self.registry.get(name) else { return };
        let until = Instant::now() + ANSWER;
        let listed = which.iter().filter_map(|server| Some((*server, entry.running.get(server)?)));
        let stopped: Vec<_> = listed
            .map(|(server, running)| (server, join::shut_down(&entry, server, running, secret, until)))
            .collect();
        let _ = self.registry.update(name, |entry| {
            for (server, stopped) in stopped {
                match stopped {
                    Ok(()) => drop(entry.running.remove(&server)),
                    // It serves.
                    Err(NotStopped::Refused(_)) => {}
                    Err(NotStopped::Silent(_)) => {
                        entry.running.remove(&server);
                        entry.abandoned.insert(server);
                    }
                }
            }
        });
    }

    fn launch(
        &self,
        entry: &Entry,
        which: &[ServerId],
        secret: &Secret,
        program: &Path,
        starting: &mut Vec<Starting>,
    ) -> Result<(), Error> {
        for &server in which {
            let host = entry.host_of(server).expect("one of the servers").to_owned();
            let part = match self.launcher.way(&host) {
                Way::Local => serve::Part::Supervisor,
                Way::Ssh => serve::Part::Front,
                Way::Srun | Way::Mpiexec => serve::Part::Attached,
            };
            let mut argv = vec![OsString::from(program)];
            argv.extend(serve::arguments(part).map(OsString::from));
            let others = which.len() < entry.description.structure().servers.len();
            let first = line(&self.message(entry, server, secret, others));
            let started = self.launcher.start(&host, &argv, first)?;
            starting.push(Starting { server, host, started });
        }
        Ok(())
    }

    /// What a server has to know.
    pub fn message(&self, entry: &Entry, server: ServerId, secret: &Secret, others: bool) -> Start {
        let port = match entry.description.settings().port {
            // Others that run look for it where it was.
            0 if others => entry.running.get(&server).and_then(port_of).unwrap_or(0),
            0 => 0,
            first => first + server.0,
        };
        Start {
            version: VERSION,
            partition: entry.id,
            server,
            description: entry.description.clone(),
            local: is_local(entry),
            node: entry.host_of(server).expect("one of the servers").to_owned(),
            secret: secret.clone(),
            made: entry.made,
            port,
            run_base: self.env.run_base.clone(),
            home: self.registry.dir().to_owned(),
            log: log_of(self.registry, entry.name(), server),
            store_delay: self.env.store_delay,
            panics: self.env.panics.clone(),
        }
    }

    /// Goes through the conversation with all of them.
    fn bring_up(
        &self,
        entry: &Entry,
        starting: &mut [Starting],
        until: Instant,
    ) -> Result<(Entry, String), Error> {
        let mut running = BTreeMap::new();
        let mut notes = String::new();
        for one in &mut *starting {
            let Said::Ready { pid, unix, tcp, note } = one.hear(until)? else {
                return Err(one.failed(Why::OutOfTurn));
            };
            notes.extend(note.map(|note| format!("server {} on {}: {note}\n", one.server, one.host)));
            let tcp = tcp.map(|tcp| host::reachable(&tcp, &one.host));
            running.insert(
                one.server,
                Running { host: one.host.clone(), pid, unix, tcp, started: Stamp::now() },
            );
        }
        let entry = self.registry.update(entry.name(), |entry| {
            // They go on with what their predecessors have left.
            entry.abandoned.retain(|server| !running.contains_key(server));
            entry.running.extend(running);
        })?;
        let peers = line(&Peers { peers: entry.running.values().cloned().collect() });
        for one in &mut *starting {
            one.started.say(peers.clone());
        }
        for one in &mut *starting {
            if one.hear(until)? != Said::Serving {
                return Err(one.failed(Why::OutOfTurn));
            }
        }
        let entry = self.registry.update(entry.name(), |entry| entry.made = true)?;
        Ok((entry, notes))
    }
}

impl Starting {
    fn hear(&mut self, until: Instant) -> Result<Said, Error> {
        match self.started.hear(until) {
            Ok(Said::Failed { why }) => Err(self.failed(Why::Said(why))),
            Ok(said) => Ok(said),
            Err(why) => Err(self.failed(why)),
        }
    }

    fn failed(&self, why: Why) -> Error {
        Error::Start { server: self.server, host: self.host.clone(), why }
    }
}

/// Where a server's log goes.
pub fn log_of(registry: &Registry, name: &str, server: ServerId) -> PathBuf {
    registry.dir().join("logs").join(format!("{name}.{server}.log"))
}

/// Whether every server is on this host.
fn is_local(entry: &Entry) -> bool {
    let servers = (0..entry.description.structure().servers.len()).map(|server| ServerId(server as u16));
    servers.filter_map(|server| entry.host_of(server)).all(host::is_here)
}

fn port_of(running: &Running) -> Option<u16> {
    running.tcp.as_ref()?.rsplit_once(':')?.1.parse().ok()
}
