//! The process that serves a mount: it mounts, waits for a reason to end, and unmounts.

use super::{Arguments, Error};
use crate::env::Environment;
use crate::{partition, signal};
use pario_client::{Options, Partition, PartitionId};
use pario_fuse::Mounted;
use pario_registry::Registry;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;

/// How often the registry is asked whether the partition is still up.
const INTERVAL: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Mounts the partition and serves it to the end; says in between that it is mounted. If `attached` that is
/// also the end of the standard input.
pub fn serve(
    arguments: &Arguments,
    env: &Environment,
    attached: bool,
    ready: impl FnOnce() -> io::Result<()>,
) -> Result<(), Error> {
    let Arguments { name, dir, read_only, .. } = arguments;
    signal::watch().map_err(Error::System)?;
    let registry = partition::registry(env)?;
    let partition = Partition::open_as_described(registry.dir(), name, Options::default())?;
    let id = partition.id();
    let mounted = pario_fuse::mount(partition, dir, *read_only)?;
    // The process that waits for this line may be gone: then there is no reason to go on.
    let served = ready().and_then(|()| stay(&mounted, attached, || is_up(&registry, name, id)));
    let unmounted = end(mounted);
    served.map_err(Error::System).and(unmounted)
}

/// Waits until it is unmounted or should be.
fn stay(mounted: &Mounted, attached: bool, is_up: impl Fn() -> bool) -> io::Result<()> {
    let input = io::stdin();
    while signal::asked_to_end().is_none() {
        let mut ends = vec![PollFd::new(mounted.ended(), PollFlags::IN)];
        if attached {
            ends.push(PollFd::new(&input, PollFlags::IN));
        }
        match poll(&mut ends, Some(&INTERVAL)) {
            Ok(0) if is_up() => {}
            Err(rustix::io::Errno::INTR) => {}
            // It was unmounted, the process that started it is gone, or the partition is down.
            Ok(_) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Whether the partition is up; in doubt it is.
fn is_up(registry: &Registry, name: &str, id: PartitionId) -> bool {
    match registry.get(name) {
        Ok(entry) => entry.id == id && !entry.running.is_empty(),
        Err(pario_registry::Error::NoPartition(_)) => false,
        Err(_) => true,
    }
}

/// Unmounts it if it still is. Programs that use it then do not hold this up: they get errors from now on.
fn end(mounted: Mounted) -> Result<(), Error> {
    match pario_fuse::unmount(mounted.dir(), false) {
        Ok(()) | Err(pario_fuse::Error::NotMounted(_)) => Ok(mounted.wait()?),
        Err(pario_fuse::Error::Busy(dir)) => Ok(pario_fuse::unmount(&dir, true)?),
        Err(error) => Err(error.into()),
    }
}
