//! Waiting for other ranks.
//!
//! A rank that waits sleeps on its node's table, so that others have the processor. Where every rank of the
//! node has a processor of its own it looks again for a moment first. While it waits it lets the host MPI
//! bring its messages forward: a rank that it waits for may itself be waiting for one of them. And now and
//! then it makes sure that the others are still alive.

use std::time::{Duration, Instant};

use pario_mpi_host::Comm;
use pario_two_phase::NodeSegment;
use pario_types::ErrorKind;

use crate::error::{Error, Result};
use crate::file_group::progress_all;

/// One wait, however often it is resumed.
pub(crate) struct RankWait<'a> {
    node: &'a NodeSegment,
    pids: &'a [u32],
    /// Nobody outside this node is waited for.
    here: bool,
    /// A communicator of the group, if this thread may call the host.
    comm: Option<Comm>,
    /// How long to look again and again before sleeping.
    spin: Duration,
    seen: u32,
    /// When to see next whether the others live.
    check: Option<Instant>,
}

/// How long to look again and again before sleeping, where there are processors enough. Being woken takes some
/// 50 microseconds on a virtual machine, and a rank that writes a few hundred KiB is done sooner than this.
const SPIN: Duration = Duration::from_micros(300);
/// How long to sleep before letting the host do its work.
const NAP: Duration = Duration::from_millis(1);
/// The same where messages of the host are waited for.
const SHORT_NAP: Duration = Duration::from_micros(50);
/// How often to see whether the others live.
const CHECK: Duration = Duration::from_secs(1);

impl<'a> RankWait<'a> {
    pub fn new(node: &'a NodeSegment, pids: &'a [u32], here: bool, comm: Option<Comm>) -> RankWait<'a> {
        let spin = if pids.len() <= cores() { SPIN } else { Duration::ZERO };
        RankWait { node, pids, here, comm, spin, seen: node.event(), check: None }
    }

    /// Returns when something has changed since the last time, or it is worth a look for another reason.
    pub fn wait_for_change(&mut self) -> Result<()> {
        if !self.spin.is_zero() {
            self.spin();
        }
        if self.node.event() == self.seen {
            self.node.sleep(self.seen, if self.here { NAP } else { SHORT_NAP });
            if self.node.event() == self.seen {
                self.on_timeout()?;
            }
        }
        if self.node.is_broken() {
            return Err(GONE);
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
            comm.poke();
            progress_all();
        }
        let now = Instant::now();
        match self.check {
            Some(when) if now < when => return Ok(()),
            Some(_) if !self.pids.iter().all(|pid| pario_two_phase::is_alive(*pid)) => {
                self.node.mark_broken()
            }
            // The first time only sets the clock.
            Some(_) | None => {}
        }
        self.check = Some(now + CHECK);
        Ok(())
    }
}

const GONE: Error =
    Error::Usage(ErrorKind::OtherRank, "another rank of this node died in the middle of a collective call");

fn cores() -> usize {
    static CORES: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *CORES.get_or_init(pario_two_phase::cores)
}
