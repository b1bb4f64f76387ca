//! A partition as a file system of this host, so that ordinary programs see its files.
//!
//! The kernel passes what programs ask of the mounted directory on to this process (FUSE), which asks the servers.
//! `names` knows which path the kernel means, `files` does the work, `system` speaks with the kernel, `mounts` finds and
//! ends mounts. There is no cache: programs see what others write as soon as those have written it.
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

use std::io::PipeReader;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use fuser::{Config, MountOption, Session};
use pario_client::Partition;

pub use error::Error;
pub use mounts::{Mount, at, unmount};

/// Threads that serve the kernel. A request waits for a server at most as long as the client's deadline says, and holds
/// up others only when all threads wait.
const THREADS: usize = 8;

/// A partition that is mounted.
#[derive(Debug)]
pub struct Mounted {
    dir: PathBuf,
    ended: PipeReader,
    serving: JoinHandle<std::io::Result<()>>,
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
    let files = files::Files::new(partition);
    let session =
        Session::new(files, &dir, &config).map_err(|cause| Error::Mount { dir: dir.clone(), cause })?;
    let (ended, ending) = std::io::pipe().map_err(Error::System)?;
    let serve = move || {
        let served = session.run();
        drop(ending);
        served
    };
    let serving = std::thread::Builder::new().name("pario-fuse".to_owned()).spawn(serve);
    Ok(Mounted { dir, ended, serving: serving.map_err(Error::System)? })
}

impl Mounted {
    /// Where.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Becomes readable when it is not mounted any more.
    pub fn ended(&self) -> &PipeReader {
        &self.ended
    }

    /// Waits until it is not mounted any more.
    pub fn wait(self) -> Result<(), Error> {
        let served = self.serving.join();
        served.expect("serving does not panic").map_err(|cause| Error::Served { dir: self.dir, cause })
    }
}
