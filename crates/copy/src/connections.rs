//! The registry, and connections to partitions: each partition is connected to once.

use crate::error::Error;
use pario_client::{Options, Partition, Role};
use pario_registry::{Entry, Registry};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The partitions that a command uses.
pub struct Connections {
    home: Option<PathBuf>,
    default_partition: Option<String>,
    role: Role,
    open: BTreeMap<String, Partition>,
}

impl Connections {
    /// Connections that read and write files. `home` is the registry's directory, and `default_partition` the
    /// partition of `pario:/path`.
    pub fn for_data(home: Option<&Path>, default_partition: Option<&str>) -> Connections {
        Connections::new(home, default_partition, Role::Client)
    }

    /// Connections that only look at names or at the partition itself; they need no cache.
    pub fn for_metadata(home: Option<&Path>, default_partition: Option<&str>) -> Connections {
        Connections::new(home, default_partition, Role::Tool)
    }

    fn new(home: Option<&Path>, default_partition: Option<&str>, role: Role) -> Connections {
        Connections {
            home: home.map(Path::to_owned),
            default_partition: default_partition.map(str::to_owned),
            role,
            open: BTreeMap::new(),
        }
    }

    /// The partition of `pario:/path`.
    pub fn default_partition(&self) -> Option<&str> {
        self.default_partition.as_deref()
    }

    /// The user's registry.
    pub fn registry(&self) -> Result<Registry, Error> {
        let home = self.home.as_deref().ok_or(Error::NoHome)?;
        Ok(Registry::open(home)?)
    }

    /// The registry's entry of a partition.
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
