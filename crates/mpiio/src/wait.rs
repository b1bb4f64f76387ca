//! Waiting for other ranks.
//!
//! A waiting rank sleeps on its node's segment, so that other ranks can use the processor. If every rank of the node
//! has a processor of its own, the rank polls for a moment first. While it waits, the host MPI makes progress: the
//! rank that it waits for may itself wait for a message. Once a second it checks that the other ranks are alive, and
//! whether it is time to report which ranks have not come.

use std::time::{Duration, Instant};

use pario_activity::CollectiveCall;
use pario_mpi_host::Comm;
use pario_two_phase::NodeSegment;
use pario_types::ErrorKind;

use crate::error::{Error, Result};
use crate::file_group::{FileGroup, progress_all};
use crate::missing_ranks::MissingRanksWatch;

/// One wait for other ranks, which may sleep several times.
pub(crate) struct RankWait<'a> {
    group: &'a FileGroup,
    node: &'a NodeSegment,
    /// Whether only ranks of this node are waited for.
    one_node: bool,
    /// The communicator of the group, if this thread may call the host MPI.
    comm: Option<Comm>,
    /// The time of polling before a sleep.
    spin: Duration,
    seen: u32,
    /// The time of the next check that the other ranks are alive.
    check: Option<Instant>,
    /// The collective call that waits.
    call: Option<CollectiveCall>,
    /// Whether the wait is for ranks to begin the call, so that none can be busy with its I/O.
    pub before_io: bool,
    watch: Option<MissingRanksWatch>,
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
    pub fn new(
        group: &'a FileGroup,
        node: &'a NodeSegment,
        comm: Option<Comm>,
        call: Option<CollectiveCall>,
    ) -> RankWait<'a> {
        let spin = if group.pids().len() <= cores() { SPIN } else { Duration::ZERO };
        let (one_node, seen) = (group.is_on_one_node(), node.event());
        let (check, watch) = (None, None);
        RankWait { group, node, one_node, comm, spin, seen, check, call, before_io: false, watch }
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
            Some(_) if !self.group.pids().iter().all(|pid| pario_two_phase::is_alive(*pid)) => {
                self.node.mark_broken()
            }
            Some(_) => {
                if let Some(watch) = &mut self.watch {
                    watch.look(self.group, self.before_io);
                }
            }
            // The first timeout only sets the time of the check.
            None => self.watch = MissingRanksWatch::begin(self.group, self.call),
        }
        self.check = Some(now + LIVENESS_INTERVAL);
        Ok(())
    }
}

impl Drop for RankWait<'_> {
    fn drop(&mut self) {
        if let Some(watch) = &self.watch {
            watch.end(self.group);
        }
    }
}

const RANK_DIED: Error =
    Error::Usage(ErrorKind::OtherRank, "another rank of this node died in the middle of a collective call");

fn cores() -> usize {
    static CORES: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *CORES.get_or_init(pario_two_phase::cores)
}
