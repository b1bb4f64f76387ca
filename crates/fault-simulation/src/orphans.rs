//! Servers that end late: their supervisors are gone, and `up` may have started successors meanwhile.

use std::path::PathBuf;
use std::time::Duration;

use fastrand::Rng;
use pario_runtime::fs::{self, File};
use pario_runtime::simulation::command::start_program;
use pario_runtime::simulation::process::{self, HostId, SimulatedPid};
use pario_runtime::simulation::{process_table, scheduler};
use pario_runtime::thread;

use crate::cluster::host_of;
use crate::managed::{Managed, SIGTERM};
use crate::plan::Plan;

/// The most microseconds between the signal to a server and the beginning of an `up` that finds the server ending.
const ENDING: u64 = 300;

/// The most milliseconds that a server stands still.
const LONGEST_STOP: u64 = 7_000;

/// How long a server may take to give up its directory.
const RELEASE: Duration = Duration::from_secs(1);

/// Kills the supervisor of a server and sends SIGTERM to the server. It may stand still just after it has given up its directory; meanwhile `up`
/// takes it for dead.
pub fn orphan(plan: &Plan, random: &mut Rng) {
    let Some(server) = random.choice(Managed::parts("server")) else { return };
    let host = process::host_of(server);
    process_table::parent_of(server).into_iter().for_each(process::kill);
    if random.bool() {
        let stop = Duration::from_millis(random.u64(1..LONGEST_STOP));
        let used = directories(plan, host);
        process::start_process(host, "watch", move || stop_when_released(server, used, stop));
    } else if random.u32(0..4) > 0 {
        let time = Duration::from_micros(random.u64(0..ENDING));
        thread::spawn(move || {
            scheduler::sleep(time);
            start_program(host, &["up"]);
        });
    }
    process_table::deliver_signal(server, SIGTERM);
}

/// The directories of the servers of a host.
fn directories(plan: &Plan, host: HostId) -> Vec<PathBuf> {
    let here = (0..plan.servers).filter(|server| host_of((*server).into(), plan) == host);
    here.map(|server| PathBuf::from(format!("/disk/{server}"))).collect()
}

fn is_used(directory: &PathBuf) -> bool {
    File::open(directory).is_ok_and(|file| matches!(fs::try_lock_file_shared(&file), Ok(false)))
}

/// Makes a server stand still when one of these directories is not used any more, and starts `up`.
fn stop_when_released(server: SimulatedPid, directories: Vec<PathBuf>, time: Duration) {
    let used: Vec<PathBuf> = directories.into_iter().filter(is_used).collect();
    let until = scheduler::now() + RELEASE.as_nanos() as u64;
    while used.iter().all(is_used) {
        if !process::is_alive(server) || scheduler::now() > until {
            return;
        }
        scheduler::sleep(Duration::from_micros(1));
    }
    process::stop(server);
    scheduler::log("the server stands still before it has ended");
    start_program(process::current_host(), &["up"]);
    scheduler::sleep(time);
    process::resume_process(server);
}
