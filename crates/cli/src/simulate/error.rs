//! Errors of `pario simulate`.

use pario_simulate::Machine;
use std::io;
use std::path::PathBuf;

/// Why `pario simulate` could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The simulation cannot run this workload or this setup.
    #[error(transparent)]
    Simulation(#[from] pario_simulate::Error),
    /// The machine has no number of that name.
    #[error("the machine has no number {0:?}; did you mean {near:?}? --machine lists them", near = nearest_number(.0))]
    UnknownNumber(String),
    /// There is no trace to read.
    #[error(transparent)]
    Trace(#[from] pario_trace::TraceSelectionError),
    /// A file of results could not be written.
    #[error("cannot write {path}: {1}", path = .0.display())]
    Unwritten(PathBuf, #[source] io::Error),
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
}

fn nearest_number(name: &str) -> &'static str {
    let nearest = Machine::NUMBERS.iter().min_by_key(|number| strsim::levenshtein(number.name, name));
    nearest.map_or("", |number| number.name)
}
