//! A short run of what `cargo xtask torture` does for as long as one likes.

use std::process::Command;

use pario_conformance::torture::{self, KINDS, TortureOptions};

/// Starts this program again, to execute its test as a worker.
fn launch() -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a program knows its path"));
    command.args(["--exact", "a_short_torture_loses_nothing_acknowledged", "--nocapture"]);
    command
}

#[test]
fn a_short_torture_loses_nothing_acknowledged() {
    if torture::run_if_told() {
        return;
    }
    let faults = KINDS.iter().map(|(kind, ..)| *kind).collect();
    let options = TortureOptions {
        seed: 4711,
        seconds: 1,
        sessions: 1,
        rounds: 4,
        jobs: 1,
        faults,
        ..TortureOptions::default()
    };
    match torture::run(&options, &launch) {
        Ok(summary) => println!("{summary}"),
        Err(why) => panic!("{why}"),
    }
}
