//! Faults, one after another, at times that the seed chooses.

use std::time::Duration;

use fastrand::Rng;
use pario_runtime::simulation::process::{self, HostId, SimulatedPid};
use pario_runtime::simulation::{counts, file_system, network, scheduler, stall};
use pario_runtime::thread;

use crate::cluster::Cluster;
use crate::disk_faults;
use crate::host_faults;
use crate::managed::Managed;
use crate::orphans;
use crate::plan::{FaultKind, Plan};

/// No reply is shorter.
const LEAST_REPLY: usize = 8;

/// A client process and the worker that it runs.
pub type ClientProcess = (u32, SimulatedPid);

/// The effect of a fault on clients.
#[derive(Default)]
pub struct Damage {
    /// Workers that it killed.
    pub killed: Vec<u32>,
    /// When the memory of hosts was lost.
    pub loss: Option<u64>,
    /// When hosts lost power.
    pub power_loss: Option<u64>,
    /// Whether stored bytes may be damaged.
    pub is_storage_damaged: bool,
}

/// Injects one fault. Its random numbers are its own: what one fault draws does not change the others.
pub fn inject(plan: &Plan, cluster: &Cluster, clients: &[ClientProcess], random: &mut Rng) -> Damage {
    let kind = plan.draw_fault(random);
    let mut server = random.usize(0..plan.servers.into());
    let mut of_client = !clients.is_empty() && random.u32(0..3) == 0;
    let mut client = random.choice(clients).copied();
    // A process of which a thread pauses is the better victim.
    if let Some(paused) = stall::paused_process().filter(|_| plan.faults_at_stalls && random.u32(0..3) > 0) {
        let paused_client = clients.iter().find(|client| client.1 == paused);
        let paused_server = (0..plan.servers.into()).find(|index| cluster.process(*index) == Some(paused));
        (client, server) = (paused_client.copied().or(client), paused_server.unwrap_or(server));
        of_client = paused_client.is_some();
    }
    counts::count(&format!("fault {}", kind.name()));
    scheduler::log(format!(
        "fault: {kind:?}, {}",
        if of_client { "client".into() } else { format!("server {server}") }
    ));
    let process = match (&cluster.managed, of_client) {
        (_, true) => client.map(|client| client.1),
        (Some(managed), false) => managed.victim(random),
        (None, false) => cluster.process(server),
    };
    match kind {
        FaultKind::Kill => {
            process.into_iter().for_each(process::kill);
            let killed = client.filter(|_| of_client).map(|client| client.0);
            return Damage { killed: killed.into_iter().collect(), ..Damage::default() };
        }
        FaultKind::Stop => {
            if let Some(process) = process {
                process::stop(process);
                later(&[5, 500, 6000], random, move || process::resume_process(process));
            }
        }
        FaultKind::Terminate => match &cluster.managed {
            Some(managed) => managed.terminate(random),
            None => cluster.terminate(server),
        },
        FaultKind::Up | FaultKind::Down | FaultKind::Check | FaultKind::Copy | FaultKind::Scale => {
            if let Some(managed) = &cluster.managed {
                managed.start_command(kind, random);
            }
        }
        FaultKind::Orphan => orphans::orphan(plan, random),
        FaultKind::LostReply => {
            if let Some((_, client)) = client {
                let _ = network::tear_connection(client, LEAST_REPLY, random);
            }
        }
        FaultKind::Break => drop(process.map(|process| network::break_connection(process, random))),
        FaultKind::Cut => {
            let host = HostId(random.u32(1..=plan.hosts));
            network::set_cut(host, true);
            later(&[5, 500, 6000], random, move || network::set_cut(host, false));
        }
        FaultKind::HostLost | FaultKind::PowerLost => {
            let host = HostId(random.u32(1..=plan.hosts));
            // What `down` has stored is not lost.
            let is_stored = cluster.managed.as_ref().is_some_and(Managed::is_stored);
            process::reboot(host);
            if let Some(managed) = cluster.managed.as_ref().filter(|_| random.bool()) {
                managed.bring_up_soon(random);
            }
            let is_killed = |client: &&ClientProcess| !process::is_alive(client.1);
            let killed = clients.iter().filter(is_killed).map(|client| client.0).collect();
            let loss = (!is_stored).then(scheduler::now);
            if kind == FaultKind::PowerLost {
                file_system::lose_power(host);
                return Damage { killed, power_loss: loss, ..Damage::default() };
            }
            return Damage { killed, loss, ..Damage::default() };
        }
        FaultKind::DiskError
        | FaultKind::DiskFull
        | FaultKind::ReadOnly
        | FaultKind::SyncFails
        | FaultKind::SlowDisk
        | FaultKind::DiskLies => {
            let is_storage_damaged = disk_faults::inject(kind, plan, random);
            return Damage { is_storage_damaged, ..Damage::default() };
        }
        FaultKind::Delay
        | FaultKind::HalfOpen
        | FaultKind::Tear
        | FaultKind::Refuse
        | FaultKind::Clock
        | FaultKind::Limit => {
            host_faults::inject(kind, plan, process, cluster.process(server), random);
        }
    }
    Damage::default()
}

/// Does something after a while, of which one of these is the most milliseconds; other faults may happen meanwhile.
pub fn later(longest_ms: &[u64], random: &mut Rng, act: impl FnOnce() + Send + 'static) {
    let longest = longest_ms[random.usize(0..longest_ms.len())];
    let time = Duration::from_millis(random.u64(1..=longest));
    thread::spawn(move || {
        scheduler::sleep(time);
        act();
    });
}
