//! The status that a server reports. Counters count from its start.

use pario_types::{Epoch, Stamp};

use crate::codec::records;

/// The state of a server and what it has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerStatus {
    pub pid: u32,
    pub started: Stamp,
    /// The version of the set of servers that it knows.
    pub epoch: Epoch,
    pub traffic: TrafficCounters,
    pub pool: PoolStatus,
    pub storage: StorageCounters,
    pub prefetches: PrefetchCounters,
    /// Zeros on all servers but the metadata server.
    pub names: NamespaceCounters,
    pub leases: LeaseCounters,
    pub range_locks: RangeLockCounters,
    pub space: StorageSpace,
    /// The last errors, newest first.
    pub last_errors: Vec<String>,
}

/// Connections and requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficCounters {
    pub sessions: u32,
    /// The sessions that have mapped the pool.
    pub local_sessions: u32,
    pub requests: u64,
    pub forwarded: u64,
    pub refused: u64,
    pub errors: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// The pool and its use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStatus {
    pub block: u32,
    pub slots: u32,
    pub valid_slots: u32,
    pub dirty_slots: u32,
    pub pinned_slots: u32,
    pub high_water: u32,
    pub low_water: u32,
    pub hits: u64,
    pub misses: u64,
    pub evictions: u64,
}

/// Transfers between the pool and the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StorageCounters {
    pub flushed_blocks: u64,
    pub flush_errors: u64,
    pub filled_blocks: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub damaged: u64,
}

/// Ranges that clients have prefetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefetchCounters {
    pub taken: u64,
    pub refused: u64,
    /// Taken ranges that were read or cancelled, or whose client has disconnected.
    pub released: u64,
    /// Blocks that the server loaded into the pool for them.
    pub loaded_blocks: u64,
    /// Blocks that were loaded when their client read them.
    pub hits: u64,
    /// Blocks that the server holds now, or will hold.
    pub kept_blocks: u32,
}

/// The contents of the name space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamespaceCounters {
    pub files: u64,
    pub directories: u64,
    pub open_files: u64,
}

/// Leases at a server and their traffic: requests for leases, and accesses to files that have some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseCounters {
    pub teams: u32,
    pub mailboxes: u32,
    pub requests: u64,
    pub grants: u64,
    /// Leases that conflicted with a request when it arrived.
    pub conflicts: u64,
    pub revocations: u64,
    /// Requests that had to wait.
    pub waits: u64,
    /// Mailboxes that did not yield in time.
    pub cut_off: u64,
}

/// The traffic of byte-range locks, which atomic accesses take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeLockCounters {
    pub requests: u64,
    pub grants: u64,
    /// Locks that conflicted with a request when it arrived.
    pub conflicts: u64,
    /// Requests that had to wait.
    pub waits: u64,
}

/// The space on a server's storage, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StorageSpace {
    pub total: u64,
    pub free: u64,
    /// Bytes in this server's parts of files.
    pub used: u64,
    /// The number of these parts.
    pub parts: u64,
}

records! {
    ServerStatus {
        pid: u32,
        started: Stamp,
        epoch: Epoch,
        traffic: TrafficCounters,
        pool: PoolStatus,
        storage: StorageCounters,
        prefetches: PrefetchCounters,
        names: NamespaceCounters,
        leases: LeaseCounters,
        range_locks: RangeLockCounters,
        space: StorageSpace,
        last_errors: Vec<String>,
    }
    TrafficCounters {
        sessions: u32,
        local_sessions: u32,
        requests: u64,
        forwarded: u64,
        refused: u64,
        errors: u64,
        read_bytes: u64,
        written_bytes: u64,
    }
    PoolStatus {
        block: u32,
        slots: u32,
        valid_slots: u32,
        dirty_slots: u32,
        pinned_slots: u32,
        high_water: u32,
        low_water: u32,
        hits: u64,
        misses: u64,
        evictions: u64,
    }
    StorageCounters {
        flushed_blocks: u64,
        flush_errors: u64,
        filled_blocks: u64,
        read_bytes: u64,
        written_bytes: u64,
        damaged: u64,
    }
    PrefetchCounters { taken: u64, refused: u64, released: u64, loaded_blocks: u64, hits: u64, kept_blocks: u32 }
    NamespaceCounters { files: u64, directories: u64, open_files: u64 }
    LeaseCounters {
        teams: u32,
        mailboxes: u32,
        requests: u64,
        grants: u64,
        conflicts: u64,
        revocations: u64,
        waits: u64,
        cut_off: u64,
    }
    RangeLockCounters { requests: u64, grants: u64, conflicts: u64, waits: u64 }
    StorageSpace { total: u64, free: u64, used: u64, parts: u64 }
}
