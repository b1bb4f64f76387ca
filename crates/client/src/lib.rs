//! The client of a partition: it opens, reads and writes the partition's files.
//!
//! - A [`Partition`] knows its servers (`connection`). This process has one connection to each server, which it makes at the first
//!   use and again when it breaks. It repeats requests without a reply, and servers apply each request once.
//! - A [`File`] moves bytes between the program's memory and the servers that hold its stripes (`io`). On the same host it copies to
//!   or from the server's pool in shared memory, without a message if the block is there. To other hosts it sends messages, to
//!   all servers at the same time. [Prefetching](File::prefetch) brings bytes into the servers' caches before they are read.
//! - The metadata server keeps names, attributes and open files (`metadata`): see the methods of [`Partition`].
//! - Bytes of a placed file may lie on several servers (`replicas`).
//! - [`Tier1`] caches blocks of files in this process (`client_cache`), for programs that write the same blocks repeatedly.
//!
//! Every request has a deadline. Nothing here reads the environment or prints, and only the client cache starts threads.
#![forbid(unsafe_code)]

mod client_cache;
mod client_core;
mod connection;
mod error;
mod file;
mod io;
mod metadata;
mod partition;
mod replicas;

pub use client_cache::{Hold, Tier1, TierCounters, TierFile, TierOptions};
pub use client_core::Options;
pub use connection::server_connection::RequestCounts;
pub use connection::target::{Resolve, Target};
pub use error::{Cause, Error, Result};
pub use file::{File, Lock};
pub use metadata::attributes::Metadata;
pub use metadata::names::{DirEntry, ReadDir};
pub use metadata::open_options::OpenOptions;
pub use metadata::shared_counter::Counter;
pub use pario_layout::{Layout, PlacedExtent, PlacementMap, PlacementMapId, Striping};
pub use pario_transport::{Address, is_forked, watch_forks};
pub use pario_types::{Epoch, ErrorKind, FileId, Offset, PartitionId, Pos, ServerId};
pub use pario_wire::Secret;
pub use pario_wire::greeting::Role;
pub use pario_wire::message::{Inode, LocalPart, ServerStatus, StorageSpace};
pub use partition::Partition;
