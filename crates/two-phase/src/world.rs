//! What the machine needs from outside: a file, and messages to ranks of other nodes.

use pario_types::ErrorKind;
use pario_view::View;
use std::ops::Range;
use std::sync::Arc;

use crate::access::Job;

/// The other nodes, as one rank reaches them. Nothing here waits.
pub trait Messages {
    /// What can go wrong.
    type Error;
    /// A message or an exchange under way.
    type Transfer;

    /// Starts an exchange between the leaders of all nodes: each brings the words of its ranks and gets those
    /// of all ranks, in the order of nodes and, within a node, of ranks.
    fn gather(&mut self, mine: &[u64]) -> Result<Self::Transfer, Self::Error>;

    /// Starts sending bytes to a rank.
    fn send(&mut self, to: u32, bytes: Vec<u8>) -> Result<Self::Transfer, Self::Error>;

    /// Starts receiving so many bytes from a rank.
    fn receive(&mut self, from: u32, len: usize) -> Result<Self::Transfer, Self::Error>;

    /// What has arrived, or the empty vector for a send, once the transfer is done.
    fn test(&mut self, transfer: &mut Self::Transfer) -> Result<Option<Vec<u8>>, Self::Error>;
}

/// The file, and the other nodes. Nothing here waits for another rank.
pub trait World: Messages {
    /// A lock on a range, released when dropped.
    type Guard;

    /// The kind of an error, which the other ranks are told.
    fn kind(error: &Self::Error) -> ErrorKind;

    /// Reads parts of the file, which are in order, each an offset and memory. How many bytes there were before the first
    /// that lies beyond the file's end.
    fn read(&mut self, parts: &mut [(u64, &mut [u8])]) -> Result<usize, Self::Error>;

    /// Writes parts of the file, which are in order, all of them. `locked`: they are locked, by some rank, for this write.
    fn write(&mut self, parts: &[(u64, &[u8])], locked: bool) -> Result<(), Self::Error>;

    /// Whether nothing was ever written in a range, so that it is known to read as zeros.
    fn is_hole(&mut self, range: Range<u64>) -> Result<bool, Self::Error>;

    /// Locks a range against writers of other opens of the file, if that can be had at once.
    fn try_lock(&mut self, range: Range<u64>) -> Result<Option<Self::Guard>, Self::Error>;

    /// Does this rank's access by itself; returns the bytes moved.
    fn direct(&mut self, job: &Job) -> Result<u64, Self::Error>;

    /// The view that another rank named in its claim.
    fn view_of(&mut self, rank: u32, hash: u128) -> Result<Arc<View>, Self::Error>;
}
