//! Counts of the work of one collective access.

use std::time::{Duration, Instant};

/// The work of one rank in one access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessCounters {
    /// Windows that this rank read from or wrote to the file.
    pub windows: u64,
    /// Messages sent to other nodes.
    pub messages: u64,
    /// Bytes in these messages.
    pub message_bytes: u64,
    /// Bytes copied in memory.
    pub copied: u64,
    /// Windows that were read before they were written because they had holes.
    pub rmw: u64,
    /// Lock requests.
    pub locks: u64,
    /// Time spent in file access.
    pub io: Duration,
}

impl AccessCounters {
    /// Runs a file access and adds its time.
    pub(crate) fn timed<R>(&mut self, access: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = access();
        self.io += start.elapsed();
        result
    }
}
