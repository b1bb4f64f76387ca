//! Errors of the commands on files and partitions.

use std::io;

/// Why a command failed. Its text is one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file, a partition or the registry.
    #[error(transparent)]
    Files(#[from] pario_copy::Error),
    /// A partition could not be checked.
    #[error(transparent)]
    Check(#[from] pario_check::Error),
    /// The processes of this host could not be listed.
    #[error("cannot list the processes of this host: {0}")]
    Processes(#[source] io::Error),
    /// No process of this host has files open through Pario.
    #[error("no process of yours on this host has opened a file through Pario")]
    NoRanks,
    /// No job has this name.
    #[error(
        "no job called {0} has opened a file through Pario on this host; 'pario status --ranks' lists all jobs"
    )]
    NoJob(String),
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
}

impl Error {
    /// For `map_err` on an operation in a partition.
    pub fn in_partition<P: ToString>(
        action: &'static str,
        path: P,
    ) -> impl FnOnce(pario_client::Error) -> Error {
        let error = pario_copy::Error::in_partition(action, path);
        move |cause| error(cause).into()
    }

    /// For `map_err` on a partition as a whole.
    pub fn partition(name: &str) -> impl FnOnce(pario_client::Error) -> Error {
        let error = pario_copy::Error::partition(name);
        move |cause| error(cause).into()
    }

    /// A path that the command does not take, and the reason.
    pub fn refused(path: impl ToString, why: &'static str) -> Error {
        pario_copy::Error::Refused(path.to_string(), why).into()
    }

    /// 2 if the user has to write the command differently, 1 if it did not work.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Files(error) if error.is_usage() => 2,
            _ => 1,
        }
    }
}

impl From<pario_registry::Error> for Error {
    fn from(error: pario_registry::Error) -> Error {
        Error::Files(error.into())
    }
}
