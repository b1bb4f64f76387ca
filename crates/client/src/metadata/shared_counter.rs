//! A number that programs share, kept by one of the servers.

use std::sync::Arc;

use pario_types::ServerId;
use pario_wire::message::CounterChange;
use pario_wire::{Reply, Request};

use crate::client_core::{ClientCore, unexpected};
use crate::error::Result;

/// A number that all who know its key share. It belongs to the client that sets it first, and is lost when that
/// client's connection breaks or the server ends: who uses it then gets an error.
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

    /// Makes it this; what it was before, 0 if it was not there.
    pub fn set(&self, value: u64) -> Result<u64> {
        self.change(CounterChange::Set(value))
    }

    /// Makes it so much more, modulo 2^64; what it was before.
    pub fn add(&self, more: u64) -> Result<u64> {
        self.change(CounterChange::Add(more.cast_signed()))
    }

    /// Ends it; it is no error if it is not there.
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
