//! What can be wrong with a profile.

use crate::darshan::Foreign;
use crate::profile::MOST_ACCESSES;
use pario_types::ErrorKind;

/// An error in a profile.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[source] std::io::Error),
    /// A line of a table is not as it should be.
    #[error("line {number}: {why}")]
    Line {
        /// Which, from 1.
        number: u64,
        /// The error in it.
        why: String,
    },
    /// A table without the columns that are needed.
    #[error("there is no column {0}; a profile has the columns process,file,offset,length,op,time")]
    Columns(String),
    /// An access with gaps of which the trace does not say which bytes it was on.
    #[error(
        "process {process} accesses {file} with gaps, and the trace does not say which bytes; record it again with PARIO_TRACE=all"
    )]
    Unsaid {
        /// The file.
        file: String,
        /// The process.
        process: String,
    },
    /// A view in the trace is damaged.
    #[error("a view of {file} in the trace is damaged: {why}")]
    View {
        /// The file.
        file: String,
        /// The error in it.
        why: String,
    },
    /// A log of Darshan's that is not read.
    #[error(
        "it is a log of Darshan's {0}, which is not read; 'darshan-dxt-parser LOG > dxt.txt' makes a profile of it"
    )]
    Foreign(#[source] Foreign),
    /// A log of Darshan's is damaged.
    #[error("the log is damaged: {0}")]
    Damaged(&'static str),
    /// A log of Darshan's without extended tracing.
    #[error(
        "the log does not have single accesses; record it with DXT_ENABLE_IO_TRACE=1, or from Darshan 3.4 on with \
         DARSHAN_MOD_ENABLE=DXT_POSIX,DXT_MPIIO"
    )]
    NoDxt,
    /// More accesses than can be kept in memory.
    #[error("more than {MOST_ACCESSES} accesses; record a shorter run, or fewer of its steps")]
    TooMany,
    /// There is no read or write in it.
    #[error("there is no read or write in it that moved a byte")]
    Empty,
}

impl Error {
    /// A line that is not as it should be.
    pub(crate) fn line(number: u64, why: impl Into<String>) -> Error {
        Error::Line { number, why: why.into() }
    }

    /// What kind of error this is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Unreadable(e) => e.raw_os_error().map_or(ErrorKind::Io, ErrorKind::from_errno),
            Error::TooMany => ErrorKind::NoMem,
            _ => ErrorKind::BadFile,
        }
    }
}
