//! The right to start a server again: its run directory, held by its supervisor.

use crate::message::ServerStart;
use crate::settings::run_base;
use crate::task::ServerInstance;
use pario_registry::Supervision;
use pario_runtime::time::Instant;
use pario_types::{ErrorKind, PartitionId, ServerId};
use std::path::PathBuf;
use std::time::Duration;

/// How long a server, or its supervisor, waits for the end of another in its place.
pub const PREDECESSOR: Duration = Duration::from_secs(5);

/// A server's run directory, held by its supervisor.
pub struct SupervisedRun {
    base: PathBuf,
    partition: PartitionId,
    server: ServerId,
    held: Supervision,
}

impl SupervisedRun {
    /// Becomes the server's supervisor. A supervisor that has no server, because none could be started, is ended.
    pub fn take(start: &ServerStart) -> Result<SupervisedRun, String> {
        let base = run_base(start.run_base.as_deref());
        let (partition, server) = (start.partition, start.server);
        let until = Instant::now() + PREDECESSOR;
        let held = loop {
            let dir = pario_registry::run_directory(&base, partition, server).map_err(|e| e.to_string())?;
            match Supervision::take(&dir, until.saturating_duration_since(Instant::now())) {
                Ok(held) if held.is_current() => break held,
                // A predecessor that just ended has removed the directory.
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::NoSuchFile && Instant::now() < until => {}
                Err(e) if e.kind() == ErrorKind::FileInUse => {
                    let whose = ServerInstance { run_base: Some(base.clone()), partition, server };
                    whose.end_supervisor().map_err(|why| format!("{e}: {why}"))?;
                }
                Err(e) => return Err(e.to_string()),
            }
        };
        Ok(SupervisedRun { base, partition, server, held })
    }

    /// Whether the run directory is still the server's: it goes when the partition goes down.
    pub fn is_current(&self) -> bool {
        self.held.is_current()
    }

    /// Ends the supervision.
    pub fn end(self) {
        self.held.give_up(&self.base, self.partition, self.server);
    }
}
