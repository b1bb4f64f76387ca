//! The counters of agents and shippers. Each update is one relaxed atomic addition.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that only grows.
#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

macro_rules! counts {
    (
        $(#[doc = $about:literal])+
        $shown:ident, $kept:ident { $($(#[doc = $doc:literal])+ $name:ident,)+ }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $shown { $($(#[doc = $doc])+ pub $name: u64,)+ }

        #[derive(Default)]
        pub(crate) struct $kept { $(pub $name: Count,)+ }

        impl $kept {
            pub fn shown(&self) -> $shown {
                $shown { $($name: self.$name.get(),)+ }
            }
        }
    };
}

counts! {
    /// The counters of an agent.
    AgentCounts, AgentCounters {
        /// Requests served.
        requests,
        /// Bytes written for shippers.
        written,
        /// Bytes read for shippers.
        read,
        /// Requests that failed at the file.
        failures,
        /// Locks that it asked for: one in file-partitioning mode, for all its blocks.
        locks,
        /// Connections accepted.
        sessions,
        /// Connections ended because the peer did not know the secret or broke the protocol.
        refused,
    }
}

counts! {
    /// The counters of a shipper.
    ShipperCounts, ShipperCounters {
        /// Requests that were divided by the block map.
        requests,
        /// Requests that used the rank's own descriptor: atomic ones, those through a view that cannot be shipped, empty
        /// ones and invalid ones.
        direct,
        /// Messages sent to agents: requests with their data, and views.
        messages,
        /// Views among them.
        views,
        /// Bytes of requests to agents.
        shipped,
        /// Bytes of the blocks that this rank owns.
        home,
    }
}
