//! The storage of an open file: a plain file, or a file striped over the servers of a partition.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::shared_counter::{CounterServer, CounterUpdate};
use pario_buffer::UserBuffer;
use pario_client as client;
use pario_data_shipping::Backing;
use pario_layout::PlacementMap;
use pario_posix::{Linux, OwnedRangeGuard, PlainFile, PlainOpenOptions};
use pario_trace::FileStats;
use pario_types::AccessTuning;
use pario_types::{ErrorKind, Offset, Pos, ServerId};
use pario_view::View;

use crate::client_cache::ClientCache;
use crate::env::env;
use crate::error::{Error, Result};
use crate::file_group::FileGroup;
use crate::file_name::FileName;
use crate::partition_backing::PartitionBacking;
use crate::placement;

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

/// The storage of an open file.
pub(crate) enum Storage {
    Plain(Arc<PlainFile>),
    Partition(PartitionFile),
}

/// An open file of a partition.
pub(crate) struct PartitionFile {
    partition: client::Partition,
    pub file: client::File,
    /// The tier 1 cache of this rank, if the file uses one.
    cache: Option<Arc<ClientCache>>,
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
            FileName::Plain(path) => Ok(Storage::Plain(Arc::new(open_plain(path, how)?))),
            FileName::Partition { partition, path } => {
                let mut options = client::OpenOptions::new();
                options
                    .read(how.read)
                    .write(how.write)
                    .create(how.create)
                    .create_new(how.exclusive)
                    .mode(how.mode & !umask());
                if let Some(striping) = &how.striping {
                    striping.unit.map(|unit| options.stripe(unit));
                    striping
                        .count
                        .map(|count| options.stripe_count(u16::try_from(count).unwrap_or(u16::MAX)));
                    striping
                        .first
                        .map(|first| options.first_server(u16::try_from(first).unwrap_or(u16::MAX)));
                }
                table.map(|table| options.table(table));
                let partition = partition_named(partition)?;
                let file = partition.open(path, &options)?;
                file.set_start(start);
                Ok(Storage::Partition(PartitionFile { partition, file, cache: None }))
            }
        }
    }

    /// Makes reads of replicated extents prefer the home server of this rank.
    pub fn read_near_home(&self, group: &FileGroup) {
        if let Storage::Partition(on) = self
            && on.file.layout().has_replicas()
            && let Some(home) = placement::home_server(group, &on.partition)
        {
            on.file.set_home(home);
        }
    }

    /// The placement table of a placed file.
    pub fn table(&self) -> Option<&PlacementMap> {
        match self {
            Storage::Plain(_) => None,
            Storage::Partition(on) => on.file.layout().table(),
        }
    }

    /// The server that keeps the shared file pointer of ranks on several nodes, if the file is on a partition.
    pub fn pointer_server(&self) -> Option<ServerId> {
        match self {
            Storage::Plain(_) => None,
            Storage::Partition(on) => on.file.layout().holders().next(),
        }
    }

    /// Removes a file.
    pub fn delete(name: &FileName) -> Result<()> {
        match name {
            FileName::Plain(path) => Ok(pario_posix::delete(path)?),
            FileName::Partition { partition, path } => Ok(partition_named(partition)?.remove_file(path)?),
        }
    }

    /// The plain file, or `None` for a file on a partition.
    pub fn plain(&self) -> Option<&Arc<PlainFile>> {
        match self {
            Storage::Plain(plain) => Some(plain),
            Storage::Partition(_) => None,
        }
    }

    /// Whether this process reaches the cached bytes of the file by shared memory.
    pub fn is_near(&self) -> bool {
        match self {
            Storage::Plain(_) => true,
            Storage::Partition(on) => on.file.is_local(),
        }
    }

    /// The team whose blocks of the file this process still caches from an earlier open.
    pub fn retained(&self) -> Option<u128> {
        match self {
            Storage::Plain(_) => None,
            Storage::Partition(on) => on.partition.tier1().retained(on.file.id()),
        }
    }

    /// Makes collective accesses use the ranks' tier 1 cache.
    pub fn set_client_cache(&mut self, cache: Option<Arc<ClientCache>>) {
        if let Storage::Partition(on) = self {
            on.cache = cache;
        }
    }

    /// The file for data shipping.
    pub fn backing(&self) -> Arc<dyn Backing> {
        match self {
            Storage::Plain(plain) => plain.clone(),
            Storage::Partition(on) => Arc::new(PartitionBacking(on.file.clone())),
        }
    }

    pub fn size(&self) -> Result<u64> {
        match self {
            Storage::Plain(plain) => Ok(plain.size()?),
            Storage::Partition(on) => Ok(on.file.len()?.max(on.reach())),
        }
    }

    pub fn set_size(&self, size: u64) -> Result<()> {
        match self {
            Storage::Plain(plain) => Ok(plain.set_size(size)?),
            Storage::Partition(on) => Ok(on.file.set_len(size)?),
        }
    }

    pub fn preallocate(&self, size: u64) -> Result<()> {
        match self {
            Storage::Plain(plain) => Ok(plain.preallocate(size)?),
            Storage::Partition(on) => Ok(on.file.reserve(size)?),
        }
    }

    pub fn sync(&self) -> Result<()> {
        match self {
            Storage::Plain(plain) => Ok(plain.sync()?),
            Storage::Partition(on) => {
                on.flush_cache()?;
                Ok(on.file.sync()?)
            }
        }
    }

    /// Prepares a change of the size: flushes the tier 1 cache to the servers and drops the blocks beyond the new
    /// size.
    pub fn prepare_resize(&self, size: u64) -> Result<()> {
        if let Storage::Partition(PartitionFile { cache: Some(cache), .. }) = self {
            cache.flush()?;
            cache.resize(size);
        }
        Ok(())
    }

    /// Stores what this rank wrote before the file is closed, and returns the error if that fails. `stays` is false if
    /// the file is deleted next.
    pub fn close(&self, wrote: bool, stays: bool, stats: &FileStats) -> Result<()> {
        match self {
            Storage::Plain(_) => Ok(()),
            Storage::Partition(on) => {
                let kept = on.cache.as_ref().map_or(Ok(()), |cache| cache.close(stays, stats));
                let stored = if wrote { on.file.flush().map_err(Error::from) } else { Ok(()) };
                kept.and(stored)
            }
        }
    }

    /// Reads bytes of a view into the program's memory. Returns the number of bytes before the end of the file.
    pub fn read(
        &self,
        view: &View,
        at: Pos,
        buffer: &UserBuffer,
        len: u64,
        tuning: &AccessTuning,
    ) -> Result<u64> {
        match self {
            Storage::Plain(plain) => Ok(plain.read(view, at, buffer, 0, len, tuning)?),
            Storage::Partition(on) => {
                let got = with_atomic_lock(&on.file, view, at, len, false, tuning, || {
                    Ok(on.file.read_user_buffer(view, at, buffer, 0, len)?)
                })?;
                Ok(on.read_beyond(view, at, buffer, got, len))
            }
        }
    }

    /// Writes bytes of the program's memory to a view.
    pub fn write(
        &self,
        view: &View,
        at: Pos,
        buffer: &UserBuffer,
        len: u64,
        tuning: &AccessTuning,
    ) -> Result<u64> {
        match self {
            Storage::Plain(plain) => Ok(plain.write(view, at, buffer, 0, len, tuning)?),
            Storage::Partition(on) => with_atomic_lock(&on.file, view, at, len, true, tuning, || {
                on.file.write_user_buffer(view, at, buffer, 0, len)?;
                Ok(len)
            }),
        }
    }

    /// Reads the parts of a window of a collective access, up to the end of the file. `owned`: no other rank accesses
    /// the window in collective calls, so it may be cached.
    pub fn read_window(&self, parts: &mut [(u64, &mut [u8])], owned: bool) -> Result<usize> {
        match self {
            Storage::Plain(plain) => {
                let mut done = 0;
                for (at, to) in parts {
                    let got = plain.read_window(Offset(*at), to)? as usize;
                    done += got;
                    if got < to.len() {
                        break;
                    }
                }
                Ok(done)
            }
            Storage::Partition(on) => match on.cache.as_ref().filter(|_| owned) {
                Some(cache) => cache.read(&on.partition, &on.file, parts),
                None => Ok(on.file.read_vectored_at(parts)?),
            },
        }
    }

    /// Writes the parts of a window. `locked`: the caller holds the lock of [`try_lock`](Storage::try_lock) on their
    /// ranges.
    pub fn write_window(
        &self,
        parts: &[(u64, &[u8])],
        locked: bool,
        owned: bool,
        tuning: &AccessTuning,
    ) -> Result<()> {
        match self {
            Storage::Plain(plain) => parts.iter().try_for_each(|(at, from)| {
                if locked {
                    Ok(plain.write_locked(Offset(*at), from)?)
                } else {
                    Ok(plain.write_bytes_tuned(Offset(*at), from, tuning)?)
                }
            }),
            Storage::Partition(on) => match on.cache.as_ref().filter(|_| owned) {
                Some(cache) => cache.write(&on.partition, &on.file, parts),
                None => Ok(on.file.write_vectored_at(parts)?),
            },
        }
    }

    pub fn is_hole(&self, range: Range<u64>) -> Result<bool> {
        match self {
            Storage::Plain(plain) => Ok(plain.is_hole(Offset(range.start)..Offset(range.end))?),
            Storage::Partition(_) => Ok(false),
        }
    }

    /// Locks a range for a read-modify-write. The result is `Some(None)` if the file system has no locks, and on a
    /// partition, where collective accesses do no read-modify-write.
    pub fn try_lock(&self, range: Range<u64>) -> Result<Option<Option<OwnedRangeGuard>>> {
        let Storage::Plain(plain) = self else { return Ok(Some(None)) };
        match plain.try_lock_owned(Offset(range.start)..Offset(range.end), true) {
            Ok(guard) => Ok(guard.map(Some)),
            Err(pario_posix::Error::NoLocks { .. }) => Ok(Some(None)),
            Err(e) => Err(e.into()),
        }
    }

    /// Notes that the ranks have written windows up to `end`.
    pub fn extend_written_end(&self, end: u64) {
        if let Storage::Partition(PartitionFile { cache: Some(cache), .. }) = self {
            cache.extend_written_end(end);
        }
    }
}

impl PartitionFile {
    /// Whether the partition allows ranks to cache blocks in their own memory.
    pub fn allows_tier1(&self) -> bool {
        self.partition.allows_tier1()
    }

    fn reach(&self) -> u64 {
        self.cache.as_ref().map_or(0, |cache| cache.reach())
    }

    fn flush_cache(&self) -> Result<()> {
        self.cache.as_ref().map_or(Ok(()), |cache| cache.flush())
    }

    /// Extends a read that ended at the servers' end of file with zeros, up to the end that the ranks have written.
    /// The servers have recalled all cached blocks of that range, so the rest of it is a hole.
    fn read_beyond(&self, view: &View, at: Pos, buffer: &UserBuffer, got: u64, len: u64) -> u64 {
        let reach = self.reach();
        if got == len || reach == 0 {
            return got;
        }
        let there = view.rank(Offset(reach)).0.saturating_sub(at.0).clamp(got, len);
        let zeros = [0; 4096];
        let mut done = got;
        while done < there {
            let here = (there - done).min(zeros.len() as u64);
            buffer.unpack(done, &zeros[..here as usize]);
            done += here;
        }
        there
    }
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

/// Runs `access`, in atomic mode under a lock on its range: an exclusive one for writes, a shared one for reads.
pub(crate) fn with_atomic_lock(
    file: &client::File,
    view: &View,
    at: Pos,
    len: u64,
    exclusive: bool,
    tuning: &AccessTuning,
    access: impl FnOnce() -> Result<u64>,
) -> Result<u64> {
    match view.bounds(at, len).filter(|_| tuning.atomic && len > 0) {
        None => access(),
        Some((first, end)) => {
            let lock = file.lock(first.0..end.0, exclusive)?;
            let moved = access()?;
            lock.unlock()?;
            Ok(moved)
        }
    }
}

/// The umask of this process.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o022)
}

fn open_plain(path: &Path, how: &PlainOpenOptions) -> Result<PlainFile> {
    Ok(match env().pretend {
        Some(fs) => PlainFile::open_with(path, how, Arc::new(Linux), Some(fs))?,
        None => PlainFile::open(path, how)?,
    })
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
    let partition = client::Partition::open_as_described(registry, name, options)?;
    known.insert(name.to_owned(), partition.clone());
    Ok(partition)
}
