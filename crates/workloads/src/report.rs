//! The output of `pario-workload`, as values: results of runs (`--json`), and descriptions (`--describe`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One run of one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadReport {
    /// Its name.
    pub workload: String,
    /// Its size.
    pub preset: String,
    /// The number of steps.
    pub steps: u64,
    /// The number of ranks.
    pub ranks: u64,
    /// The seed of the contents.
    pub seed: u64,
    /// The name of the MPI library.
    pub mpi: String,
    /// `mpi-io` or `posix`.
    pub interface: String,
    /// All ranks: the maximum of times, the sums of everything else.
    pub all: WorkloadOutcome,
    /// Each rank.
    pub each: Vec<WorkloadOutcome>,
    /// Whether all bytes read were right; `None` if none were read.
    pub verified: Option<bool>,
    /// The number of wrong bytes.
    pub wrong_bytes: u64,
    /// The first of them.
    pub first_wrong: Option<WorkloadPlace>,
}

/// Times and amounts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadOutcome {
    /// By kind: `open`, `view`, `write`, `read`, `sync`, `close`, `compute`; `writing` and `reading` from the
    /// first open to the last close of the phases that write and of those that read back, and
    /// `open_to_close`, their sum. Making and checking data is in none of them.
    pub seconds: BTreeMap<String, f64>,
    /// Bytes that were written.
    pub bytes_written: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Calls that wrote them.
    pub write_calls: u64,
    /// Calls that read them.
    pub read_calls: u64,
}

/// A byte of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadPlace {
    /// The file.
    pub file: String,
    /// The offset.
    pub offset: u64,
}

/// A description of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadDescription {
    /// Its name.
    pub workload: String,
    /// Its size.
    pub preset: String,
    /// The number of ranks.
    pub ranks: u64,
    /// The number of steps.
    pub steps: u64,
    /// The files that it writes.
    pub files: Vec<SizedFile>,
    /// All writes of all ranks.
    pub write: WorkloadTally,
    /// All reads of all ranks.
    pub read: WorkloadTally,
    /// Bytes that each rank writes and reads.
    pub rank_bytes: Vec<(u64, u64)>,
}

/// A file of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizedFile {
    /// Its name, without the workload's.
    pub name: String,
    /// Its final size.
    pub bytes: u64,
}

/// The number of accesses. A piece is contiguous in the file and in an access.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadTally {
    /// The total number of bytes.
    pub bytes: u64,
    /// Calls of MPI.
    pub calls: u64,
    /// Pieces.
    pub pieces: u64,
    /// Bytes of the shortest piece.
    pub shortest: u64,
    /// Bytes of the longest piece.
    pub longest: u64,
    /// (bytes, number) of the first 32 different lengths of pieces.
    pub lengths: Vec<(u64, u64)>,
}

impl WorkloadReport {
    /// The reports in what `--json` wrote, one a line.
    pub fn parse(text: &str) -> Result<Vec<WorkloadReport>, serde_json::Error> {
        text.lines().filter(|line| !line.trim().is_empty()).map(serde_json::from_str).collect()
    }
}

impl WorkloadDescription {
    /// The descriptions in what `--describe` printed, one a line.
    pub fn parse(text: &str) -> Result<Vec<WorkloadDescription>, serde_json::Error> {
        text.lines().filter(|line| !line.trim().is_empty()).map(serde_json::from_str).collect()
    }
}
