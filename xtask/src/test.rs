//! Everything CI runs: set-up, the release build that programs are tried with, the cheap checks, all tests.
//!
//! The tests find what they need in the environment: `PARIO_LIB` and `PARIO_BIN` (release build),
//! `PARIO_TEST_PYTHON_MPICH`, `PARIO_TEST_PYTHON_OPENMPI` (a Python with mpi4py for that MPI) and
//! `PARIO_TEST_MPI4PY_SRC` (mpi4py's source, for its test suite). `PARIO_TEST_PYDARSHAN` (a Python with
//! pydarshan) and `PARIO_TEST_PERFETTO` (a directory with Perfetto's trace processor) are empty where that
//! could not be fetched.

use std::path::PathBuf;

use crate::host::{MPICH, OPEN_MPI};
use crate::place;
use crate::program::{self, Outcome};
use crate::setup;
use crate::stages::Stages;
use crate::tidy;

/// Runs it all; `arguments` go to `cargo nextest run`.
pub fn run(arguments: &[String]) -> Outcome {
    let mut stages = Stages::default();
    if !(stages.stage("setup", setup::everything) && stages.stage("release build", release_build)) {
        return stages.finish();
    }
    tidy::cheap(&mut stages);
    stages.stage("tests", || tests(arguments));
    stages.stage("doc tests", || program::run(program::cargo().args(["test", "--doc", "--workspace"])));
    stages.finish()
}

/// The library and the program as users get them.
pub fn release_build() -> Outcome {
    program::run(program::cargo().args(["build", "--release", "-p", "pario-capi", "-p", "pario-cli"]))
}

fn tests(arguments: &[String]) -> Outcome {
    let environment: [(&str, PathBuf); 7] = [
        ("PARIO_LIB", place::library()),
        ("PARIO_BIN", place::binary()),
        ("PARIO_TEST_PYTHON_MPICH", setup::mpi4py(&MPICH)?),
        ("PARIO_TEST_PYTHON_OPENMPI", setup::mpi4py(&OPEN_MPI)?),
        ("PARIO_TEST_MPI4PY_SRC", setup::mpi4py_source()?),
        ("PARIO_TEST_PYDARSHAN", setup::pydarshan().unwrap_or_default()),
        ("PARIO_TEST_PERFETTO", setup::perfetto().unwrap_or_default()),
    ];
    let mut nextest = program::cargo();
    nextest.args(["nextest", "run", "--workspace"]).args(arguments).envs(environment);
    program::run(&mut nextest)
}
