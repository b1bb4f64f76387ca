//! The semantics of MPI-IO: open files, views, pointers, collective agreement, split and nonblocking access.
//!
//! The C edge above turns C arguments into the types of this room and errors into classes; the rooms below
//! compute views and move bytes. No MPI number, C pointer or errno is interpreted here, and no byte of the
//! program's memory is touched.
#![forbid(unsafe_code)]

mod access;
mod amode;
mod busy;
mod collective;
mod control;
mod convert;
mod datarep;
mod env;
mod error;
mod file;
pub mod handles;
mod job;
mod name;
mod open;
mod placing;
mod ranges;
mod remote;
mod settings;
mod shipment;
mod storage;
mod team;
mod tier;
pub mod tracing;
mod wait;
mod window;
mod worker;

pub use access::{Direction, Operand, Place, Reach};
pub use amode::{Amode, AmodeBits};
pub use control::{Displacement, ViewInForce, ViewRequest, Whence};
pub use datarep::{Conversion, Datarep, register as register_datarep};
pub use env::{Env, env, say};
pub use error::{Error, Result};
pub use file::File;
pub use open::{OpenRequest, close, delete, open, settle_all};
pub use pario_client::{is_forked, watch_forks};
pub use worker::Ticket;
