//! The settings of streams, and the events to wait for.

use std::time::Duration;

/// The settings of a stream. A Unix stream uses only the buffer size.
#[derive(Clone, Copy, Debug)]
pub struct SocketOptions {
    /// Bytes of the system's buffers, in each direction; `None`: the system's default.
    pub buffer: Option<u32>,
    /// After this time of silence the peer's host is taken for dead.
    pub silence: Duration,
}

impl Default for SocketOptions {
    fn default() -> SocketOptions {
        SocketOptions { buffer: None, silence: Duration::from_secs(30) }
    }
}

/// The event to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// The stream is readable.
    Read,
    /// The stream is writable.
    Write,
    /// Either.
    Both,
}

/// The operations that are possible without waiting; neither, if the deadline passed first. An error or the end of the
/// stream counts as both: the next read or write reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Reading.
    pub read: bool,
    /// Writing.
    pub write: bool,
}
