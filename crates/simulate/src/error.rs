//! The reasons why a simulation cannot run.

use crate::workload::Workload;

/// A workload or a setup that cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No workload has this name.
    #[error("no workload is called {0:?}; there are: {names}", names = Workload::NAMES.join(", "))]
    Unknown(String),
    /// The workload needs a square number of ranks.
    #[error("bt needs a square number of processes, and {0} is none; try 64,100,256")]
    NotSquare(u32),
    /// A number is 0 or too large.
    #[error("the {0} is 0 or too large")]
    Number(&'static str),
    /// The recorded operations have no collective access in this direction.
    #[error("the trace has no collective access in this direction; was it PARIO_TRACE=all?")]
    NothingRecorded,
    /// The recorded operations are of another number of ranks.
    #[error("the trace is of {recorded} processes and cannot be run with {asked}")]
    Ranks {
        /// The number of ranks in the trace.
        recorded: u32,
        /// The number of ranks that the simulation was asked for.
        asked: u32,
    },
}
