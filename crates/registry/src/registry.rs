//! The registry: a directory of the user, one small file in it about all partitions, and the way in which it is changed.
//!
//! ```text
//! registry.json   all partitions (see `entry`)
//! registry.lock   held while that is changed
//! secrets/ID      32 bytes that let clients in; `ID.draft` while the partition is created or removed
//! locks/NAME      held while a partition goes up or down
//! ```
//!
//! Everything has mode 0700 or 0600; a directory or secret that others can access is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pario_types::{Epoch, PartitionId, Secret, ServerId, Stamp};

use crate::description::{Description, Resource, is_name};
use crate::entry::{Contents, Entry, VERSION, Version};
use crate::error::Error;
use crate::lock::Lock;
use crate::private_path::{self, Links};
use crate::random_bytes;
use crate::replace::{Check, replace};
use crate::secret::{create_secret, read_secret};

/// The time for which a change waits for other changes of the registry, which take milliseconds each.
const PATIENCE: Duration = Duration::from_secs(20);

/// The suffix of secrets of partitions that are being created or removed.
const DRAFT: &str = "draft";

/// The partitions of a user.
pub struct Registry {
    dir: PathBuf,
    patience: Duration,
    check: Box<Check>,
}

/// The right to start, stop and remove a partition, until this is dropped.
#[derive(Debug)]
pub struct PartitionLock {
    name: String,
    lock: Lock,
}

impl Registry {
    /// Opens the registry in that directory, and creates it if it does not exist.
    pub fn open(dir: &Path) -> Result<Registry, Error> {
        private_path::directory(dir, Links::Followed)?;
        for inner in ["secrets", "locks"] {
            private_path::directory(&dir.join(inner), Links::Refused)?;
        }
        Ok(Registry { dir: dir.to_owned(), patience: PATIENCE, check: Box::new(|_| Ok(())) })
    }

    /// Opens the registry in that directory, which must exist.
    pub fn existing(dir: &Path) -> Result<Registry, Error> {
        match pario_runtime::fs::exists(dir) {
            Ok(false) => Err(Error::NoRegistry(dir.to_owned())),
            _ => Registry::open(dir),
        }
    }

    /// The same with another time to wait for other changes.
    pub fn with_patience(self, patience: Duration) -> Registry {
        Registry { patience, ..self }
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// All partitions, by name.
    pub fn list(&self) -> Result<Vec<Entry>, Error> {
        Ok(self.read()?.partitions.into_values().collect())
    }

    /// The partition of that name.
    pub fn get(&self, name: &str) -> Result<Entry, Error> {
        self.read()?.partitions.remove(name).ok_or_else(|| Error::NoPartition(name.to_owned()))
    }

    /// Creates an entry and a secret for a new partition. `host` is this one.
    pub fn create(&self, description: &Description, host: &str) -> Result<Entry, Error> {
        let id = PartitionId(u128::from_le_bytes(random_bytes()?));
        self.add(id, description, host, None)
    }

    /// Creates an entry and a new secret for a partition that has data already. `epoch` is that of its set of servers.
    pub fn adopt(
        &self,
        id: PartitionId,
        description: &Description,
        host: &str,
        epoch: Epoch,
    ) -> Result<Entry, Error> {
        self.add(id, description, host, Some(epoch))
    }

    fn add(
        &self,
        id: PartitionId,
        description: &Description,
        host: &str,
        made: Option<Epoch>,
    ) -> Result<Entry, Error> {
        let added = self.change(|registry, partitions| {
            if let Some(known) = partitions.values().find(|entry| entry.id == id) {
                return Err(Error::Registered { name: known.name().to_owned() });
            }
            let name = description.name();
            if partitions.contains_key(name) {
                return Err(Error::AlreadyThere(name.to_owned()));
            }
            registry.sweep_drafts(partitions)?;
            let entry = Entry {
                id,
                description: description.clone(),
                host: host.to_owned(),
                created: Stamp::now(),
                made: made.is_some(),
                generation: 0,
                running: BTreeMap::new(),
                abandoned: BTreeSet::new(),
                ports: Vec::new(),
                epoch: made.unwrap_or_default(),
                joining: 0,
                origin: Vec::new(),
            };
            // An interrupted change may have left one.
            registry.forget_secret(&registry.draft_path(entry.id))?;
            create_secret(&registry.draft_path(entry.id))?;
            partitions.insert(name.to_owned(), entry.clone());
            Ok(entry)
        })?;
        // A draft of an existing partition is its secret.
        let _ = pario_runtime::fs::rename(self.draft_path(id), self.secret_path(id));
        Ok(added)
    }

    /// Changes a partition's entry, and returns it as it is then. Name and id stay as they are, and so does
    /// its structure once it was made.
    pub fn update(&self, name: &str, change: impl FnOnce(&mut Entry)) -> Result<Entry, Error> {
        self.update_entry(name, |before, entry| {
            change(entry);
            if before.made { before.description.check_same_structure(&entry.description) } else { Ok(()) }
        })
    }

    /// Changes the servers of a partition, and what else `change` changes with them.
    pub fn update_servers(
        &self,
        lock: &PartitionLock,
        servers: Vec<Resource>,
        change: impl FnOnce(&mut Entry),
    ) -> Result<Entry, Error> {
        self.update_entry(&lock.name, |before, entry| {
            entry.description = before.description.with_servers(servers)?;
            change(entry);
            let servers = entry.description.structure().servers.len();
            entry.ports.truncate(servers);
            let is_there = |server: &ServerId| usize::from(server.0) < servers;
            entry.running.retain(|server, _| is_there(server));
            entry.abandoned.retain(is_there);
            Ok(())
        })
    }

    fn update_entry(
        &self,
        name: &str,
        change: impl FnOnce(&Entry, &mut Entry) -> Result<(), Error>,
    ) -> Result<Entry, Error> {
        self.change(|_, partitions| {
            let entry = partitions.get_mut(name).ok_or_else(|| Error::NoPartition(name.to_owned()))?;
            let before = entry.clone();
            change(&before, entry)?;
            assert_eq!(
                (before.id, before.name()),
                (entry.id, entry.name()),
                "a partition keeps its name and id"
            );
            entry.generation = before.generation + 1;
            Ok(entry.clone())
        })
    }

    /// Removes a partition's entry, its secret and its lock. Its data is not changed.
    pub fn remove(&self, lock: PartitionLock) -> Result<Entry, Error> {
        let entry = self.change(|registry, partitions| {
            let entry = partitions.remove(&lock.name).ok_or_else(|| Error::NoPartition(lock.name.clone()))?;
            // If this is interrupted, the next create removes a draft without a partition.
            let _ = pario_runtime::fs::rename(registry.secret_path(entry.id), registry.draft_path(entry.id));
            Ok(entry)
        })?;
        self.forget_secret(&self.draft_path(entry.id))?;
        self.forget_secret(&self.secret_path(entry.id))?;
        lock.lock.remove()?;
        Ok(entry)
    }

    /// A partition's secret.
    pub fn secret(&self, id: PartitionId) -> Result<Secret, Error> {
        match read_secret(&self.secret_path(id), id) {
            Err(missing @ Error::NoSecret(..)) => read_secret(&self.draft_path(id), id).map_err(|_| missing),
            read => read,
        }
    }

    /// Takes a partition's lock, so that one of several processes that start or stop it at once does. The partition need
    /// not exist yet.
    pub fn lock_partition(&self, name: &str, deadline: Duration) -> Result<PartitionLock, Error> {
        if !is_name(name) {
            return Err(Error::NoPartition(name.to_owned()));
        }
        let file = match pario_runtime::is_planted("partition-lock-dropped") {
            true => format!("{name}.{}", pario_runtime::process::id()),
            false => name.to_owned(),
        };
        let lock = Lock::take(&self.dir.join("locks").join(file), &format!("partition {name}"), deadline)?;
        Ok(PartitionLock { name: name.to_owned(), lock })
    }

    /// Reads the file, lets `change` change it, writes it: all or nothing.
    fn change<T>(
        &self,
        change: impl FnOnce(&Registry, &mut BTreeMap<String, Entry>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let _lock = Lock::take(&self.dir.join("registry.lock"), "the registry", self.patience)?;
        let mut contents = self.read()?;
        let done = change(self, &mut contents.partitions)?;
        let mut text = serde_json::to_vec_pretty(&contents).expect("entries can be written as JSON");
        text.push(b'\n');
        replace(&self.file(), &text, &self.check)?;
        Ok(done)
    }

    fn read(&self) -> Result<Contents, Error> {
        let path = self.file();
        let text = match pario_runtime::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Contents::empty()),
            Err(error) => return Err(Error::io("read", path)(error)),
        };
        let garbled = |why: String| Error::Garbled { path: path.clone(), why };
        let Version { version } =
            serde_json::from_slice(&text).map_err(|error| garbled(error.to_string()))?;
        if version != VERSION {
            return Err(Error::Version { path, found: version, known: VERSION });
        }
        let contents: Contents = serde_json::from_slice(&text).map_err(|error| garbled(error.to_string()))?;
        match contents.fault() {
            Some(fault) => Err(garbled(fault)),
            None => Ok(contents),
        }
    }

    /// Removes the drafts of secrets that no partition has: a crash between two steps of a change leaves one. Secrets
    /// without a partition stay: the registry itself may have been lost.
    fn sweep_drafts(&self, partitions: &BTreeMap<String, Entry>) -> Result<(), Error> {
        if !matches!(pario_runtime::fs::exists(self.file()), Ok(true)) {
            return Ok(());
        }
        let dir = self.dir.join("secrets");
        for file in pario_runtime::fs::read_dir(&dir).map_err(Error::io("list", &dir))? {
            let path = file.map_err(Error::io("list", &dir))?.path();
            let is_of =
                |entry: &Entry| path.file_stem().is_some_and(|stem| stem == entry.id.to_string().as_str());
            if path.extension().is_some_and(|ending| ending == DRAFT) && !partitions.values().any(is_of) {
                self.forget_secret(&path)?;
            }
        }
        Ok(())
    }

    fn forget_secret(&self, path: &Path) -> Result<(), Error> {
        match pario_runtime::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
            _ => Ok(()),
        }
    }

    fn file(&self) -> PathBuf {
        self.dir.join("registry.json")
    }

    fn secret_path(&self, id: PartitionId) -> PathBuf {
        self.dir.join("secrets").join(id.to_string())
    }

    fn draft_path(&self, id: PartitionId) -> PathBuf {
        self.secret_path(id).with_extension(DRAFT)
    }
}

impl PartitionLock {
    /// The partition's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("dir", &self.dir).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests;
