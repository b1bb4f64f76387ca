//! Simulated processes and hosts: started, stopped, killed.

use super::invariants::{self, Depth};
use super::scheduler::{start_task, switch, with, yield_now};

/// A simulated process. Its number is never used again within a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SimulatedPid(pub u32);

/// A simulated host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u32);

/// The test driver: the process that starts all others and injects faults. It is never killed.
pub const TEST_DRIVER: SimulatedPid = SimulatedPid(1);

/// The process of the running thread.
pub fn current_process() -> SimulatedPid {
    with(|scheduler| scheduler.owner())
}

/// The host of the running thread.
pub fn current_host() -> HostId {
    with(|scheduler| scheduler.host(scheduler.owner()))
}

/// The host of a process.
pub fn host_of(process: SimulatedPid) -> HostId {
    with(|scheduler| scheduler.host(process))
}

/// The number of the boot of the host on which the running thread is.
pub fn boot_of_current_host() -> u64 {
    with(|scheduler| {
        let host = scheduler.host(scheduler.owner());
        (u64::from(host.0) + 1) << 32 | scheduler.boots_of(host)
    })
}

/// Kills all processes of a host and starts the host again. Its memory is lost, its disk stays.
pub fn reboot(host: HostId) {
    let processes = with(|scheduler| scheduler.count_boot(host));
    processes.into_iter().for_each(kill);
    with(|scheduler| scheduler.forget_memory(host));
}

/// Starts a process.
pub fn start_process(host: HostId, name: &str, main: impl FnOnce() + 'static) -> SimulatedPid {
    let process = with(|scheduler| scheduler.add_process(host, name));
    let main = move || {
        main();
        // All threads of a process end when its main function returns.
        abort();
    };
    start_task(process, "main".into(), Box::new(main));
    process
}

/// Whether a process runs or stands still.
pub fn is_alive(process: SimulatedPid) -> bool {
    with(|scheduler| scheduler.is_alive(process))
}

/// Kills a process: none of its threads takes another step.
pub fn kill(process: SimulatedPid) {
    assert_ne!(process, TEST_DRIVER, "the test driver cannot be killed");
    let is_own = with(|scheduler| {
        scheduler.kill(process);
        scheduler.owner() == process
    });
    invariants::check(Depth::Complete);
    if is_own {
        switch();
        unreachable!("a killed process goes on");
    }
}

/// Ends the process of the running thread at once.
pub fn abort() -> ! {
    kill(current_process());
    unreachable!("a killed process goes on")
}

/// Makes a process stand still.
pub fn stop(process: SimulatedPid) {
    with(|scheduler| scheduler.stop(process));
    if current_process() == process {
        yield_now();
    }
}

/// Lets a stopped process go on.
pub fn resume_process(process: SimulatedPid) {
    with(|scheduler| scheduler.resume(process));
}

/// Whether some thread of the process has not ended.
pub fn has_threads(process: SimulatedPid) -> bool {
    with(|scheduler| scheduler.has_threads(process))
}
