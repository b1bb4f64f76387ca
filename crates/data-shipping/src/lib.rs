//! Data shipping for independent calls: whoever owns a block of the file makes all accesses to it.
//!
//! The blocks of a file are bound to *agents* round-robin ([`Map`]). An [`Agent`] is a few threads in a
//! rank's process that serve a socket; they never call MPI, so the program's own threads may do what they
//! like. A [`Shipper`] is a rank's other end: it takes the same arguments as a file, accesses the
//! blocks that its own rank owns, and ships the rest to the owners as (view, position, length) and
//! contiguous data. What kind of file it is ([`Backing`]) is the caller's choice.
//! The view goes over once per connection; both sides compute from view and map whose bytes are whose, so no
//! list of offsets ever travels. Pieces merge at the agent, which sieves in its own blocks undisturbed.
//!
//! In *file-partitioning* mode the agents lock the file once, for as long as they live, and then need no lock
//! per access. Somebody who locks ranges of the file for himself is kept out meanwhile.
//!
//! Three kinds of access are not shipped: those in atomic mode (they lock for themselves, so they are refused
//! in file-partitioning mode), those through a view whose offsets do not ascend, and those through a view too
//! large to send. The last two go to the rank's own descriptor; where they write in file-partitioning mode,
//! they are shipped contiguous piece by contiguous piece.
#![forbid(unsafe_code)]

mod address;
mod agent;
mod backing;
mod connection;
mod counts;
mod error;
mod frame;
mod map;
mod served;
mod session;
mod shipper;
mod stream;
mod voyage;

pub use address::{Address, ip_of_this_node};
pub use agent::{Agent, Service};
pub use backing::{Backing, Fault, Hold};
pub use counts::{AgentCounts, ShipperCounts};
pub use error::Error;
pub use map::Map;
pub use served::{Report, Served};
pub use shipper::{Shipper, Team};

use std::time::Duration;

/// Bounds of what agents and shippers do. All ranks of a file use the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most data bytes of one message, at most 4 MiB.
    pub frame: u64,
    /// How long a peer may stay silent in the middle of something before it counts as dead.
    pub deadline: Duration,
    /// Threads of an agent.
    pub threads: usize,
    /// Most connections of an agent.
    pub sessions: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { frame: 1 << 20, deadline: Duration::from_secs(120), threads: 4, sessions: 4096 }
    }
}
