//! Runs the launcher as a child: hands signals on to it, waits for it, and ends as it ended.
//!
//! A handler passes SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 on to the child. What the kernel sends by
//! itself, Ctrl-C above all, already reaches every process of the foreground group, the launcher included;
//! handing that on would be a second Ctrl-C, which launchers take as "kill everything now". A process group
//! of its own for the launcher would avoid the handler for Ctrl-C, but then the ranks could no longer read
//! from the terminal. Signals that were ignored from the start (nohup) stay ignored.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

const FORWARDED: [i32; 5] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];

/// The child, while there is one that signals may be sent to.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// A bit for each signal that came while there was no child.
static EARLY: AtomicU64 = AtomicU64::new(0);

/// A bit for each signal that ever came.
static SEEN: AtomicU64 = AtomicU64::new(0);
/// What is told to end has this long before it is killed.
const GRACE: Duration = Duration::from_secs(20);

/// From now on signals are handed on to the child, or noted while there is none.
pub fn watch() -> io::Result<()> {
    FORWARDED.into_iter().try_for_each(install)
}

/// The signal, if there was one, by which this process was asked to end while it had no child.
pub fn asked_to_end() -> Option<i32> {
    let noted = EARLY.load(SeqCst);
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].into_iter().find(|signal| noted & (1 << signal) != 0)
}

/// Whether this process was ever asked to end, also while it had a child.
pub fn was_asked_to_end() -> bool {
    let seen = SEEN.load(SeqCst);
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].into_iter().any(|signal| seen & (1 << signal) != 0)
}

/// Runs the command to its end, handing signals on.
pub fn supervise(command: &mut Command) -> io::Result<ExitStatus> {
    supervise_within(command, None)
}

/// The same, but after so long the command is told to end, and in the end killed.
pub fn supervise_within(command: &mut Command, limit: Option<Duration>) -> io::Result<ExitStatus> {
    watch()?;
    let mut child = command.spawn()?;
    let pid = child.id() as i32;
    CHILD.store(pid, SeqCst);
    let early = EARLY.swap(0, SeqCst);
    for signal in FORWARDED.into_iter().filter(|s| early & (1 << s) != 0) {
        // SAFETY: plain system call; the child has not been waited for, so the number is still its.
        unsafe { libc::kill(pid, signal) };
    }
    let (ended, over) = channel::<()>();
    let timer = limit.map(|limit| std::thread::spawn(move || end_after(pid, limit, &over)));
    let awaited = await_end(pid);
    drop(ended);
    if let Some(timer) = timer {
        // It only sends signals; should it have panicked, there is nothing to make up for.
        let _ = timer.join();
    }
    awaited?;
    CHILD.store(0, SeqCst);
    child.wait()
}

/// Tells the process to end unless `over` closes in time, and kills it unless that helps.
fn end_after(pid: i32, limit: Duration, over: &Receiver<()>) {
    for (patience, signal) in [(limit, libc::SIGTERM), (GRACE, libc::SIGKILL)] {
        if over.recv_timeout(patience) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        // SAFETY: plain system call; the child is reaped only after this thread, so the number is still its.
        unsafe { libc::kill(pid, signal) };
    }
}

/// Ends this process the way a child ended: with its exit code, or by the signal that killed it.
pub fn end_like(status: ExitStatus) -> ! {
    if let Some(code) = status.code() {
        std::process::exit(code);
    }
    end_by(status.signal().unwrap_or(libc::SIGKILL))
}

/// Ends this process by a signal.
pub fn end_by(signal: i32) -> ! {
    // SAFETY: plain system calls on this process only. It is made undumpable so that the child's core dump,
    // if there is one, is the only one.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
    std::process::exit(128 + signal)
}

fn install(signal: i32) -> io::Result<()> {
    // SAFETY: both structures are plain data for which all zeroes is a valid value, and they outlive the
    // calls; the handler calls only functions that are allowed in one.
    let failed = unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, std::ptr::null(), &mut old) != 0 {
            true
        } else if old.sa_sigaction == libc::SIG_IGN {
            false
        } else {
            let mut new: libc::sigaction = std::mem::zeroed();
            new.sa_sigaction = hand_on as *const () as usize;
            new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigemptyset(&mut new.sa_mask);
            libc::sigaction(signal, &new, std::ptr::null_mut()) != 0
        }
    };
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

extern "C" fn hand_on(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo to a handler installed with SA_SIGINFO.
    let from_kernel = unsafe { (*info).si_code } > 0;
    SEEN.fetch_or(1 << signal, SeqCst);
    match CHILD.load(SeqCst) {
        0 => {
            EARLY.fetch_or(1 << signal, SeqCst);
        }
        _ if from_kernel => {}
        // SAFETY: kill and errno's location are allowed in handlers; errno is put back as it was found. The
        // child has not been reaped while CHILD names it, so the number is still its.
        pid => unsafe {
            let errno = libc::__errno_location();
            let before = *errno;
            libc::kill(pid, signal);
            *errno = before;
        },
    }
}

/// Waits until the child has ended but leaves it to be reaped, so that its number stays taken meanwhile.
fn await_end(pid: i32) -> io::Result<()> {
    loop {
        // SAFETY: all zeroes is a valid siginfo, and it outlives the call.
        let done = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(libc::P_PID, pid as libc::id_t, &mut info, libc::WEXITED | libc::WNOWAIT)
        };
        if done == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
