//! Launching and supervising the servers of a partition, and launching MPI programs ([`mpi_program`]).
//!
//! A server is started on its node by a launcher ([`launcher`]: a process of this host, `ssh`, `srun` or `mpiexec`), which runs
//! `pario serve` there ([`serve`]). The starting side ([`start`]) and the server exchange lines of JSON ([`message`]) over the
//! server's standard input and output until it serves. A supervisor ([`supervisor`]) stays on the node and starts another server
//! when one dies. What else has to be done on a node, such as storing what the pool of a dead server holds, is a task
//! ([`task`]), which takes the same route.
//!
//! [`bring_up`] and [`take_down`] do this for all servers of a partition, [`adopt`] registers a partition from its servers'
//! directories.
//!
//! The crate reads no environment: [`LaunchSettings`] has what the user may choose. The program that uses it runs [`serve::run`] if
//! its arguments are those of [`serve::arguments`].
#![forbid(unsafe_code)]

mod adoption;
mod bring_up;
mod error;
pub mod host;
pub mod launcher;
pub mod message;
mod method;
pub mod mpi_program;
mod node_list;
mod on_demand;
mod partition_status;
mod partition_survey;
pub mod pools;
mod process;
pub mod reach;
mod scale;
pub mod serve;
mod server_process;
mod settings;
#[cfg_attr(pario_simulation, path = "simulated/signals.rs")]
mod signals;
pub mod start;
mod supervised;
mod supervisor;
mod take_down;
pub mod task;
mod unsettled;

pub use adoption::{AdoptionError, AdoptionRequest, adopt};
pub use bring_up::{StartedPartition, bring_up, bring_up_adopted, bring_up_known};
pub use error::{Error, LaunchFailure};
pub use launcher::{Launch, NodeLauncher};
pub use method::LaunchMethod;
pub use node_list::node_names;
pub use on_demand::{OnDemandError, OnDemandPartition, OnDemandRequest, plain_path};
pub use partition_status::{PartitionStatus, ServerCondition};
pub use partition_survey::{FoundPool, PartitionSurvey, SurveyedPartition, UnaskedHost};
pub use process::LaunchedProcess;
pub use scale::{ScaleError, ScaledPartition, add_servers, resume_scaling};
pub use settings::{LaunchSettings, run_base};
pub use signals::start_session;
pub use take_down::{StopOptions, take_down};
pub use unsettled::UnsettledServer;
