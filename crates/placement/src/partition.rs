//! The partitions of a plan: what each process keeps, and what shared storage keeps, in the order of first use.

use crate::{PlacementPlan, ProcessId};

/// Who keeps a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChunkHolder {
    /// The local storage of a process.
    Process(ProcessId),
    /// Shared storage.
    Central,
}

/// What one keeper keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanPartition {
    /// Who.
    pub keeper: ChunkHolder,
    /// The numbers of its chunks (see [`PlacementPlan::chunks`]), by the time of their first use.
    pub chunks: Vec<usize>,
}

impl PlacementPlan {
    /// A partition for each process, with or without chunks, and one for shared storage if there is anything in it.
    pub fn partitions(&self) -> Vec<PlanPartition> {
        let processes =
            (0..self.processes.len() as u32).map(|number| ChunkHolder::Process(ProcessId(number)));
        let mut partitions: Vec<PlanPartition> =
            processes.map(|keeper| PlanPartition { keeper, chunks: Vec::new() }).collect();
        let mut central = PlanPartition { keeper: ChunkHolder::Central, chunks: Vec::new() };
        let all: Vec<_> = self.chunks().map(|(_, _, chunk)| chunk).collect();
        // Orders are the numbers from 0 on, each once.
        let mut by_time = vec![0; all.len()];
        for (number, chunk) in all.iter().enumerate() {
            by_time[chunk.order as usize] = number;
        }
        for number in by_time {
            let keepers = self.keepers(all[number]);
            if keepers.is_empty() {
                central.chunks.push(number);
            }
            for &keeper in keepers {
                partitions[keeper.0 as usize].chunks.push(number);
            }
        }
        if !central.chunks.is_empty() {
            partitions.push(central);
        }
        partitions
    }
}
