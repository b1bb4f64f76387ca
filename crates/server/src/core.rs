//! The state that all threads of a server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pario_transport::Listener;
use pario_wire::greeting::RETIRED_POOLS;

use crate::background::forwarders::Peers;
use crate::background::shutdown::ShutdownState;
use crate::config::Config;
use crate::counters::Counters;
use crate::error::Result;
use crate::event_loop::EventLoop;
use crate::leases::{Leases, PreviousLeases};
use crate::locks::RangeLocks;
use crate::locks::memory_losses::MemoryLosses;
use crate::metadata::MetadataService;
use crate::pool::PoolTier;
use crate::server_set::ServerSetRecord;
use crate::sessions::SessionTable;
use crate::shared_counters::SharedCounters;
use crate::views::ViewCache;

pub(crate) struct Core {
    pub config: Config,
    pub tier: PoolTier,
    /// Only on the metadata server.
    pub metadata: Option<MetadataService>,
    pub peers: Peers,
    pub counters: Counters,
    pub locks: RangeLocks,
    pub leases: Arc<Leases>,
    pub views: ViewCache,
    pub shared_counters: SharedCounters,
    pub event_loop: EventLoop,
    pub sessions: SessionTable,
    pub shutdown: Arc<ShutdownState>,
    pub stop: AtomicBool,
    /// Records changes of the set of servers.
    pub server_sets: ServerSetRecord,
}

impl Core {
    pub fn new(
        config: Config,
        tier: PoolTier,
        metadata: Option<MetadataService>,
        listeners: Vec<Listener>,
        retired: [u64; RETIRED_POOLS],
        previous: PreviousLeases,
        losses: MemoryLosses,
    ) -> Result<Core> {
        let event_loop = EventLoop::new(listeners)?;
        let block = u64::from(tier.pool.geometry().block);
        let log = (&*config.run_directory, tier.pool.mark());
        Ok(Core {
            leases: Leases::new(block, config.grace, Arc::clone(&event_loop.timers), previous, log),
            locks: RangeLocks::open(&config.directory, losses),
            peers: Peers::new(&config)?,
            views: ViewCache::new(config.views.most, config.views.bytes),
            shared_counters: SharedCounters::default(),
            sessions: SessionTable::new(config.handshake_config(), retired),
            config,
            tier,
            metadata,
            counters: Counters::new(),
            event_loop,
            shutdown: Arc::default(),
            stop: AtomicBool::new(false),
            server_sets: ServerSetRecord::default(),
        })
    }

    /// Ends all threads.
    pub fn stop_threads(&self) {
        self.stop.store(true, Ordering::Release);
        self.event_loop.wakeup.wake();
        self.tier.pool.wake();
        self.tier.prefetches.wake();
        self.peers.stop();
        self.shutdown.stop();
        if let Some(metadata) = &self.metadata {
            metadata.stop();
        }
    }
}
