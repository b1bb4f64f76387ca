//! Launching and supervising the servers of a partition, and launching MPI programs ([`mpi_program`]).
//!
//! A server is started on its node by a launcher ([`launcher`]: a process of this host, `ssh`, `srun` or `mpiexec`), which runs
//! `pario serve` there ([`serve`]). The starting side ([`start`]) and the server exchange lines of JSON ([`message`]) over the
//! server's standard input and output until it serves. A supervisor ([`supervisor`]) stays on the node and starts another server
//! when one dies. What else has to be done on a node, such as storing what the pool of a dead server holds, is a task
//! ([`task`]), which takes the same route.
//!
//! The crate reads no environment: [`LaunchSettings`] has what the user may choose. The program that uses it runs [`serve::run`] if
//! its arguments are those of [`serve::arguments`].
#![forbid(unsafe_code)]

mod error;
pub mod host;
pub mod launcher;
pub mod message;
mod method;
pub mod mpi_program;
pub mod pools;
mod process;
pub mod reach;
pub mod serve;
mod server_process;
mod settings;
mod signals;
pub mod start;
mod supervised;
mod supervisor;
pub mod task;

pub use error::{Error, LaunchFailure};
pub use launcher::{Launch, NodeLauncher};
pub use method::LaunchMethod;
pub use process::LaunchedProcess;
pub use settings::{LaunchSettings, run_base};
pub use signals::start_session;
