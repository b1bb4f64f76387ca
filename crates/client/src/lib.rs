//! How a program uses the files of a partition.
//!
//! - A [`Partition`] knows its servers. Each has one connection in this process, made when it is first needed
//!   and made anew when it breaks; what was not answered is asked again, and servers do nothing twice.
//! - A [`File`] moves bytes between the program's memory and the servers that hold its stripes. On the same
//!   host they are copied to or from the server's pool in shared memory, without a message if the block was
//!   seen there before. To other hosts they go as messages, to all servers at the same time.
//! - What will be read soon can be [prefetched](File::prefetch) into the servers' caches.
//! - Names are the metadata server's: see the methods of [`Partition`].
//!
//! - [`Tier1`] keeps blocks of files in this process, for programs that write the same ones again and again.
//!
//! Every request has a deadline. Nothing here reads the environment or prints, and only tier 1 starts threads.
#![forbid(unsafe_code)]

mod compare;
mod copies;
mod core;
mod counter;
mod error;
mod file;
mod lane;
mod link;
mod memory;
mod metadata;
mod names;
mod open;
mod options;
mod partition;
mod plan;
mod pool;
mod prefetch;
mod tables;
mod target;
mod through;
mod tier1;
mod transfer;
mod truncate;
mod viewed;
mod walk;

pub use core::Options;
pub use counter::Counter;
pub use error::{Cause, Error, Result};
pub use file::{File, Lock};
pub use link::Sent;
pub use metadata::Metadata;
pub use names::{DirEntry, ReadDir};
pub use options::OpenOptions;
pub use pario_layout::{Kept, Layout, Striping, Table, TableId};
pub use pario_transport::{Address, is_forked, watch_forks};
pub use pario_types::{ErrorKind, FileId, Offset, PartitionId, Pos, ServerId};
pub use pario_wire::Secret;
pub use pario_wire::greeting::Role;
pub use pario_wire::message::{Inode, Part, Room, Status};
pub use partition::Partition;
pub use target::{Resolve, Target};
pub use tier1::{Hold, Tier1, TierCounters, TierFile, TierOptions};
