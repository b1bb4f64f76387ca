//! The file accesses of scientific programs, as a plain MPI program: its workloads, its build and its output.
//!
//! The program is C ([`source`], in `c/`) and calls nothing but MPI, so the same binary measures the MPI library's own
//! MPI-IO and, with Pario preloaded, Pario's. It is compiled on the user's machine with the user's compiler ([`build`]),
//! because it has to fit the MPI library there. [`WORKLOADS`] lists its workloads, with the amounts of data computed
//! independently; [`WorkloadReport`] is its output on a run.
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
