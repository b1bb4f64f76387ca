//! The configuration of a server.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use pario_transport::HandshakeConfig;
use pario_types::{Epoch, PartitionId, ServerId};
use pario_wire::Secret;

/// The configuration of one server of a partition.
#[derive(Clone, Debug)]
pub struct Config {
    /// The partition.
    pub partition: PartitionId,
    /// The number of the server.
    pub server: ServerId,
    /// The number of servers in the partition.
    pub servers: u16,
    /// The version of the set of servers.
    pub epoch: Epoch,
    /// The metadata server.
    pub metadata: ServerId,
    /// The partition's secret, which clients have to know.
    pub secret: Secret,
    /// Whether TCP connections are encrypted. They are authenticated in any case.
    pub encryption: bool,
    /// Whether the partition has been up before: then its data must exist.
    pub made: bool,
    /// The directory of the store.
    pub directory: PathBuf,
    /// The directory of its socket and its pool, on a file system in memory.
    pub run_directory: PathBuf,
    /// The TCP address to listen on; `None`: only clients of this host can connect.
    pub listen: Option<(IpAddr, u16)>,
    /// The default bytes of a stripe.
    pub stripe: u64,
    /// The pool of blocks.
    pub pool: PoolConfig,
    /// The cache of views.
    pub views: ViewCacheConfig,
    /// The number of worker threads.
    pub workers: usize,
    /// Whether programs get equal shares of the workers; otherwise requests are served as they arrive.
    pub fair: bool,
    /// How long a client whose connection breaks keeps its files open, while its process runs.
    pub lease: Duration,
    /// The time after a recall within which a client has to yield, or it is cut off.
    pub grace: Duration,
    /// How long a request to another server may take.
    pub deadline: Duration,
    /// Faults for tests.
    pub faults: ServerFaults,
}

/// The size of the pool, and when the flusher runs.
#[derive(Clone, Copy, Debug)]
pub struct PoolConfig {
    /// Bytes of a block of the pool.
    pub block: u32,
    /// Bytes of the pool.
    pub bytes: u64,
    /// The number of dirty blocks at which the flusher begins.
    pub high_water: u32,
    /// The number of dirty blocks at which it stops.
    pub low_water: u32,
}

/// The limits of the cache of views.
#[derive(Clone, Copy, Debug)]
pub struct ViewCacheConfig {
    /// The largest number of cached views.
    pub most: usize,
    /// The largest number of bytes of cached views.
    pub bytes: usize,
}

/// Faults that tests inject into a server.
#[derive(Clone, Debug, Default)]
pub struct ServerFaults {
    /// A delay of every block that is read from storage or written to it.
    pub store_delay: Duration,
    /// A thread removes the file of its name in this directory and panics.
    pub panics: Option<PathBuf>,
}

impl Config {
    /// Panics if a test has requested it.
    pub(crate) fn panic_if_requested(&self, thread: &str) {
        if let Some(directory) = &self.faults.panics
            && pario_runtime::fs::remove_file(directory.join(thread)).is_ok()
        {
            panic!("a test has requested a panic of thread {thread}");
        }
    }

    /// The values that the handshake checks.
    pub(crate) fn handshake_config(&self) -> HandshakeConfig {
        HandshakeConfig {
            partition: self.partition,
            server: self.server,
            servers: self.servers,
            epoch: self.epoch,
            secret: self.secret.clone(),
            encryption: self.encryption,
        }
    }

    pub(crate) fn slots(&self) -> u32 {
        u32::try_from(self.pool.bytes / u64::from(self.pool.block)).unwrap_or(u32::MAX).max(16)
    }
}
