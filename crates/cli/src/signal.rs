//! Runs the launcher as a child: hands signals on to it, waits for it, and ends as it ended. Also other system calls of the command on
//! its own process.
//!
//! A handler passes SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 on to the child. What the kernel sends by
//! itself, Ctrl-C above all, already reaches every process of the foreground group, the launcher included;
//! handing that on would be a second Ctrl-C, which launchers take as "kill everything now". A process group
//! of its own for the launcher would avoid the handler for Ctrl-C, but then the ranks could no longer read
//! from the terminal. Signals that were ignored from the start (nohup) stay ignored.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

const FORWARDED: [i32; 5] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];

/// The child, while there is one that signals may be sent to.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// A bit for each signal that came while there was no child.
static EARLY: AtomicU64 = AtomicU64::new(0);

/// A bit for each signal that ever came.
static SEEN: AtomicU64 = AtomicU64::new(0);
/// The time of the first SIGTERM, in nanoseconds of the monotonic clock; 0 before.
static TERMINATED: AtomicU64 = AtomicU64::new(0);
/// So many nanoseconds after a SIGTERM [`is_over_limit`] becomes true.
static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);
/// The line that answers signals which ask this process to end, if there is one.
static ANSWER: AtomicPtr<Vec<u8>> = AtomicPtr::new(std::ptr::null_mut());
/// What is told to end has this long before it is killed.
const GRACE: Duration = Duration::from_secs(20);
/// The interval in which a thread looks whether a SIGTERM came.
const CHECK: Duration = Duration::from_millis(100);

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

/// From now on this line answers signals that ask this process to end, at once.
pub fn set_answer(line: &str) {
    // A signal may be answered with the earlier line at any time, so it is never freed; a run has few of them.
    let line = Box::new(format!("{line}\n").into_bytes());
    ANSWER.store(Box::leak(line), SeqCst);
}

/// The time since the first SIGTERM.
pub fn since_termination() -> Option<Duration> {
    match TERMINATED.load(SeqCst) {
        0 => None,
        then => Some(Duration::from_nanos(monotonic_ns().saturating_sub(then))),
    }
}

/// [`is_over_limit`] becomes true this long after a SIGTERM.
pub fn set_limit(limit: Duration) {
    LIMIT.store(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX), SeqCst);
}

/// Whether a SIGTERM came so long ago that the work has to end.
pub fn is_over_limit() -> bool {
    since_termination().is_some_and(|passed| passed >= Duration::from_nanos(LIMIT.load(SeqCst)))
}

/// Runs the command to its end, handing signals on. After a SIGTERM it has so long to end before it is killed.
pub fn supervise_until_killed(command: &mut Command, grace: Duration) -> io::Result<ExitStatus> {
    supervise_with(command, Some(move |pid, over: Receiver<()>| kill_after_termination(pid, grace, &over)))
}

/// Runs the command to its end, handing signals on.
pub fn supervise(command: &mut Command) -> io::Result<ExitStatus> {
    supervise_within(command, None)
}

/// The same, but after so long the command is told to end, and in the end killed.
pub fn supervise_within(command: &mut Command, limit: Option<Duration>) -> io::Result<ExitStatus> {
    supervise_with(command, limit.map(|limit| move |pid, over: Receiver<()>| end_after(pid, limit, &over)))
}

/// The same with a thread that may send signals to the command until `over` closes.
fn supervise_with(
    command: &mut Command,
    timer: Option<impl FnOnce(i32, Receiver<()>) + Send + 'static>,
) -> io::Result<ExitStatus> {
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
    let timer = timer.map(|timer| std::thread::spawn(move || timer(pid, over)));
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

/// Kills the process if it has not ended in time after a SIGTERM, which was handed on to it.
fn kill_after_termination(pid: i32, grace: Duration, over: &Receiver<()>) {
    while over.recv_timeout(CHECK) == Err(RecvTimeoutError::Timeout) {
        if since_termination().is_some_and(|passed| passed >= grace) {
            // SAFETY: plain system call; the child is reaped only after this thread, so the number is still its.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            return;
        }
    }
}

fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure outlives the call, which is allowed in signal handlers.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64)
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

/// Closes all descriptors but those of standard input, output and error. Only before this process has opened any.
pub fn close_inherited_descriptors() {
    let listed = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let open: Vec<i32> = listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > libc::STDERR_FILENO) {
        // SAFETY: no value of this process owns the descriptor, because it comes from the process that started this one; that of
        // the listing itself is closed already.
        unsafe { libc::close(descriptor) };
    }
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
    answer(signal);
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

/// Answers a signal that asks this process to end; in a signal handler.
fn answer(signal: i32) {
    if !matches!(signal, libc::SIGINT | libc::SIGTERM | libc::SIGHUP) {
        return;
    }
    if signal == libc::SIGTERM {
        let _ = TERMINATED.compare_exchange(0, monotonic_ns(), SeqCst, SeqCst);
    }
    // SAFETY: the line was leaked, so it is there for good and does not change. write and errno's location are allowed in handlers;
    // errno is put back as it was found.
    unsafe {
        if let Some(line) = ANSWER.load(SeqCst).as_ref() {
            let errno = libc::__errno_location();
            let before = *errno;
            libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len());
            *errno = before;
        }
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
