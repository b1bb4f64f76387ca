//! Asks the servers of a partition how they are, each by itself: one that does not answer hides nothing of
//! the others, and neither does a metadata server that is gone.

use pario_client::Target;
use pario_launch::reach::{ServerIdentity, call, connect};
use pario_registry::{Entry, Registry};
use pario_transport::Address;
use pario_types::ServerId;
use pario_wire::message::ServerStatus;
use pario_wire::{Reply, Request};
use std::time::{Duration, Instant};

/// Servers that are asked at the same time.
const TOGETHER: usize = 64;

/// What is known of a server.
#[derive(Debug)]
pub enum State {
    /// It is not running, as far as the registry knows.
    Stopped,
    /// It should be running, and does not answer.
    Silent(String),
    /// It answers.
    Answers(Box<ServerStatus>),
}

/// A partition and its servers, by number.
#[derive(Debug)]
pub struct Picture {
    /// What the registry knows.
    pub entry: Entry,
    /// What the servers say.
    pub servers: Vec<State>,
}

impl Picture {
    /// Asks all servers.
    pub fn take(registry: &Registry, entry: Entry, patience: Duration) -> Picture {
        let target = registry
            .secret(entry.id)
            .map_err(|error| error.to_string())
            .and_then(|secret| Target::of_entry(&entry, secret).map_err(|error| error.to_string()));
        let numbers: Vec<ServerId> =
            (0..entry.description.structure().servers.len()).map(|server| ServerId(server as u16)).collect();
        let mut servers = Vec::new();
        for some in numbers.chunks(TOGETHER) {
            std::thread::scope(|scope| {
                let ask = |server| match (&target, entry.running.contains_key(&server)) {
                    (_, false) => State::Stopped,
                    (Err(why), true) => State::Silent(why.clone()),
                    (Ok(target), true) => ask(target, server, patience),
                };
                let threads: Vec<_> = some.iter().map(|server| scope.spawn(move || ask(*server))).collect();
                let states = threads.into_iter().map(|thread| {
                    thread.join().unwrap_or_else(|_| State::Silent("asking it failed".to_owned()))
                });
                servers.extend(states);
            });
        }
        Picture { entry, servers }
    }

    /// Servers that answer.
    pub fn answering(&self) -> usize {
        self.servers.iter().filter(|state| matches!(state, State::Answers(_))).count()
    }

    /// Whether a server that should run does not answer.
    pub fn has_silent(&self) -> bool {
        self.servers.iter().any(|state| matches!(state, State::Silent(_)))
    }
}

fn ask(target: &Target, server: ServerId, patience: Duration) -> State {
    let deadline = Instant::now() + patience;
    let mut why = "its socket is not there".to_owned();
    for address in &target.servers[usize::from(server.0)] {
        if let Address::Unix(path) = address
            && !path.exists()
        {
            continue;
        }
        match ask_at(target, server, address, deadline) {
            Ok(status) => return State::Answers(status),
            Err(error) => why = error,
        }
    }
    State::Silent(why)
}

fn ask_at(
    target: &Target,
    server: ServerId,
    address: &Address,
    deadline: Instant,
) -> Result<Box<ServerStatus>, String> {
    let servers = target.servers.len() as u16;
    let whom = ServerIdentity { partition: target.partition, server, servers };
    let connection = connect(&whom, address, &target.secret, deadline)?;
    match call(connection, server, &Request::Status, deadline)? {
        Reply::Status(status) => Ok(status),
        Reply::Failed(failure) => Err(failure.text),
        _ => Err("it answered something else; is it of the same version?".to_owned()),
    }
}
