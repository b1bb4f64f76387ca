//! Hints: the table of what a program or its user may ask of a file, and the typed values in force.
//!
//! A hint arrives as two strings, from an info object, a hint file or the environment. [`Hints::apply`] looks up the
//! name in the [`table`], parses the value and stores it with its [`HintSource`]. A value that is not allowed is
//! refused with one line, and the value in force does not change. Other crates use typed getters and never see a hint
//! string.
//!
//! The crate does no I/O: its callers pass file contents as text and the environment as a lookup function.
//! [`markdown`] generates the user's page on hints from the same table.
//!
//! Precedence, weakest first: built-in default, partition file, hint file, environment (`PARIO_HINTS`), info object. As in
//! ROMIO, the program's own request wins. The variable, which is set for one run, wins over the file, which serves many
//! runs, and the hint file of a user wins over the partition file, which serves many programs.
#![forbid(unsafe_code)]

mod doc;
mod getters;
mod hint_type;
mod hints;
mod schedule;
mod sources;
mod table;

pub use doc::{markdown, wrap};
pub use hint_type::{HintType, HintValue, TextFormat};
pub use hints::{ApplyOutcome, HintSource, Hints, IgnoreReason, RefusedValue};
pub use schedule::Schedule;
pub use sources::{
    HintFile, HintLine, HintProblem, InvalidLine, LineError, SYSTEM_HINT_FILE, VARIABLES, hint_file, load,
    parse_hint_file, parse_hint_variable,
};
pub use table::{HintEntry, HintFamily, HintId, HintStatus, find, suggest, table};
