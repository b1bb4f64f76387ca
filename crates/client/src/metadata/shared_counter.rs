//! A counter that programs share, on one of the servers.

use std::sync::Arc;

use pario_types::ServerId;
use pario_wire::message::CounterChange;
use pario_wire::{Reply, Request};

use crate::client_core::{ClientCore, unexpected};
use crate::error::Result;

/// A counter that all processes with its key share. It belongs to the client that sets it first, and is lost when that
/// client's connection breaks or the server ends: then every use of it fails.
#[derive(Clone)]
pub struct Counter {
    core: Arc<ClientCore>,
    server: ServerId,
    key: u128,
}

impl Counter {
    pub(crate) fn new(core: &Arc<ClientCore>, server: ServerId, key: u128) -> Counter {
        Counter { core: Arc::clone(core), server, key }
    }

    /// Sets the counter; returns its value before, 0 if it did not exist.
    pub fn set(&self, value: u64) -> Result<u64> {
        self.change(CounterChange::Set(value))
    }

    /// Adds to the counter, modulo 2^64; returns its value before.
    pub fn add(&self, more: u64) -> Result<u64> {
        self.change(CounterChange::Add(more.cast_signed()))
    }

    /// Removes the counter; it is no error if it does not exist.
    pub fn remove(&self) -> Result<()> {
        self.change(CounterChange::Drop).map(|_| ())
    }

    fn change(&self, change: CounterChange) -> Result<u64> {
        let request = Request::Counter { key: self.key, change };
        match self.core.call(self.server, &request)? {
            Reply::Counted { before } => Ok(before),
            reply => Err(unexpected(self.server, &request, &reply)),
        }
    }
}

impl std::fmt::Debug for Counter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counter")
            .field("server", &self.server)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
