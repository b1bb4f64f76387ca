//! The semantics of MPI-IO: open files, views, pointers, collective agreement, split and nonblocking access.
//!
//! The C edge above turns C arguments into the types of this room and errors into classes; the rooms below
//! compute views and move bytes. No MPI number, C pointer or errno is interpreted here, and no byte of the
//! program's memory is touched.
#![forbid(unsafe_code)]

mod access;
mod amode;
mod client_cache;
mod collective;
mod control;
mod convert;
mod data_shipping;
mod datarep;
mod env;
mod error;
mod file;
mod file_group;
mod file_name;
mod file_view;
pub mod handles;
mod in_flight;
mod io_thread;
mod launcher;
mod node;
mod open;
mod partition_backing;
mod placement;
mod prefetch_hints;
mod settings;
mod shared_counter;
mod storage;
pub mod tracing;
mod wait;

pub use access::{Coordination, Direction, Operand, Positioning};
pub use amode::{Amode, AmodeBits};
pub use control::{Displacement, ViewInForce, ViewRequest, Whence};
pub use datarep::{ConversionFunctions, Datarep, register as register_datarep};
pub use env::{Env, env, warn};
pub use error::{Error, Result};
pub use file::File;
pub use io_thread::Completion;
pub use open::{OpenRequest, close, delete, open, quiesce_all};
pub use pario_client::{is_forked, watch_forks};
