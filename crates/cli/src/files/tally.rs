//! The results of commands that do the same to several files.

use super::error::Error;
use super::print;
use serde_json::{Value, json};
use std::process::ExitCode;

/// The result of each argument. The command goes on after a failure.
#[derive(Debug, Default)]
pub struct Tally {
    done: Vec<String>,
    failed: Vec<(String, Error)>,
}

impl Tally {
    /// Adds the result of one argument.
    pub fn note(&mut self, path: impl ToString, outcome: Result<(), Error>) {
        match outcome {
            Ok(()) => self.done.push(path.to_string()),
            Err(error) => self.failed.push((path.to_string(), error)),
        }
    }

    /// Reports failures in words, or everything in JSON. The exit code is 1 if there was a failure.
    pub fn report(self, json: bool) -> Result<ExitCode, Error> {
        for (_, error) in self.failed.iter().filter(|_| !json) {
            eprintln!("pario: {error}");
        }
        if json {
            let object = json!({ "done": self.done, "failed": failures(&self.failed) });
            print(&format!("{object:#}\n"))?;
        }
        Ok(if self.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Failures in JSON.
pub fn failures<E: std::fmt::Display>(failed: &[(String, E)]) -> Vec<Value> {
    failed.iter().map(|(path, error)| json!({ "path": path, "error": error.to_string() })).collect()
}
