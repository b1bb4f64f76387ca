//! Waiting for a byte-range lock of the kernel, with a bound.
//!
//! The kernel queues waiting processes fairly, but waits without end: its call can only be interrupted by a signal, which a
//! library must not send to its program. So the lock is tried a few times, and then another thread waits in the kernel.
//! If that takes too long, the waiting thread is abandoned: once it gets the lock, it lets it go at once. Until then
//! the range stays in the table of the process, because an open-file-description lock belongs to all threads that share
//! the descriptor.
//!
//! Too long is [`LockTimeout::same_holder`] for a holder that is found twice, and [`LockTimeout::unknown_holder`] for one that cannot be
//! told, such as a process of another host. A queue that moves is waited for.

use crate::locks::LockTable;
use crate::sys::{Errno, LockOp, Syscalls};
use std::fs;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The number of attempts to take a held lock before a thread waits for it.
const TRIES: u32 = 4;

/// The limit of a wait for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockTimeout {
    /// As long as one process of this host holds it: the deadline of requests to a partition.
    pub same_holder: Duration,
    /// If its holder cannot be told: the deadline of a sync on a partition.
    pub unknown_holder: Duration,
}

impl Default for LockTimeout {
    fn default() -> LockTimeout {
        LockTimeout { same_holder: Duration::from_secs(30), unknown_holder: Duration::from_secs(300) }
    }
}

/// The parameters of a lock request.
#[derive(Clone)]
pub(crate) struct LockTarget {
    pub sys: Arc<dyn Syscalls>,
    pub fd: Arc<OwnedFd>,
    pub op: LockOp,
    pub range: Range<u64>,
}

/// Why a lock was not had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitFailure {
    /// The kernel failed.
    System(Errno),
    /// This process of this host, if it is known, holds a part of the range for too long.
    TimedOut(Option<u32>),
}

/// The communication between a waiting thread and the one that requests the lock.
#[derive(Default)]
struct Meeting {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
enum State {
    #[default]
    Waiting,
    Done(Result<(), Errno>),
    Abandoned,
}

impl LockTarget {
    /// Tries to lock, or releases.
    pub fn try_lock(&self) -> Result<(), Errno> {
        self.call(false)
    }

    fn call(&self, wait: bool) -> Result<(), Errno> {
        let Range { start, end } = self.range;
        // Length 0 would mean "without end", and nothing is that long by accident: ranges are not empty.
        let len = if end > i64::MAX as u64 { 0 } else { end - start };
        loop {
            match self.sys.lock(self.fd.as_raw_fd(), self.op, wait, start, len) {
                Err(Errno(libc::EINTR)) => {}
                result => return result,
            }
        }
    }

    /// Locks, and waits within the timeout. `entry` is the range's number in the table: if the wait is abandoned, the entry
    /// is removed when the waiting thread ends, and not by the caller.
    pub fn lock(&self, timeout: LockTimeout, table: &Arc<LockTable>, entry: u64) -> Result<(), WaitFailure> {
        for _ in 0..TRIES {
            match self.try_lock() {
                Err(Errno(libc::EAGAIN | libc::EACCES)) => std::thread::yield_now(),
                result => return result.map_err(WaitFailure::System),
            }
        }
        let meeting = Arc::new(Meeting::default());
        let waiter = (self.clone(), Arc::clone(table), Arc::clone(&meeting));
        let spawned =
            std::thread::Builder::new().name("pario lock".into()).stack_size(64 << 10).spawn(move || {
                let (target, table, meeting) = waiter;
                meeting.finish(target.call(true), &target, &table, entry);
            });
        match spawned {
            Ok(_) => self.wait(timeout, &meeting),
            Err(error) => Err(WaitFailure::System(Errno(error.raw_os_error().unwrap_or(libc::EAGAIN)))),
        }
    }

    fn wait(&self, timeout: LockTimeout, meeting: &Meeting) -> Result<(), WaitFailure> {
        let begun = Instant::now();
        // The holder is looked for early and at the end: if it is another one by then, the queue moves.
        let mut since = begun;
        let mut seen = None;
        let mut look_at = begun + timeout.same_holder / 8;
        loop {
            if let Some(result) = meeting.wait_until(look_at) {
                return result.map_err(WaitFailure::System);
            }
            let holder = self.holder();
            if holder.is_none() || holder != seen {
                (seen, since) = (holder, Instant::now());
            }
            let limit = if holder.is_some() { timeout.same_holder } else { timeout.unknown_holder };
            let waited = if holder.is_some() { since.elapsed() } else { begun.elapsed() };
            if waited >= limit {
                return meeting.abandon().unwrap_or(Err(Errno(0))).map_err(|errno| match errno {
                    Errno(0) => WaitFailure::TimedOut(holder),
                    errno => WaitFailure::System(errno),
                });
            }
            look_at = Instant::now() + (limit - waited).min(timeout.same_holder / 2);
        }
    }

    /// A process of this host that holds a lock which overlaps the range, if the kernel reports it.
    fn holder(&self) -> Option<u32> {
        let file = fs::metadata(format!("/proc/self/fd/{}", self.fd.as_raw_fd())).ok()?;
        let locks_it = |pid: u32| {
            let infos = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
            infos.filter_map(|info| fs::read_to_string(info.path()).ok()).any(|info| {
                info.lines().any(|line| is_lock_of(line, file.ino(), &self.range, self.op == LockOp::Shared))
            })
        };
        let processes = fs::read_dir("/proc").ok()?.flatten();
        let mut pids = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
        // Another handle of this process is not a stopped process.
        pids.find(|pid| *pid != std::process::id() && locks_it(*pid))
    }
}

/// Whether a line of `/proc/PID/fdinfo/FD` is a lock of this file that is in the way.
/// `lock: 1: OFDLCK  ADVISORY  WRITE -1 00:1b:1234 0 EOF`
fn is_lock_of(line: &str, inode: u64, range: &Range<u64>, shared: bool) -> bool {
    let Some(rest) = line.strip_prefix("lock:") else { return false };
    let words: Vec<&str> = rest.split_whitespace().collect();
    let [_, _, _, mode, _, file, start, end] = words[..] else { return false };
    let same_file = file.rsplit(':').next().and_then(|word| word.parse().ok()) == Some(inode);
    let end = if end == "EOF" { Some(u64::MAX) } else { end.parse::<u64>().ok() };
    let overlaps = start.parse::<u64>().is_ok_and(|start| start < range.end)
        && end.is_some_and(|end| end >= range.start);
    same_file && overlaps && !(shared && mode == "READ")
}

impl Meeting {
    /// The waiting thread is done.
    fn finish(&self, result: Result<(), Errno>, target: &LockTarget, table: &LockTable, entry: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Abandoned = *state {
            drop(state);
            if result.is_ok() {
                let release = LockTarget { op: LockOp::Release, ..target.clone() };
                // A failure leaves the lock until the file is closed.
                let _ = release.try_lock();
            }
            table.leave(entry);
            return;
        }
        *state = State::Done(result);
        self.changed.notify_one();
    }

    /// The result of the waiting thread; `None` if it has none by that time.
    fn wait_until(&self, until: Instant) -> Option<Result<(), Errno>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let State::Done(result) = *state {
                return Some(result);
            }
            let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
            (state, _) = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Leaves the waiting thread alone, unless it is done.
    fn abandon(&self) -> Option<Result<(), Errno>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Done(result) = *state {
            return Some(result);
        }
        *state = State::Abandoned;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_found_in_what_the_kernel_says_of_a_descriptor() {
        let line = "lock:\t1: OFDLCK  ADVISORY  WRITE -1 00:1b:1234 10 19";
        assert!(is_lock_of(line, 1234, &(19..20), true));
        assert!(!is_lock_of(line, 1234, &(20..30), true));
        assert!(!is_lock_of(line, 1234, &(0..10), true));
        assert!(!is_lock_of(line, 123, &(0..100), true));
        let line = "lock:\t1: POSIX  ADVISORY  READ 77 00:1b:1234 0 EOF";
        assert!(is_lock_of(line, 1234, &(1 << 40..1 << 41), false));
        assert!(!is_lock_of(line, 1234, &(1 << 40..1 << 41), true), "readers go together");
        assert!(!is_lock_of("flags:\t0100002", 1234, &(0..1), false));
    }
}
