//! The addresses of a partition's servers, and the lookup of these addresses.

use std::path::{Path, PathBuf};

use pario_registry::{Entry, Registry};
use pario_runtime::fs;
use pario_transport::Address;
use pario_types::{AccessDefaults, Epoch, PartitionId, ServerId};
use pario_wire::Secret;

use crate::error::{Cause, Error, Result};

/// A partition and the addresses of its servers.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its name, for messages to the user.
    pub name: String,
    /// Its id.
    pub partition: PartitionId,
    /// The secret of its clients.
    pub secret: Secret,
    /// The addresses of each server, by its number, in the order in which to try them: a Unix socket, which is used only if
    /// its directory exists on this host, before TCP. None: the server is not running.
    pub servers: Vec<Vec<Address>>,
    /// The version of the set of servers; 0 where the set never changes.
    pub epoch: Epoch,
    /// The server with the name space.
    pub metadata: ServerId,
    /// What its description says about accesses to its files.
    pub access: AccessDefaults,
}

/// Looks up a partition: at first, and again when a server is unreachable at its address.
pub trait Resolve: Send + Sync {
    /// Returns its present addresses.
    fn resolve(&self) -> Result<Target>;
}

impl<F: Fn() -> Result<Target> + Send + Sync> Resolve for F {
    fn resolve(&self) -> Result<Target> {
        self()
    }
}

/// Addresses that do not change.
impl Resolve for Target {
    fn resolve(&self) -> Result<Target> {
        Ok(self.clone())
    }
}

/// A partition of a registry.
pub(crate) struct ByName {
    pub registry: PathBuf,
    pub name: String,
}

impl ByName {
    /// Returns the registry's record of it.
    pub fn look(&self) -> Result<(Entry, Target)> {
        let registry = Registry::existing(&self.registry)?;
        let entry = registry.get(&self.name)?;
        let secret = registry.secret(entry.id)?;
        let target = Target::of_entry(&entry, secret)?;
        Ok((entry, target))
    }
}

impl Resolve for ByName {
    fn resolve(&self) -> Result<Target> {
        self.look().map(|(_, target)| target)
    }
}

impl Target {
    /// The registry's record of a partition.
    pub fn of_entry(entry: &Entry, secret: Secret) -> Result<Target> {
        let structure = entry.description.structure();
        // A server that is being added is not used yet.
        let count = u16::try_from(entry.members())
            .map_err(|_| Error::Target(format!("partition {} has too many servers", entry.name())))?;
        let servers = (0..count).map(|server| addresses(entry, ServerId(server))).collect::<Result<_>>()?;
        Ok(Target {
            name: entry.name().to_owned(),
            partition: entry.id,
            secret,
            servers,
            epoch: entry.epoch,
            metadata: structure.metadata,
            access: entry.description.settings().access,
        })
    }

    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |why: &str| Err(Error::Target(format!("partition {}: {why}", self.name)));
        match self.servers.len() {
            0 => wrong("it has no servers"),
            count if count > usize::from(u16::MAX) => wrong("it has more servers than there can be"),
            count if usize::from(self.metadata.0) >= count => {
                wrong("its metadata server is not one of its servers")
            }
            _ => Ok(()),
        }
    }

    /// Whether a server is on this host, and reached as such: its pool can be mapped.
    pub(crate) fn is_local(&self, server: ServerId, far: bool) -> bool {
        matches!(self.candidates(server, far).first(), Some(Address::Unix(_)))
    }

    /// The reason why a server without a usable address on this host cannot be reached.
    pub(crate) fn why_unusable(&self, server: ServerId) -> Cause {
        match self.servers.get(usize::from(server.0)).is_some_and(|known| !known.is_empty()) {
            true => Cause::LocalOnly { partition: self.name.clone() },
            false => Cause::NoAddress,
        }
    }

    /// The addresses to try for a server, in this order. `far`: only those for other hosts, if there are any.
    pub(crate) fn candidates(&self, server: ServerId, far: bool) -> Vec<Address> {
        let known = self.servers.get(usize::from(server.0)).map_or(&[][..], Vec::as_slice);
        let mut usable: Vec<Address> = known.iter().filter(|address| usable(address)).cloned().collect();
        let is_far = |address: &Address| matches!(address, Address::Tcp(..));
        if far && usable.iter().any(is_far) {
            usable.retain(is_far);
        }
        usable
    }
}

fn usable(address: &Address) -> bool {
    match address {
        // A server that is being restarted has the directory, and no socket for a moment.
        Address::Unix(path) => path.parent().is_some_and(|run| matches!(fs::exists(run), Ok(true))),
        Address::Tcp(..) => true,
    }
}

fn addresses(entry: &Entry, server: ServerId) -> Result<Vec<Address>> {
    let Some(running) = entry.running.get(&server) else { return Ok(Vec::new()) };
    let mut found = vec![Address::Unix(Path::new(&running.unix).to_owned())];
    if let Some(tcp) = &running.tcp {
        found.push(format!("tcp:{tcp}").parse().map_err(|cause: pario_transport::Error| {
            Error::Target(format!("the registry's entry of partition {}: {cause}", entry.name()))
        })?);
    }
    Ok(found)
}
