//! The registry, and the partitions that a command uses: each is connected to once.

use super::error::Error;
use crate::env::Environment;
use pario_client::{Options, Partition, Role};
use pario_registry::{Entry, Registry};
use std::collections::BTreeMap;

/// What a command knows of partitions.
pub struct Session<'a> {
    env: &'a Environment,
    role: Role,
    open: BTreeMap<String, Partition>,
}

impl<'a> Session<'a> {
    /// For a command that reads and writes files.
    pub fn of_files(env: &'a Environment) -> Session<'a> {
        Session { env, role: Role::Client, open: BTreeMap::new() }
    }

    /// For a command that looks at names or at the partition, and needs no cache.
    pub fn of_tool(env: &'a Environment) -> Session<'a> {
        Session { env, role: Role::Tool, open: BTreeMap::new() }
    }

    /// The partition of `pario:/path`.
    pub fn usual(&self) -> Option<&'a str> {
        self.env.partition.as_deref()
    }

    /// The user's registry.
    pub fn registry(&self) -> Result<Registry, Error> {
        let home = self.env.home.as_deref().ok_or(Error::NoHome)?;
        Ok(Registry::open(home)?)
    }

    /// What the registry knows of a partition.
    pub fn entry(&self, name: &str) -> Result<Entry, Error> {
        Ok(self.registry()?.get(name)?)
    }

    /// The partition of that name.
    pub fn partition(&mut self, name: &str) -> Result<Partition, Error> {
        if let Some(partition) = self.open.get(name) {
            return Ok(partition.clone());
        }
        let registry = self.registry()?;
        let options = Options { role: self.role, ..Options::default() };
        let partition =
            Partition::open_as_described(registry.dir(), name, options).map_err(Error::partition(name))?;
        self.open.insert(name.to_owned(), partition.clone());
        Ok(partition)
    }
}
