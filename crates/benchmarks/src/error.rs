//! Errors of measurements.

use pario_types::spell_size;
use std::io;
use std::path::{Path, PathBuf};

/// Why there is no measurement. Its text is one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No workload of that name.
    #[error("there is no workload {0:?} ('pario bench list' shows them)")]
    NoWorkload(String),
    /// The workload has no preset of that name; those it has.
    #[error("{0} has no preset {1:?}, but {known}", known = .2.join(", "))]
    NoPreset(&'static str, String, Vec<&'static str>),
    /// The workload does not run on this number of ranks.
    #[error("{0} does not run on {1} ranks: {2}; use --ranks")]
    Ranks(&'static str, u32, &'static str),
    /// A file could not be read.
    #[error("{}: cannot be read: {}", .0.display(), .1)]
    Read(PathBuf, #[source] io::Error),
    /// A file could not be written.
    #[error("{}: cannot be written: {}", .0.display(), .1)]
    Write(PathBuf, #[source] io::Error),
    /// A file does not contain measurements.
    #[error("{}: not what 'pario bench compare --json' writes: {}", .0.display(), .1)]
    NotResults(PathBuf, String),
    /// A directory or partition of a run of models.
    #[error(transparent)]
    Files(#[from] pario_copy::Error),
    /// Not enough space for a model's files.
    #[error("{target} has {} free, and each model writes {}: take a smaller --size or another --dir", spell_size(*free), spell_size(*size))]
    NoSpace {
        /// The directory.
        target: String,
        /// Its free bytes.
        free: u64,
        /// The bytes that each model writes.
        size: u64,
    },
    /// The processes of a host could not be started.
    #[error("{0}")]
    Launch(String),
    /// The processes of a host ended, or do not answer.
    #[error("the processes on {host} are lost: {why}")]
    HostLost {
        /// The host.
        host: String,
        /// Its known properties.
        why: String,
    },
    /// A step failed on a host.
    #[error("{step} failed on {host}: {what}")]
    Step {
        /// The step and the model.
        step: String,
        /// The host.
        host: String,
        /// The operation that failed.
        what: String,
    },
    /// A trace in which nothing was read or written.
    #[error("nothing is read or written in the trace in {}", .0.display())]
    NoData(PathBuf),
    /// A run could not be started.
    #[error("a run cannot be started: {0}")]
    Start(#[source] io::Error),
    /// A directory for the files could not be made or removed.
    #[error("{}: cannot be used for the files: {}", .0.display(), .1)]
    Directory(PathBuf, #[source] io::Error),
    /// A file that is read or written.
    #[error("{}: {}", .0.display(), .1)]
    File(PathBuf, #[source] io::Error),
}

impl Error {
    /// For `map_err` on a file.
    pub fn file(path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |cause| Error::File(path.to_owned(), cause)
    }

    /// For `map_err` on a directory for files.
    pub fn directory(path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |cause| Error::Directory(path.to_owned(), cause)
    }

    /// Whether the user has to write the command differently.
    pub fn is_usage(&self) -> bool {
        match self {
            Error::NoWorkload(_) | Error::NoPreset(..) | Error::Ranks(..) | Error::NotResults(..) => true,
            Error::Files(error) => error.is_usage(),
            _ => false,
        }
    }
}
