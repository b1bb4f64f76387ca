//! The registry's record of a partition, and its format.
//!
//! `registry.json`, version 3:
//!
//! ```json
//! {
//!   "version": 3,
//!   "partitions": {
//!     "scratch": {
//!       "id": "00112233445566778899aabbccddeeff",
//!       "description": { "name": "scratch", "servers": ["n0:/data"], "stripe_size": 65536, … },
//!       "host": "n0",
//!       "created": 1700000000000000000,
//!       "made": true,
//!       "generation": 2,
//!       "running": {
//!         "0": { "host": "n0", "pid": 4711, "unix": "/dev/shm/…", "tcp": "10.0.0.1:40000", "started": 170… }
//!       },
//!       "abandoned": [1],
//!       "ports": [40000, 40001],
//!       "epoch": 1,
//!       "joining": 0,
//!       "origin": ["n0:/data"]
//!     }
//!   }
//! }
//! ```
//!
//! Times are nanoseconds since 1970. A reader refuses other versions and keys that it does not know.

use std::collections::{BTreeMap, BTreeSet};

use pario_types::{Epoch, PartitionId, ServerId, Stamp};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::description::Description;
use crate::error::Error;

/// The version of the registry's file.
pub(crate) const VERSION: u64 = 3;

/// A partition in the registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its id, which no other partition ever has.
    #[serde(with = "hexadecimal")]
    pub id: PartitionId,
    /// Its description, as of the last start of its servers.
    pub description: Description,
    /// The host where it was created: that of the servers whose resource names no node.
    pub host: String,
    /// The time of its creation.
    #[serde(with = "stamp")]
    pub created: Stamp,
    /// Whether all its servers have been up once. From then on their directories contain its data: a directory without data
    /// is an error, and no new part is created in it. Until then its structure may still change.
    pub made: bool,
    /// The number of changes of the entry.
    pub generation: u64,
    /// The servers that were started and not stopped.
    #[serde(serialize_with = "write_running", deserialize_with = "read_running")]
    pub running: BTreeMap<ServerId, Running>,
    /// The abandoned servers: each may have left a pool with bytes that are not stored.
    #[serde(serialize_with = "write_abandoned", deserialize_with = "read_abandoned")]
    pub abandoned: BTreeSet<ServerId>,
    /// The port at which each server last listened for other hosts, in the order of the servers; 0 if it never did. Servers that go on running
    /// look there for one that was stopped and is started again.
    #[serde(default)]
    pub ports: Vec<u16>,
    /// The version of the set of servers.
    #[serde(with = "epoch")]
    pub epoch: Epoch,
    /// The number of the last servers of the description that are being added: nothing is stored on them, and clients do not know
    /// them. They become members when all of them serve; otherwise they are dropped from the description again.
    pub joining: u16,
    /// The servers with which the partition was created, if the set has changed since: a partition file that names them means this
    /// partition.
    pub origin: Vec<String>,
}

/// A server that was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Running {
    /// Its host.
    pub host: String,
    /// Its process there.
    pub pid: u32,
    /// Its Unix socket there.
    pub unix: String,
    /// Its address for other hosts, `host:port`, if it listens for them.
    pub tcp: Option<String>,
    /// The time of its start.
    #[serde(with = "stamp")]
    pub started: Stamp,
}

impl Running {
    /// Its port for other hosts.
    pub fn port(&self) -> Option<u16> {
        self.tcp.as_ref()?.rsplit_once(':')?.1.parse().ok()
    }
}

impl Entry {
    /// The partition's name.
    pub fn name(&self) -> &str {
        self.description.name()
    }

    /// Whether every member was started and not stopped. One may have died since.
    pub fn is_up(&self) -> bool {
        let members = self.members();
        self.running.keys().filter(|server| usize::from(server.0) < members).count() == members
    }

    /// The number of its servers, without those that are being added.
    pub fn members(&self) -> usize {
        self.description.structure().servers.len() - usize::from(self.joining)
    }

    /// Whether a server is being added.
    pub fn is_joining(&self, server: ServerId) -> bool {
        usize::from(server.0) >= self.members()
    }

    /// The servers that are being added.
    pub fn joining_servers(&self) -> impl Iterator<Item = ServerId> + use<> {
        (self.members()..self.description.structure().servers.len()).map(|server| ServerId(server as u16))
    }

    /// A description that a user gives for this partition, with the present servers if it names those with which the partition was
    /// created.
    pub fn with_present_servers(&self, asked: &Description) -> Result<Description, Error> {
        let named = asked.structure().servers.iter().map(ToString::to_string);
        match !self.origin.is_empty() && named.eq(self.origin.iter().cloned()) {
            true => asked.with_servers(self.description.structure().servers.clone()),
            false => Ok(asked.clone()),
        }
    }

    /// The port at which a server last listened for other hosts.
    pub fn last_port(&self, server: ServerId) -> Option<u16> {
        self.ports.get(usize::from(server.0)).copied().filter(|port| *port != 0)
    }

    /// Notes that servers run.
    pub fn add_running(&mut self, running: BTreeMap<ServerId, Running>) {
        self.ports.resize(self.description.structure().servers.len(), 0);
        for (server, running) in running {
            if let (Some(last), Some(port)) = (self.ports.get_mut(usize::from(server.0)), running.port()) {
                *last = port;
            }
            // They adopt the pools of their predecessors.
            self.abandoned.remove(&server);
            self.running.insert(server, running);
        }
    }

    /// The host of a server.
    pub fn host_of(&self, server: ServerId) -> Option<&str> {
        let resource = self.description.structure().servers.get(usize::from(server.0))?;
        Some(resource.node.as_deref().unwrap_or(&self.host))
    }
}

/// The whole file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contents {
    pub version: u64,
    pub partitions: BTreeMap<String, Entry>,
}

/// The part of the file that decides whether the rest can be read.
#[derive(Deserialize)]
pub(crate) struct Version {
    pub version: u64,
}

impl Contents {
    pub fn empty() -> Contents {
        Contents { version: VERSION, partitions: BTreeMap::new() }
    }

    /// Checks its consistency beyond its form.
    pub fn fault(&self) -> Option<String> {
        self.partitions.iter().find_map(|(name, entry)| {
            let servers = entry.description.structure().servers.len();
            if entry.name() != name {
                Some(format!("the description of {name:?} is that of {:?}", entry.name()))
            } else if usize::from(entry.joining) >= servers {
                Some(format!("{name:?} has {servers} servers, and {} of them are being added", entry.joining))
            } else if entry.running.keys().chain(&entry.abandoned).any(|id| usize::from(id.0) >= servers) {
                Some(format!("{name:?} has {servers} servers, but one of a higher number is listed"))
            } else {
                None
            }
        })
    }
}

pub(crate) mod number {
    use super::*;

    pub fn serialize<S: Serializer>(id: &ServerId, serializer: S) -> Result<S::Ok, S::Error> {
        id.0.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ServerId, D::Error> {
        u16::deserialize(deserializer).map(ServerId)
    }
}

pub(crate) mod hexadecimal {
    use super::*;

    pub fn serialize<S: Serializer>(id: &PartitionId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(id)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PartitionId, D::Error> {
        let text = String::deserialize(deserializer)?;
        let sound = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let id = sound.then(|| u128::from_str_radix(&text, 16).ok()).flatten();
        id.map(PartitionId).ok_or_else(|| D::Error::custom("an id has 32 hexadecimal digits"))
    }
}

pub(crate) mod epoch {
    use super::*;

    pub fn serialize<S: Serializer>(epoch: &Epoch, serializer: S) -> Result<S::Ok, S::Error> {
        epoch.0.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Epoch, D::Error> {
        u64::deserialize(deserializer).map(Epoch)
    }
}

mod stamp {
    use super::*;

    pub fn serialize<S: Serializer>(stamp: &Stamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(stamp.0)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Stamp, D::Error> {
        i64::deserialize(deserializer).map(Stamp)
    }
}

fn write_running<S: Serializer>(
    running: &BTreeMap<ServerId, Running>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(running.iter().map(|(server, running)| (server.0, running)))
}

fn read_running<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<ServerId, Running>, D::Error> {
    let running = BTreeMap::<u16, Running>::deserialize(deserializer)?;
    Ok(running.into_iter().map(|(server, running)| (ServerId(server), running)).collect())
}

fn write_abandoned<S: Serializer>(servers: &BTreeSet<ServerId>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(servers.iter().map(|server| server.0))
}

fn read_abandoned<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeSet<ServerId>, D::Error> {
    Ok(BTreeSet::<u16>::deserialize(deserializer)?.into_iter().map(ServerId).collect())
}
