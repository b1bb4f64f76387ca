//! The services that a collective access needs from its caller: the file, and messages to ranks of other
//! nodes.

use pario_file_backend::{BackendError, FileBackend, LockAttempt};
use pario_types::{AccessTuning, ErrorKind};
use pario_view::View;
use std::ops::Range;
use std::sync::Arc;

use crate::access::AccessRequest;

/// Messages of one rank to ranks of other nodes. No function waits.
pub trait NodeMessages {
    /// The error type.
    type Error;
    /// A message or an allgather in progress.
    type Transfer;

    /// Starts an allgather among the leaders of all nodes. Each leader contributes the words of its ranks
    /// and receives the words of all ranks, ordered by node and within a node by rank.
    fn allgather(&mut self, mine: &[u64]) -> Result<Self::Transfer, Self::Error>;

    /// Starts sending bytes to a rank.
    fn send(&mut self, to: u32, bytes: Vec<u8>) -> Result<Self::Transfer, Self::Error>;

    /// Starts receiving `len` bytes from a rank.
    fn receive(&mut self, from: u32, len: usize) -> Result<Self::Transfer, Self::Error>;

    /// Returns the received bytes once a transfer is complete. A completed send returns an empty vector.
    fn test(&mut self, transfer: &mut Self::Transfer) -> Result<Option<Vec<u8>>, Self::Error>;
}

/// The file of a collective access, and how this rank accesses its windows.
pub struct WindowFile<'a> {
    /// The open file.
    pub backend: &'a dyn FileBackend,
    /// The access to the file.
    pub tuning: AccessTuning,
    /// Whether only the aggregator of a domain accesses its windows, so that it may cache them.
    pub exclusive: bool,
}

impl WindowFile<'_> {
    /// Reads parts of the file in ascending order. Returns the number of bytes before the end of the file.
    pub(crate) fn read(&self, parts: &mut [(u64, &mut [u8])]) -> Result<usize, BackendError> {
        self.backend.read_window(parts, self.exclusive)
    }

    /// Writes parts of the file in ascending order. `locked` says that some rank holds a lock on these parts for this
    /// write.
    pub(crate) fn write(&self, parts: &[(u64, &[u8])], locked: bool) -> Result<(), BackendError> {
        self.backend.write_window(parts, locked, self.exclusive, &self.tuning)
    }

    /// Tries to lock a range against writers of other opens of the file. A file that no other process has open needs no
    /// lock.
    pub(crate) fn try_lock(&self, range: Range<u64>) -> Result<LockAttempt, BackendError> {
        if self.tuning.sole { Ok(LockAttempt::NotNeeded) } else { self.backend.try_lock(range) }
    }
}

/// The file and the messages of one rank. No function waits for another rank.
pub trait CollectiveIo: NodeMessages<Error: From<BackendError>> {
    /// The kind of an error, which the other ranks receive.
    fn kind(error: &Self::Error) -> ErrorKind;

    /// The file.
    fn file(&mut self) -> Result<WindowFile<'_>, Self::Error>;

    /// Performs the access of this rank by itself and returns the bytes moved.
    fn access_independently(&mut self, request: &AccessRequest) -> Result<u64, Self::Error>;

    /// The view whose hash another rank gave in its summary.
    fn view_of(&mut self, rank: u32, hash: u128) -> Result<Arc<View>, Self::Error>;
}
