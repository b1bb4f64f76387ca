//! The operations of each process on each file, in numbers, counted as operations arrive.

use crate::TracedProcess;
use crate::interned::Interned;
use pario_trace::{TraceEvent, TracedOp};
use std::sync::Arc;

/// Accesses below this many bytes are small.
pub const SMALL: u64 = 64 << 10;
/// Accesses that begin at no multiple of this begin within a block.
pub const BLOCK: u64 = 4 << 10;

/// Everything that is counted.
#[derive(Debug, Default)]
pub struct Numbers {
    labels: Interned,
    names: Interned,
    /// The processes, in the order in which they come.
    pub processes: Vec<TracedProcess>,
    /// The files that were accessed or got a view, likewise.
    pub files: Vec<FileNumbers>,
}

/// The numbers of one file.
#[derive(Debug)]
pub struct FileNumbers {
    /// Its name.
    pub name: Arc<str>,
    /// By the number of the process; shorter where the last ones did nothing.
    pub tallies: Vec<AccessTally>,
}

/// The numbers of one process on one file.
#[derive(Clone, Debug, Default)]
pub struct AccessTally {
    /// Its reads.
    pub reads: StrategyUse,
    /// Its writes.
    pub writes: StrategyUse,
    /// Views that it set.
    pub views: u64,
    /// Independent accesses after the first.
    pub moves: u64,
    /// The accesses that are neither sequential nor continue a constant stride.
    pub irregular: u64,
    /// First byte and one past the last byte of all accesses.
    pub extent: Option<(u64, u64)>,
    last: Option<(u64, u64, i128)>,
}

/// Accesses of one direction.
#[derive(Clone, Debug, Default)]
pub struct StrategyUse {
    /// Collective ones.
    pub collective: u64,
    /// Independent ones.
    pub independent: u64,
    /// Bytes that moved.
    pub bytes: u64,
    /// Independent ones below [`SMALL`].
    pub small: u64,
    /// Independent ones of at least [`SMALL`] that begin within a block.
    pub misaligned: u64,
    /// Time in the calls, in nanoseconds.
    pub took_ns: u64,
}

impl StrategyUse {
    /// All of them.
    pub fn count(&self) -> u64 {
        self.collective + self.independent
    }

    fn add(&mut self, other: &StrategyUse) {
        let StrategyUse { collective, independent, bytes, small, misaligned, took_ns } = other;
        self.collective += collective;
        self.independent += independent;
        self.bytes = self.bytes.saturating_add(*bytes);
        self.small += small;
        self.misaligned += misaligned;
        self.took_ns = self.took_ns.saturating_add(*took_ns);
    }
}

impl AccessTally {
    /// Bytes that moved.
    pub fn bytes(&self) -> u64 {
        self.reads.bytes.saturating_add(self.writes.bytes)
    }

    fn access(&mut self, event: &TraceEvent) {
        let collective = event.call.collective;
        let way = if event.call.op == TracedOp::Write { &mut self.writes } else { &mut self.reads };
        way.bytes = way.bytes.saturating_add(event.moved);
        way.took_ns = way.took_ns.saturating_add(event.took_ns);
        let extent = self.extent.get_or_insert((event.offset, event.end));
        *extent = (extent.0.min(event.offset), extent.1.max(event.end));
        if collective {
            way.collective += 1;
            return;
        }
        way.independent += 1;
        if event.len < SMALL {
            way.small += 1;
        } else if !event.offset.is_multiple_of(BLOCK) {
            way.misaligned += 1;
        }
        let mut stride = 0;
        if let Some((offset, end, before)) = self.last {
            stride = i128::from(event.offset) - i128::from(offset);
            self.moves += 1;
            self.irregular += u64::from(event.offset != end && stride != before);
        }
        self.last = Some((event.offset, event.end, stride));
    }
}

impl Numbers {
    /// Counts an operation.
    pub fn add(&mut self, who: &TracedProcess, event: &TraceEvent) {
        let process = self.labels.number(&who.label) as usize;
        if process == self.processes.len() {
            self.processes.push(who.clone());
        }
        let is_access = matches!(event.call.op, TracedOp::Read | TracedOp::Write) && event.moved > 0;
        let Some(name) = event.file.as_ref().filter(|_| is_access || event.call.op == TracedOp::SetView)
        else {
            return;
        };
        let file = self.names.number(name) as usize;
        if file == self.files.len() {
            self.files.push(FileNumbers { name: name.clone(), tallies: Vec::new() });
        }
        let tallies = &mut self.files[file].tallies;
        if tallies.len() <= process {
            tallies.resize(process + 1, AccessTally::default());
        }
        match is_access {
            true => tallies[process].access(event),
            false => tallies[process].views += 1,
        }
    }

    /// Bytes that each process moved, by its number.
    pub fn bytes(&self) -> Vec<u64> {
        let mut sums = vec![0u64; self.processes.len()];
        for file in &self.files {
            for (sum, tally) in sums.iter_mut().zip(&file.tallies) {
                *sum = sum.saturating_add(tally.bytes());
            }
        }
        sums
    }
}

impl FileNumbers {
    /// Reads and writes of all processes.
    pub fn ways(&self) -> (StrategyUse, StrategyUse) {
        let mut sums = (StrategyUse::default(), StrategyUse::default());
        for tally in &self.tallies {
            sums.0.add(&tally.reads);
            sums.1.add(&tally.writes);
        }
        sums
    }

    /// A sum over all processes.
    pub fn sum(&self, of: impl Fn(&AccessTally) -> u64) -> u64 {
        self.tallies.iter().map(of).fold(0, u64::saturating_add)
    }

    /// Processes that read or wrote it.
    pub fn users(&self) -> usize {
        self.tallies.iter().filter(|tally| tally.bytes() > 0).count()
    }
}
