//! The user's settings for launching servers.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// The user's settings for launching servers.
#[derive(Clone, Debug, Default)]
pub struct LaunchSettings {
    /// The program to use as `ssh`, with options.
    pub ssh: Vec<String>,
    /// The program to use as `srun`, with options.
    pub srun: Vec<String>,
    /// The program to use as `mpiexec`, with options.
    pub mpiexec: Vec<String>,
    /// Whether this is within a job of Slurm.
    pub in_slurm_job: bool,
    /// Where servers' run directories are, if not in memory.
    pub run_base: Option<PathBuf>,
    /// Servers take this much longer for every block of their storage; for tests.
    pub store_delay: Duration,
    /// A server's thread for which this directory has a file of its name panics; for tests.
    pub panics: Option<PathBuf>,
}

impl LaunchSettings {
    /// Where run directories are.
    pub fn run_base(&self) -> PathBuf {
        run_base(self.run_base.as_deref())
    }
}

/// Where run directories are: where the user says, or else in memory.
pub fn run_base(named: Option<&Path>) -> PathBuf {
    named.map_or_else(|| pario_registry::run_base(&std::env::temp_dir()), Path::to_owned)
}
