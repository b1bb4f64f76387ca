//! What can go wrong with `pario models`.

use pario_io_models::{Refused, csv, quantity};
use pario_launch::LaunchFailure;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a command did not do its work.
#[derive(Debug)]
pub enum Error {
    /// There is no such grid of models.
    Grid(Refused),
    /// A number of hosts that is not that of the nodes.
    Hosts { nodes: u32, hosts: usize },
    /// More processes than one host should get.
    Crowd { procs: u32, most: u32 },
    /// A directory that is not accessed so.
    Io { io: String, dir: String },
    /// The same host twice.
    Twice(String),
    /// A directory or partition.
    Files(Box<crate::files::Error>),
    /// A launcher.
    Partition(Box<crate::partition::Error>),
    /// Not enough room.
    NoRoom { target: String, free: u64, size: u64 },
    /// A host did not answer, or not as it should.
    Host { host: String, why: LaunchFailure },
    /// A step failed on a host.
    Step { doing: String, host: String, what: String },
    /// A file of measurements.
    Csv(PathBuf, csv::Unreadable),
    /// A file that is read or written.
    File(PathBuf, io::Error),
    /// A trace.
    Trace(crate::trace::Error),
    /// A trace in which nothing was read or written.
    NoData(PathBuf),
    /// The output could not be written.
    Output(io::Error),
}

impl Error {
    /// For `map_err` on a file.
    pub fn file(path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |cause| Error::File(path.to_owned(), cause)
    }

    /// 2 for what the user has to write differently, 1 for what did not work.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Grid(_)
            | Error::Hosts { .. }
            | Error::Crowd { .. }
            | Error::Io { .. }
            | Error::Twice(_)
            | Error::Csv(..)
            | Error::Trace(_) => 2,
            Error::Files(error) => error.exit_code(),
            Error::Partition(error) => error.exit_code(),
            _ => 1,
        }
    }
}

impl From<crate::files::Error> for Error {
    fn from(error: crate::files::Error) -> Error {
        Error::Files(Box::new(error))
    }
}

impl From<pario_launch::Error> for Error {
    fn from(error: pario_launch::Error) -> Error {
        Error::Partition(Box::new(error.into()))
    }
}

impl From<crate::partition::Error> for Error {
    fn from(error: crate::partition::Error) -> Error {
        Error::Partition(Box::new(error))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Grid(refused) => refused.fmt(f),
            Error::Hosts { nodes, hosts } => {
                write!(f, "--nodes {nodes} needs as many hosts, and --hosts names {hosts}")
            }
            Error::Crowd { procs, most } => write!(
                f,
                "{procs} processes on one host are more than {most}: take fewer, or name --hosts for the nodes"
            ),
            Error::Io { io, dir } if io == "pario" => {
                write!(
                    f,
                    "--io pario: '{dir}' is a plain directory; name one of a partition, such as pario:NAME/DIR"
                )
            }
            Error::Io { io, dir } => {
                write!(f, "--io {io}: '{dir}' is on a partition; name a plain directory")
            }
            Error::Twice(host) => write!(f, "--hosts names {host} twice, and a node is a host of its own"),
            Error::Files(error) => error.fmt(f),
            Error::Partition(error) => error.fmt(f),
            Error::NoRoom { target, free, size } => write!(
                f,
                "{target} has {} free, and each model writes {}: take a smaller --size or another --dir",
                quantity(*free),
                quantity(*size)
            ),
            Error::Host { host, why } => write!(f, "the processes on {host} are lost: {why}"),
            Error::Step { doing, host, what } => write!(f, "{doing} failed on {host}: {what}"),
            Error::Csv(path, why) => {
                write!(f, "{} has no measurements of pario models: {why}", path.display())
            }
            Error::File(path, cause) => write!(f, "{}: {cause}", path.display()),
            Error::Trace(error) => error.fmt(f),
            Error::NoData(path) => {
                write!(f, "nothing is read or written in the trace in {}", path.display())
            }
            Error::Output(error) => write!(f, "cannot write the output: {error}"),
        }
    }
}
