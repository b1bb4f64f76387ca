//! Partitions on demand, each made for one run.
//!
//! Such a partition is registered like every other, under a name that no other partition has. Each of its servers keeps its data
//! in a fresh directory. After the run it is erased, or it is kept and used like any other partition.

use pario_registry::{Description, Resource};
use std::io;
use std::num::NonZeroU16;
use std::path::{Component, Path, PathBuf};

/// The directories of servers on demand have names that begin like this.
pub(crate) const DIRECTORY_PREFIX: &str = "pario-run-";

/// A partition that is made for one run.
#[derive(Debug)]
pub struct OnDemandPartition {
    /// Its description.
    pub description: Description,
}

/// The user's request for a partition on demand.
#[derive(Clone, Copy, Debug)]
pub struct OnDemandRequest<'a> {
    /// The directory for the servers' data, on each node.
    pub storage: &'a Path,
    /// The nodes over which the servers are spread; none: this host.
    pub nodes: &'a [String],
    /// The number of servers.
    pub servers: NonZeroU16,
    /// The cache of each server, if not as usual.
    pub cache: Option<u64>,
    /// The stripe size of its files, if not as usual.
    pub stripe_size: Option<u64>,
}

/// The reason why there is no partition on demand.
#[derive(Debug, thiserror::Error)]
pub enum OnDemandError {
    /// An operation on a directory failed.
    #[error("cannot {0} {path}: {2}", path = .1.display())]
    Directory(&'static str, PathBuf, #[source] io::Error),
    /// A path that cannot be part of a partition's description or of a variable.
    #[error(
        "{0:?} cannot be used with a partition: it is not UTF-8, or has control characters; choose another path"
    )]
    NoName(PathBuf),
    /// The request makes no partition.
    #[error(transparent)]
    Description(#[from] pario_registry::Error),
}

impl OnDemandPartition {
    /// Decides on a partition, and does nothing yet. `fresh` is a word that nobody else has.
    pub fn new(request: &OnDemandRequest, fresh: &str) -> Result<OnDemandPartition, OnDemandError> {
        let OnDemandRequest { storage, nodes, .. } = *request;
        let unusable = |cause| OnDemandError::Directory("use as storage", storage.to_owned(), cause);
        if nodes.is_empty() && !storage.metadata().map_err(unusable)?.is_dir() {
            return Err(unusable(io::ErrorKind::NotADirectory.into()));
        }
        let storage = plain_path(storage)?;
        let resource = |server: u16| -> Option<Resource> {
            let path = storage.join(format!("{DIRECTORY_PREFIX}{fresh}.{server}"));
            let path = path.to_str()?;
            match nodes.get(usize::from(server) % nodes.len().max(1)) {
                Some(node) if node.contains(':') => Resource::parse(&format!("[{node}]:{path}")),
                Some(node) => Resource::parse(&format!("{node}:{path}")),
                None => Resource::parse(path),
            }
        };
        let resources: Option<Vec<_>> = (0..request.servers.get()).map(resource).collect();
        let usual = Description::parse("servers = ['/any']", Some(&format!("run-{fresh}")))?;
        let (mut structure, mut values) = (usual.structure().clone(), usual.settings().clone());
        structure.servers = resources.ok_or(OnDemandError::NoName(storage))?;
        structure.stripe_size = request.stripe_size.unwrap_or(structure.stripe_size);
        values.cache = request.cache.unwrap_or(values.cache);
        Ok(OnDemandPartition { description: Description::new(structure, values)? })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.description.name()
    }
}

/// An absolute path without `.` and `..`, by its names alone; as text, because it becomes a variable or part of one.
pub fn plain_path(path: &Path) -> Result<PathBuf, OnDemandError> {
    let failed = |cause| OnDemandError::Directory("use", path.to_owned(), cause);
    let whole = std::path::absolute(path).map_err(failed)?;
    let mut plain = PathBuf::new();
    for part in whole.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    match plain.to_str() {
        Some(_) => Ok(plain),
        None => Err(OnDemandError::NoName(plain)),
    }
}
