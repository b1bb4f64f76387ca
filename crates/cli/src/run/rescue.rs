//! The commands that a user needs after a run whose partition is kept, exactly as a shell takes them.

use super::partition::Job;
use crate::env::{Environment, HOME};
use pario_launch::mpi_program::quote;
use std::path::{Path, PathBuf};

/// The commands for a partition that is kept.
#[derive(Debug)]
pub struct RescueCommands {
    /// `pario` as the user called it, with the registry if a variable named it.
    pario: String,
    name: String,
    /// The directory for the files.
    to: PathBuf,
}

impl RescueCommands {
    /// The commands for the partition of a run.
    pub fn new(job: &Job, env: &Environment) -> RescueCommands {
        let program = std::env::args_os().next().unwrap_or_else(|| "pario".into());
        let home =
            if env.has(HOME) { format!("{HOME}={} ", quote(job.home.as_os_str())) } else { String::new() };
        let named = job.results.as_ref().map(|results| results.to.clone());
        let to = named.filter(|to| to.is_dir()).unwrap_or_else(|| PathBuf::from(&job.name));
        RescueCommands { pario: format!("{home}{}", quote(&program)), name: job.name.clone(), to }
    }

    /// The directory to which the files are copied.
    pub fn target(&self) -> &Path {
        &self.to
    }

    /// Starts the partition.
    pub fn up(&self) -> String {
        format!("{} up {}", self.pario, self.name)
    }

    /// Starts the partition and copies all its files.
    pub fn copy(&self) -> String {
        let RescueCommands { pario, name, to } = self;
        format!("{} && {pario} cp -r {name}:/ {}", self.up(), quote(to.as_os_str()))
    }

    /// Stops its servers.
    pub fn down(&self) -> String {
        format!("{} down {}", self.pario, self.name)
    }

    /// Removes it with all its files.
    pub fn erase(&self) -> String {
        format!("{} down --erase {}", self.pario, self.name)
    }
}
