//! Subcommands of cargo that are programs of their own.

use crate::program::{self, Outcome};

/// Runs the tests: a process per test, a time limit, groups that take turns.
pub fn cargo_nextest() -> Outcome {
    subcommand("nextest")
}

/// Checks licences and sources of the dependencies.
pub fn cargo_deny() -> Outcome {
    subcommand("deny")
}

fn subcommand(name: &str) -> Outcome {
    if program::works(program::cargo().get_program(), &[name, "--version"]) {
        return Ok(());
    }
    program::run(program::cargo().args(["install", "--locked", &format!("cargo-{name}")]))
}
