//! Adding servers to a partition from a program.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use pario_client::{Error, Result};

/// A change of the set of servers of a partition, while programs use it. The servers are processes of the program `pario`, which this
/// runs.
///
/// ```no_run
/// # fn main() -> pario::Result<()> {
/// pario::Scaling::new("scratch").add_server("n2:/local/pario").add_server("n3:/local/pario").run()
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Scaling {
    name: String,
    program: PathBuf,
    registry: Option<PathBuf>,
    added: Vec<String>,
}

impl Scaling {
    /// A change of the partition of that name. Without anything else it completes a change that was interrupted.
    pub fn new(name: &str) -> Scaling {
        Scaling { name: name.to_owned(), program: "pario".into(), registry: None, added: Vec::new() }
    }

    /// Adds a server in a directory, `node:/dir` or `/dir`.
    pub fn add_server(mut self, place: &str) -> Scaling {
        self.added.push(place.to_owned());
        self
    }

    /// The program to run, if it is not the `pario` that `PATH` finds.
    pub fn program(mut self, program: impl Into<PathBuf>) -> Scaling {
        self.program = program.into();
        self
    }

    /// The registry, if it is not in `$PARIO_HOME` or `~/.pario`.
    pub fn registry(mut self, directory: impl Into<PathBuf>) -> Scaling {
        self.registry = Some(directory.into());
        self
    }

    /// Makes the change, and returns when all servers know it. The error is the line that the program printed.
    pub fn run(&self) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.args(["scale", &self.name]).stdin(Stdio::null());
        if !self.added.is_empty() {
            command.arg("--add").args(&self.added);
        }
        command.envs(self.registry.iter().map(|directory| ("PARIO_HOME", directory)));
        let output = command.output();
        let output = output
            .map_err(|error| Error::Target(format!("cannot run {}: {error}", self.program.display())))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or("pario: it ended without a word");
        Err(Error::Target(last.strip_prefix("pario: ").unwrap_or(last).to_owned()))
    }
}

/// Adds servers in these directories to a partition that is up, see [`Scaling`].
///
/// ```no_run
/// # fn main() -> pario::Result<()> {
/// pario::scale("scratch", &["n2:/local/pario"])
/// # }
/// ```
pub fn scale(name: &str, add: &[&str]) -> Result<()> {
    add.iter().fold(Scaling::new(name), |scaling, place| scaling.add_server(place)).run()
}
