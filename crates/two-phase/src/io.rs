//! The services that a collective access needs from its caller: file access, and messages to ranks of other
//! nodes.

use pario_types::ErrorKind;
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

/// File access and messages of one rank. No function waits for another rank.
pub trait CollectiveIo: NodeMessages {
    /// A lock on a range. Dropping it releases the lock.
    type Guard;

    /// The kind of an error, which the other ranks receive.
    fn kind(error: &Self::Error) -> ErrorKind;

    /// Reads parts of the file in ascending order, each given as an offset and memory. Returns the number
    /// of bytes before the end of the file.
    fn read(&mut self, parts: &mut [(u64, &mut [u8])]) -> Result<usize, Self::Error>;

    /// Writes parts of the file in ascending order. `locked` says that some rank holds a lock on these
    /// parts for this write.
    fn write(&mut self, parts: &[(u64, &[u8])], locked: bool) -> Result<(), Self::Error>;

    /// Returns true if the range is known to read as zeros because nothing was ever written to it.
    fn is_hole(&mut self, range: Range<u64>) -> Result<bool, Self::Error>;

    /// Locks a range against writers of other opens of the file. Returns `None` if the lock is not
    /// available at once.
    fn try_lock(&mut self, range: Range<u64>) -> Result<Option<Self::Guard>, Self::Error>;

    /// Performs the access of this rank by itself and returns the bytes moved.
    fn access_independently(&mut self, request: &AccessRequest) -> Result<u64, Self::Error>;

    /// The view whose hash another rank gave in its summary.
    fn view_of(&mut self, rank: u32, hash: u128) -> Result<Arc<View>, Self::Error>;
}
