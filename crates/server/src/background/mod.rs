//! The threads of a server besides its workers.

pub(crate) mod flusher;
pub(crate) mod forwarders;
pub(crate) mod prefetcher;
pub(crate) mod reaper;
pub(crate) mod shutdown;
