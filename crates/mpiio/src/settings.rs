//! The settings of collective accesses, derived from hints and from facts about the storage.

use std::sync::Arc;

use pario_client::TierOptions;
use pario_domain::{AggregatorRequest, ConfigList, PartitioningMethod, choose_aggregators, default_method};
use pario_file_backend::StorageFacts;
use pario_hints::{HintSource, Hints};
use pario_two_phase::{CostEstimate, CostPrior, TransferStrategy, TwoPhaseSettings};
use pario_types::{PrefetchLimits, Strategy, Toggle};

use crate::file_group::FileGroup;

/// The settings of collective reads and writes.
pub(crate) struct CollectiveSettings {
    pub read: Arc<TwoPhaseSettings>,
    pub write: Arc<TwoPhaseSettings>,
    /// The name of the strategy with aggregators, for reports.
    pub word: &'static str,
    /// The settings of the tier 1 cache, if the file uses it.
    pub cache: Option<CacheSettings>,
}

/// The settings of the cache in the ranks' own memory (tier 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheSettings {
    /// The bytes of cache on each rank.
    pub bytes: u64,
    /// The bytes of a block. Aggregator `b mod n` caches block `b`.
    pub block: u64,
    /// The high and low watermark of dirty blocks, in percent.
    pub high: u8,
    pub low: u8,
}

impl CacheSettings {
    /// The options of the client cache.
    pub fn tier_options(&self) -> TierOptions {
        let CacheSettings { bytes, block, high, low } = *self;
        TierOptions { bytes, block, high, low, ..TierOptions::default() }
    }
}

/// The largest window on a local file system. Windows of this size stay in the processor's cache between the copy into
/// them and the write.
const LOCAL_WINDOW: u64 = 512 << 10;

/// On a local file system, independent access is as fast as aggregation for pieces of this size.
const LOCAL_PIECE_READ: u64 = 8 << 10;
const LOCAL_PIECE_WRITE: u64 = 18 << 10;
const MEMORY_PIECE_WRITE: u64 = 16 << 10;

/// On a remote file system every call is a message, so aggregation pays until pieces are very large.
const REMOTE_PIECE: u64 = 4 << 20;

impl CollectiveSettings {
    pub fn new(hints: &Hints, facts: &StorageFacts, group: &FileGroup) -> CollectiveSettings {
        let uses_data_shipping = uses_data_shipping(hints);
        let cache = cache(hints, facts);
        let direction = |write: bool| {
            let (cb, requested) = if write {
                (hints.cb_write(), hints.fd_partition())
            } else {
                (hints.cb_read(), hints.fd_partition_read())
            };
            let aggregators = aggregators(hints, facts, group, uses_data_shipping, cache.is_some());
            let method = match requested {
                _ if cache.is_some() || uses_data_shipping && requested.is_none() => {
                    PartitioningMethod::StaticCyclic
                }
                Some(method) => method,
                None => default_method(facts.protocol, write),
            };
            let window = hints.cb_buffer_size().min(group.capacity());
            let piece = match (write, facts.memory) {
                (true, true) => MEMORY_PIECE_WRITE,
                (true, false) => LOCAL_PIECE_WRITE,
                (false, _) => LOCAL_PIECE_READ,
            };
            Arc::new(TwoPhaseSettings {
                strategy: strategy(hints, cb, uses_data_shipping, facts, cache.is_some()),
                method,
                unit: if uses_data_shipping { shipping_unit(hints, facts) } else { unit(hints, facts) },
                servers: hints.striping_factor().unwrap_or(facts.servers).max(1),
                window: if facts.local || cache.is_some() { window.min(LOCAL_WINDOW) } else { window },
                aggregators,
                large_piece: if facts.local { piece } else { REMOTE_PIECE },
                single_writer: facts.local,
                exclusive_domains: cache.is_some(),
            })
        };
        let word = match (uses_data_shipping, &cache) {
            (true, _) => Strategy::DataShipping.name(),
            (false, Some(_)) => Strategy::ClientDirected.name(),
            (false, None) => Strategy::TwoPhase.name(),
        };
        CollectiveSettings { read: direction(false), write: direction(true), word, cache }
    }

    pub fn of(&self, write: bool) -> &Arc<TwoPhaseSettings> {
        if write { &self.write } else { &self.read }
    }
}

/// Whether accesses go to I/O agents that own blocks.
pub(crate) fn uses_data_shipping(hints: &Hints) -> bool {
    hints.strategy() == Strategy::DataShipping && !hints.largeblock_io()
}

/// The size of the agents' blocks: a multiple of the file system's block size.
pub(crate) fn shipping_unit(hints: &Hints, facts: &StorageFacts) -> u64 {
    let block = facts.lock_unit();
    hints.io_buffer_size().unwrap_or(16 * block).next_multiple_of(block)
}

/// The smallest block of guided prefetch. A page of a file system would be too small for a disk request.
const LEAST_PREFETCH: u64 = 64 << 10;

/// The limits of prefetching for an agent's reads. On a local file system prefetching is off unless a hint asks for
/// it: measurements showed no gain over the kernel's read-ahead.
pub(crate) fn prefetch(hints: &Hints, facts: &StorageFacts) -> PrefetchLimits {
    let asked = hints.get("pario_max_acc").is_some_and(|(_, source)| source != HintSource::Default);
    if facts.local && !asked {
        return PrefetchLimits::OFF;
    }
    PrefetchLimits {
        block: facts.lock_unit().max(LEAST_PREFETCH),
        max_pre: hints.max_pre() as usize,
        max_acc: hints.max_acc() as usize,
    }
}

fn unit(hints: &Hints, facts: &StorageFacts) -> u64 {
    hints.striping_unit().unwrap_or(facts.lock_unit()).max(1)
}

/// The tier 1 settings of a partition's file. A placed file has no tier 1 cache, because its bytes lie where they are
/// used. A cache implies that aggregators own their windows.
fn cache(hints: &Hints, facts: &StorageFacts) -> Option<CacheSettings> {
    let wanted = match (hints.strategy(), hints.tier1()) {
        (_, Toggle::Disable) => false,
        (Strategy::ClientDirected, _) | (Strategy::Auto, Toggle::Enable) => true,
        (Strategy::Auto, Toggle::Automatic) => !facts.near,
        _ => false,
    };
    let (bytes, high, low) = hints.tier1_size();
    let block = facts.stripe.max(1);
    (facts.partition && facts.tier1 && !facts.placed && wanted).then_some(CacheSettings {
        bytes: bytes.max(2 * block),
        block,
        high,
        low: low.min(high),
    })
}

/// Estimates of the costs of accesses to a partition's servers. They choose the strategy of the first accesses;
/// measurements replace them soon.
fn prior(near: bool, tiered: bool) -> CostPrior {
    let guess = |start, byte, piece| CostEstimate { start, byte, piece };
    match (near, tiered) {
        // Independent: one copy into the servers' memory. Aggregated: two copies and a wait for other ranks.
        (true, true) => {
            CostPrior { independent: guess(5_000, 120, 3_000), two_phase: guess(40_000, 300, 4_000) }
        }
        (true, false) => {
            CostPrior { independent: guess(5_000, 120, 3_000), two_phase: guess(60_000, 400, 4_000) }
        }
        // Independent: through the network while the ranks wait. Aggregated with a cache: into memory, and through the
        // network later.
        (false, true) => {
            CostPrior { independent: guess(300_000, 1_000, 8_000), two_phase: guess(100_000, 500, 4_000) }
        }
        (false, false) => {
            CostPrior { independent: guess(300_000, 1_000, 8_000), two_phase: guess(400_000, 1_200, 4_000) }
        }
    }
}

fn strategy(
    hints: &Hints,
    cb: Toggle,
    uses_data_shipping: bool,
    facts: &StorageFacts,
    tiered: bool,
) -> TransferStrategy {
    match hints.strategy() {
        Strategy::Independent | Strategy::ServerDirected => TransferStrategy::Independent,
        Strategy::TwoPhase => TransferStrategy::TwoPhase,
        Strategy::ClientDirected if facts.partition => TransferStrategy::TwoPhase,
        Strategy::DataShipping if uses_data_shipping => TransferStrategy::TwoPhase,
        Strategy::DataShipping => TransferStrategy::Independent,
        Strategy::Auto | Strategy::ClientDirected => match cb {
            Toggle::Enable => TransferStrategy::TwoPhase,
            Toggle::Disable => TransferStrategy::Independent,
            Toggle::Automatic if tiered && hints.tier1() == Toggle::Enable => TransferStrategy::TwoPhase,
            // A placed file is stored near the ranks that use it, even if other servers are far.
            Toggle::Automatic if facts.partition => {
                TransferStrategy::CostBased(prior(facts.near || facts.placed, tiered))
            }
            Toggle::Automatic => TransferStrategy::Auto,
        },
    }
}

fn aggregators(
    hints: &Hints,
    facts: &StorageFacts,
    group: &FileGroup,
    uses_data_shipping: bool,
    tiered: bool,
) -> Vec<u32> {
    if uses_data_shipping && let Some(agents) = agents(hints, group) {
        let mut distinct = agents;
        distinct.sort_unstable();
        distinct.dedup();
        return distinct;
    }
    let cb_nodes = hints.cb_nodes();
    let (list, asked) = hints.cb_config_list();
    // On a local file system all ranks of a node may be aggregators, because they share memory.
    let shared = facts.local || tiered && group.is_on_one_node();
    let list = match asked {
        true => list,
        false if cb_nodes.is_some() || shared => "*:*",
        false => "*:1",
    };
    let config = ConfigList::parse(list).unwrap_or_default();
    let servers = hints.striping_factor().or((facts.servers > 0).then_some(facts.servers));
    // An aggregator that caches blocks has leases on them, so aggregators do not compete for a server's locks.
    let servers = if facts.local || tiered { None } else { servers };
    choose_aggregators(
        &group.node_map().node_of,
        &group.names,
        &AggregatorRequest { cb_nodes, config: &config, servers },
    )
}

/// The agents that the hint names, without ranks that do not exist; `None` if none remain.
pub(crate) fn agents(hints: &Hints, group: &FileGroup) -> Option<Vec<u32>> {
    let named: Vec<u32> = hints.agents()?.into_iter().filter(|rank| *rank < group.size).collect();
    (!named.is_empty()).then_some(named)
}
