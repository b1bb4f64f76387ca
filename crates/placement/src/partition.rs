//! The partitions of a plan: the chunks of each process and of shared storage, in the order of first use.

use crate::{PlacementPlan, ProcessId};

/// The holder of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChunkHolder {
    /// The local storage of a process.
    Process(ProcessId),
    /// Shared storage.
    Central,
}

/// The chunks of one holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanPartition {
    /// The holder.
    pub holder: ChunkHolder,
    /// The numbers of its chunks (see [`PlacementPlan::chunks`]), by the time of their first use.
    pub chunks: Vec<usize>,
}

impl PlacementPlan {
    /// Returns a partition for each process, with or without chunks, and one for shared storage if it has any chunks.
    pub fn partitions(&self) -> Vec<PlanPartition> {
        let processes =
            (0..self.processes.len() as u32).map(|number| ChunkHolder::Process(ProcessId(number)));
        let mut partitions: Vec<PlanPartition> =
            processes.map(|holder| PlanPartition { holder, chunks: Vec::new() }).collect();
        let mut central = PlanPartition { holder: ChunkHolder::Central, chunks: Vec::new() };
        let all: Vec<_> = self.chunks().map(|(_, _, chunk)| chunk).collect();
        // Orders are the numbers from 0 on, each once.
        let mut by_time = vec![0; all.len()];
        for (number, chunk) in all.iter().enumerate() {
            by_time[chunk.order as usize] = number;
        }
        for number in by_time {
            let holders = self.holders(all[number]);
            if holders.is_empty() {
                central.chunks.push(number);
            }
            for &holder in holders {
                partitions[holder.0 as usize].chunks.push(number);
            }
        }
        if !central.chunks.is_empty() {
            partitions.push(central);
        }
        partitions
    }
}
