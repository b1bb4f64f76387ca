//! Files on a partition, as backends of MPI-IO.
//!
//! A [`PartitionFile`] is an open file of a partition together with the tier 1 cache of this rank, if the file uses
//! one ([`ClientCache`]). It implements [`FileBackend`](pario_file_backend::FileBackend) over the crate `client`.
#![forbid(unsafe_code)]

mod client_cache;
mod partition_file;

pub use client_cache::ClientCache;
pub use partition_file::PartitionFile;
