//! Hints: one table of what a program or its user may ask of a file, and the typed values in force.
//!
//! A hint arrives as two strings, from an info object, a hint file or the environment. [`Hints::apply`]
//! looks the name up in the one [`table`], turns the value into a typed one and keeps it with its
//! [`Source`]; a bad value is refused with one clear line and the value in force stays. The rest of the
//! system reads typed getters and never sees a hint string.
//!
//! The crate is pure: file contents come in as text and the environment as a lookup function. The user's
//! page on hints is written from the same table by [`markdown`].
//!
//! Precedence, weakest first: built-in default, hint file, environment (`PARIO_HINTS`), info object. What
//! the program itself asks for wins, as in ROMIO; the variable on the command line of one run wins over
//! the file that serves many.
#![forbid(unsafe_code)]

mod doc;
mod kind;
mod set;
mod sources;
mod table;
mod typed;

pub use doc::{markdown, wrap};
pub use kind::{Form, Kind, Value};
pub use pario_types::Toggle;
pub use set::{Hints, Ignored, Outcome, Refusal, Source};
pub use sources::{
    BadLine, Complaint, Fault, HintFile, HintLine, SYSTEM_HINT_FILE, VARIABLES, hint_file, load,
    parse_hint_file, parse_hint_variable,
};
pub use table::{Entry, Family, Id, Status, find, table};
