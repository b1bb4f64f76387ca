//! One run of a workload by `pario run`, with its files in a directory for the whole comparison.

use crate::comparison::Case;
use crate::contender::{Contender, RunSetting};
use crate::error::Error;
use pario_workloads::WorkloadReport;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Runs workloads as processes.
#[derive(Debug)]
pub struct WorkloadProcess<'a> {
    /// The program `pario`.
    pub pario: &'a Path,
    /// The program with the workloads.
    pub program: &'a Path,
    /// The directory of the comparison.
    pub scratch: &'a ScratchDirectory,
    /// The number of servers of a partition.
    pub servers: u16,
    /// Further options for the workloads.
    pub options: &'a [String],
    /// A run is ended after so long.
    pub limit: Duration,
}

impl WorkloadProcess<'_> {
    /// Runs a workload. `supervise` starts the command, and ends it after the limit. The inner error says why the run failed.
    pub fn run(
        &self,
        case: &Case,
        contender: &Contender,
        supervise: impl FnOnce(&mut Command, Duration) -> io::Result<ExitStatus>,
    ) -> Result<Result<WorkloadReport, String>, Error> {
        let (json, log) = (self.scratch.path("result.json"), self.scratch.path("log"));
        let _ = fs::remove_file(&json); // of the run before
        let files = self.scratch.path("files");
        fs::create_dir_all(&files).map_err(Error::directory(&files))?;
        let setting = RunSetting { program: self.program, dir: &files, json: &json, servers: self.servers };
        let words = contender.arguments(&setting, case.workload.name, case.preset, case.ranks, self.options);
        let output = File::create(&log).map_err(Error::directory(&log))?;
        let mut command = Command::new(self.pario);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
        let started = Instant::now();
        let status = supervise(&mut command, self.limit).map_err(Error::Start)?;
        // A run that fails leaves files, and so does --keep.
        fs::remove_dir_all(&files).map_err(Error::directory(&files))?;
        if !status.success() {
            let text = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
            return Ok(Err(if started.elapsed() >= self.limit {
                format!("did not end within {} s", self.limit.as_secs())
            } else {
                telling_line(&text).map_or_else(|| status.to_string(), str::to_owned)
            }));
        }
        let text = fs::read_to_string(&json).map_err(|cause| Error::Read(json.clone(), cause))?;
        let reports =
            WorkloadReport::parse(&text).map_err(|error| Error::NotResults(json, error.to_string()))?;
        Ok(reports.into_iter().next().ok_or_else(|| "it reported nothing".to_owned()))
    }
}

/// The line of a failed run that says why: the first line of Pario, else the last line.
fn telling_line(text: &str) -> Option<&str> {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines().find(|line| line.starts_with("pario")).or_else(|| lines().next_back())
}

/// A directory for one comparison.
#[derive(Debug)]
pub struct ScratchDirectory(PathBuf);

impl ScratchDirectory {
    /// A new directory in another.
    pub fn new(parent: &Path) -> Result<ScratchDirectory, Error> {
        let real = parent.canonicalize().map_err(Error::directory(parent))?;
        let dir = real.join(format!("pario-bench-{}", std::process::id()));
        fs::create_dir(&dir).map_err(Error::directory(parent))?;
        Ok(ScratchDirectory(dir))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Removes it with all that is in it.
    pub fn remove(&self) -> Result<(), Error> {
        fs::remove_dir_all(&self.0).map_err(Error::directory(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::telling_line;

    #[test]
    fn the_line_with_the_reason_is_found() {
        let text = "\npario-workload: rank 1: MPI_File_open x: no such file\nabort\n";
        assert_eq!(telling_line(text), Some("pario-workload: rank 1: MPI_File_open x: no such file"));
        assert_eq!(telling_line("one\ntwo\n\n"), Some("two"));
        assert_eq!(telling_line(""), None);
    }
}
