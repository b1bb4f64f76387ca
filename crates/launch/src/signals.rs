//! Signals to processes of this host, their sessions and states.

use std::io;

use rustix::process::{Pid, WaitId, WaitIdOptions, kill_process, setsid, waitid};
use signal_hook::consts::{SIGHUP, SIGINT};
pub use signal_hook::consts::{SIGKILL, SIGTERM};
use signal_hook::iterator::Signals;

/// Calls a function, on a thread of its own, for each SIGTERM, SIGINT and SIGHUP, which do not end this process any more.
pub fn on_termination(mut act: impl FnMut(i32) + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let wait = move || signals.forever().for_each(&mut act);
    pario_runtime::thread::Builder::new().name("signals".into()).spawn(wait).map(drop)
}

/// Sends a signal to a process. It may just have ended.
pub fn send(pid: u32, signal: i32) -> io::Result<()> {
    let process = process(pid).ok_or(io::ErrorKind::NotFound)?;
    let signal = rustix::process::Signal::from_named_raw(signal).ok_or(io::ErrorKind::InvalidInput)?;
    match kill_process(process, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The command line of a process, each word followed by a NUL; empty if it has ended.
pub fn command_line(pid: u32) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

/// The states of the threads of a process, as the kernel abbreviates them.
pub fn thread_states(pid: u32) -> Vec<char> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let state = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        // The process's name, in parentheses, may contain anything.
        stat.rsplit_once(')')?.1.trim_start().chars().next()
    };
    tasks.filter_map(state).collect()
}

/// The name of a signal that asks a process to end.
pub fn name(signal: i32) -> &'static str {
    match signal {
        SIGTERM => "SIGTERM",
        SIGINT => "SIGINT",
        SIGHUP => "SIGHUP",
        _ => "a signal",
    }
}

/// Makes a session for this process, so that no terminal can end it. Not for the leader of a process group.
pub fn start_session() -> io::Result<()> {
    setsid()?;
    Ok(())
}

/// Waits until a child has ended but leaves it to be reaped, so that its number stays taken meanwhile.
pub fn wait_for_end(pid: u32) -> io::Result<()> {
    let child = process(pid).ok_or(io::ErrorKind::NotFound)?;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    rustix::io::retry_on_intr(|| waitid(WaitId::Pid(child), options))?;
    Ok(())
}

fn process(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}
