//! A plan in numbers: the bytes of each process, and the traffic between nodes that it saves.

use crate::{Placement, PlacementPlan};

/// Bytes by placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StorageShare {
    /// Chunks of one process.
    pub local: u64,
    /// Chunks that are copied.
    pub duplicate: u64,
    /// Chunks that are copied and updated.
    pub broadcast: u64,
    /// Chunks in shared storage.
    pub central: u64,
}

/// A plan in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanSummary {
    /// Number of chunks.
    pub chunks: usize,
    /// Bytes of chunks, each once.
    pub bytes: StorageShare,
    /// For each process the bytes that it keeps locally, and those of shared storage that it uses.
    pub processes: Vec<StorageShare>,
    /// Bytes read and written in the profile: the traffic between nodes if everything is in shared storage.
    pub accessed: u128,
    /// The traffic between nodes if the plan is followed.
    pub moved: u128,
    /// Bytes of copies to be made before the run, of chunks that are only read.
    pub laid_out: u128,
}

impl StorageShare {
    fn add(&mut self, placement: Placement, bytes: u64) {
        let sum = match placement {
            Placement::Local(_) => &mut self.local,
            Placement::Duplicate => &mut self.duplicate,
            Placement::Broadcast => &mut self.broadcast,
            Placement::Central => &mut self.central,
        };
        // Chunks of a file do not overlap, but there may be many files.
        *sum = sum.saturating_add(bytes);
    }

    /// The sum.
    pub fn total(&self) -> u64 {
        [self.local, self.duplicate, self.broadcast, self.central].iter().fold(0, |a, &b| a.saturating_add(b))
    }
}

impl PlanSummary {
    /// Returns the numbers of a plan.
    pub fn of(plan: &PlacementPlan) -> PlanSummary {
        let mut summary = PlanSummary {
            processes: vec![StorageShare::default(); plan.processes.len()],
            ..PlanSummary::default()
        };
        for (_, _, chunk) in plan.chunks() {
            let group = plan.group(chunk);
            summary.chunks += 1;
            summary.bytes.add(chunk.placement, chunk.length);
            let holders = plan.holders(chunk);
            let concerned = if holders.is_empty() { &group.users[..] } else { holders };
            for process in concerned {
                summary.processes[process.0 as usize].add(chunk.placement, chunk.length);
            }
            summary.accessed += u128::from(chunk.read) + u128::from(chunk.written);
            summary.moved += u128::from(chunk.moved);
            if group.writers.is_empty() {
                summary.laid_out += u128::from(chunk.length) * holders.len() as u128;
            }
        }
        summary
    }

    /// The traffic between nodes that is saved; negative if updates cost more than they save.
    pub fn saved(&self) -> i128 {
        // Both are sums of less than 2^32 numbers of 64 bits.
        self.accessed as i128 - self.moved as i128
    }
}
