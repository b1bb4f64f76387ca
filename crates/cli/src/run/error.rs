//! Errors of running a program, and their exit codes.

use super::rescue::RescueCommands;
use crate::{files, partition};
use pario_launch::OnDemandError;
use pario_launch::mpi_program::{ProgramError, quote};
use std::io;
use std::path::{Path, PathBuf};

/// The reason why a program could not be started, or why its results could not be saved.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program, its MPI or its launcher cannot be used.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The program is a launcher itself, and this option speaks of another.
    #[error("{path} is a launcher, which starts the program by its own options; leave {1} out", path = .0.display())]
    TwoLaunchers(PathBuf, &'static str),
    /// Starting the launcher failed.
    #[error("cannot start {path}: {1}", path = .0.display())]
    Start(PathBuf, #[source] io::Error),
    /// Writing the output failed.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
    /// There are no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(#[source] io::Error),
    /// Signals cannot be handled.
    #[error("cannot handle signals: {0}")]
    Signals(#[source] io::Error),
    /// Something was to be done with a file or directory that the run needs.
    #[error("cannot {0} {path}: {2}", path = .1.display())]
    Needed(&'static str, PathBuf, #[source] io::Error),
    /// The plan cannot be used.
    #[error("{0}")]
    Plan(Box<files::Error>),
    /// There is no partition on demand.
    #[error(transparent)]
    OnDemand(#[from] OnDemandError),
    /// An option for a partition, and there is none.
    #[error("{0} needs a partition: add --servers N or --partition NAME, or name a file pario:/path")]
    NoPartition(&'static str),
    /// More servers than a partition can have.
    #[error("a partition has at most 65535 servers; choose fewer with --servers")]
    TooManyServers,
    /// The nodes of the Slurm job are not known.
    #[error("SLURM_JOB_NODELIST={0} is no list of nodes; --hosts names them")]
    SlurmNodes(String),
    /// The partition did not come up.
    #[error(transparent)]
    Partition(Box<partition::Error>),
    /// Not everything was copied into the partition; why, unless it has been said.
    #[error(
        "the program was not started, because not everything was copied into the partition{}",
        .0.as_ref().map_or(String::new(), |cause| format!(": {cause}"))
    )]
    Inputs(Option<Box<files::Error>>),
    /// Not everything was copied out of it.
    #[error("not all results are in {}: {cause}", quote(to.as_os_str()))]
    Results {
        /// Where to.
        to: PathBuf,
        /// Why.
        cause: String,
    },
    /// Not everything was copied out of a partition that stays.
    #[error("not all results are in {to}: {cause}; 'pario cp -r {name}:/PATH {to}' copies them", to = quote(to.as_os_str()))]
    StandingResults {
        /// The partition.
        name: String,
        /// Where to.
        to: PathBuf,
        /// Why.
        cause: String,
    },
    /// The servers of a partition on demand could not store everything.
    #[error(
        "the partition of this run is kept, because not everything in it is stored: {cause}\n  '{}' copies all that it has, '{}' \
         removes it",
        commands.copy(),
        commands.erase()
    )]
    Down {
        /// The commands that copy or remove its files.
        commands: Box<RescueCommands>,
        /// Why.
        cause: Box<partition::Error>,
    },
}

impl Error {
    /// For `map_err` on a file or directory that the run needs.
    pub fn needed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |cause| Error::Needed(doing, path.to_owned(), cause)
    }

    /// The exit code, as `env` and `nohup` use them.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Program(
                ProgramError::NoProgram(_) | ProgramError::NoLauncher(_) | ProgramError::NamedLauncher(_),
            ) => 127,
            Error::Program(ProgramError::NotExecutable(_)) | Error::Start(..) => 126,
            Error::Program(_)
            | Error::Output(_)
            | Error::Random(_)
            | Error::Signals(_)
            | Error::Needed(..)
            | Error::OnDemand(OnDemandError::Directory(..) | OnDemandError::NoName(_))
            | Error::SlurmNodes(_)
            | Error::Partition(_)
            | Error::Inputs(_)
            | Error::Results { .. }
            | Error::StandingResults { .. }
            | Error::Down { .. } => 125,
            Error::NoPartition(_)
            | Error::TooManyServers
            | Error::OnDemand(OnDemandError::Description(_))
            | Error::TwoLaunchers(..)
            | Error::Plan(_) => 2,
        }
    }
}

impl From<partition::Error> for Error {
    fn from(error: partition::Error) -> Error {
        Error::Partition(Box::new(error))
    }
}
