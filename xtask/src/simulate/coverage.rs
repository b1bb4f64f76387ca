//! Which lines of the production code histories reach: `cargo xtask simulate --coverage`.
//!
//! The simulation is built with `-C instrument-coverage` in a directory of its own. Each history ends by adding its counters to a profile that
//! all share (`%m` in the name of the profile). LLVM's tools of the system combine profile and program to a report of lines and functions:
//! those of LLVM 19 read what the compiler's newer LLVM writes.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::report::{CodeReport, table, unreached};
use crate::place;
use crate::program::{self, Outcome, at};
use crate::setup;

/// Histories unless the command line says otherwise.
const HISTORIES: &str = "2000";

/// Runs histories and prints a table of lines per crate. With `--unreached` in the arguments, also the files and the functions that no
/// history reached.
pub fn run(arguments: &[&String]) -> Outcome {
    setup::coverage_tools()?;
    let is_detailed = arguments.iter().any(|word| *word == "--unreached");
    let mut words: Vec<&str> =
        arguments.iter().map(|word| word.as_str()).filter(|word| *word != "--unreached").collect();
    if !words.iter().any(|word| matches!(*word, "--seeds" | "--seconds")) {
        words.extend(["--seeds", HISTORIES]);
    }
    let directory = place::target().join("coverage");
    program::run(build(&directory).args(super::BUILD))?;
    let binary = directory.join("simulation/pario-fault-simulation");
    let profiles = directory.join("profiles");
    start_afresh(&profiles)?;
    let mut simulation = Command::new(&binary);
    simulation.env("LLVM_PROFILE_FILE", profiles.join("%m.profraw")).arg("--keep-going");
    // What was reached before a failure counts, too.
    let outcome = program::run(simulation.args(&words));
    let report = CodeReport::parse(&export(&binary, &profiles)?, &place::root());
    println!("\n{}", table(&report));
    if is_detailed {
        println!("{}", unreached(&report, &place::root()));
    }
    outcome
}

fn build(directory: &Path) -> Command {
    let mut cargo = program::cargo();
    let flags = format!("{} --cfg pario_coverage -C instrument-coverage", super::FLAGS);
    // Build scripts are instrumented as well, and would leave profiles where they run.
    cargo.env("RUSTFLAGS", flags).env("CARGO_TARGET_DIR", directory).env("LLVM_PROFILE_FILE", "/dev/null");
    cargo
}

fn start_afresh(directory: &Path) -> Outcome {
    if directory.exists() {
        at(directory, std::fs::remove_dir_all(directory))?;
    }
    at(directory, std::fs::create_dir_all(directory))
}

/// The report of lines and functions in the format of lcov.
fn export(binary: &Path, profiles: &Path) -> Outcome<String> {
    let merged = profiles.join("merged.profdata");
    let mut raw: Vec<PathBuf> = Vec::new();
    for entry in at(profiles, std::fs::read_dir(profiles))? {
        raw.push(at(profiles, entry)?.path());
    }
    let mut merge = Command::new(setup::LLVM_PROFDATA);
    program::stdout(merge.args(["merge", "--sparse", "-o"]).arg(&merged).args(raw))?;
    let mut export = Command::new(setup::LLVM_COV);
    export.args(["export", "--format=lcov"]).arg(binary).arg("--instr-profile").arg(&merged);
    program::stdout(&mut export)
}
