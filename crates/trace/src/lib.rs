//! What was done: counters of a process, statistics of a file, and traces of single operations.
//!
//! - [`Counters`]: a few numbers per process, always on.
//! - [`FileStats`]: numbers and decisions per open file, always on; the ranks' numbers are folded into a
//!   [`FileReport`] when the file is closed (`PARIO_STATS`).
//! - [`Recorder`]: a record per operation in a file per task, agent and server (`PARIO_TRACE`);
//!   [`read`] gets the records back. The file format is in the module `format`.
//!
//! The room knows neither MPI nor the environment: whoever calls hands in the strings of variables, the rank
//! and the numbers of an error.
#![deny(unsafe_code)]

mod clock;
mod cost;
mod counters;
mod event;
mod format;
mod json;
mod lane;
mod output;
mod plain;
mod reader;
mod recorder;
mod report;
mod setup;
mod stats;
#[allow(unsafe_code)]
mod sys;

pub use clock::{Moment, Source};
pub use counters::{Counter, Counters, counters};
pub use event::{Actor, Call, Event, InView, Op, Pace, Pieces, Place, Record, kind_word, size_word};
pub use format::Header;
pub use reader::{Ending, ReadError, Reader, read};
pub use recorder::{FileId, PatternId, Recorder};
pub use report::{FileReport, StatsTo};
pub use setup::{DEFAULT_DIR, Mode, Refused, Setup, bytes};
pub use stats::{Choice, Decisions, FileNumbers, FileStats, Peak};
