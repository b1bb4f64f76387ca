//! The host MPI of this process, reached by name at run time, behind a safe wrapper.
//!
//! Nothing here is linked against an MPI. At the first call [`host`] finds the MPI library that the
//! process has loaded, binds the `PMPI_*` functions it needs from *that* library (never names that this
//! library exports itself), and picks the constants of its binary interface: the MPICH family, Open MPI,
//! or the MPI-5 standard ABI. Handles cross the boundary as `usize` and live on as opaque newtypes;
//! numbers of a foreign ABI do not leave this crate except through [`Constants`].
//!
//! Handles are passed to every host as 64-bit integers. MPICH declares them `int`: on the supported
//! platforms (64-bit little-endian Linux) a callee reads the low half of the register or stack slot, and
//! a handle written through a pointer fills the low half of a zeroed word.
//!
//! Rules kept here: MPI is called only from the thread that is inside an MPI call; every function called
//! back by the host stops panics; nothing is freed behind the program's back.

mod abi;
mod attached;
mod callback;
mod comm;
mod datatype;
mod errhandler;
mod error;
mod finalize;
mod find;
mod functions;
mod handles;
mod info;
mod layout;
mod message;
mod named;
mod owned;
mod request;
mod status;
mod validity;

pub use abi::{AbiFamily, Combiners, Constants, ErrorClasses, Handles, Numbers};
pub use attached::Attachment;
pub use comm::{Comm, OwnedComm, Reduce};
pub use error::HostError;
pub use find::UnrecognisedHost;
pub use handles::{ErrhandlerHandle, Host, InfoHandle, TypeHandle, host};
pub use layout::DatatypeLayout;
pub use message::{MAX_MESSAGE, Message};
pub use request::Pending;

#[cfg(not(all(target_pointer_width = "64", target_endian = "little", target_os = "linux")))]
compile_error!("mpi-host passes handles as 64-bit little-endian words, as on 64-bit Linux");
