//! Errors of the commands on profiles and plans.

use crate::{run, trace};
use pario_profile::rescale::RescaleError;
use pario_profile::{ProfileSourceError, SourceFacts};
use std::io;
use std::path::PathBuf;

/// Why a command on a profile could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program was not run, or not to its end.
    #[error(transparent)]
    Run(#[from] run::Error),
    /// A directory whose name PARIO_TRACE cannot hold.
    #[error("{0:?} cannot be a trace directory: it has a comma or is not UTF-8")]
    Directory(PathBuf),
    /// Without Pario nothing is recorded.
    #[error("with --host-io nothing is recorded; leave it out")]
    HostIo,
    /// The traces are not there or not good.
    #[error(transparent)]
    Trace(#[from] trace::Error),
    /// The profile cannot be used.
    #[error(transparent)]
    Source(#[from] ProfileSourceError),
    /// The plan has no such chunk.
    #[error(
        "no chunk is {0:?}; name one by its number, as --json shows it, or by FILE:OFFSET of a byte in it"
    )]
    NoChunk(String),
    /// The plan is not rescaled.
    #[error("the plan is not rescaled: {0}")]
    Rescale(#[from] RescaleError),
    /// A file cannot be written.
    #[error("cannot write {path}: {1}", path = .0.display())]
    Unwritten(PathBuf, #[source] io::Error),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

impl Error {
    /// 2 where the arguments are to blame or what they name, 1 where it is the world.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Run(e) => e.exit_code(),
            Error::Output(_) | Error::Unwritten(..) => 1,
            _ => 2,
        }
    }
}

/// Prints on standard error in which way a profile is incomplete.
pub fn complain(facts: &SourceFacts) {
    facts.complaints.iter().for_each(|line| eprintln!("pario: {line}"));
}
