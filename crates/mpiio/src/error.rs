//! The errors of MPI-IO calls.

use pario_types::ErrorKind;
use thiserror::Error as ThisError;

/// The reason why an MPI-IO call failed.
#[derive(Debug, ThisError)]
pub enum Error {
    /// An argument or a state that the standard forbids. The text names it and says what is allowed.
    #[error("{1}")]
    Usage(ErrorKind, &'static str),
    /// As [`Error::Usage`], with the invalid value.
    #[error("{1} (got {2})")]
    Value(ErrorKind, &'static str, i64),
    /// The storage of the file failed.
    #[error(transparent)]
    Storage(#[from] pario_file_backend::BackendError),
    /// The partition failed, outside of accesses to an open file.
    #[error(transparent)]
    Partition(#[from] pario_client::Error),
    /// The partition is down and could not be started.
    #[error("partition {partition} is down and was not started: {why}")]
    Autostart {
        /// Its name.
        partition: String,
        /// The reason.
        why: String,
    },
    /// The host MPI failed.
    #[error(transparent)]
    Host(#[from] pario_mpi_host::HostError),
    /// A datatype cannot be turned into a view.
    #[error(transparent)]
    View(#[from] pario_view::Error),
    /// A conversion between data representations failed.
    #[error(transparent)]
    Convert(#[from] pario_buffer::convert::Error),
    /// The program's buffer is memory of a GPU that cannot be used.
    #[error(transparent)]
    Device(#[from] pario_buffer::DeviceError),
    /// A conversion or extent function of the program returned this error code.
    #[error("the data representation's function returned error {0}")]
    UserFunction(i32),
    /// The shared file pointer cannot be accessed.
    #[error(transparent)]
    Counter(#[from] crate::shared_counter::CounterError),
    /// Data shipping failed.
    #[error(transparent)]
    Shipping(#[from] pario_data_shipping::Error),
    /// Another rank failed in the same collective call; this rank did not.
    #[error("rank {rank} of this collective call failed ({kind:?}); its own message says why")]
    OtherRank {
        /// The rank in the file's communicator.
        rank: u32,
        /// The kind of the failure.
        kind: ErrorKind,
    },
    /// An earlier nonblocking access on this file failed with this kind.
    #[error("an earlier nonblocking access to this file failed ({0:?})")]
    Deferred(ErrorKind),
}

impl Error {
    /// The kind that decides the MPI error class.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Usage(kind, _) | Error::Value(kind, _, _) => *kind,
            Error::Storage(e) => e.kind,
            Error::Partition(e) => e.kind(),
            Error::Autostart { .. } => ErrorKind::Unreachable,
            Error::Host(e) => e.kind(),
            Error::Device(e) => e.kind(),
            Error::View(_) => ErrorKind::Type,
            Error::Convert(_) | Error::UserFunction(_) => ErrorKind::Conversion,
            Error::Counter(e) => e.kind(),
            Error::Shipping(e) => e.kind(),
            Error::OtherRank { kind, .. } | Error::Deferred(kind) => *kind,
        }
    }

    /// The errno of the failure; 0 if it has none.
    pub fn errno(&self) -> i32 {
        match self {
            Error::Storage(e) => e.errno.unwrap_or(0),
            Error::Shipping(e) => e.errno().unwrap_or(0),
            Error::Partition(e) => e.errno(),
            _ => 0,
        }
    }

    /// The offset in the file at which the storage failed.
    pub(crate) fn at(&self) -> Option<u64> {
        match self {
            Error::Storage(e) => e.at.map(|offset| offset.0),
            Error::Shipping(e) => e.at().map(|offset| offset.0),
            _ => None,
        }
    }
}

/// The result of every function of this crate.
pub type Result<T> = std::result::Result<T, Error>;
