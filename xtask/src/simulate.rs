//! Runs clients and servers in a simulated world of faults: builds and runs `crates/fault-simulation`.

use crate::place;
use crate::program::{self, Outcome};

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

fn cargo() -> std::process::Command {
    let mut cargo = program::cargo();
    cargo
        .env("RUSTFLAGS", "--cfg pario_simulation -D warnings")
        .env("CARGO_TARGET_DIR", place::target().join("simulation"));
    cargo
}
