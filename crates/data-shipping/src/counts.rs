//! What agents and shippers count: always, by one relaxed addition each.

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
    /// What an agent has done so far.
    AgentCounts, AgentCounters {
        /// Requests served.
        requests,
        /// Bytes written for others.
        written,
        /// Bytes read for others.
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
    /// What a shipper has done so far.
    ShipperCounts, ShipperCounters {
        /// Requests that went along the map.
        requests,
        /// Requests that went past the agents: atomic ones, those through a view that cannot be shipped,
        /// those of no bytes and those that no file can satisfy.
        direct,
        /// Messages sent to agents: requests with their data, and views.
        messages,
        /// Views among them.
        views,
        /// Bytes that agents were asked to move.
        shipped,
        /// Bytes of the blocks that this rank owns.
        home,
    }
}
