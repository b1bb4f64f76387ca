//! What one collective access took.

use std::time::{Duration, Instant};

/// Counts of one access, on one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Windows that this rank read from or wrote to the file.
    pub windows: u64,
    /// Messages sent to other nodes.
    pub messages: u64,
    /// Bytes in them.
    pub message_bytes: u64,
    /// Bytes copied in memory.
    pub copied: u64,
    /// Windows that were read because they had holes.
    pub rmw: u64,
    /// Locks asked for.
    pub locks: u64,
    /// Time in file access.
    pub io: Duration,
}

impl Tally {
    /// Runs a file access and counts its time.
    pub(crate) fn timed<R>(&mut self, access: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = access();
        self.io += start.elapsed();
        result
    }
}
