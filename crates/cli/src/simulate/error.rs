//! Why `pario simulate` could not do its work.

use pario_simulate::Machine;
use std::fmt;
use std::io;
use std::path::PathBuf;

#[derive(Debug)]
pub enum Error {
    /// The simulation cannot run this workload or this setup.
    Simulation(pario_simulate::Error),
    /// The machine has no number of that name.
    UnknownNumber(String),
    /// The trace's directory could not be listed.
    Unlisted(PathBuf, io::Error),
    /// A trace gave nothing.
    Trace(pario_trace::TraceReadError),
    /// A file of results could not be written.
    Unwritten(PathBuf, io::Error),
    /// The output could not be written.
    Output(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Simulation(e) => e.fmt(f),
            Error::UnknownNumber(name) => {
                let near = Machine::NUMBERS
                    .iter()
                    .min_by_key(|n| strsim::levenshtein(n.name, name))
                    .map_or("", |n| n.name);
                write!(f, "the machine has no number {name:?}; did you mean {near:?}? --machine lists them")
            }
            Error::Unlisted(path, e) => {
                write!(f, "no trace in {}: {e}; a run with PARIO_TRACE=all makes one", path.display())
            }
            Error::Trace(e) => e.fmt(f),
            Error::Unwritten(path, e) => write!(f, "cannot write {}: {e}", path.display()),
            Error::Output(e) => write!(f, "cannot write the output: {e}"),
        }
    }
}

impl From<pario_simulate::Error> for Error {
    fn from(e: pario_simulate::Error) -> Error {
        Error::Simulation(e)
    }
}
