//! Files that all processes of a parallel program share, spread over the storage of its nodes.
//!
//! A *partition* is a set of storage servers that `pario up` starts; it has a name. A program opens the
//! partition and then its files:
//!
//! ```no_run
//! # fn main() -> pario::Result<()> {
//! let partition = pario::open("scratch")?;
//! let file = partition.open("/results", pario::OpenOptions::new().write(true).create(true))?;
//! file.write_at(b"42", 0)?;
//! file.close()
//! # }
//! ```
//!
//! A file's bytes lie in stripes on all servers. On the same host they are copied to and from a server's memory directly;
//! other hosts are reached by TCP. Every access has its own offset, so threads and processes do not interfere. Writes for
//! which [`File::write_at`] returned `Ok` survive the end of any process, and writes before a [`File::sync`] that returned
//! `Ok` survive a loss of power; `docs/SEMANTICS.md` has all guarantees.
//!
//! Separate pieces can be accessed together, by a list ([`File::write_vectored_at`]) or through a [`View`]
//! ([`File::write_view`]), see [`view`].
#![forbid(unsafe_code)]

mod env;
mod scaling;
pub mod view;

/// A partition.
///
/// ```no_run
/// # fn main() -> pario::Result<()> {
/// let partition = pario::open("scratch")?;
/// partition.create_dir_all("/run 7/fields")?;
/// for entry in partition.read_dir("/run 7") {
///     let entry = entry?;
///     println!("{} {}", entry.name(), entry.metadata()?.len());
/// }
/// partition.rename("/run 7", "/last run")?;
/// # Ok(())
/// # }
/// ```
#[doc(inline)]
pub use pario_client::Partition;

/// A cache of blocks of files in this process's own memory, which are written back later.
///
/// ```no_run
/// # fn main() -> pario::Result<()> {
/// # let partition = pario::open("scratch")?;
/// let file = partition.open("/field", pario::OpenOptions::new().read(true).write(true).create(true))?;
/// let team = 0x8d3f; // the same in all processes of the program, and in no other program
/// let kept = partition.tier1().open(&file, team, &pario::TierOptions::default())?;
/// kept.write_at(&[1; 4096], 65536)?; // in memory; others who read it get it from here
/// kept.close(false)?;
/// file.close()
/// # }
/// ```
#[doc(inline)]
pub use pario_client::Tier1;
#[doc(inline)]
pub use pario_client::{Hold, TierCounters, TierFile, TierOptions};

/// An open file of a partition.
///
/// ```no_run
/// # fn main() -> pario::Result<()> {
/// # let partition = pario::open("scratch")?;
/// let file = partition.open("/field", pario::OpenOptions::new().read(true).write(true).create(true))?;
/// file.set_len(1 << 20)?;
/// file.write_at(&[1; 4096], 65536)?;
/// let mut bytes = [0; 4096];
/// assert_eq!(file.read_at(&mut bytes, 65536)?, 4096);
/// file.sync()?; // survives a loss of power from here on
/// file.close()
/// # }
/// ```
#[doc(inline)]
pub use pario_client::File;

/// The options of an open.
///
/// ```
/// use pario::OpenOptions;
///
/// let mut options = OpenOptions::new();
/// options.write(true).create_new(true).stripe(1 << 20).stripe_count(4);
/// ```
#[doc(inline)]
pub use pario_client::OpenOptions;

/// The metadata of a file or directory.
///
/// ```no_run
/// # fn main() -> pario::Result<()> {
/// let metadata = pario::open("scratch")?.metadata("/field")?;
/// println!("{} bytes, changed {:?}", metadata.len(), metadata.modified());
/// # Ok(())
/// # }
/// ```
#[doc(inline)]
pub use pario_client::Metadata;

#[doc(inline)]
pub use pario_client::{DirEntry, ReadDir};

/// A failed operation: one line if shown, and a [kind](Error::kind) to act on.
///
/// ```no_run
/// use pario::{ErrorKind, OpenOptions};
///
/// # fn main() -> pario::Result<()> {
/// # let partition = pario::open("scratch")?;
/// match partition.open("/input", OpenOptions::new().read(true)) {
///     Err(error) if error.kind() == ErrorKind::NoSuchFile => println!("nothing to do"),
///     outcome => println!("{}", outcome?.len()?),
/// }
/// # Ok(())
/// # }
/// ```
#[doc(inline)]
pub use pario_client::Error;
#[doc(inline)]
pub use pario_client::{Cause, ErrorKind, Result};

/// The options of a partition: above all the deadline of a request.
///
/// ```
/// use std::time::Duration;
///
/// let patient = pario::Options { deadline: Duration::from_secs(120), ..pario::Options::default() };
/// ```
#[doc(inline)]
pub use pario_client::Options;
#[doc(inline)]
pub use pario_client::Role;

#[doc(inline)]
pub use pario_client::{Address, Resolve, Secret, Target};

#[doc(inline)]
pub use pario_client::{Epoch, FileId, Layout, Offset, PartitionId, PlacementMap, Pos, ServerId, Striping};

#[doc(inline)]
pub use pario_client::{ServerStatus, StorageSpace};

#[doc(inline)]
pub use pario_view::View;

pub use scaling::{Scaling, scale};

/// Opens the partition of that name: one that is up, in the registry in `$PARIO_HOME` or else in `~/.pario`.
///
/// ```no_run
/// # fn main() -> pario::Result<()> {
/// let partition = pario::open("scratch")?;
/// println!("{} bytes free", partition.statfs()?.free);
/// # Ok(())
/// # }
/// ```
pub fn open(name: &str) -> Result<Partition> {
    Partition::open_as_described(&registry()?, name, Options::default())
}

/// The same with other options.
pub fn open_with(name: &str, options: Options) -> Result<Partition> {
    Partition::open_by_name(&registry()?, name, options)
}

fn registry() -> Result<std::path::PathBuf> {
    env::registry().ok_or_else(|| {
        Error::Target("neither PARIO_HOME nor HOME is set: where is the registry of partitions?".into())
    })
}
