//! A comparison's measurements as a file: JSON, so that other tools can read it, with a word that says which format.

use super::Error;
use pario_workloads::Outcome;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The word, and its version.
const FORMAT: &str = "pario-bench-1";

/// Everything that a comparison measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Always [`FORMAT`].
    format: String,
    /// The version of Pario.
    pub pario: String,
    /// The machine's name, as far as it has one.
    pub machine: String,
    /// How many cores it has.
    pub cores: u32,
    /// What the MPI library calls itself; empty before the first run.
    pub mpi: String,
    /// Options that all runs of the workloads had.
    pub options: Vec<String>,
    /// Whether everything was measured that should have been.
    pub complete: bool,
    /// One for each workload, number of ranks and contender.
    pub series: Vec<Series>,
}

/// The runs of one contender at one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Workload and preset, with a colon between them.
    pub workload: String,
    /// The number of ranks.
    pub ranks: u32,
    /// Who.
    pub contender: String,
    /// Whether the others are compared with this one.
    pub baseline: bool,
    /// What was measured.
    pub runs: Vec<Outcome>,
    /// Why there are no more runs.
    pub failure: Option<String>,
}

/// What is compared: the time of a phase from its first open to its last close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Making the files.
    Write,
    /// Reading them back.
    Read,
}

/// Both.
pub const PHASES: [Phase; 2] = [Phase::Write, Phase::Read];

impl Phase {
    /// Its name for the user.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Write => "write",
            Phase::Read => "read",
        }
    }
}

impl Results {
    /// Nothing measured yet.
    pub fn new(machine: String, cores: u32, options: Vec<String>) -> Results {
        Results {
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
    pub fn load(path: &Path) -> Result<Results, Error> {
        let text = std::fs::read_to_string(path).map_err(|e| Error::Read(path.to_owned(), e))?;
        let results: Results =
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
        // All of it is numbers and strings.
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        std::fs::write(path, text + "\n").map_err(|e| Error::Write(path.to_owned(), e))
    }

    /// The series that the others of the same workload and ranks are compared with.
    pub fn baseline_of(&self, series: &Series) -> Option<&Series> {
        self.series.iter().find(|s| s.baseline && s.workload == series.workload && s.ranks == series.ranks)
    }
}

impl Series {
    /// Seconds of a phase, run by run; those without that phase are left out.
    pub fn seconds(&self, phase: Phase) -> Vec<f64> {
        let key = match phase {
            Phase::Write => "writing",
            Phase::Read => "reading",
        };
        self.runs.iter().filter_map(|run| run.seconds.get(key).copied()).filter(|s| *s > 0.0).collect()
    }

    /// Bytes that a phase moves, or makes come about: what there is to be read is what was written.
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
    pub fn series(workload: &str, contender: &str, times: &[(f64, f64)]) -> Series {
        let run = |(writing, reading): &(f64, f64)| Outcome {
            seconds: [("writing".to_owned(), *writing), ("reading".to_owned(), *reading)].into(),
            bytes_written: 8 << 20,
            bytes_read: 8 << 20,
            write_calls: 1,
            read_calls: 1,
        };
        Series {
            workload: workload.to_owned(),
            ranks: 4,
            contender: contender.to_owned(),
            baseline: contender == "host",
            runs: times.iter().map(run).collect(),
            failure: None,
        }
    }

    /// Results with these series.
    pub fn results(series: Vec<Series>) -> Results {
        Results { complete: true, series, ..Results::new("here".into(), 2, Vec::new()) }
    }

    #[test]
    fn what_is_saved_is_loaded() {
        let file = std::env::temp_dir().join(format!("pario-results-{}", std::process::id()));
        let all = results(vec![series("btio:small", "host", &[(0.1, 0.25)])]);
        all.save(&file).expect("saved");
        let loaded = Results::load(&file);
        std::fs::write(&file, "{}").expect("written");
        let empty = Results::load(&file);
        std::fs::remove_file(&file).expect("removed");
        assert_eq!(loaded.expect("loaded"), all);
        assert!(matches!(empty, Err(Error::NotResults(..))));
        assert!(matches!(Results::load(&file), Err(Error::Read(..))));
    }

    #[test]
    fn runs_without_a_phase_do_not_count_for_it() {
        let series = series("seismic:small", "pario", &[(0.5, 0.0), (0.25, 0.125)]);
        assert_eq!(series.seconds(Phase::Write), [0.5, 0.25]);
        assert_eq!(series.seconds(Phase::Read), [0.125]);
    }
}
