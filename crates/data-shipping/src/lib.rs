//! Data shipping for independent accesses: the rank that owns a block of the file performs all accesses to it.
//!
//! The blocks of a file are assigned to I/O agents round-robin ([`BlockMap`]). An [`Agent`] is a few threads in a rank's
//! process that serve a socket; they never call MPI, so the program's own threads are free. A [`Shipper`] is a rank's
//! client side: it takes the same arguments as a file, accesses the blocks of its own rank directly, and sends the rest
//! to their owners as (view, position, length) and contiguous data. The caller provides the file ([`FileBackend`](pario_file_backend::FileBackend)).
//! A view is sent once per connection. Both sides compute from the view and the map which bytes each agent owns, so no
//! list of offsets is sent. Pieces are merged at the agent, which sieves its own blocks without interference.
//!
//! In *file-partitioning* mode the agents lock the whole file once, for as long as they run, and need no lock per access.
//! Processes that lock ranges of the file are excluded in the meantime.
//!
//! Three kinds of access are not shipped: accesses in atomic mode (they take their own locks and are refused in
//! file-partitioning mode), accesses through a view whose offsets do not ascend, and accesses through a view too large
//! to send. The last two use the rank's own descriptor; writes of these kinds in file-partitioning mode are shipped one
//! contiguous piece at a time.
#![forbid(unsafe_code)]

mod address;
mod agent;
mod block_map;
mod connection;
mod counts;
mod error;
mod frame;
mod observer;
mod session;
mod shipped_access;
mod shipper;
mod socket;
mod stream;

pub use address::{AgentAddress, ip_of_this_node};
pub use agent::{Agent, AgentConfig};
pub use block_map::BlockMap;
pub use counts::{AgentCounts, ShipperCounts};
pub use error::Error;
pub use observer::{RequestObserver, ServedRequest};
pub use shipper::{Shipper, ShippingGroup};

use std::time::Duration;

/// Limits of agents and shippers. All ranks of a file use the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShippingLimits {
    /// Most data bytes of one message, at most 4 MiB.
    pub frame: u64,
    /// The time that a peer may stay silent within an operation before it counts as dead.
    pub deadline: Duration,
    /// Threads of an agent.
    pub threads: usize,
    /// Most connections of an agent.
    pub sessions: usize,
}

impl Default for ShippingLimits {
    fn default() -> ShippingLimits {
        ShippingLimits { frame: 1 << 20, deadline: Duration::from_secs(120), threads: 4, sessions: 4096 }
    }
}
