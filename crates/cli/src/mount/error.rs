//! Errors of the commands on mounts.

use std::io;

/// The reason why a partition was not mounted or unmounted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The registry does not know the partition, or cannot be read.
    #[error(transparent)]
    Registry(Box<crate::partition::Error>),
    /// The partition does not answer.
    #[error(transparent)]
    Partition(Box<pario_client::Error>),
    /// The partition could not be mounted or unmounted.
    #[error(transparent)]
    Fuse(#[from] pario_fuse::Error),
    /// The process that should serve the mount gave this reason why it does not.
    #[error("{0}")]
    Said(String),
    /// That process ended without a reason.
    #[error("the process that serves the mount ended without a word")]
    Silent,
    /// A process could not be started, or signals not be handled.
    #[error("the mount cannot be served: {0}")]
    System(#[source] io::Error),
}

impl Error {
    /// 2 if the user has to change the command, 1 if something failed.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Registry(error) => error.exit_code(),
            _ => 1,
        }
    }
}

impl From<crate::partition::Error> for Error {
    fn from(error: crate::partition::Error) -> Error {
        Error::Registry(Box::new(error))
    }
}

impl From<pario_registry::Error> for Error {
    fn from(error: pario_registry::Error) -> Error {
        crate::partition::Error::from(error).into()
    }
}

impl From<pario_client::Error> for Error {
    fn from(error: pario_client::Error) -> Error {
        match error {
            pario_client::Error::Registry(error) => error.into(),
            error => Error::Partition(Box::new(error)),
        }
    }
}
