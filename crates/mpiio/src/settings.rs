//! How collective accesses of a file are done, as hints and file system have it.

use std::sync::Arc;

use pario_domain::{
    AggregatorRequest, ConfigList, LockProtocol, PartitioningMethod, choose_aggregators, default_method,
};
use pario_hints::{Hints, Source, Toggle};
use pario_layout::Layout;
use pario_posix::FsKind;
use pario_two_phase::{CostEstimate, CostPrior, TransferStrategy, TwoPhaseSettings};
use pario_types::PrefetchLimits;

use crate::file_group::FileGroup;
use crate::storage::Storage;

/// What the ranks have to know alike about the file system; rank 0 tells the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StorageFacts {
    /// How it keeps writers apart.
    pub protocol: LockProtocol,
    /// Whether the bytes are in this host's page cache.
    pub local: bool,
    /// Whether it is memory, without a disk behind it.
    pub memory: bool,
    /// Whether it is no file system but a partition, whose servers merge what ranks write.
    pub partition: bool,
    /// Whether a plan says where its bytes are.
    pub placed: bool,
    /// Whether ranks may keep its blocks in their own memory.
    pub tier1: bool,
    /// Whether all ranks reach all of its servers' caches by shared memory.
    pub near: bool,
    /// Its block.
    pub block: u64,
    /// Bytes of a stripe, 0 if it has none.
    pub stripe: u64,
    /// How many servers, 0 if unknown.
    pub servers: u32,
}

impl StorageFacts {
    /// Of an open file.
    pub fn of(storage: &Storage) -> StorageFacts {
        let file = match storage {
            Storage::Plain(file) => file,
            Storage::Partition(on) => return StorageFacts::of_partition(on.file.layout(), on.allows_tier1()),
        };
        let fs = file.filesystem();
        let protocol = match fs.kind {
            FsKind::Lustre => LockProtocol::Servers,
            FsKind::Gpfs => LockProtocol::Tokens,
            _ => LockProtocol::Local,
        };
        let striping = file.striping();
        StorageFacts {
            protocol,
            local: fs.is_local(),
            memory: fs.kind == FsKind::Tmpfs,
            partition: false,
            placed: false,
            tier1: false,
            near: false,
            block: fs.block,
            stripe: striping.map_or(0, |s| s.unit),
            servers: striping.and_then(|s| s.count).unwrap_or(0),
        }
    }

    fn of_partition(layout: &Layout, tier1: bool) -> StorageFacts {
        let striping = layout.striping();
        StorageFacts {
            protocol: LockProtocol::Servers,
            local: false,
            memory: false,
            partition: true,
            placed: layout.table().is_some(),
            tier1,
            near: false,
            block: striping.stripe(),
            stripe: striping.stripe(),
            servers: u32::from(striping.count()),
        }
    }

    /// A stripe where there are any, else a block.
    fn lock_unit(&self) -> u64 {
        if self.stripe > 0 { self.stripe } else { self.block }
    }

    pub fn encode(self) -> [u64; 4] {
        let protocol = match self.protocol {
            LockProtocol::Local => 0,
            LockProtocol::Servers => 1,
            LockProtocol::Tokens => 2,
        };
        [
            protocol
                | u64::from(self.local) << 8
                | u64::from(self.memory) << 9
                | u64::from(self.partition) << 10
                | u64::from(self.placed) << 11
                | u64::from(self.tier1) << 12,
            self.block,
            self.stripe,
            u64::from(self.servers),
        ]
    }

    pub fn decode([kind, block, stripe, servers]: [u64; 4]) -> StorageFacts {
        let protocol = match kind & 0xff {
            1 => LockProtocol::Servers,
            2 => LockProtocol::Tokens,
            _ => LockProtocol::Local,
        };
        let [local, memory, partition, placed, tier1] = [8, 9, 10, 11, 12].map(|bit| kind & 1 << bit != 0);
        let near = false;
        StorageFacts {
            protocol,
            local,
            memory,
            partition,
            placed,
            tier1,
            near,
            block: block.max(1),
            stripe,
            servers: servers as u32,
        }
    }
}

/// The settings of both directions.
pub(crate) struct CollectiveSettings {
    pub read: Arc<TwoPhaseSettings>,
    pub write: Arc<TwoPhaseSettings>,
    /// The strategy's word where it goes through windows, for reports.
    pub word: &'static str,
    /// How blocks are kept in the ranks' memory, if they are.
    pub cache: Option<CacheSettings>,
}

/// The cache in the ranks' own memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheSettings {
    /// Bytes of each rank.
    pub bytes: u64,
    /// Bytes of a block; block `b` is at aggregator `b mod n`.
    pub block: u64,
    /// From and down to which percentage of unstored blocks these are stored at once.
    pub high: u8,
    pub low: u8,
}

/// On a local file system windows this large stay in the processor's cache between the copy into them and
/// the write of them.
const LOCAL_WINDOW: u64 = 512 << 10;

/// On a local file system pieces of this size are as cheap to access one by one.
const LOCAL_PIECE_READ: u64 = 8 << 10;
const LOCAL_PIECE_WRITE: u64 = 18 << 10;
const MEMORY_PIECE_WRITE: u64 = 16 << 10;

/// Elsewhere every call is a message, so windows pay until pieces are very large.
const REMOTE_PIECE: u64 = 4 << 20;

impl CollectiveSettings {
    pub fn new(hints: &Hints, facts: &StorageFacts, group: &FileGroup) -> CollectiveSettings {
        let uses_data_shipping = uses_data_shipping(hints);
        let cache = cache(hints, facts);
        let direction = |write: bool| {
            let (cb, wish) = if write {
                (hints.cb_write(), hints.fd_partition())
            } else {
                (hints.cb_read(), hints.fd_partition_read())
            };
            let aggregators = aggregators(hints, facts, group, uses_data_shipping, cache.is_some());
            let method = match wish.and_then(PartitioningMethod::from_name) {
                _ if cache.is_some() || uses_data_shipping && wish.is_none() => {
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
            (true, _) => "data-shipping",
            (false, Some(_)) => "client-directed",
            (false, None) => "two-phase",
        };
        CollectiveSettings { read: direction(false), write: direction(true), word, cache }
    }

    pub fn of(&self, write: bool) -> &Arc<TwoPhaseSettings> {
        if write { &self.write } else { &self.read }
    }
}

/// Whether the ranks' accesses are shipped to agents that own blocks.
pub(crate) fn uses_data_shipping(hints: &Hints) -> bool {
    hints.strategy() == "data-shipping" && !hints.largeblock_io()
}

/// The agents' blocks: whole blocks of the file system.
pub(crate) fn shipping_unit(hints: &Hints, facts: &StorageFacts) -> u64 {
    let block = facts.lock_unit();
    hints.io_buffer_size().unwrap_or(16 * block).next_multiple_of(block)
}

/// Guided prefetch goes by the file system's blocks, but a page is too little for a request to a disk.
const LEAST_PREFETCH: u64 = 64 << 10;

/// How far ahead of an agent's reads to prefetch. Unasked, a local file system is left to its own read-ahead: no
/// gain was measured there.
pub(crate) fn prefetch(hints: &Hints, facts: &StorageFacts) -> PrefetchLimits {
    let asked = hints.get("pario_max_acc").is_some_and(|(_, source)| source != Source::Default);
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

/// Whether and how ranks keep blocks of a partition's file: not if they are placed, so that they lie where they are used, and
/// not if the partition has it switched off. A cache means windows that aggregators own.
fn cache(hints: &Hints, facts: &StorageFacts) -> Option<CacheSettings> {
    let wanted = match (hints.strategy(), hints.tier1()) {
        (_, Toggle::Disable) => false,
        ("client-directed", _) | ("auto", Toggle::Enable) => true,
        ("auto", Toggle::Automatic) => !facts.near,
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

/// What the roads to a partition's servers cost about. Measurements soon take the place of these; they only warn
/// which road to try first.
fn prior(near: bool, tiered: bool) -> CostPrior {
    let guess = |start, byte, piece| CostEstimate { start, byte, piece };
    match (near, tiered) {
        // One copy into the servers' memory; or two, and a wait for each other.
        (true, true) => {
            CostPrior { independent: guess(5_000, 120, 3_000), two_phase: guess(40_000, 300, 4_000) }
        }
        (true, false) => {
            CostPrior { independent: guess(5_000, 120, 3_000), two_phase: guess(60_000, 400, 4_000) }
        }
        // All through the network while the ranks wait; or into memory, and through the network later.
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
        "independent" | "server-directed" => TransferStrategy::Independent,
        "two-phase" => TransferStrategy::TwoPhase,
        "client-directed" if facts.partition => TransferStrategy::TwoPhase,
        "data-shipping" if uses_data_shipping => TransferStrategy::TwoPhase,
        "data-shipping" => TransferStrategy::Independent,
        _ => match cb {
            Toggle::Enable => TransferStrategy::TwoPhase,
            Toggle::Disable => TransferStrategy::Independent,
            Toggle::Automatic if tiered && hints.tier1() == Toggle::Enable => TransferStrategy::TwoPhase,
            // What is placed lies near those who use it, whatever else is far.
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
    // Ranks of one node stand in for each other in shared memory, so on a local file system all may.
    let shared = facts.local || tiered && group.is_on_one_node();
    let list = match asked {
        true => list,
        false if cb_nodes.is_some() || shared => "*:*",
        false => "*:1",
    };
    let config = ConfigList::parse(list).unwrap_or_default();
    let servers = hints.striping_factor().or((facts.servers > 0).then_some(facts.servers));
    // Who keeps blocks has a lease of them, and does not meet others at a server's locks.
    let servers = if facts.local || tiered { None } else { servers };
    choose_aggregators(
        &group.node_map().node_of,
        &group.names,
        &AggregatorRequest { cb_nodes, config: &config, servers },
    )
}

/// The agents that the user named, those that exist; `None` if there are none.
pub(crate) fn agents(hints: &Hints, group: &FileGroup) -> Option<Vec<u32>> {
    let named: Vec<u32> = hints.agents()?.into_iter().filter(|rank| *rank < group.size).collect();
    (!named.is_empty()).then_some(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_survive_being_told() {
        for protocol in [LockProtocol::Local, LockProtocol::Servers, LockProtocol::Tokens] {
            for (local, memory) in [(true, true), (true, false), (false, false)] {
                let facts = StorageFacts {
                    protocol,
                    local,
                    memory,
                    partition: memory,
                    placed: local,
                    tier1: true,
                    near: false,
                    block: 4096,
                    stripe: 65536,
                    servers: 7,
                };
                assert_eq!(StorageFacts::decode(facts.encode()), facts);
            }
        }
    }
}
