//! The file accesses of scientific programs, as a plain MPI program: what there is, how to build it, what it
//! says.
//!
//! The program is C ([`source`], in `c/`) and calls nothing but MPI, so the same binary measures the MPI
//! library's own MPI-IO and, with Pario preloaded, Pario's. It is compiled on the user's machine with the
//! user's compiler ([`build`]), because there is no other way to fit the MPI library there. [`WORKLOADS`] is
//! what it can do, with the amounts of data worked out a second time; [`WorkloadReport`] is what it prints about a
//! run.
#![forbid(unsafe_code)]

mod build;
mod report;
pub mod source;
mod table;

pub use build::{Error, build};
pub use report::{
    SizedFile, WorkloadDescription, WorkloadOutcome, WorkloadPlace, WorkloadReport, WorkloadTally,
};
pub use table::{Preset, Ranks, WORKLOADS, WorkloadInfo, workload};
