//! The reaper, a thread of the metadata server: it removes the parts of removed files, and resolves truncations whose clients are gone
//! or have aborted them.

use std::time::Duration;

use pario_layout::Layout;
use pario_namespace::UnfinishedTruncation;
use pario_runtime::sync::MutexGuard;
use pario_runtime::time::Instant;
use pario_types::{FileId, ServerId, Stamp};
use pario_wire::Request;

use super::forwarders::PeerConnections;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::handlers::Task;
use crate::metadata::{Inner, MetadataService};

/// The largest number of removed files that the reaper takes at a time.
const BATCH: usize = 64;

/// How long the reaper waits after a failure, for instance while a server is unreachable.
const PAUSE: Duration = Duration::from_secs(2);

/// The reaper's work: truncations to resolve, and removed files whose parts are to be removed.
struct Work {
    truncations: Vec<UnfinishedTruncation>,
    removed: Vec<(FileId, Layout)>,
}

impl MetadataService {
    /// The main function of the reaper.
    pub fn run_reaper(&self, core: &Core) {
        let mut connections = PeerConnections::default();
        while let Some(work) = self.next_work() {
            core.config.panic_if_requested("reaper");
            let mut error = None;
            for unfinished in work.truncations {
                if let Err(e) = self.resolve(core, &mut connections, &unfinished) {
                    self.inner.lock().space.retry_truncation(unfinished.file);
                    error = Some(format!("resolving the truncation of file {}: {e}", unfinished.file));
                }
            }
            for (file, layout) in work.removed {
                let removed = remove_parts(core, &mut connections, file, &layout);
                if let Err(e) = removed.and_then(|()| self.forget_removed(file)) {
                    self.inner.lock().space.retry_orphan(file);
                    error = Some(format!("removing the stripes of removed files: {e}"));
                }
            }
            if let Some(error) = error {
                core.counters.record_error(error);
                self.pause();
            }
        }
    }

    /// Completes or fences a truncation on all servers of its file.
    fn resolve(
        &self,
        core: &Core,
        connections: &mut PeerConnections,
        unfinished: &UnfinishedTruncation,
    ) -> Result<()> {
        let UnfinishedTruncation { file, truncation, ref layout, complete } = *unfinished;
        for server in layout.holders() {
            let request = match complete {
                Some(size) => Request::Truncate { file, end: layout.local_end(server, size), truncation },
                None => Request::Fence { file, truncation },
            };
            execute(core, connections, server, request)?;
        }
        Ok(self.lock_running()?.space.truncation_resolved(file, truncation, Stamp::now())?)
    }

    /// Waits for work. `None` when the server ends.
    fn next_work(&self) -> Option<Work> {
        let mut inner = self.inner.lock();
        loop {
            if inner.stopped {
                return None;
            }
            let due = inner.expire(Instant::now());
            let truncations = inner.space.take_truncations();
            let removed = inner.space.take_orphans(BATCH);
            if !truncations.is_empty() || !removed.is_empty() {
                return Some(Work { truncations, removed });
            }
            match due {
                // Whether the wait timed out does not matter: the loop checks everything again.
                Some(due) => drop(self.changed.wait_until(&mut inner, due)),
                None => self.changed.wait(&mut inner),
            }
        }
    }

    fn forget_removed(&self, file: FileId) -> Result<()> {
        Ok(self.lock_running()?.space.reaped(file, Stamp::now())?)
    }

    /// The name space, unless the server has ended: the reaper may be late, and nothing is written after the end.
    fn lock_running(&self) -> Result<MutexGuard<'_, Inner>> {
        let inner = self.inner.lock();
        if inner.stopped { Err(Error::Ending) } else { Ok(inner) }
    }

    /// Waits for a while, but not beyond the end of the server.
    fn pause(&self) {
        let mut inner = self.inner.lock();
        let until = Instant::now() + PAUSE;
        while !inner.stopped && !self.changed.wait_until(&mut inner, until).timed_out() {}
    }
}

fn remove_parts(core: &Core, connections: &mut PeerConnections, file: FileId, layout: &Layout) -> Result<()> {
    for server in layout.holders() {
        execute(core, connections, server, Request::RemoveParts { files: vec![file] })?;
    }
    Ok(())
}

/// Executes a request about a part of a file on any server of the partition, also this one.
fn execute(core: &Core, connections: &mut PeerConnections, server: ServerId, request: Request) -> Result<()> {
    if server == core.config.server {
        Task::new(request).run_locally(core, core.config.deadline)
    } else {
        core.peers.call_as_server(connections, server, &request).map(|_| ())
    }
}
