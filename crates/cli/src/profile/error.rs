//! What can go wrong with profiles and plans.

use crate::{run, trace};
use pario_profile::rescale::RescaleError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a command on a profile could not do its work.
#[derive(Debug)]
pub enum Error {
    /// The program was not run, or not to its end.
    Run(run::Error),
    /// A directory whose name PARIO_TRACE cannot hold.
    Directory(PathBuf),
    /// Without Pario nothing is recorded.
    HostIo,
    /// The traces are not there or not good.
    Trace(trace::Error),
    /// A profile is not there.
    Missing(PathBuf, io::Error),
    /// A profile is not good.
    Profile(PathBuf, pario_profile::Error),
    /// A plan is not good.
    Plan(PathBuf, pario_placement::Error),
    /// A plan was given where operations are needed.
    NotAProfile(PathBuf),
    /// A trace in which operations are left out by the user's wish.
    LeftOut(PathBuf, LeftOut),
    /// The statistics beside a trace are damaged.
    Stats(PathBuf, serde_json::Error),
    /// The profile does not say on which nodes its processes ran.
    NoNodes(PathBuf),
    /// The plan has no such chunk.
    NoChunk(String),
    /// The plan is not rescaled.
    RescaleError(RescaleError),
    /// A file cannot be written.
    Unwritten(PathBuf, io::Error),
    /// The output cannot be written.
    Output(io::Error),
}

/// Why a trace has not all operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// It has only those that went wrong.
    Good,
    /// It has only those from this offset on.
    Below(u64),
}

impl Error {
    /// For `map_err` on what is wrong with a profile.
    pub fn profile(path: &Path) -> impl Fn(pario_profile::Error) -> Error {
        move |error| Error::Profile(path.to_owned(), error)
    }

    /// 2 where the arguments are to blame or what they name, 1 where it is the world.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Run(e) => e.exit_code(),
            Error::Output(_) | Error::Unwritten(..) => 1,
            _ => 2,
        }
    }
}

impl From<io::Error> for Error {
    fn from(e: io::Error) -> Error {
        Error::Output(e)
    }
}

impl From<trace::Error> for Error {
    fn from(e: trace::Error) -> Error {
        Error::Trace(e)
    }
}

impl From<RescaleError> for Error {
    fn from(refused: RescaleError) -> Error {
        Error::RescaleError(refused)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Run(e) => e.fmt(f),
            Error::Directory(path) => {
                write!(f, "{path:?} cannot be a trace directory: it has a comma or is not UTF-8")
            }
            Error::HostIo => f.write_str("with --host-io nothing is recorded; leave it out"),
            Error::Trace(e) => e.fmt(f),
            Error::Missing(path, e) => write!(
                f,
                "no profile in {}: {e}; 'pario profile' or a run with PARIO_TRACE=all makes one",
                path.display()
            ),
            Error::Profile(path, e) => write!(f, "{}: {e}", path.display()),
            Error::Plan(path, e) => write!(f, "{}: {e}", path.display()),
            Error::NotAProfile(path) => {
                write!(f, "{} is a plan; here the profile that it was made from is needed", path.display())
            }
            Error::LeftOut(path, LeftOut::Good) => write!(
                f,
                "{} is a trace of what went wrong only; record with PARIO_TRACE=all",
                path.display()
            ),
            Error::LeftOut(path, LeftOut::Below(min)) => write!(
                f,
                "{} leaves out what lies below offset {min}; record with PARIO_TRACE=all without min",
                path.display()
            ),
            Error::Stats(path, e) => write!(f, "{} is damaged: {e}; remove it to do without", path.display()),
            Error::NoNodes(path) => {
                write!(f, "{} does not say on which nodes its processes ran", path.display())
            }
            Error::NoChunk(word) => write!(
                f,
                "no chunk is {word:?}; name one by its number, as --json shows it, or by FILE:OFFSET of a byte in it"
            ),
            Error::RescaleError(refused) => write!(f, "the plan is not rescaled: {refused}"),
            Error::Unwritten(path, e) => write!(f, "cannot write {}: {e}", path.display()),
            Error::Output(e) => write!(f, "cannot write the output: {e}"),
        }
    }
}
