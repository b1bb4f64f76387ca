//! Faults, one after another, at times that the seed chooses.

use std::time::Duration;

use pario_runtime::simulation::network;
use pario_runtime::simulation::process::{self, HostId, SimulatedPid};
use pario_runtime::simulation::scheduler;
use pario_runtime::thread;

use crate::cluster::Cluster;
use crate::plan::{FaultKind, Plan};

/// A client process and the worker that it runs.
pub type ClientProcess = (u32, SimulatedPid);

/// The effect of a fault on clients.
#[derive(Default)]
pub struct Damage {
    /// Workers that it killed.
    pub killed: Vec<u32>,
    /// When the memory of hosts was lost.
    pub loss: Option<u64>,
}

/// Injects one fault.
pub fn inject(plan: &Plan, cluster: &Cluster, clients: &[ClientProcess]) -> Damage {
    let kind = plan.faults[scheduler::random_below(plan.faults.len() as u64) as usize];
    let server = scheduler::random_below(plan.servers.into()) as usize;
    let of_client = !clients.is_empty() && scheduler::random_below(3) == 0;
    let client = clients.get(scheduler::random_below(clients.len() as u64) as usize).copied();
    scheduler::log(format!(
        "fault: {kind:?}, {}",
        if of_client { "client".into() } else { format!("server {server}") }
    ));
    let process = if of_client { client.map(|client| client.1) } else { cluster.process(server) };
    match kind {
        FaultKind::Kill => {
            process.into_iter().for_each(process::kill);
            let killed = client.filter(|_| of_client).map(|client| client.0);
            return Damage { killed: killed.into_iter().collect(), loss: None };
        }
        FaultKind::Stop => {
            if let Some(process) = process {
                process::stop(process);
                later(&[5, 500, 6000], move || process::resume_process(process));
            }
        }
        FaultKind::Terminate => cluster.terminate(server),
        FaultKind::Break => drop(process.map(network::break_connection)),
        FaultKind::Cut => {
            let host = HostId(1 + scheduler::random_below(plan.hosts.into()) as u32);
            network::set_cut(host, true);
            later(&[5, 500, 6000], move || network::set_cut(host, false));
        }
        FaultKind::HostLost => {
            let host = HostId(1 + scheduler::random_below(plan.hosts.into()) as u32);
            process::reboot(host);
            cluster.lose_memory(host);
            let is_killed = |client: &&ClientProcess| !process::is_alive(client.1);
            let killed = clients.iter().filter(is_killed).map(|client| client.0).collect();
            return Damage { killed, loss: Some(scheduler::now()) };
        }
    }
    Damage::default()
}

/// Does something after a while, of which one of these is the most milliseconds; other faults may happen meanwhile.
fn later(longest_ms: &[u64], act: impl FnOnce() + Send + 'static) {
    let longest = longest_ms[scheduler::random_below(longest_ms.len() as u64) as usize];
    let time = Duration::from_millis(1 + scheduler::random_below(longest));
    thread::spawn(move || {
        scheduler::sleep(time);
        act();
    });
}
