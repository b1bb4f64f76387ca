//! The pools of servers on this host: which are served, and what the others hold.
//!
//! A server's run directory names its owner (file `owner`), so that a pool is known even if its partition is not in this
//! registry. A pool without unsaved data of a partition that no registry knows is of no use; every command that finds one
//! removes it ([`sweep`]).

use crate::message::{partition, server};
use crate::signals;
use pario_registry::{Registry, Resource, RunDirectory, Supervision, remove_run_directory, run_directories};
use pario_runtime::time::Instant;
use pario_server::{Inspection, Leftover, inspect_pool, note_retired_pool, unretired_pool};
use pario_types::{PartitionId, ServerId};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A run directory without an owner may be one that is just being made, unless it is this old.
const YOUNG: Duration = Duration::from_secs(60);

/// How long the pool of a server that has ended may count as served.
const RELEASE: Duration = Duration::from_secs(5);

const OWNER: &str = "owner";

/// The owner of a run directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolOwner {
    /// The partition's name.
    pub name: String,
    /// The registry in which it was started.
    pub home: PathBuf,
    /// The directories of all servers, as the partition file has them.
    pub servers: Vec<String>,
    /// The process that is the server, or was.
    pub pid: u32,
}

impl PoolOwner {
    /// Notes it in a run directory.
    pub fn write(&self, run_directory: &Path) -> io::Result<()> {
        let text = serde_json::to_vec(self)?;
        let path = run_directory.join(OWNER);
        let fresh = path.with_extension("new");
        let mut file = pario_runtime::fs::OpenOptions::new();
        let mut file = file.write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        io::Write::write_all(&mut file, &text)?;
        pario_runtime::fs::rename(fresh, path)
    }

    /// The note in a run directory, if there is one that can be read.
    pub fn read(run_directory: &Path) -> Option<PoolOwner> {
        serde_json::from_slice(&pario_runtime::fs::read(run_directory.join(OWNER)).ok()?).ok()
    }
}

/// A server's pool on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPool {
    /// Of which partition.
    #[serde(with = "partition")]
    pub partition: PartitionId,
    /// Of which of its servers.
    #[serde(with = "server")]
    pub server: ServerId,
    /// Its file.
    pub path: PathBuf,
    /// Its state.
    pub state: PoolState,
    /// Its owner, if that was noted.
    pub owner: Option<PoolOwner>,
}

/// The state of a pool on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum PoolState {
    /// A server serves it.
    Served,
    /// No server serves it.
    Left {
        /// Bytes that only it has.
        unsaved: u64,
        /// The process that is going to start another server.
        supervisor: Option<u32>,
    },
    /// The server's run directory has no pool, or only the beginning of one.
    Missing {
        /// The process that is going to start another server.
        supervisor: Option<u32>,
    },
    /// It is of another boot: what was not synced is lost.
    Lost,
    /// Its contents cannot be read.
    Unreadable {
        /// The reason.
        why: String,
    },
}

impl HostPool {
    fn of(found: RunDirectory) -> HostPool {
        let RunDirectory { partition, server, path } = found;
        let owner = PoolOwner::read(&path);
        let supervisor = Supervision::holder(&path).ok().flatten();
        let path = path.join("pool");
        // For an instant another process that inspects the pool may hold it.
        let is_server = owner.as_ref().is_none_or(|owner| is_server(owner.pid));
        let state = match if is_server { look(&path) } else { look_at_left(&path) } {
            Ok(PoolUse::Served) => PoolState::Served,
            Ok(PoolUse::Left(Some(left))) if left.is_lost => PoolState::Lost,
            Ok(PoolUse::Left(Some(left))) if left.mark != 0 => {
                PoolState::Left { unsaved: left.unsaved, supervisor }
            }
            Ok(PoolUse::Left(_)) => PoolState::Missing { supervisor },
            Err(why) => PoolState::Unreadable { why },
        };
        HostPool { partition, server, path, state, owner }
    }

    /// Whether the pool has, or may have, bytes that are stored nowhere else.
    pub fn holds_data(&self) -> bool {
        match self.state {
            PoolState::Served | PoolState::Lost | PoolState::Missing { .. } => false,
            PoolState::Left { unsaved, .. } => unsaved > 0,
            PoolState::Unreadable { .. } => true,
        }
    }

    /// Notes in the server's directory that everything in the pool is stored. Best effort: without the note the server says later
    /// that something may be lost.
    fn note_retired(&self, left: Option<&Leftover>) {
        let places = self.owner.as_ref().map(|owner| &owner.servers[..]).unwrap_or_default();
        let place = places.get(usize::from(self.server.0)).and_then(|place| Resource::parse(place));
        if let (Some(place), Some(left)) = (place, left.filter(|left| !left.is_lost && left.mark != 0)) {
            let directory = Path::new(&place.dir);
            if unretired_pool(directory) == Some(left.mark) {
                let _ = note_retired_pool(directory, left.mark);
            }
        }
    }

    /// Whether the registry in which it was started does not know its partition any more. A registry that cannot be read
    /// may know it.
    pub fn is_orphaned(&self) -> bool {
        match &self.owner {
            Some(owner)
                if matches!(pario_runtime::fs::exists(owner.home.join("registry.json")), Ok(true)) =>
            {
                let entries = Registry::open(&owner.home).and_then(|registry| registry.list());
                entries.is_ok_and(|all| all.iter().all(|entry| entry.id != self.partition))
            }
            Some(owner) => pario_runtime::fs::exists(&owner.home).is_ok(),
            None => {
                let made =
                    self.path.parent().and_then(|dir| pario_runtime::fs::metadata(dir).ok()?.modified().ok());
                made.and_then(|made| made.elapsed().ok()).is_some_and(|age| age > YOUNG)
            }
        }
    }
}

/// Whether a pool's file is in use.
pub enum PoolUse {
    /// A server serves it.
    Served,
    /// Nobody serves it; nothing is left of it, or this holds it.
    Left(Option<Leftover>),
}

/// Inspects a pool's file.
pub fn look(pool: &Path) -> Result<PoolUse, String> {
    if !pario_runtime::fs::exists(pool).map_err(|e| format!("{}: {e}", pool.display()))? {
        return Ok(PoolUse::Left(None));
    }
    match inspect_pool(pool).map_err(|e| format!("{}: {e}", pool.display()))? {
        Inspection::Served => Ok(PoolUse::Served),
        Inspection::Left(left) => Ok(PoolUse::Left(Some(left))),
    }
}

/// Inspects the file of a pool whose server has ended, or is about to. Until the kernel has ended a killed process, the pool counts as
/// served. It also counts as served for an instant while another process inspects it.
pub fn look_at_left(pool: &Path) -> Result<PoolUse, String> {
    let until = Instant::now() + RELEASE;
    loop {
        match look(pool)? {
            PoolUse::Served if Instant::now() < until => {
                pario_runtime::thread::sleep(Duration::from_millis(5))
            }
            found => return Ok(found),
        }
    }
}

/// Whether a process is a server of Pario.
pub(crate) fn is_server(pid: u32) -> bool {
    signals::command_line(pid).ends_with(b"serve\0--part\0server\0")
}

/// The pools of this user on this host.
pub fn survey(base: &Path) -> Result<Vec<HostPool>, pario_registry::Error> {
    Ok(run_directories(base)?.into_iter().map(HostPool::of).collect())
}

/// Removes pools without unsaved data of partitions that no registry knows. Best effort: the next call removes what stays now.
pub fn sweep(base: &Path) {
    for pool in survey(base).unwrap_or_default() {
        let idle = matches!(
            pool.state,
            PoolState::Lost
                | PoolState::Missing { supervisor: None }
                | PoolState::Left { unsaved: 0, supervisor: None }
        );
        if idle && pool.is_orphaned() {
            // Held until it is removed, so that no server begins to use it.
            let held = look(&pool.path);
            if let Ok(PoolUse::Left(left)) = &held
                && left.as_ref().is_none_or(|left| left.unsaved == 0)
            {
                pool.note_retired(left.as_ref());
                let _ = remove_run_directory(base, pool.partition, pool.server);
            }
        }
    }
}
