//! Faults, one after another, at times that the seed chooses.

use std::time::Duration;

use pario_runtime::simulation::network;
use pario_runtime::simulation::process::{self, HostId, SimulatedPid};
use pario_runtime::simulation::scheduler;

use crate::cluster::Cluster;
use crate::plan::{FaultKind, Plan};

/// A client process and the worker that it runs.
pub type ClientProcess = (u32, SimulatedPid);

/// Injects one fault; the number of the worker that it killed, if any.
pub fn inject(plan: &Plan, cluster: &Cluster, clients: &[ClientProcess]) -> Option<u32> {
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
            return client.filter(|_| of_client).map(|client| client.0);
        }
        FaultKind::Stop => {
            if let Some(process) = process {
                process::stop(process);
                pause(&[5, 500, 6000]);
                process::resume_process(process);
            }
        }
        FaultKind::Terminate => cluster.terminate(server),
        FaultKind::Break => drop(process.map(network::break_connection)),
        FaultKind::Cut => {
            let host = HostId(1 + scheduler::random_below(plan.hosts.into()) as u32);
            network::set_cut(host, true);
            pause(&[5, 500, 6000]);
            network::set_cut(host, false);
        }
    }
    None
}

fn pause(longest_ms: &[u64]) {
    let longest = longest_ms[scheduler::random_below(longest_ms.len() as u64) as usize];
    scheduler::sleep(Duration::from_millis(1 + scheduler::random_below(longest)));
}
