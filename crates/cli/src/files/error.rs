//! What can go wrong with the commands on files, and with those that look at partitions.

use pario_types::ErrorKind;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a command did not do something. Shown, it is one line: what, where, and what to do where that is
/// known.
#[derive(Debug)]
pub enum Error {
    /// Neither `PARIO_HOME` nor `HOME` is set.
    NoHome,
    /// A path of this host where one in a partition is needed.
    NotInPartition(PathBuf),
    /// `pario:/path` without `PARIO_PARTITION`.
    NoUsualPartition(String),
    /// A partition cannot have that name.
    NoName {
        /// What the user wrote.
        text: String,
        /// The name in it.
        name: String,
    },
    /// The registry.
    Registry(pario_registry::Error),
    /// A partition could not be used at all.
    Partition {
        /// Which.
        name: String,
        /// Why.
        cause: Box<pario_client::Error>,
    },
    /// Something in a partition.
    There {
        /// What was to be done, such as "cannot list".
        doing: &'static str,
        /// With what, as the user writes it.
        path: String,
        /// Why not.
        cause: Box<pario_client::Error>,
    },
    /// Something on this host.
    Here {
        /// What was to be done.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// Something that makes no sense, or is not done here: the path and why.
    Refused(String, &'static str),
    /// The same with a second path.
    RefusedBoth(String, String, &'static str),
    /// A file that is no plan.
    Plan(PathBuf, pario_placement::Error),
    /// A server that the partition does not have.
    NoServer {
        /// The partition.
        partition: String,
        /// The server.
        server: u16,
        /// How many it has.
        count: u16,
    },
    /// A copy that was not completed, because this process was asked to end.
    Interrupted(String),
    /// The output could not be written.
    Output(io::Error),
}

impl Error {
    /// For `map_err` on something in a partition.
    pub fn there<P: ToString>(doing: &'static str, path: P) -> impl FnOnce(pario_client::Error) -> Error {
        move |cause| Error::There { doing, path: path.to_string(), cause: Box::new(cause) }
    }

    /// For `map_err` on a partition as a whole.
    pub fn partition(name: &str) -> impl FnOnce(pario_client::Error) -> Error {
        move |cause| match cause {
            pario_client::Error::Registry(cause) => Error::Registry(cause),
            cause => Error::Partition { name: name.to_owned(), cause: Box::new(cause) },
        }
    }

    /// For `map_err` on something on this host.
    pub fn here(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |cause| Error::Here { doing, path: path.to_owned(), cause }
    }

    /// What a caller can act on.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::NoHome
            | Error::NotInPartition(_)
            | Error::NoUsualPartition(_)
            | Error::NoName { .. }
            | Error::Refused(..)
            | Error::RefusedBoth(..)
            | Error::NoServer { .. } => ErrorKind::Arg,
            Error::Plan(_, cause) => cause.kind(),
            Error::Interrupted(_) => ErrorKind::Io,
            Error::Registry(cause) => cause.kind(),
            Error::Partition { cause, .. } | Error::There { cause, .. } => cause.kind(),
            Error::Here { cause, .. } | Error::Output(cause) => {
                cause.raw_os_error().map_or(ErrorKind::Io, ErrorKind::from_errno)
            }
        }
    }

    /// 2 for what the user has to write differently, 1 for what did not work.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::NoHome
            | Error::NotInPartition(_)
            | Error::NoUsualPartition(_)
            | Error::NoName { .. }
            | Error::Plan(..)
            | Error::NoServer { .. } => 2,
            _ => 1,
        }
    }

    /// Whether the next file will hardly fare better.
    pub fn stops_all(&self) -> bool {
        let this_one = matches!(self, Error::Interrupted(_));
        this_one
            || matches!(
                self.kind(),
                ErrorKind::Unreachable
                    | ErrorKind::Protocol
                    | ErrorKind::NoSpace
                    | ErrorKind::Quota
                    | ErrorKind::ReadOnly
            )
    }
}

impl From<pario_registry::Error> for Error {
    fn from(error: pario_registry::Error) -> Error {
        Error::Registry(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoHome => f.write_str("no place for the registry of partitions: set HOME or PARIO_HOME"),
            Error::NotInPartition(path) => {
                write!(
                    f,
                    "{} is not in a partition: write NAME:/path ('pario list' names them)",
                    path.display()
                )
            }
            Error::Plan(path, cause) => write!(f, "{}: {cause}", path.display()),
            Error::NoServer { partition, server, count } => write!(
                f,
                "partition {partition} has no server {server}: its servers are 0 to {}",
                count.saturating_sub(1)
            ),
            Error::NoUsualPartition(text) => {
                write!(f, "{text:?} names no partition: write NAME:/path, or set PARIO_PARTITION")
            }
            Error::NoName { text, name } => {
                write!(f, "{text:?}: {name:?} cannot be a partition's name ('pario list' names them)")
            }
            Error::Registry(cause) => cause.fmt(f),
            Error::Partition { name, cause } => write!(f, "cannot use partition {name}: {cause}"),
            Error::There { doing, path, cause } => {
                write!(f, "{doing} {path}: {cause}{}", advice(cause.kind()))
            }
            Error::Here { doing, path, cause } => {
                write!(f, "{doing} {}: {cause}{}", path.display(), advice(self.kind()))
            }
            Error::Refused(path, why) => write!(f, "{path}: {why}"),
            Error::RefusedBoth(one, other, why) => write!(f, "{one} and {other}: {why}"),
            Error::Interrupted(path) => write!(f, "{path}: interrupted"),
            Error::Output(error) => write!(f, "cannot write the output: {error}"),
        }
    }
}

/// What to do about it, where that is not plain from the words.
fn advice(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NoSpace => "; free some room there ('pario df' shows it for partitions)",
        ErrorKind::Damaged => "; 'pario check' says which bytes",
        _ => "",
    }
}
