//! Runs clients and servers in a simulated world of faults: builds and runs `crates/fault-simulation`.

use std::process::Command;

use crate::place;
use crate::program::{self, Failure, Outcome};

/// Builds the simulation in a directory of its own: all crates are compiled in another way.
pub fn build() -> Outcome {
    program::run(cargo().args([
        "build",
        "--profile",
        "simulation",
        "--quiet",
        "-p",
        "pario-fault-simulation",
    ]))
}

pub fn run(arguments: &[String]) -> Outcome {
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
    cargo
        .env("RUSTFLAGS", "--cfg pario_simulation -D warnings")
        .env("CARGO_TARGET_DIR", place::target().join("simulation"));
    cargo
}
