//! A storage server of a partition: sessions with clients, a pool of blocks in shared memory over its store, and on
//! one server the name space.
//!
//! Threads: a few *workers* that wait in epoll and let sessions go on, of each program in turn ([`core`], [`fair_queue`],
//! [`session`], [`apply`]); the
//! *flusher* ([`flush`]); the *prefetcher* ([`prefetch`]); *forwarders* for requests that are meant for another server ([`peers`]); on the metadata
//! server the *reaper* ([`names`]). All of them sleep when there is nothing to do.
//!
//! A server that is killed leaves its pool behind. Whoever starts it again adopts the pool, so that what was only
//! there is not lost.

#![deny(unsafe_code)]

mod admission;
mod apply;
mod config;
mod core;
mod divergence_log;
mod divergent_replicas;
mod ending;
mod error;
mod fair_queue;
mod flush;
mod leases;
mod locks;
mod names;
mod payload;
mod peers;
mod pieces;
mod pool_record;
mod prefetch;
mod pulse;
mod room;
mod session;
mod shared_counters;
mod start;
mod status;
#[allow(unsafe_code)]
mod sys;
mod tier;
mod timers;
mod truncate;
mod views;

pub use config::Config;
pub use ending::Ender;
pub use error::{Error, Result};
/// What the pool of a server that does not run holds.
pub use pario_cache::{Inspection, Leftover, inspect as inspect_pool};
pub use pool_record::{note_retired_pool, unretired_pool};
pub use pulse::Pulse;
pub use start::{Server, Started, fail_as_a_process};
pub use status::log;
