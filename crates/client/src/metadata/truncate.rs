//! Sets a file's size on all its servers.
//!
//! The metadata server gives each truncation an id, every server of the file applies it, and the client then reports to the
//! metadata server that all have. If a step fails, the truncation may still be applied later: a message may be under way, or the
//! metadata server may complete it after this process is killed. So the client aborts it before it writes to the file again.
//! After the reply to the abort no server applies the truncation. Until then writes and syncs of the file fail.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pario_layout::PlacementMap;
use pario_runtime::sync::Mutex;
use pario_runtime::time::Instant;
use pario_types::{ErrorKind, FileId, TruncationId};
use pario_wire::{Reply, Request};

use crate::client_core::{ClientCore, unexpected};
use crate::error::{Error, Result};
use crate::metadata::open_file::OpenFile;
use crate::replicas::selection::to_lock;

/// The pause between attempts to truncate or open a file that is being truncated.
pub(crate) const PAUSE: Duration = Duration::from_millis(10);

/// Truncations of this client that failed and are not known to be over.
#[derive(Default)]
pub(crate) struct FailedTruncations {
    /// Their number, which is read before every write.
    count: AtomicUsize,
    /// Their files and ids; 0 where the metadata server did not answer.
    files: Mutex<BTreeMap<FileId, TruncationId>>,
}

impl FailedTruncations {
    /// Whether there are any, of any file.
    #[inline]
    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    fn get(&self, file: FileId) -> Option<TruncationId> {
        self.files.lock().get(&file).copied()
    }

    fn insert(&self, file: FileId, truncation: TruncationId) {
        let mut files = self.files.lock();
        files.insert(file, truncation);
        self.count.store(files.len(), Ordering::Relaxed);
    }

    fn remove(&self, file: FileId, truncation: TruncationId) {
        let mut files = self.files.lock();
        if files.get(&file) == Some(&truncation) {
            files.remove(&file);
        }
        self.count.store(files.len(), Ordering::Relaxed);
    }
}

impl ClientCore {
    /// Makes sure that no truncation which failed here is applied to the file any more. Fails if that cannot be known.
    #[inline]
    pub fn settle_truncation(&self, file: FileId) -> Result<()> {
        let is_skipped = pario_runtime::is_planted("failed-truncate-forgotten");
        if self.failed_truncations.is_empty() || is_skipped { Ok(()) } else { self.abort_truncation(file) }
    }

    #[cold]
    fn abort_truncation(&self, file: FileId) -> Result<()> {
        let Some(truncation) = self.failed_truncations.get(file) else { return Ok(()) };
        match self.call_metadata(&Request::AbortTruncate { file, truncation }) {
            Ok(_) => {
                self.failed_truncations.remove(file, truncation);
                Ok(())
            }
            Err(cause) => Err(Error::TruncationPending { file, cause: Box::new(cause) }),
        }
    }
}

impl OpenFile {
    /// Sets the size of the file. After an error it may have its old size, the new one, or be truncated on some of its
    /// servers; later writes stay.
    ///
    /// Replicas beyond the size are locked meanwhile. Otherwise a concurrent write could come before the truncation on one server and after it
    /// on another.
    pub fn set_len(&self, size: u64) -> Result<()> {
        let end = self.layout.table().filter(|_| self.layout.has_replicas()).map_or(0, PlacementMap::end);
        if size >= end {
            return self.truncate(size);
        }
        let removed = size..end;
        let lock = self.lock_replicas(&to_lock(vec![removed.clone()]), true)?;
        let truncated = self.truncate(size);
        let unlocked = self.unlock_replicas(lock, truncated.is_ok());
        truncated?;
        // The server of the lock was killed meanwhile, so others may have written.
        if unlocked? { Ok(()) } else { self.repair_range(removed, &[]) }
    }

    fn truncate(&self, size: u64) -> Result<()> {
        let (core, file) = (&self.core, self.file);
        let truncation = self.begin_truncate(size)?;
        let truncate = |server| {
            let end = self.layout.local_end(server, size);
            (server, Request::Truncate { file, end, truncation })
        };
        let requests: Vec<_> = self.layout.holders().map(truncate).collect();
        let applied = core.call_all(&requests);
        let ended = applied.and_then(|_| core.call_metadata(&Request::EndTruncate { file, truncation }));
        self.touch();
        ended.map(|_| ()).inspect_err(|_| self.truncate_failed(truncation))
    }

    fn begin_truncate(&self, size: u64) -> Result<TruncationId> {
        let (core, file) = (&self.core, self.file);
        let begin = Request::BeginTruncate { file, size };
        let deadline = Instant::now() + core.options.deadline;
        loop {
            match core.call_metadata(&begin) {
                Ok(Reply::Truncation { truncation }) => return Ok(truncation),
                Ok(reply) => return Err(unexpected(core.metadata, &begin, &reply)),
                Err(error) if error.kind() == ErrorKind::FileInUse => {
                    if Instant::now() >= deadline {
                        return Err(error);
                    }
                    pario_runtime::thread::sleep(PAUSE);
                }
                Err(error) => {
                    // It may have begun all the same, or begin later.
                    self.truncate_failed(TruncationId(0));
                    return Err(error);
                }
            }
        }
    }

    /// From now on no write to the file is allowed before the truncation is known to be over. Often that is known at once.
    fn truncate_failed(&self, truncation: TruncationId) {
        self.core.failed_truncations.insert(self.file, truncation);
        // If this fails, the next write tries again, and returns the error.
        let _ = self.core.settle_truncation(self.file);
    }
}
