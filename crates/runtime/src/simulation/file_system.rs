//! The file systems of simulated hosts: a disk, and memory that a host loses when it stops.
//!
//! Both are [`StorageModel`]s. Everything below `/dev/shm`, `/run` and `/proc` is in memory. Files belong to the host of the process that
//! uses them. Segments of shared memory are files without content here: the simulation keeps their real memory.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use pario_storage_model::InjectedFault;
use pario_storage_model::{InodeNumber, NodeKind, StorageModel, UNLIMITED};

use super::process::{HostId, SimulatedPid};
use super::random;
use super::scheduler::{self, Scheduler};

const IN_MEMORY: &[&str] = &["/dev/shm", "/run", "/proc"];

const DIRECTORIES_IN_MEMORY: &[&str] =
    &["/dev/shm", "/run", "/proc", "/proc/sys", "/proc/sys/kernel", "/proc/sys/kernel/random"];

/// The device of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Device {
    Disk,
    Memory,
}

/// A file of some host, whatever its names are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileIdentity {
    pub host: HostId,
    pub device: Device,
    pub inode: InodeNumber,
}

#[derive(Default)]
pub(crate) struct FileSystems {
    hosts: BTreeMap<HostId, HostFiles>,
    /// Locks on files, and the open files that hold them.
    pub locks: BTreeMap<FileIdentity, Vec<FileLock>>,
    /// The number of files that were opened.
    pub opened: u64,
}

/// A lock on a file. It ends with the open file or with the process.
pub(crate) struct FileLock {
    pub holder: u64,
    pub process: SimulatedPid,
    pub is_shared: bool,
}

/// The files of a host.
pub(crate) struct HostFiles {
    disk: StorageModel,
    memory: StorageModel,
    pub segments: BTreeMap<InodeNumber, Arc<OwnedFd>>,
    /// The longest time that an operation of the disk takes.
    delay: Duration,
}

impl Device {
    pub fn of(path: &Path) -> Device {
        let is_in_memory = IN_MEMORY.iter().any(|directory| path.starts_with(directory));
        if is_in_memory { Device::Memory } else { Device::Disk }
    }
}

impl HostFiles {
    fn new(host: HostId, boot: u64, seed: u64) -> HostFiles {
        HostFiles {
            disk: StorageModel::with_directories(seed, ["/", "/tmp", "/disk"]),
            memory: new_memory(host, boot),
            segments: BTreeMap::new(),
            delay: Duration::ZERO,
        }
    }

    pub fn device(&mut self, device: Device) -> &mut StorageModel {
        match device {
            Device::Disk => &mut self.disk,
            Device::Memory => &mut self.memory,
        }
    }
}

/// The file systems in memory of a host that has started.
fn new_memory(host: HostId, boot: u64) -> StorageModel {
    let mut memory = StorageModel::with_directories(0, DIRECTORIES_IN_MEMORY.iter().copied());
    // Names without a directory above them are roots.
    let id = format!("{:08x}-0000-4000-8000-{boot:012x}\n", host.0);
    let name = format!("host{}\n", host.0);
    for (path, text) in [("/proc/sys/kernel/random/boot_id", id), ("/proc/sys/kernel/hostname", name)] {
        let inode = memory.create(Path::new(path), NodeKind::File, 0o444).expect("a new directory");
        memory.write(inode, text.as_bytes(), 0).expect("memory");
    }
    memory
}

impl Scheduler {
    /// The files of a host.
    pub fn files_of(&mut self, host: HostId) -> &mut HostFiles {
        if !self.files.hosts.contains_key(&host) {
            let seed = random::stream(self.seed(), "disk", host.0.into()).u64(..);
            let files = HostFiles::new(host, self.boots_of(host), seed);
            self.files.hosts.insert(host, files);
        }
        let time = self.time();
        let files = self.files.hosts.get_mut(&host).expect("just made");
        files.disk.set_time(time);
        files.memory.set_time(time);
        files
    }

    /// A host starts: its memory is empty.
    pub fn forget_memory(&mut self, host: HostId) {
        let memory = new_memory(host, self.boots_of(host));
        let files = self.files_of(host);
        files.disk.evict();
        files.memory = memory;
        files.segments.clear();
        files.delay = Duration::ZERO;
    }
}

/// Waits as long as the disk of the current host takes, if this is a file on it.
#[track_caller]
pub(crate) fn pause(device: Device) {
    scheduler::point();
    let longest = scheduler::with(|scheduler| {
        let host = scheduler.host(scheduler.owner());
        scheduler.files_of(host).delay
    });
    if device == Device::Disk && longest > Duration::ZERO {
        scheduler::sleep(Duration::from_nanos(scheduler::random_below(longest.as_nanos() as u64)));
    }
}

fn with_disk<T>(host: HostId, act: impl FnOnce(&mut StorageModel) -> T) -> T {
    scheduler::with(|scheduler| act(&mut scheduler.files_of(host).disk))
}

/// A host loses power: any subset of the unsynced data survives on its disk. [`reboot`](super::process::reboot) does the rest.
pub fn lose_power(host: HostId) {
    with_disk(host, StorageModel::lose_power);
}

/// Plans a fault of a disk, after so many operations that change something.
pub fn plan_fault(host: HostId, after: u64, fault: InjectedFault) {
    with_disk(host, |disk| disk.plan(after, fault));
}

/// Plans that a read of a disk fails with EIO, after so many others.
pub fn plan_read_error(host: HostId, after: u64) {
    with_disk(host, |disk| disk.plan_read_error(after));
}

/// Removes planned faults of a disk; returns whether all of them had occurred.
pub fn clear_faults(host: HostId) -> bool {
    with_disk(host, StorageModel::clear_faults)
}

/// Other users take the room of a disk, except for so many bytes; `None`: they free it.
pub fn limit_room(host: HostId, free: Option<u64>) {
    with_disk(host, |disk| disk.set_capacity(free.map_or(UNLIMITED, |free| disk.used() + free)));
}

/// A disk refuses all changes, or no longer.
pub fn set_read_only(host: HostId, is_read_only: bool) {
    with_disk(host, |disk| disk.set_read_only(is_read_only));
}

/// Every operation of a disk takes up to this time.
pub fn set_delay(host: HostId, longest: Duration) {
    scheduler::with(|scheduler| scheduler.files_of(host).delay = longest);
}

/// Inverts bits of a byte that is stored.
pub fn rot(host: HostId, path: &Path, at: u64, bits: u8) -> bool {
    with_disk(host, |disk| disk.rot(path, at, bits))
}

/// Memory of a host is short: it drops what a failed sync could not write.
pub fn evict(host: HostId) {
    with_disk(host, StorageModel::evict);
}

/// All files on a disk, with their lengths.
pub fn files(host: HostId) -> Vec<(PathBuf, u64)> {
    with_disk(host, |disk| {
        let len = |path: &PathBuf| disk.stats(disk.find(path).ok()??).ok().map(|stats| stats.len);
        disk.files().into_iter().map(|path| (path.clone(), len(&path).unwrap_or(0))).collect()
    })
}

/// The content of a file of the process whose [invariants](super::invariants) are being checked: as the process would read it, and without
/// a scheduling point.
pub fn content_for_check(path: &Path) -> Option<Vec<u8>> {
    scheduler::with(|scheduler| {
        let host = scheduler.host(scheduler.invariants.checked()?);
        let model = scheduler.files_of(host).device(Device::of(path));
        let inode = model.find(path).ok()??;
        Some(model.content(inode).to_vec())
    })
}

/// Whether the disk of the process whose [invariants](super::invariants) are being checked has ever lost data that was written.
pub fn has_lost_data() -> bool {
    scheduler::with(|scheduler| {
        let host = scheduler.invariants.checked().map(|process| scheduler.host(process));
        host.is_none_or(|host| scheduler.files_of(host).disk.losing_syncs() > 0)
    })
}
