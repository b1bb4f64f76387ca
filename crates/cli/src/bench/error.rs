//! Errors of `pario bench`.

use pario_launch::mpi_program::{MpiFamily, ProgramError};
use std::io;
use std::path::PathBuf;

/// Why there is no measurement. Its text is one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The measurement.
    #[error(transparent)]
    Measurement(#[from] pario_benchmarks::Error),
    /// No compiler of this name in `PATH`.
    #[error(
        "{0}: not in PATH; install the MPI library's development package (libmpich-dev, libopenmpi-dev) or name a \
         compiler with --mpicc"
    )]
    NoCompiler(&'static str),
    /// The workloads could not be built.
    #[error(transparent)]
    Build(#[from] pario_workloads::Error),
    /// The compiler belongs to another MPI library.
    #[error("{} is of {found}, not of {wanted}; name another with --mpicc", mpicc.display())]
    OtherMpi {
        /// The compiler.
        mpicc: PathBuf,
        /// The library that the user asked for.
        wanted: MpiFamily,
        /// The library of the compiler.
        found: MpiFamily,
    },
    /// A rival that only Open MPI has.
    #[error("--against {0} needs Open MPI; add --mpi openmpi")]
    OnlyOpenMpi(String),
    /// The built program cannot be run.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Two files have nothing in common.
    #[error("{} and {} have no workload, number of ranks and contender in common", .0.display(), .1.display())]
    NothingInCommon(PathBuf, PathBuf),
    /// The output could not be written.
    #[error("the output cannot be written: {0}")]
    Output(#[source] io::Error),
}

impl Error {
    /// 2: there is no result.
    pub fn exit_code(&self) -> u8 {
        2
    }
}
