//! What can go wrong with `pario models`.

use pario_io_models::GridError;
use pario_reports::MeasurementCsvError;
use std::io;
use std::path::{Path, PathBuf};

/// Why the command failed. Its text is one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such grid of models.
    #[error("{0}")]
    Grid(GridError),
    /// The number of hosts is not that of the nodes.
    #[error("--nodes {nodes} needs as many hosts, and --hosts names {hosts}")]
    Hosts { nodes: u32, hosts: usize },
    /// More processes than one host should get.
    #[error("{procs} processes on one host are more than {most}: take fewer, or name --hosts for the nodes")]
    TooManyProcesses { procs: u32, most: u32 },
    /// A plain directory for `--io pario`.
    #[error("--io pario: '{0}' is a plain directory; name one of a partition, such as pario:NAME/DIR")]
    PlainDirectory(String),
    /// A directory of a partition for `--io posix`.
    #[error("--io {io}: '{dir}' is on a partition; name a plain directory")]
    OnPartition { io: String, dir: String },
    /// The same host twice.
    #[error("--hosts names {0} twice, and a node is a host of its own")]
    Twice(String),
    /// The run.
    #[error(transparent)]
    Run(#[from] pario_benchmarks::Error),
    /// A file of measurements.
    #[error("{} has no measurements of pario models: {}", .0.display(), .1)]
    Csv(PathBuf, #[source] MeasurementCsvError),
    /// A trace.
    #[error("{0}")]
    Trace(crate::trace::Error),
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
}

impl Error {
    /// For `map_err` on a file.
    pub fn file(path: &Path) -> impl FnOnce(io::Error) -> Error {
        let error = pario_benchmarks::Error::file(path);
        move |cause| error(cause).into()
    }

    /// 2 if the user has to write the command differently, 1 if it did not work.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Grid(_)
            | Error::Hosts { .. }
            | Error::TooManyProcesses { .. }
            | Error::PlainDirectory(_)
            | Error::OnPartition { .. }
            | Error::Twice(_)
            | Error::Csv(..)
            | Error::Trace(_) => 2,
            Error::Run(error) if error.is_usage() => 2,
            _ => 1,
        }
    }
}

impl From<pario_copy::Error> for Error {
    fn from(error: pario_copy::Error) -> Error {
        Error::Run(error.into())
    }
}
