//! The test harness that runs real MPI programs, with and without Pario in front of their MPI.
//!
//! A test compiles a program with a host's own compiler ([`compile`]), starts it under that host's launcher
//! ([`ProgramRun`]), once alone and once with `libpario.so` preloaded into its ranks, and compares what came out.
//! Everything is bounded: a run that does not end in time is killed with all its processes and reported;
//! runs share the machine's cores by a counting gate, so that spinning ranks do not starve each other.
//! Nothing here is part of the product; it is a library only so that several test files can share it.

#![forbid(unsafe_code)]

mod build;
pub mod dice;
mod eventually;
mod files;
mod gate;
mod host;
mod hosts;
mod library;
mod mount;
pub mod partition;
mod process;
pub mod processes;
mod run;
mod stats;
pub mod torture;

pub use build::{SourceKind, compile, compile_text};
pub use eventually::eventually;
pub use files::{Scratch, same_bytes, same_directory, same_file, scratch};
pub use host::{BOTH, HostMpi, InstalledKind};
pub use hosts::Hosts;
pub use library::{libpario, pario, target_dir, workspace_dir};
pub use mount::TmpfsMount;
pub use run::{Front, Output, ProgramRun, RunStatus, execute};
pub use stats::{Stats, StatsReport};
