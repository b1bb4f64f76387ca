//! A partition as a file system of this host, so that ordinary programs see its files.
//!
//! The kernel passes the requests of programs on the mounted directory to this process (FUSE), which sends them to the
//! servers. `names` maps inode numbers to paths, `files` does the work, `system` communicates with the kernel, `mounts`
//! finds mounts and unmounts. There is no cache: programs see the writes of others as soon as they are done.
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

/// Threads that serve the kernel. A request waits for a server at most until the client's deadline, and delays others only
/// when all threads wait.
const THREADS: usize = 8;

/// A partition that is mounted.
#[derive(Debug)]
pub struct Mounted {
    dir: PathBuf,
    ended: PipeReader,
    /// If it were dropped, it would unmount whatever is mounted there by then.
    _serving: ManuallyDrop<BackgroundSession>,
}

/// Mounts a partition at an empty directory; threads of this process serve it.
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
    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Becomes readable when the mount is no longer served.
    pub fn ended(&self) -> &PipeReader {
        &self.ended
    }

    /// Waits until the mount is no longer served.
    pub fn wait(mut self) -> Result<(), Error> {
        // Nothing is ever written to the pipe: the read ends when its other end is closed.
        self.ended.read(&mut [0]).map(drop).map_err(Error::System)
    }
}
