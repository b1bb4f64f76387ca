//! A partition as a file system of this host, so that ordinary programs see its files.
//!
//! The kernel passes what programs ask of the mounted directory on to this process (FUSE), which asks the
//! servers. `names` knows which path the kernel means, `files` does the work, `system` speaks with the
//! kernel, `mounts` finds and ends mounts. There is no cache: programs see what others write as soon as those
//! have written it.
//!
//! Mounting needs `/dev/fuse`, and for users other than root the program `fusermount3`.
#![forbid(unsafe_code)]

mod attributes;
mod errno;
mod error;
mod files;
mod listing;
mod mounts;
mod names;
mod system;

use std::io::{PipeReader, Read};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

use fuser::{BackgroundSession, Config, MountOption, Session};
use pario_client::Partition;

pub use error::Error;
pub use mounts::{Mount, at, unmount};

/// Threads that serve the kernel. A request waits for a server at most as long as the client's deadline says,
/// and holds up others only when all threads wait.
const THREADS: usize = 8;

/// A partition that is mounted.
#[derive(Debug)]
pub struct Mounted {
    dir: PathBuf,
    ended: PipeReader,
    /// Dropped, it would unmount what is mounted there by then, perhaps by somebody else.
    _serving: ManuallyDrop<BackgroundSession>,
}

/// Mounts a partition at an empty directory; it is served by threads of this process.
pub fn mount(partition: Partition, dir: &Path, read_only: bool) -> Result<Mounted, Error> {
    mounts::check_available()?;
    let dir = mounts::check_free(dir)?;
    let mut config = Config::default();
    config.n_threads = Some(THREADS);
    config.mount_options = vec![
        MountOption::FSName(mounts::source(partition.name(), partition.id())),
        MountOption::Subtype(mounts::SUBTYPE.to_owned()),
        MountOption::DefaultPermissions,
    ];
    if read_only {
        config.mount_options.push(MountOption::RO);
    }
    let (ended, ending) = std::io::pipe().map_err(Error::System)?;
    let files = files::Files::new(partition, ending);
    let session = Session::new(files, &dir, &config).and_then(Session::spawn);
    let serving = session.map_err(|cause| Error::Mount { dir: dir.clone(), cause })?;
    Ok(Mounted { dir, ended, _serving: ManuallyDrop::new(serving) })
}

impl Mounted {
    /// Where.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Becomes readable when nothing is served any more.
    pub fn ended(&self) -> &PipeReader {
        &self.ended
    }

    /// Waits until nothing is served any more.
    pub fn wait(mut self) -> Result<(), Error> {
        // Nothing is ever written to it: it ends with its other end.
        self.ended.read(&mut [0]).map(drop).map_err(Error::System)
    }
}
