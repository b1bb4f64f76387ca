//! The semantics of MPI-IO: open files, views, pointers, collective agreement, split and nonblocking access.
//!
//! The crate `capi` above turns C arguments into the types of this crate, and errors into MPI error classes. The
//! crates below compute views and move bytes. This crate interprets no MPI constant, C pointer or errno, and accesses
//! no byte of the program's memory.
#![forbid(unsafe_code)]

mod access;
mod activity;
mod amode;
mod autostart;
mod close;
mod collective;
mod control;
mod convert;
mod data_shipping;
mod datarep;
mod device_read;
mod env;
mod error;
mod file;
mod file_group;
mod file_name;
mod file_view;
pub mod handles;
mod in_flight;
mod info;
mod io_thread;
mod launcher;
mod missing_ranks;
mod node;
mod open;
mod open_announcement;
mod placement;
mod prefetch_hints;
mod rank_context;
mod rank_identity;
mod settings;
mod shared_counter;
mod storage;
pub mod tracing;
mod wait;

pub use access::{Coordination, Direction, Operand, Positioning};
pub use activity::{CallInProgress, FileCall, begin_open};
pub use amode::{Amode, AmodeBits};
pub use close::{close, delete, quiesce_all};
pub use control::{Displacement, ViewInForce, ViewRequest, Whence};
pub use datarep::{ConversionFunctions, Datarep, register as register_datarep};
pub use env::{Env, env, warn};
pub use error::{Error, Result};
pub use file::MpiFile;
pub use io_thread::Completion;
pub use open::{OpenRequest, open};
pub use pario_client::{is_forked, watch_forks};
