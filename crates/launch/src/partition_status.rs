//! Asks the servers of a partition how they are, each by itself: one that does not answer hides nothing of
//! the others, and neither does a metadata server that is gone.

use crate::reach::{ServerIdentity, addresses, call, connect};
use pario_registry::{Entry, Registry, Running, Secret};
use pario_runtime::time::Instant;
use pario_transport::Address;
use pario_types::ServerId;
use pario_wire::message::ServerStatus;
use pario_wire::{Reply, Request};
use std::time::Duration;

/// Servers that are asked at the same time.
const TOGETHER: usize = 64;

/// The state of a server.
#[derive(Debug)]
pub enum ServerCondition {
    /// It is not running, as far as the registry knows.
    Stopped,
    /// It should be running, and does not answer.
    Silent(String),
    /// It answers.
    Answers(Box<ServerStatus>),
}

/// A partition and the states of its servers, by number.
#[derive(Debug)]
pub struct PartitionStatus {
    /// The partition in the registry.
    pub entry: Entry,
    /// Its servers.
    pub servers: Vec<ServerCondition>,
}

impl PartitionStatus {
    /// Asks all servers.
    pub fn ask(registry: &Registry, entry: Entry, patience: Duration) -> PartitionStatus {
        let secret = registry.secret(entry.id).map_err(|error| error.to_string());
        let numbers: Vec<ServerId> = (0..entry.members()).map(|server| ServerId(server as u16)).collect();
        let mut servers = Vec::new();
        for some in numbers.chunks(TOGETHER) {
            pario_runtime::thread::scope(|scope| {
                let ask = |server| match (entry.running.get(&server), &secret) {
                    (None, _) => ServerCondition::Stopped,
                    (Some(_), Err(why)) => ServerCondition::Silent(why.clone()),
                    (Some(running), Ok(secret)) => ask(&entry, server, running, secret, patience),
                };
                let threads: Vec<_> = some.iter().map(|server| scope.spawn(move || ask(*server))).collect();
                let states = threads.into_iter().map(|thread| {
                    thread.join().unwrap_or_else(|_| ServerCondition::Silent("asking it failed".to_owned()))
                });
                servers.extend(states);
            });
        }
        PartitionStatus { entry, servers }
    }

    /// Servers that answer.
    pub fn answering(&self) -> usize {
        self.servers.iter().filter(|state| matches!(state, ServerCondition::Answers(_))).count()
    }

    /// Whether a server that should run does not answer.
    pub fn has_silent(&self) -> bool {
        self.servers.iter().any(|state| matches!(state, ServerCondition::Silent(_)))
    }
}

fn ask(
    entry: &Entry,
    server: ServerId,
    running: &Running,
    secret: &Secret,
    patience: Duration,
) -> ServerCondition {
    let deadline = Instant::now() + patience;
    let identity = ServerIdentity::of(entry, server);
    let mut why = "its socket is not there".to_owned();
    for address in addresses(running) {
        if let Address::Unix(path) = &address
            && !matches!(pario_runtime::fs::exists(path), Ok(true))
        {
            continue;
        }
        match ask_at(&identity, &address, secret, deadline) {
            Ok(status) => return ServerCondition::Answers(status),
            Err(error) => why = error,
        }
    }
    ServerCondition::Silent(why)
}

fn ask_at(
    identity: &ServerIdentity,
    address: &Address,
    secret: &Secret,
    deadline: Instant,
) -> Result<Box<ServerStatus>, String> {
    let connection = connect(identity, address, secret, deadline)?;
    match call(connection, identity.server, &Request::Status, deadline)? {
        Reply::Status(status) => Ok(status),
        Reply::Failed(failure) => Err(failure.text),
        _ => Err("it answered something else; is it of the same version?".to_owned()),
    }
}
