//! Collective I/O on a machine that is not there.
#![forbid(unsafe_code)]

mod agenda;
mod chance;
mod fs;
mod link;
mod machine;
mod partition;
mod setup;
mod shuffle;
mod workload;

pub use agenda::Time;
pub use fs::{Refused, run};
pub use machine::{Machine, Number};
pub use partition::{Staged, Strategy, run as run_partition};
pub use setup::{Callback, Messages, Outcome, Protocol, Rounds, Setup};
pub use workload::{Access, Error, Recorded, Size, Span, Workload};
