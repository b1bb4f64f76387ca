//! Counters of a process, statistics of a file, and traces of single operations.
//!
//! - [`ProcessCounters`]: a few counters per process, always on.
//! - [`FileStats`]: counters and decisions per open file, always on; those of all ranks are reduced to a
//!   [`FileReport`] when the file is closed (`PARIO_STATS`).
//! - [`Recorder`]: a record per operation in a file per task, agent and server (`PARIO_TRACE`);
//!   [`read`] gets the records back. The file format is in the module `format`.
//!
//! The crate knows neither MPI nor the environment: the caller passes the values of variables, the rank and the codes of
//! an error.
#![deny(unsafe_code)]

mod clock;
mod cost;
mod counters;
mod event;
mod format;
mod json;
mod output;
mod plain;
mod reader;
mod recorder;
mod report;
mod selection;
mod setup;
mod stats;
#[allow(unsafe_code)]
mod sys;
mod thread_buffer;

pub use clock::{ClockSource, Moment};
pub use counters::{ProcessCounter, ProcessCounters, counters};
pub use event::{
    Actor, InView, Pace, PointerKind, Record, TraceEvent, TracedCall, TracedOp, TracedPieces, kind_word,
};
pub use format::TraceHeader;
pub use reader::{TraceEnding, TraceReadError, TraceReader, read};
pub use recorder::{PatternId, Recorder, TracedFile};
pub use report::{FileReport, StatsTo};
pub use selection::{MergedTrace, TraceSelection, TraceSelectionError, TraceSource, trace_files};
pub use setup::{DEFAULT_DIR, SettingError, TraceMode, TraceSetup};
pub use stats::{Decisions, FileStats, FileTotals, Peak, StrategyChoice};
