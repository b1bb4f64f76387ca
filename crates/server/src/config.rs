//! What a server has to know before it starts.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use pario_transport::HandshakeConfig;
use pario_types::{PartitionId, ServerId};
use pario_wire::Secret;

/// One server of one partition.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which partition.
    pub partition: PartitionId,
    /// Which server of it.
    pub server: ServerId,
    /// How many there are.
    pub servers: u16,
    /// Which of them keeps the name space.
    pub metadata: ServerId,
    /// What clients have to know.
    pub secret: Secret,
    /// Whether what goes over TCP is encrypted; that nobody can change it is certain either way.
    pub encryption: bool,
    /// Whether the partition has been up before: then its data has to be there.
    pub made: bool,
    /// Where its data goes.
    pub directory: PathBuf,
    /// Where its socket and its pool are; on a file system in memory.
    pub run_directory: PathBuf,
    /// The address to listen at for other hosts; `None`: only this host gets in.
    pub listen: Option<(IpAddr, u16)>,
    /// Bytes of a stripe, where a file's creator does not say.
    pub stripe: u64,
    /// Bytes of a block of the pool.
    pub block: u32,
    /// Bytes of the pool.
    pub cache: u64,
    /// Dirty blocks at which the flusher begins.
    pub high_water: u32,
    /// Dirty blocks at which it ends.
    pub low_water: u32,
    /// Views of clients that are kept.
    pub views: usize,
    /// Bytes of memory for them.
    pub view_bytes: usize,
    /// Threads that serve sessions.
    pub workers: usize,
    /// Whether programs are served in turn; else requests as they arrive.
    pub fair: bool,
    /// A client whose connection breaks while it lives keeps its files for this long.
    pub lease: Duration,
    /// A client that has leased blocks and does not give them up within this time after they were recalled is cut off.
    pub grace: Duration,
    /// How long a request to another server may take.
    pub deadline: Duration,
    /// Every block that is read from storage or written to it takes this much longer; for tests.
    pub store_delay: Duration,
    /// A thread for which this directory has a file of its name removes it and panics; for tests.
    pub panics: Option<PathBuf>,
}

impl Config {
    /// Panics if a test wants this thread to.
    pub(crate) fn panic_if_told(&self, thread: &str) {
        if let Some(directory) = &self.panics
            && std::fs::remove_file(directory.join(thread)).is_ok()
        {
            panic!("a test wants thread {thread} to panic");
        }
    }

    /// What a greeting has to say to get in.
    pub(crate) fn handshake_config(&self) -> HandshakeConfig {
        HandshakeConfig {
            partition: self.partition,
            server: self.server,
            servers: self.servers,
            secret: self.secret.clone(),
            encryption: self.encryption,
        }
    }

    pub(crate) fn slots(&self) -> u32 {
        u32::try_from(self.cache / u64::from(self.block)).unwrap_or(u32::MAX).max(16)
    }
}
