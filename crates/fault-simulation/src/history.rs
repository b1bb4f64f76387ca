//! One history: calls and faults, then a look at everything, and the verdict.

use std::collections::BTreeSet;
use std::time::Duration;

use pario_conformance::torture::contents::{Circumstances, Contents};
use pario_conformance::torture::history::{Call, CallOutcome, How, Op};
use pario_runtime::simulation::process::{self, HostId, SimulatedPid};
use pario_runtime::simulation::stall::{self, set_stalls};
use pario_runtime::simulation::{file_system, invariants, planned_kill, random, scheduler};

use crate::client::{Calls, Client};
use crate::client_names::FIRST_NAMED;
use crate::cluster::{Cluster, host_of};
use crate::copies;
use crate::disk_faults;
use crate::events::Events;
use crate::faults::{self, ClientProcess, Damage};
use crate::plan::{Ending, FaultKind, Plan};
use crate::records::Records;
use crate::storage_damage;
use crate::unanswered::extend_unanswered;
use crate::{lock_calls, name_calls};

/// Requests of a dead client have no effect after this time.
const AFTER_DEATH: Duration = Duration::from_secs(12);

/// No call takes longer, unless its process stood still.
const LONGEST_CALL: Duration = Duration::from_secs(45);

/// The reason why a history is wrong.
pub type Violation = String;

/// Runs a history. The thread of the test driver calls it.
pub fn run(plan: &Plan) -> Result<u64, Violation> {
    let cluster = Cluster::new(plan);
    cluster.bring_up()?;
    set_stalls(plan.stalls());
    if cluster.managed.is_some() {
        copies::prepare(plan);
    }
    let records = Records::default();
    let mut events = Events::default();
    let mut next_worker = 1;
    let mut clients: Vec<ClientProcess> = Vec::new();
    for index in 0..plan.clients {
        clients.push(start_client(plan, &cluster, &records, index, &mut next_worker));
    }
    let mut fault = 0;
    while clients.iter().any(|client| process::has_threads(client.1)) {
        let mut random = random::stream(plan.seed, "fault", fault);
        scheduler::sleep(Duration::from_nanos(random.u64(0..plan.fault_interval.as_nanos() as u64)));
        clients.retain(|client| process::has_threads(client.1));
        let is_time = !plan.faults_at_stalls || plan.stall_one_site_in == 0 || stall::are_threads_paused();
        if fault < plan.fault_count.into() && !clients.is_empty() && is_time {
            let damage = match plan.has_fault(fault) {
                true => faults::inject(plan, &cluster, &clients, &mut random),
                false => Damage::default(),
            };
            fault += 1;
            events.take(damage);
        }
        cluster.tend();
    }
    set_stalls(None);
    planned_kill::cancel_all();
    disk_faults::repair(plan);
    cluster.supervise(AFTER_DEATH * 2)?;
    if is_end_noticed(plan) {
        invariants::check_idle().map_err(|why| format!("left over from clients that ended: {why}"))?;
    }
    let seen = Records { calls: Calls::default(), ..records.clone() };
    for _ in 0..plan.looks_before_ending {
        look(plan, &cluster, &seen, next_worker, &events)?;
        next_worker += 1;
    }
    end(plan, &cluster, &mut events)?;
    look(plan, &cluster, &seen, next_worker, &events)?;
    if let Some(managed) = &cluster.managed {
        managed.finish_history(&events)?;
        records.calls.borrow_mut().extend(copies::reads(plan, &managed.runs()));
    }
    lock_calls::judge(&records.locks.borrow())?;
    if events.power_losses.is_empty() {
        name_calls::judge(&records.names.borrow(), AFTER_DEATH.as_nanos() as u64)?;
    }
    judge(plan, &records.calls.borrow(), &seen.calls.borrow(), &events)
}

fn start_client(
    plan: &Plan,
    cluster: &Cluster,
    records: &Records,
    index: usize,
    next: &mut u32,
) -> ClientProcess {
    let (worker, host) = (*next, host_of(index, plan));
    *next += 1;
    let client = Client::new(worker, plan, cluster.resolver(host), records.clone());
    (worker, process::start_process(host, &format!("client {worker}"), move || client.work()))
}

/// A process reads everything.
fn look(
    plan: &Plan,
    cluster: &Cluster,
    records: &Records,
    worker: u32,
    events: &Events,
) -> Result<(), Violation> {
    let host = host_of(0, plan);
    let client = Client::new(worker, plan, cluster.resolver(host), records.clone());
    let are_replicas_equal = plan.placed && events.is_everything_kept();
    wait_for(cluster, process::start_process(host, "reader", move || client.look(are_replicas_equal)))
}

/// Ends the history as the plan says, and brings all servers up again.
fn end(plan: &Plan, cluster: &Cluster, events: &mut Events) -> Result<(), Violation> {
    scheduler::log(format!("ending: {:?}", plan.ending));
    match (plan.ending, &cluster.managed) {
        (Ending::Nothing, _) => {}
        (Ending::Down, Some(managed)) => {
            managed.take_down_and_lose_memory(events.is_storage_damaged)?;
        }
        (Ending::Down, None) => {
            (0..plan.servers.into()).for_each(|server| cluster.terminate(server));
            let until = scheduler::now() + LONGEST_CALL.as_nanos() as u64;
            while (0..plan.servers.into()).any(|server| cluster.process(server).is_some()) {
                if scheduler::now() > until {
                    return Err("servers do not end".into());
                }
                scheduler::sleep(Duration::from_millis(10));
            }
        }
        (Ending::HostsLost, _) => {
            (1..=plan.hosts).map(HostId).for_each(process::reboot);
            events.losses.push(scheduler::now());
        }
        (Ending::PowerLost, _) => {
            for host in (1..=plan.hosts).map(HostId) {
                process::reboot(host);
                file_system::lose_power(host);
            }
            events.power_losses.push(scheduler::now());
        }
    }
    cluster.bring_up()
}

fn wait_for(cluster: &Cluster, process: SimulatedPid) -> Result<(), Violation> {
    let until = scheduler::now() + 10 * 60 * 1_000_000_000;
    while process::has_threads(process) {
        if scheduler::now() > until {
            return Err("a process that only reads does not end".into());
        }
        if cluster.managed.is_none() {
            cluster.bring_up()?;
        }
        scheduler::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Whether no process stands still or is cut off for long: processes only end and start.
fn is_calm(plan: &Plan) -> bool {
    let is_end = |kind: &FaultKind| matches!(kind, FaultKind::Kill | FaultKind::Terminate);
    plan.stall_one_site_in == 0 && !plan.managed && plan.faults.iter().all(|(kind, _)| is_end(kind))
}

/// Whether servers learn in time that clients have ended: the end of a client does not arrive on a connection that is half open.
fn is_end_noticed(plan: &Plan) -> bool {
    !plan.has_kind(FaultKind::HalfOpen)
}

/// Finds a call that failed because its process did not give up leases in time, although it could.
fn find_lost_lease(plan: &Plan, calls: &[Call]) -> Option<Violation> {
    let is_lost =
        |call: &&Call| call.failure().is_some_and(|(_, text)| text.contains("did not store in time"));
    let call = calls.iter().find(is_lost).filter(|_| is_calm(plan))?;
    Some(format!("no process stood still, but {}: {:?}", call.op, call.failure()))
}

/// Whether a file that was opened by name must have been there when it was read. A client that the metadata server takes for gone loses
/// files without a name. It is told when it closes them.
fn is_certainly_there<'a>(
    plan: &Plan,
    file: usize,
    read: &Call,
    mut calls: impl Iterator<Item = &'a Call>,
) -> bool {
    let closes = |call: &Call| {
        let is_own = call.worker == read.worker && call.start >= read.start;
        is_own && matches!(call.op, Op::Close { file: of } if of == file) && call.succeeded()
    };
    is_calm(plan) || calls.any(closes)
}

/// Compares what was seen with what may be; returns the number of bytes that were compared.
fn judge(plan: &Plan, calls: &[Call], seen: &[Call], events: &Events) -> Result<u64, Violation> {
    let over = |worker: u32| {
        events.deaths.get(&worker).map_or(u64::MAX, |death| death + AFTER_DEATH.as_nanos() as u64)
    };
    let circumstances = Circumstances { over: &over };
    let longest = LONGEST_CALL.as_nanos() as u64;
    if let Some(call) = calls.iter().find(|call| call.end.is_some_and(|end| end - call.start > longest)) {
        return Err(format!("worker {}: {} took too long", call.worker, call.op));
    }
    let is_damage = |call: &Call| {
        events.is_storage_damaged && storage_damage::is_allowed(plan, call, calls, seen, events)
    };
    let is_unexpected =
        |call: &&Call| call.failure().is_some_and(|(kind, _)| kind != "NoSuchFile" && !is_damage(call));
    if let Some(call) = seen.iter().find(is_unexpected) {
        return Err(format!("all servers run, but {}: {:?}", call.op, call.failure()));
    }
    if seen.last().is_none_or(|call| call.end.is_none()) {
        return Err("the reader did not finish".into());
    }
    if let Some(violation) = find_lost_lease(plan, calls) {
        return Err(violation);
    }
    let calls = &extend_unanswered(calls, AFTER_DEATH.as_nanos() as u64)[..];
    // Readers sync, too.
    let syncs = seen.iter().filter(|call| matches!(call.op, Op::Sync { .. }));
    let all: Vec<Call> = calls.iter().chain(syncs).cloned().collect();
    let mut compared = 0;
    let mut files: BTreeSet<usize> = (0..plan.files).collect();
    files.extend(calls.iter().chain(seen).filter_map(|call| match call.op {
        Op::Write { file, .. } | Op::Read { file, .. } => Some(file),
        _ => None,
    }));
    for file in files {
        let mut contents = Contents::default();
        contents.take_power_losses(&events.power_losses);
        if events.is_storage_damaged {
            // After a restart of the host, what the storage has dropped is the same as what a loss of power takes.
            contents.take_power_losses(&events.losses);
        }
        contents.take(file, &all, &circumstances);
        let mut reads: Vec<&Call> = calls.iter().chain(seen).collect();
        reads.sort_by_key(|call| call.end);
        for call in reads {
            if let Some(absence) = absence(call, file) {
                let wrong = |why| format!("worker {}: {} found no such file: {why}", call.worker, call.op);
                contents.judge(&absence, &events.losses).map_err(wrong)?;
            }
            let is_read = matches!(call.op, Op::Read { file: of, .. } | Op::Len { file: of } if of == file);
            if is_read
                && (file < FIRST_NAMED || is_certainly_there(plan, file, call, calls.iter().chain(seen)))
            {
                let wrong = |why| format!("worker {}: {}: {why}", call.worker, call.op);
                compared += contents.judge(call, &events.losses).map_err(wrong)?;
                // Replicas that a failed write left divergent are repaired by the next open only.
                if !plan.placed || seen.iter().any(|look| look.worker == call.worker) {
                    contents.observe(call);
                }
            }
        }
    }
    Ok(compared)
}

/// A file that is not there has no bytes.
fn absence(call: &Call, number: usize) -> Option<Call> {
    let is_missing = call.failure().is_some_and(|(kind, _)| kind == "NoSuchFile");
    let is_open = matches!(call.op, Op::Open { file, how: How::Read } if file == number);
    let outcome = Some(CallOutcome::Size(0));
    (is_open && is_missing).then(|| Call { op: Op::Len { file: number }, outcome, ..call.clone() })
}
