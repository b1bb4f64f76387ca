//! Starts servers of a partition through a launcher and exchanges messages with them until they serve.
//!
//! The registry says that a server runs before that server is told to serve: if this process is killed in between, the
//! servers end by themselves, and the next `up` finds that they do not answer.

use crate::error::{Error, LaunchFailure};
use crate::launcher::Launch;
use crate::message::{HostMessage, PeerAddresses, ServerStart, VERSION, line};
use crate::method::LaunchMethod;
use crate::process::LaunchedProcess;
use crate::reach::{self, ShutdownFailure};
use crate::settings::LaunchSettings;
use crate::{host, serve};
use pario_registry::{Entry, Registry, Running, Secret};
use pario_runtime::is_planted;
use pario_runtime::time::Instant;
use pario_types::{ServerId, Stamp};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Whether something answers at a server's address shows at once, or the node is gone.
const ANSWER: Duration = Duration::from_secs(5);

/// Starts servers of the partitions of a registry.
pub struct Starter<'a> {
    /// Where partitions are registered.
    pub registry: &'a Registry,
    /// Starts programs on nodes.
    pub launcher: &'a dyn Launch,
    /// The user's choices.
    pub settings: &'a LaunchSettings,
}

/// A server that is being started.
struct Starting {
    server: ServerId,
    host: String,
    started: LaunchedProcess<HostMessage>,
    /// Its entry in the registry, once it is ready.
    running: Option<Running>,
}

impl Starter<'_> {
    /// Starts these servers, all at once; if one fails, the others are stopped again. Returns the entry and notes for the
    /// user.
    pub fn start(&self, entry: Entry, which: &[ServerId], until: Instant) -> Result<(Entry, String), Error> {
        let secret = self.registry.secret(entry.id)?;
        let program = pario_runtime::process::current_exe().map_err(Error::NoProgram)?;
        let mut starting = Vec::new();
        let done = self
            .launch(&entry, which, &secret, &program, &mut starting)
            .and_then(|()| self.bring_up(&entry, &mut starting, until));
        match done {
            Ok(up) => {
                starting.into_iter().for_each(|one| one.started.detach());
                Ok(up)
            }
            Err(error) => {
                let ready = starting.iter().filter_map(|one| Some((one.server, one.running.clone()?)));
                let ready: BTreeMap<_, _> = ready.collect();
                starting.into_iter().for_each(|one| one.started.end());
                self.take_back(entry.name(), &ready, &secret);
                Err(error)
            }
        }
    }

    /// Stops those of these servers that serve already. Best effort: a server that is not known to have ended in order stays
    /// listed, so that the next 'up' or 'down' finds it, or saves its pool. A server that another process has started is left as it is: a
    /// supervisor may have started it again meanwhile, and programs use it.
    fn take_back(&self, name: &str, ready: &BTreeMap<ServerId, Running>, secret: &Secret) {
        let Ok(entry) = self.registry.get(name) else { return };
        let until = Instant::now() + ANSWER;
        let is_listed =
            |(server, running): &(&ServerId, &Running)| entry.running.get(server) == Some(*running);
        let listed = ready.iter().filter(is_listed).map(|(server, running)| (*server, running));
        let stopped: Vec<_> = listed
            .map(|(server, running)| (server, reach::shut_down(&entry, server, running, secret, until)))
            .collect();
        let _ = self.registry.update(name, |entry| {
            for (server, stopped) in stopped {
                match stopped {
                    Ok(()) => drop(entry.running.remove(&server)),
                    // It serves, or its supervisor may be starting it again: the next 'up' or 'down' looks there.
                    Err(ShutdownFailure::Refused(_) | ShutdownFailure::Silent(_)) => {}
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
            let part = match self.launcher.method(&host) {
                LaunchMethod::Local => serve::ServePart::Supervisor,
                LaunchMethod::Ssh => serve::ServePart::Front,
                LaunchMethod::Srun | LaunchMethod::Mpiexec => serve::ServePart::Attached,
            };
            let mut argv = vec![OsString::from(program)];
            argv.extend(serve::arguments(part).map(OsString::from));
            let others = which.len() < entry.description.structure().servers.len();
            let first = line(&self.message(entry, server, secret, others));
            let started = self.launcher.start(&host, &argv, first)?;
            starting.push(Starting { server, host, started, running: None });
        }
        Ok(())
    }

    /// The parameters of a server.
    pub fn message(&self, entry: &Entry, server: ServerId, secret: &Secret, others: bool) -> ServerStart {
        let port = match entry.description.settings().port {
            // Others that run look for it where it was, even if it was stopped meanwhile.
            0 if others => entry.last_port(server).unwrap_or(0),
            0 => 0,
            first => first + server.0,
        };
        ServerStart {
            version: VERSION,
            partition: entry.id,
            server,
            description: entry.description.clone(),
            local: is_local(entry),
            node: entry.host_of(server).expect("one of the servers").to_owned(),
            secret: secret.clone(),
            made: entry.made && !entry.is_joining(server),
            epoch: if entry.is_joining(server) { entry.epoch.next() } else { entry.epoch },
            port,
            run_base: self.settings.run_base.clone(),
            home: self.registry.dir().to_owned(),
            log: log_of(self.registry, entry.name(), server),
            store_delay: self.settings.store_delay,
            panics: self.settings.panics.clone(),
        }
    }

    /// Exchanges messages with all of them until they serve.
    fn bring_up(
        &self,
        entry: &Entry,
        starting: &mut [Starting],
        until: Instant,
    ) -> Result<(Entry, String), Error> {
        let mut running = BTreeMap::new();
        let mut notes = String::new();
        for one in &mut *starting {
            let HostMessage::Ready { pid, unix, tcp, note } = one.receive(until)? else {
                return Err(one.failed(LaunchFailure::OutOfTurn));
            };
            notes.extend(note.map(|note| format!("server {} on {}: {note}\n", one.server, one.host)));
            let tcp = tcp.map(|tcp| host::reachable(&tcp, &one.host));
            let ready = Running { host: one.host.clone(), pid, unix, tcp, started: Stamp::now() };
            one.running = Some(ready.clone());
            running.insert(one.server, ready);
        }
        let unregistered = is_planted("served-before-registered").then(|| running.clone());
        if let Some(running) = unregistered {
            let peers = line(&PeerAddresses { peers: running.into_values().collect() });
            starting.iter_mut().for_each(|one| one.started.send(peers.clone()));
        }
        let entry = self.registry.update(entry.name(), |entry| entry.add_running(running))?;
        let peers = line(&PeerAddresses { peers: entry.running.values().cloned().collect() });
        for one in &mut *starting {
            one.started.send(peers.clone());
        }
        for one in &mut *starting {
            if one.receive(until)? != HostMessage::Serving {
                return Err(one.failed(LaunchFailure::OutOfTurn));
            }
        }
        let entry = self.registry.update(entry.name(), |entry| entry.made = true)?;
        Ok((entry, notes))
    }
}

impl Starting {
    fn receive(&mut self, until: Instant) -> Result<HostMessage, Error> {
        match self.started.receive(until) {
            Ok(HostMessage::Failed { why }) => Err(self.failed(LaunchFailure::Said(why))),
            Ok(said) => Ok(said),
            Err(why) => Err(self.failed(why)),
        }
    }

    fn failed(&self, why: LaunchFailure) -> Error {
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

#[cfg(test)]
mod tests {
    use super::*;
    use pario_registry::Description;
    use pario_runtime::process::Command;

    /// Starts programs that say why they fail.
    struct FailingLauncher;

    impl Launch for FailingLauncher {
        fn start(
            &self,
            _node: &str,
            _argv: &[OsString],
            first: Vec<u8>,
        ) -> Result<LaunchedProcess<HostMessage>, Error> {
            let script = r#"read start; echo '{"say":"failed","why":"it is alive again"}'"#;
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            LaunchedProcess::run(&mut command, first).map_err(Error::launcher(&command))
        }

        fn method(&self, _node: &str) -> LaunchMethod {
            LaunchMethod::Local
        }
    }

    #[test]
    fn a_server_that_was_stopped_alone_starts_where_the_others_look_for_it() {
        let directory = std::env::temp_dir().join(format!("pario-ports-{}", std::process::id()));
        let registry = Registry::open(&directory).expect("a registry");
        let description = Description::parse("servers = ['n0:/a', 'n1:/b']", Some("p")).expect("sound");
        let created = registry.create(&description, &host::name()).expect("created");
        let secret = registry.secret(created.id).expect("there");
        let running = |server: u16| Running {
            host: format!("n{server}"),
            pid: 1,
            unix: "/no/such/socket".into(),
            tcp: Some(format!("n{server}:{}", 4000 + server)),
            started: Stamp::now(),
        };
        let both = [0, 1].map(|server| (ServerId(server), running(server)));
        registry.update("p", |entry| entry.add_running(both.into())).expect("updated");
        // A `down` that could not stop server 0.
        let entry = registry.update("p", |entry| drop(entry.running.remove(&ServerId(1)))).expect("updated");
        let settings = LaunchSettings::default();
        let starter = Starter { registry: &registry, launcher: &FailingLauncher, settings: &settings };
        let port = |others| starter.message(&entry, ServerId(1), &secret, others).port;
        assert_eq!(port(true), 4001, "server 0 looks for it there");
        assert_eq!(port(false), 0, "no server looks for it");
        std::fs::remove_dir_all(directory).expect("removed");
    }

    #[test]
    fn a_start_that_fails_does_not_forget_a_server_that_a_supervisor_has_started_again() {
        let directory = std::env::temp_dir().join(format!("pario-start-{}", std::process::id()));
        let registry = Registry::open(&directory).expect("a registry");
        let description = Description::parse("servers = ['/a']", Some("p")).expect("sound");
        registry.create(&description, &host::name()).expect("created");
        let running = Running {
            host: host::name(),
            pid: 1,
            unix: "/no/such/socket".into(),
            tcp: None,
            started: Stamp::now(),
        };
        let entry = registry.update("p", |entry| drop(entry.running.insert(ServerId(0), running.clone())));
        let settings = LaunchSettings::default();
        let starter = Starter { registry: &registry, launcher: &FailingLauncher, settings: &settings };
        let until = Instant::now() + Duration::from_secs(9);
        let error = starter.start(entry.expect("updated"), &[ServerId(0)], until).expect_err("it fails");
        assert!(error.to_string().contains("it is alive again"), "{error}");
        let entry = registry.get("p").expect("there");
        assert_eq!(entry.running.get(&ServerId(0)), Some(&running));
        assert!(entry.abandoned.is_empty());
        std::fs::remove_dir_all(directory).expect("removed");
    }
}
