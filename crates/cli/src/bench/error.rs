//! What can go wrong with measuring.

use crate::run::{self, Family};
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why there is no measurement.
#[derive(Debug)]
pub enum Error {
    /// No workload is called so.
    NoWorkload(String),
    /// The workload has no preset of that name; those it has.
    NoPreset(&'static str, String, Vec<&'static str>),
    /// The workload does not run on so many ranks.
    Ranks(&'static str, u32, &'static str),
    /// No compiler of this name, or of the like, in `PATH`.
    NoCompiler(&'static str),
    /// The workloads could not be built.
    Build(pario_workloads::Error),
    /// The compiler is of another MPI library than asked for.
    OtherMpi {
        /// The compiler.
        mpicc: PathBuf,
        /// What was asked for.
        wanted: Family,
        /// What it is.
        found: Family,
    },
    /// A rival that only Open MPI has.
    OnlyOpenMpi(String),
    /// The built program is not as it should be.
    Program(run::Error),
    /// A run could not be started.
    Start(io::Error),
    /// A directory for the files could not be made or removed.
    Place(PathBuf, io::Error),
    /// A file could not be read.
    Read(PathBuf, io::Error),
    /// A file could not be written.
    Write(PathBuf, io::Error),
    /// A file does not hold measurements.
    NotResults(PathBuf, String),
    /// Two files have nothing in common.
    NothingInCommon(PathBuf, PathBuf),
    /// The output could not be written.
    Output(io::Error),
}

impl Error {
    /// 2: there is nothing to judge.
    pub fn exit_code(&self) -> u8 {
        2
    }
}

impl From<pario_workloads::Error> for Error {
    fn from(e: pario_workloads::Error) -> Error {
        Error::Build(e)
    }
}

impl From<run::Error> for Error {
    fn from(e: run::Error) -> Error {
        Error::Program(e)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoWorkload(name) => {
                write!(f, "there is no workload {name:?} ('pario bench list' shows them)")
            }
            Error::NoPreset(workload, name, there) => {
                write!(f, "{workload} has no preset {name:?}, but {}", there.join(", "))
            }
            Error::Ranks(workload, ranks, rule) => {
                write!(f, "{workload} does not run on {ranks} ranks: {rule}; use --ranks")
            }
            Error::NoCompiler(name) => write!(
                f,
                "{name}: not in PATH; install the MPI library's development package (libmpich-dev, \
                 libopenmpi-dev) or name a compiler with --mpicc"
            ),
            Error::Build(e) => e.fmt(f),
            Error::OtherMpi { mpicc, wanted, found } => {
                write!(f, "{} is of {found}, not of {wanted}; name another with --mpicc", mpicc.display())
            }
            Error::OnlyOpenMpi(rival) => write!(f, "--against {rival} needs Open MPI; add --mpi openmpi"),
            Error::Program(e) => e.fmt(f),
            Error::Start(e) => write!(f, "a run cannot be started: {e}"),
            Error::Place(path, e) => write!(f, "{}: cannot be used for the files: {e}", path.display()),
            Error::Read(path, e) => write!(f, "{}: cannot be read: {e}", path.display()),
            Error::Write(path, e) => write!(f, "{}: cannot be written: {e}", path.display()),
            Error::NotResults(path, why) => {
                write!(f, "{}: not what 'pario bench compare --json' writes: {why}", path.display())
            }
            Error::NothingInCommon(a, b) => write!(
                f,
                "{} and {} have no workload, number of ranks and contender in common",
                a.display(),
                b.display()
            ),
            Error::Output(e) => write!(f, "the output cannot be written: {e}"),
        }
    }
}
