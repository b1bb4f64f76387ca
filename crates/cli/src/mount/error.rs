//! What can go wrong with the commands on mounts.

use std::fmt;
use std::io;

/// Why a partition was not mounted or unmounted.
#[derive(Debug)]
pub enum Error {
    /// The registry does not know the partition, or cannot be read.
    Registry(Box<crate::partition::Error>),
    /// The partition does not answer.
    Partition(Box<pario_client::Error>),
    /// It could not be mounted, or unmounted.
    Fuse(pario_fuse::Error),
    /// The process that serves it said why it does not.
    Said(String),
    /// It ended without a word.
    Silent,
    /// A process or a signal.
    System(io::Error),
}

impl Error {
    /// 2 for what the user has to write differently, 1 for what did not work.
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

impl From<pario_fuse::Error> for Error {
    fn from(error: pario_fuse::Error) -> Error {
        Error::Fuse(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Registry(error) => error.fmt(f),
            Error::Partition(error) => error.fmt(f),
            Error::Fuse(error) => error.fmt(f),
            Error::Said(why) => f.write_str(why),
            Error::Silent => f.write_str("the process that serves the mount ended without a word"),
            Error::System(error) => write!(f, "the mount cannot be served: {error}"),
        }
    }
}
