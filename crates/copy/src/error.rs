//! Errors of files on partitions and of copies.

use pario_types::ErrorKind;
use std::io;
use std::path::{Path, PathBuf};

/// Why something was not done. Its text is one line: what, where, and the remedy where there is one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither `PARIO_HOME` nor `HOME` is set.
    #[error("no place for the registry of partitions: set HOME or PARIO_HOME")]
    NoHome,
    /// A path of this host where one in a partition is needed.
    #[error("{} is not in a partition: write NAME:/path ('pario list' names them)", .0.display())]
    NotInPartition(PathBuf),
    /// `pario:/path` without `PARIO_PARTITION`.
    #[error("{0:?} names no partition: write NAME:/path, or set PARIO_PARTITION")]
    NoDefaultPartition(String),
    /// A partition cannot have that name.
    #[error("{text:?}: {name:?} cannot be a partition's name ('pario list' names them)")]
    BadName {
        /// The text that the user wrote.
        text: String,
        /// The name in it.
        name: String,
    },
    /// The registry.
    #[error(transparent)]
    Registry(#[from] pario_registry::Error),
    /// A partition could not be used at all.
    #[error("cannot use partition {name}: {cause}")]
    Partition {
        /// Which partition.
        name: String,
        /// Why not.
        #[source]
        cause: Box<pario_client::Error>,
    },
    /// An operation in a partition failed.
    #[error("{action} {path}: {cause}{}", advice(cause.kind()))]
    InPartition {
        /// The attempted operation, such as "cannot list".
        action: &'static str,
        /// The file or directory, as the user writes it.
        path: String,
        /// Why it failed.
        #[source]
        cause: Box<pario_client::Error>,
    },
    /// An operation on this host failed.
    #[error("{action} {}: {cause}{}", path.display(), advice(kind_of(cause)))]
    OnHost {
        /// The attempted operation.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why it failed.
        #[source]
        cause: io::Error,
    },
    /// Something that makes no sense, or is not supported: the path and the reason.
    #[error("{0}: {1}")]
    Refused(String, &'static str),
    /// The same with a second path.
    #[error("{0} and {1}: {2}")]
    RefusedBoth(String, String, &'static str),
    /// A file that is not a plan.
    #[error("{}: {}", .0.display(), .1)]
    Plan(PathBuf, #[source] pario_placement::Error),
    /// A server that the partition does not have.
    #[error("partition {partition} has no server {server}: its servers are 0 to {}", count.saturating_sub(1))]
    NoServer {
        /// The partition.
        partition: String,
        /// The server.
        server: u16,
        /// The number of servers that it has.
        count: u16,
    },
    /// A copy that was interrupted before it was complete.
    #[error("{0}: interrupted")]
    Interrupted(String),
}

impl Error {
    /// For `map_err` on an operation in a partition.
    pub fn in_partition<P: ToString>(
        action: &'static str,
        path: P,
    ) -> impl FnOnce(pario_client::Error) -> Error {
        move |cause| Error::InPartition { action, path: path.to_string(), cause: Box::new(cause) }
    }

    /// For `map_err` on a partition as a whole.
    pub fn partition(name: &str) -> impl FnOnce(pario_client::Error) -> Error {
        move |cause| match cause {
            pario_client::Error::Registry(cause) => Error::Registry(cause),
            cause => Error::Partition { name: name.to_owned(), cause: Box::new(cause) },
        }
    }

    /// A path that an operation does not take, and the reason.
    pub fn refused(path: impl ToString, why: &'static str) -> Error {
        Error::Refused(path.to_string(), why)
    }

    /// For `map_err` on an operation on this host.
    pub fn on_host(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |cause| Error::OnHost { action, path: path.to_owned(), cause }
    }

    /// The kind of the error, which a caller can act on.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::NoHome
            | Error::NotInPartition(_)
            | Error::NoDefaultPartition(_)
            | Error::BadName { .. }
            | Error::Refused(..)
            | Error::RefusedBoth(..)
            | Error::NoServer { .. } => ErrorKind::Arg,
            Error::Plan(_, cause) => cause.kind(),
            Error::Interrupted(_) => ErrorKind::Io,
            Error::Registry(cause) => cause.kind(),
            Error::Partition { cause, .. } | Error::InPartition { cause, .. } => cause.kind(),
            Error::OnHost { cause, .. } => kind_of(cause),
        }
    }

    /// Whether the user has to write the command differently.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Error::NoHome
                | Error::NotInPartition(_)
                | Error::NoDefaultPartition(_)
                | Error::BadName { .. }
                | Error::Plan(..)
                | Error::NoServer { .. }
        )
    }

    /// Whether the next file would fail as well.
    pub fn stops_all(&self) -> bool {
        let is_general = matches!(
            self.kind(),
            ErrorKind::Unreachable
                | ErrorKind::Protocol
                | ErrorKind::NoSpace
                | ErrorKind::Quota
                | ErrorKind::ReadOnly
        );
        is_general || matches!(self, Error::Interrupted(_))
    }
}

fn kind_of(cause: &io::Error) -> ErrorKind {
    cause.raw_os_error().map_or(ErrorKind::Io, ErrorKind::from_errno)
}

/// The remedy, where the message alone does not suggest it.
fn advice(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NoSpace => "; free some room there ('pario df' shows it for partitions)",
        ErrorKind::Damaged => "; 'pario check' says which bytes",
        _ => "",
    }
}
