//! Collective I/O on a machine that is not there: which partitioning, which strategy, at which scale?
//!
//! A discrete-event simulation, seeded and exact to the nanosecond: the same input gives the same outcome everywhere. Views,
//! domains, plans, striping and locks are Pario's own rooms, driven with simulated time; pretended are networks, servers,
//! storage and clients of file systems, by the numbers of a [`Machine`].
//!
//! - [`run`]: two-phase I/O on a file system with locks, at its servers or by tokens ([`Protocol`]).
//! - [`run_partition`]: a partition's strategies, and what saturates first ([`PartitionStrategy`]).
//! - [`CLAIMS`], [`sensitivity`]: what is to be learned, and on which machines it is true.
//!
//! Pure: no files, no clock, no threads. Memory grows with ranks and servers, never with pieces.
#![forbid(unsafe_code)]

mod agenda;
mod chance;
mod claims;
mod fs;
mod link;
mod machine;
mod partition;
mod setup;
mod shuffle;
mod workload;

pub use agenda::Time;
pub use claims::{CLAIMS, Claim, Finding, Held, Variation, sensitivity, variations};
pub use fs::{Refused, run};
pub use machine::{Machine, Number};
pub use partition::{PartitionStrategy, Staged, run as run_partition};
pub use setup::{Callback, Messages, Outcome, Protocol, Rounds, Setup};
pub use workload::{Access, Error, Recorded, Size, Span, Workload};
