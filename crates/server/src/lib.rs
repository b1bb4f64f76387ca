//! A storage server of a partition: sessions with clients, a pool of blocks in shared memory over its store, and on the metadata
//! server the name space.
//!
//! | folder | contents |
//! |---|---|
//! | `event_loop` | worker threads, which wait in epoll and run sessions; the queue between programs |
//! | `sessions` | connections: handshake, records, the request and the reply under way |
//! | `handlers` | what each request does, by family |
//! | `pool` | blocks in shared memory over the store; space on the storage |
//! | `leases`, `locks` | leases of teams, byte-range locks, divergent replicas |
//! | `background` | the other threads: flusher, prefetcher, forwarders, reaper, and the closer, which shuts the server down |
//!
//! All threads sleep when there is nothing to do. A killed server leaves its pool; its successor adopts the pool, so acknowledged
//! writes survive.

#![deny(unsafe_code)]

mod background;
mod config;
mod core;
mod counters;
mod error;
mod event_loop;
mod handlers;
#[cfg(pario_simulation)]
mod invariants;
mod leases;
mod locks;
mod metadata;
mod pool;
mod server;
mod server_set;
mod sessions;
mod shared_counters;
#[allow(unsafe_code)]
#[cfg_attr(pario_simulation, path = "simulated/sys.rs")]
mod sys;
mod views;

pub use background::shutdown::ShutdownHandle;
pub use config::{Config, PoolConfig, ServerFaults, ViewCacheConfig};
pub use counters::log;
pub use error::{Error, Result};
pub use event_loop::worker_probe::WorkerProbe;
/// What the pool of a server that does not run holds.
pub use pario_cache::{Inspection, Leftover, inspect as inspect_pool};
pub use pool::pool_record::{note_retired_pool, unretired_pool};
pub use server::{Server, Started, abort_on_panic};
