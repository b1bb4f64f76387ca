//! The registry of partitions: their descriptions, and the servers that run.
//!
//! - A [`Description`] is a partition file, in TOML or in the plain format of the AHPIOS paper. Its
//!   [`Structure`] is fixed when the partition is created, its [`Settings`] may change at each start.
//! - The [`Registry`] is a directory of the user with one small file about all partitions. A process that changes it takes
//!   a lock, writes a new file and renames it, so that a crash leaves the old or the new one and readers need no lock.
//!   There is no server behind it.
//! - A [`Secret`] authenticates the clients of a partition; a [run directory](run_directory) holds a server's socket and
//!   pool.
//!
//! This crate reads no environment: callers provide the paths.
#![deny(unsafe_code)]

mod description;
mod entry;
mod error;
mod lock;
mod manifest;
mod private_path;
mod registry;
mod replace;
mod run;
mod secret;
#[allow(unsafe_code)]
mod sys;

pub use description::{
    Description, Key, Launcher, Listen, Resource, Scheduling, Settings, Structure, Water, keys,
};
pub use entry::{Entry, Running};
pub use error::{DescriptionError, Error, UnsafePath};
pub use manifest::Manifest;
pub use pario_types::Secret;
pub use registry::{PartitionLock, Registry};
pub use run::{
    RunDirectory, Supervision, leave_run_directory, remove_run_directory, run_base, run_directories,
    run_directory, run_directory_path,
};

/// Returns so many unpredictable random bytes.
fn random_bytes<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::io("get random bytes from", "the kernel")(error.into()))?;
    Ok(bytes)
}
