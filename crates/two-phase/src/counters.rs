//! Counts of the work of one collective access.

use crate::io::WindowFile;
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
    /// Requests that window accesses of this rank sent to servers.
    pub server_requests: u64,
    /// Bytes in these requests.
    pub server_bytes: u64,
    /// Time spent in file access.
    pub io: Duration,
}

impl AccessCounters {
    /// Runs an access of this rank by itself and adds its time.
    pub(crate) fn timed<R>(&mut self, access: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = access();
        self.io += start.elapsed();
        result
    }

    /// Runs a file access and adds its time and its requests to servers.
    pub(crate) fn timed_file_access<R>(&mut self, file: &WindowFile<'_>, access: impl FnOnce() -> R) -> R {
        let before = file.backend.requests_of_this_thread();
        let result = self.timed(access);
        let sent = file.backend.requests_of_this_thread().since(before);
        self.server_requests += sent.requests;
        self.server_bytes += sent.bytes;
        result
    }
}
