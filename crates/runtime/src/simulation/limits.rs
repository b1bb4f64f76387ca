//! Limits of processes: descriptors and memory run out.

use std::collections::BTreeMap;
use std::io;

use super::process::{HostId, SimulatedPid};
use super::{counts, random, scheduler};

/// A resource that runs out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitedResource {
    /// Descriptors of files and sockets.
    Descriptors,
    /// Memory for pools and segments.
    Memory,
}

/// Those to which a limit applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitedUser {
    /// One process, as for descriptors.
    Process(SimulatedPid),
    /// All processes of a host, also those that are started later, as for memory.
    Host(HostId),
}

/// Processes and hosts that reached a limit.
pub(crate) struct Limits {
    random: fastrand::Rng,
    reached: BTreeMap<(LimitedUser, LimitedResource), u32>,
}

impl Limits {
    pub fn new(seed: u64) -> Limits {
        Limits { random: random::stream(seed, "limits", 0), reached: BTreeMap::new() }
    }
}

/// A process or host gets no more of a resource in all but one of so many cases, because other users of it come and go; 0 ends that.
pub fn set_limit(user: LimitedUser, resource: LimitedResource, granted_one_in: u32) {
    scheduler::with(|scheduler| match granted_one_in {
        0 => drop(scheduler.limits.reached.remove(&(user, resource))),
        _ => drop(scheduler.limits.reached.insert((user, resource), granted_one_in)),
    });
}

/// Takes a descriptor or memory for the running thread's process; an error if there is none left.
pub fn take(resource: LimitedResource, name: &str) -> io::Result<()> {
    scheduler::with(|scheduler| {
        if scheduler.limits.reached.is_empty() {
            return Ok(());
        }
        let owner = scheduler.owner();
        let users = [LimitedUser::Process(owner), LimitedUser::Host(scheduler.host(owner))];
        let reached = users.iter().find_map(|user| scheduler.limits.reached.get(&(*user, resource)));
        let Some(one_in) = reached.copied() else { return Ok(()) };
        if scheduler.limits.random.u32(0..one_in) == 0 {
            return Ok(());
        }
        counts::add(&mut scheduler.counts, &format!("refused {name}"), 1);
        let code = match resource {
            LimitedResource::Descriptors => libc::EMFILE,
            LimitedResource::Memory if scheduler.limits.random.bool() => libc::ENOMEM,
            LimitedResource::Memory => libc::ENOSPC,
        };
        Err(io::Error::from_raw_os_error(code))
    })
}
