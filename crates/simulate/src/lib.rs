//! Simulation of collective I/O on other machines: it compares partitionings and strategies at any scale.
//!
//! The simulation is discrete-event, seeded and exact to the nanosecond: the same input gives the same outcome everywhere.
//! Views, domains, plans, striping and locks are those of Pario's own crates, driven with simulated time. Networks,
//! servers, storage and file-system clients are modelled by the numbers of a [`Machine`].
//!
//! - [`run`]: two-phase I/O on a file system with locks, at its servers or by tokens ([`Protocol`]).
//! - [`run_partition`]: a partition's strategies, and what saturates first ([`PartitionStrategy`]).
//! - [`CLAIMS`], [`sensitivity`]: conclusions, and the machines on which they hold.
//!
//! The crate is pure: no files, no clock, no threads. Memory grows with ranks and servers, never with pieces.
#![forbid(unsafe_code)]

mod claims;
mod error;
mod event_queue;
mod fs;
mod link;
mod machine;
mod partition;
mod rng;
mod setup;
mod shuffle;
mod workload;

pub use claims::{CLAIMS, Claim, ClaimResult, Finding, Variation, sensitivity, variations};
pub use error::Error;
pub use event_queue::SimTime;
pub use fs::run;
pub use machine::{Machine, Number};
pub use partition::{PartitionOutcome, PartitionStrategy, run as run_partition};
pub use setup::{Callback, Messages, Outcome, Protocol, Rounds, Setup};
pub use workload::{Access, FileSpan, RecordedCalls, Size, Workload};
