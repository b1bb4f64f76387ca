//! [`FileBackend`] for files on a partition.
//!
//! Servers merge small writes and have no read-modify-write of windows, so windows need no locks here. In atomic mode
//! each access locks its range at the servers.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use pario_buffer::UserBuffer;
use pario_client as client;
use pario_domain::LockProtocol;
use pario_file_backend::{BackendError, CloseCounts, FileBackend, RangeLock, ServerTraffic, StorageFacts};
use pario_types::{AccessTuning, Offset, Pos};
use pario_view::View;

use crate::client_cache::ClientCache;

/// The range of all bytes that a file can have.
const ALL: Range<u64> = 0..i64::MAX as u64;

/// An open file of a partition.
pub struct PartitionFile {
    partition: client::Partition,
    file: client::File,
    /// The tier 1 cache of this rank, if the file uses one.
    cache: OnceLock<Arc<ClientCache>>,
}

fn to_backend(error: client::Error) -> BackendError {
    BackendError {
        kind: error.kind(),
        errno: Some(error.errno()).filter(|errno| *errno != 0),
        at: None,
        done: 0,
        text: error.to_string(),
    }
}

impl PartitionFile {
    /// A file of a partition that has just been opened, without a cache.
    pub fn new(partition: client::Partition, file: client::File) -> PartitionFile {
        PartitionFile { partition, file, cache: OnceLock::new() }
    }

    /// The partition.
    pub fn partition(&self) -> &client::Partition {
        &self.partition
    }

    /// The open file.
    pub fn file(&self) -> &client::File {
        &self.file
    }

    /// The team whose blocks of the file this process still caches from an earlier open.
    pub fn retained(&self) -> Option<u128> {
        self.partition.tier1().retained(self.file.id())
    }

    /// Makes collective accesses use a tier 1 cache. Called at most once.
    pub fn set_cache(&self, cache: Arc<ClientCache>) {
        self.cache.get_or_init(|| cache);
    }

    /// The end of the bytes that the ranks have written through the cache.
    fn reach(&self) -> u64 {
        self.cache.get().map_or(0, |cache| cache.reach())
    }

    /// Extends a read that ended at the servers' end of file with zeros, up to the end that the ranks have written.
    /// The servers have recalled all cached blocks of that range, so the rest of it is a hole.
    fn read_beyond(&self, view: &View, at: Pos, buf: &UserBuffer, buf_at: u64, got: u64, len: u64) -> u64 {
        let reach = self.reach();
        if got == len || reach == 0 {
            return got;
        }
        let there = view.rank(Offset(reach)).0.saturating_sub(at.0).clamp(got, len);
        let zeros = [0; 4096];
        let mut done = got;
        while done < there {
            let here = (there - done).min(zeros.len() as u64);
            buf.unpack(buf_at + done, &zeros[..here as usize]);
            done += here;
        }
        there
    }

    /// Runs `access`, in atomic mode under a lock on its range: an exclusive one for writes, a shared one for reads.
    fn with_atomic_lock(
        &self,
        view: &View,
        at: Pos,
        len: u64,
        exclusive: bool,
        tuning: &AccessTuning,
        access: impl FnOnce() -> client::Result<u64>,
    ) -> client::Result<u64> {
        match view.bounds(at, len).filter(|_| tuning.atomic && len > 0) {
            None => access(),
            Some((first, end)) => {
                let lock = self.file.lock(first.0..end.0, exclusive)?;
                let moved = access()?;
                lock.unlock()?;
                Ok(moved)
            }
        }
    }
}

impl FileBackend for PartitionFile {
    fn read(
        &self,
        view: &View,
        at: Pos,
        buf: &UserBuffer,
        buf_at: u64,
        len: u64,
        tuning: &AccessTuning,
    ) -> Result<u64, BackendError> {
        let access = || self.file.read_user_buffer(view, at, buf, buf_at, len);
        let got = self.with_atomic_lock(view, at, len, false, tuning, access).map_err(to_backend)?;
        Ok(self.read_beyond(view, at, buf, buf_at, got, len))
    }

    fn write(
        &self,
        view: &View,
        at: Pos,
        buf: &UserBuffer,
        buf_at: u64,
        len: u64,
        tuning: &AccessTuning,
    ) -> Result<u64, BackendError> {
        let access = || self.file.write_user_buffer(view, at, buf, buf_at, len).map(|()| len);
        self.with_atomic_lock(view, at, len, true, tuning, access).map_err(to_backend)
    }

    fn is_cached(&self, range: &Range<u64>) -> bool {
        self.file.is_at_hand(range.clone())
    }

    /// A failed prefetch counts as refused. The read that follows reports the error.
    fn prefetch(&self, ranges: &[Range<u64>]) -> usize {
        self.file.prefetch(ranges).unwrap_or(0)
    }

    fn release(&self, ranges: &[Range<u64>]) {
        let _ = self.file.forget(ranges);
    }

    fn read_window(&self, parts: &mut [(u64, &mut [u8])], exclusive: bool) -> Result<usize, BackendError> {
        match self.cache.get().filter(|_| exclusive) {
            Some(cache) => cache.read(&self.partition, &self.file, parts),
            None => self.file.read_vectored_at(parts),
        }
        .map_err(to_backend)
    }

    fn write_window(
        &self,
        parts: &[(u64, &[u8])],
        _: bool,
        exclusive: bool,
        _: &AccessTuning,
    ) -> Result<(), BackendError> {
        match self.cache.get().filter(|_| exclusive) {
            Some(cache) => cache.write(&self.partition, &self.file, parts),
            None => self.file.write_vectored_at(parts),
        }
        .map_err(to_backend)
    }

    fn lock_whole_file(&self) -> Result<Option<Box<dyn RangeLock>>, BackendError> {
        let lock = self.file.try_lock(ALL, false).map_err(to_backend)?;
        Ok(lock.map(|lock| -> Box<dyn RangeLock> { Box::new(PartitionLock(lock)) }))
    }

    fn size(&self) -> Result<u64, BackendError> {
        Ok(self.file.len().map_err(to_backend)?.max(self.reach()))
    }

    fn set_size(&self, size: u64) -> Result<(), BackendError> {
        self.file.set_len(size).map_err(to_backend)
    }

    fn preallocate(&self, size: u64) -> Result<(), BackendError> {
        self.file.reserve(size).map_err(to_backend)
    }

    /// Flushes the tier 1 cache to the servers and drops the blocks beyond the new size.
    fn prepare_resize(&self, size: u64) -> Result<(), BackendError> {
        if let Some(cache) = self.cache.get() {
            cache.flush().map_err(to_backend)?;
            cache.resize(size);
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), BackendError> {
        if let Some(cache) = self.cache.get() {
            cache.flush().map_err(to_backend)?;
        }
        self.file.sync().map_err(to_backend)
    }

    fn close(&self, wrote: bool, stays: bool) -> (CloseCounts, Result<(), BackendError>) {
        let (counts, kept) =
            self.cache.get().map_or((CloseCounts::default(), Ok(())), |cache| cache.close(stays));
        let stored = if wrote { self.file.flush() } else { Ok(()) };
        (counts, kept.and(stored).map_err(to_backend))
    }

    fn extend_written_end(&self, end: u64) {
        if let Some(cache) = self.cache.get() {
            cache.extend_written_end(end);
        }
    }

    fn facts(&self) -> StorageFacts {
        let layout = self.file.layout();
        let striping = layout.striping();
        StorageFacts {
            protocol: LockProtocol::Servers,
            local: false,
            memory: false,
            partition: true,
            placed: layout.table().is_some(),
            tier1: self.partition.access_defaults().tier1,
            near: false,
            block: striping.stripe(),
            stripe: striping.stripe(),
            servers: u32::from(striping.count()),
        }
    }

    fn requests_of_this_thread(&self) -> ServerTraffic {
        let client::RequestCounts { requests, bytes } = client::RequestCounts::by_this_thread();
        ServerTraffic { requests, bytes }
    }

    fn is_near(&self) -> bool {
        self.file.is_local()
    }
}

/// A lock on the whole file, at its first server.
struct PartitionLock(client::Lock);

impl RangeLock for PartitionLock {
    fn release(self: Box<Self>) -> Result<(), BackendError> {
        self.0.unlock().map_err(to_backend)
    }
}
