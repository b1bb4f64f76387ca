//! The measurements of a comparison, and their file: JSON with a word for the format.

use crate::error::Error;
use pario_workloads::WorkloadOutcome;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The format and its version.
const FORMAT: &str = "pario-bench-1";

/// All measurements of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparisonResults {
    /// Always [`FORMAT`].
    format: String,
    /// The version of Pario.
    pub pario: String,
    /// The machine's name; empty if it has none.
    pub machine: String,
    /// The number of its cores.
    pub cores: u32,
    /// The name and version of the MPI library; empty before the first run.
    pub mpi: String,
    /// The options of the workloads.
    pub options: Vec<String>,
    /// Whether all runs were measured.
    pub complete: bool,
    /// One for each workload, number of ranks and contender.
    pub series: Vec<ContenderSeries>,
}

/// The runs of one contender with one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContenderSeries {
    /// Workload and preset, with a colon between them.
    pub workload: String,
    /// The number of ranks.
    pub ranks: u32,
    /// The contender.
    pub contender: String,
    /// Whether the others are compared with this one.
    pub baseline: bool,
    /// The measurements.
    pub runs: Vec<WorkloadOutcome>,
    /// Why the contender was not run again.
    pub failure: Option<String>,
}

/// A phase, whose time runs from its first open to its last close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Writing the files.
    Write,
    /// Reading them back.
    Read,
}

/// Both phases.
pub const PHASES: [Phase; 2] = [Phase::Write, Phase::Read];

impl Phase {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Write => "write",
            Phase::Read => "read",
        }
    }
}

impl ComparisonResults {
    /// No measurements yet.
    pub fn new(machine: String, cores: u32, options: Vec<String>) -> ComparisonResults {
        ComparisonResults {
            format: FORMAT.to_owned(),
            pario: env!("CARGO_PKG_VERSION").to_owned(),
            machine,
            cores,
            mpi: String::new(),
            options,
            complete: false,
            series: Vec::new(),
        }
    }

    /// Reads a file.
    pub fn load(path: &Path) -> Result<ComparisonResults, Error> {
        let text = std::fs::read_to_string(path).map_err(|e| Error::Read(path.to_owned(), e))?;
        let results: ComparisonResults =
            serde_json::from_str(&text).map_err(|e| Error::NotResults(path.to_owned(), e.to_string()))?;
        match results.format.as_str() {
            FORMAT => Ok(results),
            other => {
                Err(Error::NotResults(path.to_owned(), format!("its format is {other:?}, not {FORMAT:?}")))
            }
        }
    }

    /// Writes a file.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        // Numbers and strings can always be written.
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        std::fs::write(path, text + "\n").map_err(|e| Error::Write(path.to_owned(), e))
    }

    /// The series that the others of the same workload and ranks are compared with.
    pub fn baseline_of(&self, series: &ContenderSeries) -> Option<&ContenderSeries> {
        self.series.iter().find(|s| s.baseline && s.workload == series.workload && s.ranks == series.ranks)
    }
}

impl ContenderSeries {
    /// Seconds of a phase, run by run; those without that phase are left out.
    pub fn seconds(&self, phase: Phase) -> Vec<f64> {
        let key = match phase {
            Phase::Write => "writing",
            Phase::Read => "reading",
        };
        self.runs.iter().filter_map(|run| run.seconds.get(key).copied()).filter(|s| *s > 0.0).collect()
    }

    /// The bytes that a phase moves.
    pub fn bytes(&self, phase: Phase) -> u64 {
        self.runs.first().map_or(0, |run| match phase {
            Phase::Write if run.bytes_written > 0 => run.bytes_written,
            _ => run.bytes_read,
        })
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A series whose writes and reads took these times.
    pub fn series(workload: &str, contender: &str, times: &[(f64, f64)]) -> ContenderSeries {
        let run = |(writing, reading): &(f64, f64)| WorkloadOutcome {
            seconds: [("writing".to_owned(), *writing), ("reading".to_owned(), *reading)].into(),
            bytes_written: 8 << 20,
            bytes_read: 8 << 20,
            write_calls: 1,
            read_calls: 1,
        };
        ContenderSeries {
            workload: workload.to_owned(),
            ranks: 4,
            contender: contender.to_owned(),
            baseline: contender == "host",
            runs: times.iter().map(run).collect(),
            failure: None,
        }
    }

    /// ComparisonResults with these series.
    pub fn results(series: Vec<ContenderSeries>) -> ComparisonResults {
        ComparisonResults { complete: true, series, ..ComparisonResults::new("here".into(), 2, Vec::new()) }
    }

    #[test]
    fn saved_results_are_loaded() {
        let file = std::env::temp_dir().join(format!("pario-results-{}", std::process::id()));
        let all = results(vec![series("btio:small", "host", &[(0.1, 0.25)])]);
        all.save(&file).expect("saved");
        let loaded = ComparisonResults::load(&file);
        std::fs::write(&file, "{}").expect("written");
        let empty = ComparisonResults::load(&file);
        std::fs::remove_file(&file).expect("removed");
        assert_eq!(loaded.expect("loaded"), all);
        assert!(matches!(empty, Err(Error::NotResults(..))));
        assert!(matches!(ComparisonResults::load(&file), Err(Error::Read(..))));
    }

    #[test]
    fn runs_without_a_phase_do_not_count_for_it() {
        let series = series("seismic:small", "pario", &[(0.5, 0.0), (0.25, 0.125)]);
        assert_eq!(series.seconds(Phase::Write), [0.5, 0.25]);
        assert_eq!(series.seconds(Phase::Read), [0.125]);
    }
}
