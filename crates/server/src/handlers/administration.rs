//! Requests about the server itself: status, space, the set of servers, shutdown.

use std::time::Duration;

use pario_runtime::time::Instant;
use pario_wire::message::{
    NamespaceCounters, PoolStatus, Reply, Request, ServerStatus, StorageSpace, TrafficCounters,
};

use super::{Context, TaskState, TaskStep, done, wrong_family};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::metadata::MetadataService;

/// How often a `Shutdown` checks whether everything is stored.
const SHUTDOWN_POLL: Duration = Duration::from_millis(5);

pub(super) fn handle(context: &Context<'_>, request: &Request, state: &mut TaskState) -> Result<TaskStep> {
    let core = context.core;
    match request {
        Request::Ping if core.peers.are_known() => done(Reply::Done),
        Request::Ping => Err(Error::Starting),
        Request::StorageSpace => done(Reply::StorageSpace(core.storage_space()?)),
        Request::Status => done(Reply::Status(Box::new(core.status()?))),
        Request::SetServers { set } => {
            core.set_servers(set)?;
            done(Reply::Done)
        }
        Request::Shutdown => {
            let shutdown = state.shutdown.get_or_insert_with(|| core.shutdown.request());
            match shutdown.outcome() {
                None => Ok(TaskStep::WaitUntil(Instant::now() + SHUTDOWN_POLL)),
                Some(Ok(())) => done(Reply::Done),
                Some(Err(failure)) => done(Reply::Failed(failure)),
            }
        }
        _ => wrong_family(),
    }
}

impl Core {
    fn storage_space(&self) -> Result<StorageSpace> {
        let space = self.tier.store.room()?;
        Ok(StorageSpace { total: space.total, free: space.free, used: space.used, parts: space.parts })
    }

    fn status(&self) -> Result<ServerStatus> {
        let names = self.metadata.as_ref().map(|metadata| metadata.counts()).unwrap_or_default();
        let errors = self
            .metadata
            .as_ref()
            .and_then(MetadataService::snapshot_error)
            .into_iter()
            .chain(self.leases.log_error());
        Ok(ServerStatus {
            pid: pario_runtime::process::id(),
            started: self.counters.started,
            epoch: self.peers.epoch(),
            traffic: self.traffic(),
            pool: self.pool_status(),
            storage: self.counters.storage(),
            prefetches: self.tier.prefetches.counts(),
            names: NamespaceCounters {
                files: names.files,
                directories: names.directories,
                open_files: names.open_files,
            },
            leases: self.leases.status(),
            range_locks: self.locks.status(),
            space: self.storage_space()?,
            last_errors: errors.chain(self.counters.last_errors()).collect(),
        })
    }

    fn traffic(&self) -> TrafficCounters {
        let counters = &self.counters;
        let (sessions, local_sessions) = self.count_sessions();
        TrafficCounters {
            sessions,
            local_sessions,
            requests: counters.requests.get(),
            forwarded: counters.forwarded.get(),
            refused: counters.refused.get(),
            errors: counters.errors.get(),
            read_bytes: counters.read_bytes.get(),
            written_bytes: counters.written_bytes.get(),
        }
    }

    fn pool_status(&self) -> PoolStatus {
        let pool = self.tier.pool.counters();
        let geometry = self.tier.pool.geometry();
        let (high_water, low_water) = self.tier.pool.watermarks();
        PoolStatus {
            block: geometry.block,
            slots: geometry.slots,
            valid_slots: pool.valid,
            dirty_slots: pool.dirty,
            pinned_slots: pool.pinned,
            high_water,
            low_water,
            hits: pool.hits,
            misses: pool.misses,
            evictions: pool.evictions,
        }
    }
}
