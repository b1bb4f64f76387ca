//! Runs clients and servers in a simulated world of faults: builds and runs `crates/fault-simulation`.

mod coverage;
mod report;

use std::process::Command;

use crate::place;
use crate::program::{self, Failure, Outcome};

/// The arguments of cargo that build the simulation.
const BUILD: [&str; 6] = ["build", "--profile", "simulation", "--quiet", "-p", "pario-fault-simulation"];

/// The flags of the compiler with which all crates are compiled.
const FLAGS: &str = "--cfg pario_simulation -D warnings";

/// Builds the simulation in a directory of its own: all crates are compiled in another way.
pub fn build() -> Outcome {
    program::run(cargo().args(BUILD))
}

pub fn run(arguments: &[String]) -> Outcome {
    let is_coverage = |word: &&String| *word == "--coverage";
    if arguments.iter().any(|word| is_coverage(&word)) {
        let rest: Vec<&String> = arguments.iter().filter(|word| !is_coverage(word)).collect();
        return coverage::run(&rest);
    }
    build()?;
    let mut simulation = cargo();
    simulation.args(["run", "--profile", "simulation", "--quiet", "-p", "pario-fault-simulation", "--"]);
    program::run(simulation.args(arguments))
}

/// Runs the same seeds with different environments, addresses and numbers of processes: all have to do the same.
pub fn check_repeatability() -> Outcome {
    build()?;
    let program = place::target().join("simulation/simulation/pario-fault-simulation");
    let seeds = ["--seed", "1", "--seeds", "40", "--json"];
    let mut plain = Command::new(&program);
    let first = fingerprint(plain.args(seeds))?;
    let mut other = Command::new("setarch");
    other.arg("-R").arg(&program).args(seeds).args(["--jobs", "1"]).current_dir("/");
    other.env_clear().env("HOME", "/nonexistent").env("FILLER", "x".repeat(60_000));
    let second = fingerprint(&mut other)?;
    if first == second {
        return Ok(());
    }
    Err(Failure::new(format!("the same seeds gave different histories: {first} and {second}")))
}

fn fingerprint(command: &mut Command) -> Outcome<String> {
    let text = program::stdout(command)?;
    let found = text.split("\"fingerprint\":").nth(1).and_then(|rest| rest.split(',').next());
    found.map(str::to_owned).ok_or_else(|| Failure::new("the simulation printed no fingerprint"))
}

fn cargo() -> Command {
    let mut cargo = program::cargo();
    cargo.env("RUSTFLAGS", FLAGS).env("CARGO_TARGET_DIR", place::target().join("simulation"));
    cargo
}
