//! What can go wrong in an MPI-IO call, as one sentence each.

use std::fmt;

use pario_types::ErrorKind;

/// Why an MPI-IO call failed.
#[derive(Debug)]
pub enum Error {
    /// An argument or a state that the standard forbids; the text says which and what is allowed.
    Usage(ErrorKind, &'static str),
    /// As [`Error::Usage`], with the offending value.
    Value(ErrorKind, &'static str, i64),
    /// The storage failed.
    Storage(pario_posix::Error),
    /// The partition failed.
    Partition(pario_client::Error),
    /// The host MPI failed.
    Host(pario_mpi_host::HostError),
    /// A datatype cannot be turned into a view.
    View(pario_view::Error),
    /// A conversion between data representations failed.
    Convert(pario_buffer::convert::Error),
    /// A user's conversion or extent function returned this error code.
    UserFunction(i32),
    /// The shared file pointer cannot be reached.
    Counter(pario_posix::CounterError),
    /// Data shipping failed.
    Shipping(pario_data_shipping::Error),
    /// This rank's part was fine; that of another rank of the same collective call was not.
    OtherRank {
        /// Which rank of the file's communicator.
        rank: u32,
        /// What failed there.
        kind: ErrorKind,
    },
    /// An earlier nonblocking access on this file failed with this kind.
    Deferred(ErrorKind),
}

impl Error {
    /// The kind that decides the MPI error class.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Usage(kind, _) | Error::Value(kind, _, _) => *kind,
            Error::Storage(e) => e.kind(),
            Error::Partition(e) => e.kind(),
            Error::Host(e) => e.kind(),
            Error::View(_) => ErrorKind::Type,
            Error::Convert(_) | Error::UserFunction(_) => ErrorKind::Conversion,
            Error::Counter(e) => e.kind(),
            Error::Shipping(e) => e.kind(),
            Error::OtherRank { kind, .. } | Error::Deferred(kind) => *kind,
        }
    }
}

impl Error {
    /// The operating system's number for it, 0 where it has none.
    pub fn errno(&self) -> i32 {
        match self {
            Error::Storage(e) => e.errno().unwrap_or(0),
            Error::Shipping(e) => e.errno().unwrap_or(0),
            Error::Partition(e) => e.errno(),
            _ => 0,
        }
    }

    /// The offset in the file at which the storage failed.
    pub(crate) fn at(&self) -> Option<u64> {
        match self {
            Error::Storage(e) => e.at().map(|offset| offset.0),
            Error::Shipping(e) => e.at().map(|offset| offset.0),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Usage(_, text) => f.write_str(text),
            Error::Value(_, text, value) => write!(f, "{text} (got {value})"),
            Error::Storage(e) => e.fmt(f),
            Error::Partition(e) => e.fmt(f),
            Error::Host(e) => e.fmt(f),
            Error::View(e) => e.fmt(f),
            Error::Convert(e) => e.fmt(f),
            Error::UserFunction(code) => {
                write!(f, "the data representation's function returned error {code}")
            }
            Error::Counter(e) => e.fmt(f),
            Error::Shipping(e) => e.fmt(f),
            Error::OtherRank { rank, kind } => {
                write!(f, "rank {rank} of this collective call failed ({kind:?}); its own message says why")
            }
            Error::Deferred(kind) => {
                write!(f, "an earlier nonblocking access to this file failed ({kind:?})")
            }
        }
    }
}

impl std::error::Error for Error {}

macro_rules! from {
    ($($source:ty => $variant:ident),+ $(,)?) => {$(
        impl From<$source> for Error {
            fn from(e: $source) -> Error { Error::$variant(e) }
        }
    )+};
}

from! {
    pario_posix::Error => Storage,
    pario_client::Error => Partition,
    pario_posix::CounterError => Counter,
    pario_data_shipping::Error => Shipping,
    pario_mpi_host::HostError => Host,
    pario_view::Error => View,
    pario_buffer::convert::Error => Convert,
}

/// What every function of this room returns.
pub type Result<T> = std::result::Result<T, Error>;
