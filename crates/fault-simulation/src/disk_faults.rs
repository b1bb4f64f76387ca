//! Faults of the disks of hosts.

use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use pario_runtime::simulation::file_system::{self, InjectedFault};
use pario_runtime::simulation::process::HostId;
use pario_runtime::simulation::scheduler;

use crate::faults::later;
use crate::plan::{FaultKind, Plan};

/// A fault of a disk happens within so many operations that change something.
const SOON: u64 = 40;

/// Injects a fault into the disk of a host; returns whether stored bytes may be damaged afterwards.
pub fn inject(kind: FaultKind, plan: &Plan, random: &mut Rng) -> bool {
    let host = HostId(random.u32(1..=plan.hosts));
    match kind {
        FaultKind::DiskError => {
            let is_of_reads = random.u32(0..3) == 0;
            for _ in 0..random.u32(1..4) {
                let after = random.u64(0..SOON);
                match is_of_reads {
                    true => file_system::plan_read_error(host, after),
                    false => file_system::plan_fault(host, after, InjectedFault::Fail(libc::EIO)),
                }
            }
        }
        FaultKind::DiskFull => {
            let free = [0, 4096, 40_960][random.usize(0..3)];
            file_system::limit_room(host, Some(free));
            later(&[5, 500, 6000], random, move || file_system::limit_room(host, None));
        }
        FaultKind::ReadOnly => {
            file_system::set_read_only(host, true);
            later(&[5, 500, 6000], random, move || file_system::set_read_only(host, false));
        }
        FaultKind::SlowDisk => {
            let longest = Duration::from_micros([100, 10_000, 300_000][random.usize(0..3)]);
            file_system::set_delay(host, longest);
            later(&[5, 500, 3000], random, move || file_system::set_delay(host, Duration::ZERO));
        }
        FaultKind::SyncFails => {
            file_system::plan_fault(host, random.u64(0..SOON), InjectedFault::FailSync);
            later(&[5, 500, 6000], random, move || file_system::evict(host));
            return true;
        }
        FaultKind::DiskLies => {
            lie(host, random);
            return true;
        }
        _ => unreachable!("{kind:?} is no fault of a disk"),
    }
    false
}

/// A write of data is lost, incomplete or elsewhere, or a stored byte changes. Checksums are stored apart from the data.
fn lie(host: HostId, random: &mut Rng) {
    let faults = [InjectedFault::Lose, InjectedFault::Tear, InjectedFault::Misdirect];
    if let Some(fault) = faults.get(random.usize(0..4)) {
        scheduler::log(format!("the disk of host {} will {fault:?}", host.0));
        return file_system::plan_fault(host, random.u64(0..SOON), *fault);
    }
    let stored: Vec<_> =
        file_system::files(host).into_iter().filter(|(path, len)| *len > 0 && is_data(path)).collect();
    if let Some((path, len)) = random.choice(&stored) {
        let at = random.u64(0..*len);
        scheduler::log(format!("byte {at} of {} changes on host {}", path.display(), host.0));
        file_system::rot(host, path, at, 1 << random.u32(0..8));
    }
}

/// Whether a file has blocks of a part, and no checksums or other notes.
fn is_data(path: &Path) -> bool {
    let is_part = path.components().any(|component| component.as_os_str() == "parts");
    is_part && path.extension().is_none_or(|ending| ending == "alt" || ending == "ordered")
}

/// All disks work again.
pub fn repair(plan: &Plan) {
    for host in (1..=plan.hosts).map(HostId) {
        file_system::clear_faults(host);
        file_system::limit_room(host, None);
        file_system::set_read_only(host, false);
        file_system::set_delay(host, Duration::ZERO);
    }
}
