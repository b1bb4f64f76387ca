//! Partitions on demand, each made for one run alone and removed after it.
//!
//! A fresh directory holds the data of its servers. Its registry and its logs are not on that storage, which may fill up, but
//! beside the servers' pools.

use crate::settings::LaunchSettings;
use pario_registry::{Description, Resource};
use std::fs;
use std::io;
use std::num::NonZeroU16;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

/// A partition that is made for one run.
#[derive(Debug)]
pub struct OnDemandPartition {
    /// Its servers keep their data in this directory.
    pub dir: PathBuf,
    /// Where it is registered.
    pub home: PathBuf,
    /// Its description.
    pub description: Description,
}

/// The user's request for a partition on demand.
#[derive(Clone, Copy, Debug)]
pub struct OnDemandRequest<'a> {
    /// The directory for the servers' data.
    pub storage: &'a Path,
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
    /// The name of partitions on demand, each in a registry of its own.
    pub const NAME: &str = "run";

    /// Decides on a partition, and does nothing yet. `fresh` is a word that nobody else has.
    pub fn new(
        request: &OnDemandRequest,
        fresh: &str,
        settings: &LaunchSettings,
    ) -> Result<OnDemandPartition, OnDemandError> {
        let storage = request.storage;
        let unusable = |cause| OnDemandError::Directory("use as storage", storage.to_owned(), cause);
        if !storage.metadata().map_err(unusable)?.is_dir() {
            return Err(unusable(io::ErrorKind::NotADirectory.into()));
        }
        let dir = plain_path(storage)?.join(format!("pario-run-{fresh}"));
        let resource = |server| -> Option<Resource> {
            let path = dir.join(format!("server-{server}"));
            Resource::parse(path.to_str()?)
        };
        let resources: Option<Vec<_>> = (0..request.servers.get()).map(resource).collect();
        let usual = Description::parse("servers = ['/any']", Some(OnDemandPartition::NAME))?;
        let (mut structure, mut values) = (usual.structure().clone(), usual.settings().clone());
        structure.servers = resources.ok_or_else(|| OnDemandError::NoName(dir.clone()))?;
        structure.stripe_size = request.stripe_size.unwrap_or(structure.stripe_size);
        values.cache = request.cache.unwrap_or(values.cache);
        let description = Description::new(structure, values)?;
        let home = plain_path(&settings.run_base())?.join(format!("pario-home-{fresh}"));
        Ok(OnDemandPartition { dir, home, description })
    }

    /// Makes the directory for its servers' data.
    pub fn create_directory(&self) -> Result<(), OnDemandError> {
        let made = fs::DirBuilder::new().mode(0o700).create(&self.dir);
        made.map_err(|cause| OnDemandError::Directory("make the directory", self.dir.clone(), cause))
    }

    /// Removes its servers' data and its registry.
    pub fn remove(&self) -> Result<(), OnDemandError> {
        for dir in [&self.dir, &self.home] {
            match fs::remove_dir_all(dir) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(OnDemandError::Directory("remove", dir.clone(), error));
                }
                _ => {}
            }
        }
        Ok(())
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
