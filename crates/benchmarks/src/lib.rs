//! Measurements of Pario on real hardware.
//!
//! - A [`Comparison`] runs workloads with several [`Contender`]s in turn and collects [`ComparisonResults`]; statistics
//!   on them are in [`statistics`]. The caller runs the programs ([`WorkloadRunner`]).
//! - A [`ModelRun`] measures the I/O models of `pario-io-models`: it gives orders to worker processes on [`ModelHosts`]. The
//!   workers themselves are [`host_worker`] and [`process_worker`]; the caller starts them ([`HostLauncher`]).
#![forbid(unsafe_code)]

mod comparison;
mod contender;
mod error;
pub mod host_worker;
mod model_directory;
mod model_hosts;
mod model_run;
mod orders;
pub mod process_worker;
mod results;
pub mod statistics;
mod traced_program;
mod workload_process;

pub use comparison::{Case, Comparison, WorkloadRunner, parse_cases};
pub use contender::{Contender, ParioStorage, Rival, RunSetting, contenders};
pub use error::Error;
pub use model_directory::ModelDirectory;
pub use model_hosts::{HostLauncher, HostProcess, LostHost, ModelHosts, Stop};
pub use model_run::{ModelRun, ModelRunOutcome};
pub use orders::{MESSAGE_VERSION, ModelOrder, ModelStep, StepReport, WorkerStart};
pub use results::{ComparisonResults, ContenderSeries, PHASES, Phase};
pub use traced_program::{TracedAccesses, TracedProgram};
pub use workload_process::{ScratchDirectory, WorkloadProcess};
