//! I/O models: every way in which the processes of a program may share files, from one process with one file to
//! a file for each process or one file for all, and how fast they are.
//!
//! A [`Model`] says which process writes which part of which file; a [`ModelGrid`] has all of them up to a number of
//! nodes and of processes per node. The caller runs them and provides a [`Measurement`] for each run. A [`Board`] sorts
//! those into cells by (log2 of processes, log2 of processes per file) and reduces each cell to a value. The crate
//! `reports` writes measurements as CSV and draws boards.
//!
//! Nothing here runs a model, reads a file or knows the time.
#![forbid(unsafe_code)]

mod board;
pub mod content;
mod grid;
mod mark;
mod measure;
mod model;
mod reduce;
mod text;

pub use board::{Board, BoardEntry, Cell};
pub use grid::{GridError, ModelGrid};
pub use mark::{Gap, Mark};
pub use measure::{Measurement, Metric, ModelOp, Series};
pub use model::{Bin, Model, ProcessShare, Spot};
pub use reduce::{Reducer, median};
pub use text::{power, rate};
