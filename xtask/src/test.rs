//! Everything CI runs: set-up, the release build that programs are tried with, the cheap checks, all tests. With `--quick`, a part of
//! it for use while working: debug builds, the checks that compile nothing, and the tests of nextest's profile `quick`.
//!
//! The tests find what they need in the environment: `PARIO_LIB` and `PARIO_BIN` (release build),
//! `PARIO_TEST_PYTHON_MPICH`, `PARIO_TEST_PYTHON_OPENMPI` (a Python with mpi4py for that MPI) and
//! `PARIO_TEST_MPI4PY_SRC` (mpi4py's source, for its test suite). `PARIO_TEST_PYDARSHAN` (a Python with
//! pydarshan), `PARIO_TEST_PERFETTO` (a directory with Perfetto's trace processor) and `PARIO_TEST_STANDARD_ABI` (one with an MPI
//! of the standard ABI) are empty where that could not be fetched.

use std::path::PathBuf;

use crate::host::{MPICH, OPEN_MPI};
use crate::place;
use crate::program::{self, Outcome};
use crate::setup;
use crate::simulate;
use crate::stages::Stages;
use crate::tidy;

/// Histories of the simulation in a full test.
const HISTORIES: u32 = 2500;

/// Runs it all, or with `--quick` as the first argument a part of it; the other arguments go to `cargo nextest run`.
pub fn run(arguments: &[String]) -> Outcome {
    match arguments.split_first() {
        Some((first, rest)) if first == "--quick" => quick(rest),
        _ => full(arguments),
    }
}

fn full(arguments: &[String]) -> Outcome {
    let mut stages = Stages::default();
    if !(stages.stage("setup", setup::everything) && stages.stage("release build", release_build)) {
        return stages.finish();
    }
    tidy::cheap(&mut stages);
    stages.stage("doc tests", || program::run(program::cargo().args(["test", "--doc", "--workspace"])));
    stages.stage("simulation", || simulate::run(&["--seeds".to_owned(), HISTORIES.to_string()]));
    stages.stage("repeatability of the simulation", simulate::check_repeatability);
    stages.stage("tests", || tests(arguments));
    stages.finish()
}

fn quick(arguments: &[String]) -> Outcome {
    let mut stages = Stages::default();
    if !stages.stage("debug build", debug_build) {
        return stages.finish();
    }
    tidy::texts(&mut stages);
    stages.stage("quick tests", || {
        let debug = place::target().join("debug");
        let mut nextest = program::cargo();
        nextest.args(["nextest", "run", "--workspace", "--profile", "quick"]).args(arguments);
        nextest.env("PARIO_LIB", debug.join("libpario.so")).env("PARIO_BIN", debug.join("pario"));
        program::run(&mut nextest)
    });
    stages.finish()
}

/// The library, the program and all tests, without optimization.
fn debug_build() -> Outcome {
    program::run(program::cargo().args(["build", "-p", "pario-capi", "-p", "pario-cli"]))?;
    program::run(program::cargo().args(["nextest", "run", "--workspace", "--no-run"]))
}

/// The library and the program as users get them.
pub fn release_build() -> Outcome {
    program::run(program::cargo().args(["build", "--release", "-p", "pario-capi", "-p", "pario-cli"]))
}

fn tests(arguments: &[String]) -> Outcome {
    let environment: [(&str, PathBuf); 8] = [
        ("PARIO_LIB", place::library()),
        ("PARIO_BIN", place::binary()),
        ("PARIO_TEST_PYTHON_MPICH", setup::mpi4py(&MPICH)?),
        ("PARIO_TEST_PYTHON_OPENMPI", setup::mpi4py(&OPEN_MPI)?),
        ("PARIO_TEST_MPI4PY_SRC", setup::mpi4py_source()?),
        ("PARIO_TEST_PYDARSHAN", setup::pydarshan().unwrap_or_default()),
        ("PARIO_TEST_PERFETTO", setup::perfetto().unwrap_or_default()),
        ("PARIO_TEST_STANDARD_ABI", setup::standard_abi().unwrap_or_default()),
    ];
    let mut nextest = program::cargo();
    nextest.args(["nextest", "run", "--workspace"]).args(arguments).envs(environment);
    program::run(&mut nextest)
}
