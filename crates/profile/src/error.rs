//! What can be wrong with a profile.

use crate::darshan::Foreign;
use pario_types::ErrorKind;
use std::fmt;

/// What is wrong with a profile.
#[derive(Debug)]
pub enum Error {
    /// It cannot be read.
    Unreadable(std::io::Error),
    /// A line of a table is not as it should be.
    Line {
        /// Which, from 1.
        number: u64,
        /// What is wrong with it.
        why: String,
    },
    /// A table without the columns that are needed.
    Columns(String),
    /// An access with gaps of which the trace does not say which bytes it was on.
    Unsaid {
        /// The file.
        file: String,
        /// The process.
        process: String,
    },
    /// A view in the trace is damaged.
    View {
        /// The file.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// A log of Darshan's that is not read.
    Foreign(Foreign),
    /// A log of Darshan's is damaged.
    Damaged(&'static str),
    /// A log of Darshan's without extended tracing.
    NoDxt,
    /// More accesses than can be kept in memory.
    TooMany,
    /// There is no read or write in it.
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unreadable(e) => write!(f, "cannot be read: {e}"),
            Error::Line { number, why } => write!(f, "line {number}: {why}"),
            Error::Columns(missing) => write!(
                f,
                "there is no column {missing}; a profile has the columns process,file,offset,length,op,time"
            ),
            Error::Unsaid { file, process } => write!(
                f,
                "process {process} accesses {file} with gaps, and the trace does not say which bytes; record it again \
                 with PARIO_TRACE=all"
            ),
            Error::View { file, why } => write!(f, "a view of {file} in the trace is damaged: {why}"),
            Error::Foreign(foreign) => {
                write!(f, "it is a log of Darshan's ")?;
                match foreign {
                    Foreign::Version(version) => write!(f, "with version {version:?}")?,
                    Foreign::BigEndian => f.write_str("from a big-endian machine")?,
                    Foreign::Compression(1) => f.write_str("that bzip2 compresses")?,
                    Foreign::Compression(other) => write!(f, "with compression {other}")?,
                }
                f.write_str(", which is not read; 'darshan-dxt-parser LOG > dxt.txt' makes a profile of it")
            }
            Error::Damaged(what) => write!(f, "the log is damaged: {what}"),
            Error::NoDxt => f.write_str(
                "the log does not have single accesses; record it with DXT_ENABLE_IO_TRACE=1, or from Darshan 3.4 on \
                 with DARSHAN_MOD_ENABLE=DXT_POSIX,DXT_MPIIO",
            ),
            Error::TooMany => write!(
                f,
                "more than {} accesses; record a shorter run, or fewer of its steps",
                crate::profile::MOST_ACCESSES
            ),
            Error::Empty => f.write_str("there is no read or write in it that moved a byte"),
        }
    }
}

impl std::error::Error for Error {}
