//! Faults of connections, clocks and limits of processes and hosts.

use fastrand::Rng;
use pario_runtime::simulation::limits::{self, LimitedResource, LimitedUser};
use pario_runtime::simulation::network::{self, Refusal};
use pario_runtime::simulation::process::{HostId, SimulatedPid};
use pario_runtime::simulation::{clock, scheduler};

use crate::faults::later;
use crate::plan::{FaultKind, Plan};

/// Injects one of these faults, into a process or, if it concerns new connections, into a server.
pub fn inject(
    kind: FaultKind,
    plan: &Plan,
    process: Option<SimulatedPid>,
    server: Option<SimulatedPid>,
    random: &mut Rng,
) {
    let host = HostId(random.u32(1..=plan.hosts));
    match (kind, process, server) {
        (FaultKind::Delay, Some(process), _) => {
            let longest = [2, 200, 4000][random.usize(0..3)] * 1_000_000;
            let delayed = network::delay_connection(process, longest, random);
            delayed.into_iter().for_each(|one| later(&[50, 500, 6000], random, move || network::heal(one)));
        }
        (FaultKind::HalfOpen, Some(process), _) => {
            let held = network::hold_connection(process, random);
            held.into_iter()
                .for_each(|one| later(&[5, 500, 6000, 60_000], random, move || network::heal(one)));
        }
        (FaultKind::Tear, Some(process), _) => drop(network::tear_connection(process, 400, random)),
        (FaultKind::Refuse, _, Some(server)) => {
            let refusal = if random.bool() { Refusal::Refused } else { Refusal::Full };
            network::set_refusal(server, Some(refusal));
            later(&[5, 500, 6000], random, move || network::set_refusal(server, None));
        }
        (FaultKind::Clock, ..) => shift_clock(host, random),
        (FaultKind::Limit, ..) => {
            let (user, resource) = match process {
                Some(process) if random.bool() => {
                    (LimitedUser::Process(process), LimitedResource::Descriptors)
                }
                _ => (LimitedUser::Host(host), LimitedResource::Memory),
            };
            limits::set_limit(user, resource, random.u32(2..=8));
            later(&[5, 500, 6000], random, move || limits::set_limit(user, resource, 0));
        }
        _ => {}
    }
}

/// Moves the wall clock of a host forwards or backwards, by milliseconds to years.
fn shift_clock(host: HostId, random: &mut Rng) {
    let most = [10_000_000, 10_000_000_000, 86_400_000_000_000, 63_072_000_000_000_000][random.usize(0..4)];
    let nanos = random.i64(-most..=most);
    scheduler::log(format!("the wall clock of host {} jumps by {} µs", host.0, nanos / 1000));
    clock::shift_wall_clock(host, nanos);
}
