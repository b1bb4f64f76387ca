//! Waiting for other ranks.
//!
//! A waiting rank sleeps on its node's segment, so that other ranks can use the processor. If every rank of the node
//! has a processor of its own, the rank polls for a moment first. While it waits, the host MPI makes progress: the
//! rank that it waits for may itself wait for a message. Once a second it checks that the other ranks are alive.

use std::time::{Duration, Instant};

use pario_mpi_host::Comm;
use pario_two_phase::NodeSegment;
use pario_types::ErrorKind;

use crate::error::{Error, Result};
use crate::file_group::progress_all;

/// One wait for other ranks, which may sleep several times.
pub(crate) struct RankWait<'a> {
    node: &'a NodeSegment,
    pids: &'a [u32],
    /// Whether only ranks of this node are waited for.
    one_node: bool,
    /// The communicator of the group, if this thread may call the host MPI.
    comm: Option<Comm>,
    /// The time of polling before a sleep.
    spin: Duration,
    seen: u32,
    /// The time of the next check that the other ranks are alive.
    check: Option<Instant>,
}

/// The time of polling before a sleep, if there are enough processors. A wake-up takes about 50 microseconds on a
/// virtual machine, and a rank writes a few hundred KiB in less than this time.
const SPIN: Duration = Duration::from_micros(300);
/// The time of a sleep before the host MPI makes progress.
const SLEEP: Duration = Duration::from_millis(1);
/// The time of a sleep if messages of the host MPI are awaited.
const SHORT_SLEEP: Duration = Duration::from_micros(50);
/// The interval of the checks that the other ranks are alive.
const LIVENESS_INTERVAL: Duration = Duration::from_secs(1);

impl<'a> RankWait<'a> {
    pub fn new(node: &'a NodeSegment, pids: &'a [u32], one_node: bool, comm: Option<Comm>) -> RankWait<'a> {
        let spin = if pids.len() <= cores() { SPIN } else { Duration::ZERO };
        RankWait { node, pids, one_node, comm, spin, seen: node.event(), check: None }
    }

    /// Returns after a change on this node, or after a timeout.
    pub fn wait_for_change(&mut self) -> Result<()> {
        if !self.spin.is_zero() {
            self.spin();
        }
        if self.node.event() == self.seen {
            self.node.sleep(self.seen, if self.one_node { SLEEP } else { SHORT_SLEEP });
            if self.node.event() == self.seen {
                self.on_timeout()?;
            }
        }
        if self.node.is_broken() {
            return Err(RANK_DIED);
        }
        self.seen = self.node.event();
        Ok(())
    }

    fn spin(&self) {
        let begun = Instant::now();
        while begun.elapsed() < self.spin {
            for _ in 0..32 {
                if self.node.event() != self.seen {
                    return;
                }
                std::hint::spin_loop();
            }
        }
    }

    fn on_timeout(&mut self) -> Result<()> {
        if let Some(comm) = self.comm {
            comm.make_progress();
            progress_all();
        }
        let now = Instant::now();
        match self.check {
            Some(when) if now < when => return Ok(()),
            Some(_) if !self.pids.iter().all(|pid| pario_two_phase::is_alive(*pid)) => {
                self.node.mark_broken()
            }
            // The first timeout only sets the time of the check.
            Some(_) | None => {}
        }
        self.check = Some(now + LIVENESS_INTERVAL);
        Ok(())
    }
}

const RANK_DIED: Error =
    Error::Usage(ErrorKind::OtherRank, "another rank of this node died in the middle of a collective call");

fn cores() -> usize {
    static CORES: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *CORES.get_or_init(pario_two_phase::cores)
}
