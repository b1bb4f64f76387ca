//! Errors of the commands on partitions.

use std::io;
use std::path::PathBuf;

use pario_launch::AdoptionError;

/// The reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither `PARIO_HOME` nor `HOME` is set.
    #[error("no place for the registry of partitions: set HOME or PARIO_HOME")]
    NoHome,
    /// The registry, or a value for a description.
    #[error(transparent)]
    Registry(#[from] pario_registry::Error),
    /// A partition file that describes no partition.
    #[error("{}: {}", .0.display(), .1)]
    File(PathBuf, #[source] pario_registry::Error),
    /// A partition file that cannot be read.
    #[error(transparent)]
    Unreadable(pario_registry::Error),
    /// `--set` without `=`.
    #[error("--set {0:?} is not KEY=VALUE")]
    Assignment(String),
    /// `--add` with a text that names no directory.
    #[error("--add {0:?}: write node:/dir, or /dir for this host")]
    Place(String),
    /// `--to` with fewer servers than there are.
    #[error(
        "partition {name} has {servers} servers, and 'pario scale' cannot take servers away: --to {count} is too few"
    )]
    Fewer {
        /// The partition.
        name: String,
        /// The number that was asked for.
        count: u16,
        /// The number of its servers.
        servers: usize,
    },
    /// `--to` where the directories have no numbers.
    #[error("--to cannot tell where the next server after {0} belongs: name the directories with --add")]
    NoSequence(String),
    /// Servers could not be launched or stopped.
    #[error(transparent)]
    Launch(pario_launch::Error),
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
}

impl Error {
    /// For `map_err` on reading a partition file.
    pub fn file(path: &std::path::Path) -> impl FnOnce(pario_registry::Error) -> Error {
        move |error| match error {
            error @ pario_registry::Error::Description(_) => Error::File(path.to_owned(), error),
            error => Error::Unreadable(error),
        }
    }

    /// The same after all servers were stopped by force: none of them runs any more.
    pub fn stopped_by_force(self) -> Error {
        match self {
            Error::Launch(error) => Error::Launch(error.stopped_by_force()),
            other => other,
        }
    }

    /// 2 if the user has to change the command or the partition file, 1 if something failed.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::NoHome | Error::File(..) | Error::Unreadable(_) | Error::Assignment(_) => 2,
            Error::Place(_) | Error::Fewer { .. } | Error::NoSequence(_) => 2,
            Error::Launch(pario_launch::Error::Adoption(why))
                if matches!(**why, AdoptionError::None | AdoptionError::Place(_)) =>
            {
                2
            }
            Error::Registry(pario_registry::Error::Description(_)) => 2,
            _ => 1,
        }
    }
}

impl From<pario_launch::Error> for Error {
    fn from(error: pario_launch::Error) -> Error {
        match error {
            pario_launch::Error::Registry(error) => Error::Registry(error),
            error => Error::Launch(error),
        }
    }
}
