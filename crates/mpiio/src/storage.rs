//! Opens files: a plain file, or a file striped over the servers of a partition. Accesses know only its
//! [`FileBackend`].

use std::collections::HashMap;
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use pario_client as client;
use pario_file_backend::{BackendError, FileBackend};
use pario_layout::PlacementMap;
use pario_partition_file::{ClientCache, PartitionFile};
use pario_posix::{Linux, PlainFile, PlainOpenOptions};
use pario_trace::FileStats;
use pario_types::{AccessDefaults, ErrorKind, ServerId};
use parking_lot::Mutex;

use crate::autostart;
use crate::env::env;
use crate::error::{Error, Result};
use crate::file_group::FileGroup;
use crate::file_name::FileName;
use crate::placement;
use crate::shared_counter::{CounterServer, CounterUpdate};

/// Adds the requests and bytes that `access` sends to servers to the file's statistics.
pub(crate) fn count_server_requests<T>(stats: &FileStats, access: impl FnOnce() -> T) -> T {
    let before = client::RequestCounts::by_this_thread();
    let outcome = access();
    let sent = client::RequestCounts::by_this_thread().since(before);
    if sent.requests > 0 {
        stats.server_requests.add(sent.requests);
        stats.server_bytes.add(sent.bytes);
    }
    outcome
}

/// The storage of an open file. It dereferences to the [`FileBackend`], which is all that accesses use.
pub(crate) struct Storage {
    backend: Arc<dyn FileBackend>,
    /// The same file, for what only files on a partition have: a placement table, a home server, a client cache.
    partition: Option<Arc<PartitionFile>>,
}

impl Deref for Storage {
    type Target = dyn FileBackend;

    fn deref(&self) -> &Self::Target {
        &*self.backend
    }
}

impl Storage {
    /// Opens a file. `start` selects the server (modulo their number) with which accesses begin. A new file on a
    /// partition is placed by `table`. A test can make plain files appear to be on another file system.
    pub fn open(
        name: &FileName,
        how: &PlainOpenOptions,
        start: u32,
        table: Option<PlacementMap>,
    ) -> Result<Storage> {
        match name {
            FileName::Plain(path) => {
                let plain = open_plain(path, how).map_err(BackendError::from)?;
                Ok(Storage { backend: Arc::new(plain), partition: None })
            }
            FileName::Partition { partition, path } => {
                let partition = partition_named(partition)?;
                let file = partition.open(path, &partition_options(how, table))?;
                file.set_start(start);
                let on_partition = Arc::new(PartitionFile::new(partition, file));
                Ok(Storage { backend: on_partition.clone(), partition: Some(on_partition) })
            }
        }
    }

    /// Makes reads of replicated extents prefer the home server of this rank.
    pub fn read_near_home(&self, group: &FileGroup) {
        if let Some(on_partition) = &self.partition
            && on_partition.file().layout().has_replicas()
            && let Some(home) = placement::home_server(group, on_partition.partition())
        {
            on_partition.file().set_home(home);
        }
    }

    /// The placement table of a placed file.
    pub fn table(&self) -> Option<&PlacementMap> {
        self.partition.as_ref()?.file().layout().table()
    }

    /// The server that keeps the shared file pointer of ranks on several nodes, if the file is on a partition.
    pub fn pointer_server(&self) -> Option<ServerId> {
        self.partition.as_ref()?.file().layout().holders().next()
    }

    /// Removes a file.
    pub fn delete(name: &FileName) -> Result<()> {
        match name {
            FileName::Plain(path) => Ok(pario_posix::delete(path).map_err(BackendError::from)?),
            FileName::Partition { partition, path } => Ok(partition_named(partition)?.remove_file(path)?),
        }
    }

    /// The team whose blocks of the file this process still caches from an earlier open.
    pub fn retained(&self) -> Option<u128> {
        self.partition.as_ref()?.retained()
    }

    /// What the partition file says about accesses, if the file is on a partition.
    pub fn access_defaults(&self) -> Option<AccessDefaults> {
        Some(self.partition.as_ref()?.partition().access_defaults())
    }

    /// Limits the data of one message to or from a server.
    pub fn set_network_buffer(&self, bytes: u64) {
        if let Some(on_partition) = &self.partition {
            on_partition.file().set_network_buffer(bytes);
        }
    }

    /// Makes collective accesses use the ranks' tier 1 cache.
    pub fn set_client_cache(&self, cache: Option<Arc<ClientCache>>) {
        if let (Some(on_partition), Some(cache)) = (&self.partition, cache) {
            on_partition.set_cache(cache);
        }
    }

    /// The file for data shipping.
    pub fn backend(&self) -> Arc<dyn FileBackend> {
        self.backend.clone()
    }
}

/// The open options of a partition for those of a plain file.
fn partition_options(how: &PlainOpenOptions, table: Option<PlacementMap>) -> client::OpenOptions {
    let mut options = client::OpenOptions::new();
    options
        .read(how.read)
        .write(how.write)
        .create(how.create)
        .create_new(how.exclusive)
        .mode(how.mode & !umask());
    if let Some(striping) = &how.striping {
        striping.unit.map(|unit| options.stripe(unit));
        striping.count.map(|count| options.stripe_count(u16::try_from(count).unwrap_or(u16::MAX)));
        striping.first.map(|first| options.first_server(u16::try_from(first).unwrap_or(u16::MAX)));
    }
    table.map(|table| options.table(table));
    options
}

/// A shared file pointer that a server keeps for ranks on several nodes.
pub(crate) struct ServerSharedPointer {
    counter: client::Counter,
    /// The rank that created the pointer removes it.
    is_mine: bool,
}

impl ServerSharedPointer {
    /// The pointer that rank 0 has created; `None` for a plain file.
    pub fn find(name: &FileName, server: ServerId, id: u128) -> Result<Option<ServerSharedPointer>> {
        match name {
            FileName::Plain(_) => Ok(None),
            FileName::Partition { partition, .. } => {
                let counter = partition_named(partition)?.counter(server, id);
                Ok(Some(ServerSharedPointer { counter, is_mine: false }))
            }
        }
    }

    /// Creates a pointer with value 0.
    pub fn make(name: &FileName, server: ServerId, id: u128) -> Result<Option<ServerSharedPointer>> {
        let mut pointer = ServerSharedPointer::find(name, server, id)?;
        if let Some(pointer) = &mut pointer {
            pointer.counter.set(0)?;
            pointer.is_mine = true;
        }
        Ok(pointer)
    }
}

impl CounterServer for ServerSharedPointer {
    fn update(&self, update: CounterUpdate) -> std::result::Result<u64, (ErrorKind, String)> {
        let changed = match update {
            CounterUpdate::Add(n) => self.counter.add(n),
            CounterUpdate::Set(value) => self.counter.set(value),
        };
        changed.map_err(|e| (e.kind(), e.to_string()))
    }
}

impl Drop for ServerSharedPointer {
    /// All ranks have closed the file by now, or failed to open it.
    fn drop(&mut self) {
        if self.is_mine {
            // If this request is lost, the server removes the pointer with the connection.
            let _ = self.counter.remove();
        }
    }
}

/// The umask of this process.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o022)
}

fn open_plain(path: &Path, how: &PlainOpenOptions) -> std::result::Result<PlainFile, pario_posix::Error> {
    match env().pretend {
        Some(fs) => PlainFile::open_with(path, how, Arc::new(Linux), Some(fs)),
        None => PlainFile::open(path, how),
    }
}

/// The number by which servers know this program: from the launcher if it gives one, else chosen by the rank that
/// opened a file first.
static PROGRAM: OnceLock<u64> = OnceLock::new();

/// This rank's program number; rank 0 announces it to the other ranks.
pub(crate) fn program_number() -> u64 {
    let fresh = || crate::node::random_id().map_or(std::process::id().into(), |id| id as u64);
    *PROGRAM.get_or_init(|| env().program.unwrap_or_else(fresh))
}

/// Adopts the program number that rank 0 has announced, unless this rank has one already.
pub(crate) fn join_program(program: u64) {
    PROGRAM.get_or_init(|| env().program.unwrap_or(program));
}

/// The partition of a file; `None` for a plain file.
pub(crate) fn partition_of(name: &FileName) -> Option<Result<client::Partition>> {
    match name {
        FileName::Plain(_) => None,
        FileName::Partition { partition, .. } => Some(partition_named(partition)),
    }
}

/// Opens a partition. All files of the process share the connections to its servers.
fn partition_named(name: &str) -> Result<client::Partition> {
    static KNOWN: OnceLock<Mutex<HashMap<String, client::Partition>>> = OnceLock::new();
    let mut known = KNOWN.get_or_init(Mutex::default).lock();
    if let Some(partition) = known.get(name) {
        return Ok(partition.clone());
    }
    let registry = env().registry.as_ref().ok_or(Error::Usage(
        ErrorKind::BadFile,
        "partitions are looked up in PARIO_HOME or ~/.pario, and neither PARIO_HOME nor HOME is set",
    ))?;
    let options = client::Options {
        far: env().is_far(),
        program: Some(program_number()),
        ..client::Options::default()
    };
    let partition = open_or_start(registry, name, options)?;
    known.insert(name.to_owned(), partition.clone());
    Ok(partition)
}

/// Opens a partition, and starts it first if it is down and the user wants that. The registry may say that it is up although its
/// servers are gone with their host, so it is also started if no server answers.
fn open_or_start(registry: &Path, name: &str, options: client::Options) -> Result<client::Partition> {
    let open = || client::Partition::open_as_described(registry, name, options);
    if !env().autostart {
        return Ok(open()?);
    }
    let is_down = client::Partition::is_stopped(registry, name)?;
    if !is_down {
        match open() {
            Err(error) if error.kind() == ErrorKind::Unreachable => {}
            opened => return Ok(opened?),
        }
    }
    autostart::start(name)?;
    Ok(open()?)
}
