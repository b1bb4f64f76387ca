//! Signals to simulated processes of this host, and their states.

use std::io;

use pario_runtime::simulation::process::SimulatedPid;
use pario_runtime::simulation::process_table;
use pario_runtime::thread;
pub use signal_hook::consts::{SIGKILL, SIGTERM};

/// Calls a function, on a thread of its own, for each signal that asks this process to end.
pub fn on_termination(mut act: impl FnMut(i32) + Send + 'static) -> io::Result<()> {
    process_table::catch_signals();
    let wait = move || {
        loop {
            act(process_table::next_signal());
        }
    };
    thread::Builder::new().name("signals".into()).spawn(wait).map(drop)
}

/// Sends a signal to a process. It may just have ended.
pub fn send(pid: u32, signal: i32) -> io::Result<()> {
    if pid == 0 {
        return Err(io::ErrorKind::NotFound.into());
    }
    process_table::send_signal(SimulatedPid(pid), signal);
    Ok(())
}

/// The command line of a process, each word followed by a NUL; empty if it has ended.
pub fn command_line(pid: u32) -> Vec<u8> {
    let words = process_table::command_line(SimulatedPid(pid));
    words.iter().flat_map(|word| word.bytes().chain([0])).collect()
}

/// The states of the threads of a process, as the kernel abbreviates them: none of a simulated one waits for a disk or a debugger.
pub fn thread_states(_pid: u32) -> Vec<char> {
    Vec::new()
}

/// The name of a signal that asks a process to end.
pub fn name(signal: i32) -> &'static str {
    if signal == SIGTERM { "SIGTERM" } else { "a signal" }
}

/// Simulated processes have no terminal.
pub fn start_session() -> io::Result<()> {
    Ok(())
}

/// Waits until a child has ended but leaves it to be reaped.
pub fn wait_for_end(pid: u32) -> io::Result<()> {
    process_table::wait_for_end(SimulatedPid(pid));
    Ok(())
}
