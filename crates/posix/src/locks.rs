//! Byte-range locks that hold between processes and between threads of one process.
//!
//! Between processes these are open-file-description locks of the kernel. They belong to the descriptor, so they do not
//! exclude threads that share it; and where the ranges of two threads overlap, the first release frees both. So every
//! lock is entered in a table of the process first. The table lets two ranges overlap only if both are shared and at
//! most one of them is also a kernel lock.
//!
//! Waiting has a bound ([`lock_wait`](crate::lock_wait)): a process that is stopped while it holds a lock is an error for the
//! others.
//!
//! A thread that holds a guard may lock any range inside it again at no cost. A range that overlaps the guard without
//! lying inside it is refused, because the thread would wait for itself.

use crate::error::{Error, FileOperation};
use crate::lock_wait::{LockTarget, LockTimeout, WaitFailure};
use crate::sys::{Errno, Linux, LockOp, Syscalls};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

struct LockEntry {
    id: u64,
    owner: usize,
    range: Range<u64>,
    exclusive: bool,
    kernel: bool,
}

impl LockEntry {
    fn overlaps(&self, range: &Range<u64>) -> bool {
        self.range.start < range.end && range.start < self.range.end
    }

    fn conflicts(&self, want: &LockRequest) -> bool {
        self.overlaps(&want.range) && (self.exclusive || want.exclusive || (self.kernel && want.kernel))
    }

    fn covers(&self, want: &LockRequest) -> bool {
        self.range.start <= want.range.start
            && want.range.end <= self.range.end
            && (self.exclusive || !want.exclusive)
            && (self.kernel || !want.kernel)
    }
}

/// A request for a lock. `kernel`: against other processes as well.
#[derive(Clone, Debug)]
pub(crate) struct LockRequest {
    pub range: Range<u64>,
    pub exclusive: bool,
    pub kernel: bool,
}

/// The reason why a lock was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockRefusal {
    /// The calling thread holds a part of the range already.
    OwnThread,
    /// Another owner holds a part of the range, and the caller did not want to wait.
    Busy,
    /// Another owner, this process if it is known, holds a part of the range for longer than the time-out.
    TimedOut(Option<u32>),
    /// The kernel failed.
    System(Errno),
}

#[derive(Default)]
struct LockEntries {
    entries: Vec<LockEntry>,
    waiting: usize,
    next: u64,
}

/// The ranges that threads of this process hold, or wait for in the kernel.
#[derive(Default)]
pub(crate) struct LockTable {
    held: Mutex<LockEntries>,
    changed: Condvar,
}

/// An open descriptor and the locks that this process holds through it.
pub(crate) struct LockingHandle {
    pub path: Arc<Path>,
    pub sys: Arc<dyn Syscalls>,
    fd: Arc<OwnedFd>,
    table: Arc<LockTable>,
    pub timeout: LockTimeout,
}

fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here) as usize)
}

impl LockingHandle {
    pub fn new(path: Arc<Path>, sys: Arc<dyn Syscalls>, fd: OwnedFd) -> LockingHandle {
        LockingHandle { path, sys, fd: Arc::new(fd), table: Arc::default(), timeout: LockTimeout::default() }
    }

    pub fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    #[cfg(test)]
    fn table(&self) -> MutexGuard<'_, LockEntries> {
        self.table.held()
    }

    fn target(&self, op: LockOp, range: &Range<u64>) -> LockTarget {
        LockTarget { sys: Arc::clone(&self.sys), fd: Arc::clone(&self.fd), op, range: range.clone() }
    }

    /// Takes the lock, waiting within the time-out, or not at all.
    pub fn acquire(&self, want: LockRequest, wait: bool) -> Result<HeldLock, LockRefusal> {
        let until = wait.then(|| Instant::now() + self.timeout.unknown_holder);
        let entry = self.table.enter(&want, until)?;
        let mut lock = HeldLock { entry, range: want.range, kernel: false };
        if let Some(id) = entry
            && want.kernel
        {
            let op = if want.exclusive { LockOp::Exclusive } else { LockOp::Shared };
            let target = self.target(op, &lock.range);
            let locked = match wait {
                true => target.lock(self.timeout, &self.table, id),
                false => target.try_lock().map_err(WaitFailure::System),
            };
            match locked {
                Ok(()) => lock.kernel = true,
                // The entry is removed when the thread that waits for the lock ends.
                Err(WaitFailure::TimedOut(holder)) => return Err(LockRefusal::TimedOut(holder)),
                Err(WaitFailure::System(errno)) => {
                    let _ = lock.release_lock(self); // only the table's entry: it cannot fail
                    return Err(match errno {
                        Errno(libc::EAGAIN | libc::EACCES) if !wait => LockRefusal::Busy,
                        errno => LockRefusal::System(errno),
                    });
                }
            }
        }
        Ok(lock)
    }
}

impl LockTable {
    fn held(&self) -> MutexGuard<'_, LockEntries> {
        // No code panics while holding it, and the entries are valid at every step.
        self.held.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// Enters the range in the table, waiting for other threads until then. Returns the entry's id, or `None` if a guard of
    /// this thread covers the range.
    fn enter(&self, want: &LockRequest, until: Option<Instant>) -> Result<Option<u64>, LockRefusal> {
        let owner = this_thread();
        let mut table = self.held();
        loop {
            if table.entries.iter().any(|e| e.owner == owner && e.covers(want)) {
                return Ok(None);
            }
            let mut conflicts = table.entries.iter().filter(|e| e.conflicts(want)).peekable();
            if conflicts.peek().is_none() {
                break;
            }
            if conflicts.any(|e| e.owner == owner) {
                return Err(LockRefusal::OwnThread);
            }
            let Some(until) = until else { return Err(LockRefusal::Busy) };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(LockRefusal::TimedOut(Some(std::process::id())));
            }
            table.waiting += 1;
            (table, _) = self.changed.wait_timeout(table, left).unwrap_or_else(|poison| poison.into_inner());
            table.waiting -= 1;
        }
        let id = table.next;
        table.next += 1;
        let LockRequest { range, exclusive, kernel } = want.clone();
        table.entries.push(LockEntry { id, owner, range, exclusive, kernel });
        Ok(Some(id))
    }

    pub fn leave(&self, id: u64) {
        let mut table = self.held();
        if let Some(at) = table.entries.iter().position(|e| e.id == id) {
            table.entries.swap_remove(at);
        }
        let waiting = table.waiting > 0;
        drop(table);
        if waiting {
            self.changed.notify_all();
        }
    }
}

/// A lock that a guard holds.
pub(crate) struct HeldLock {
    entry: Option<u64>,
    range: Range<u64>,
    kernel: bool,
}

impl HeldLock {
    fn release_lock(&mut self, on: &LockingHandle) -> Result<(), Errno> {
        let kernel = std::mem::take(&mut self.kernel);
        let result = if kernel { on.target(LockOp::Release, &self.range).try_lock() } else { Ok(()) };
        if let Some(id) = self.entry.take() {
            on.table.leave(id);
        }
        result
    }
}

/// A held byte-range lock; dropping the guard releases it.
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct RangeGuard<'a> {
    on: &'a LockingHandle,
    lock: HeldLock,
}

impl<'a> RangeGuard<'a> {
    pub(crate) fn new(on: &'a LockingHandle, lock: HeldLock) -> RangeGuard<'a> {
        RangeGuard { on, lock }
    }

    /// Releases the lock and reports failure. Dropping the guard releases it without a report.
    pub(crate) fn release(mut self) -> Result<(), Errno> {
        self.lock.release_lock(self.on)
    }
}

impl Drop for RangeGuard<'_> {
    fn drop(&mut self) {
        // A failure here can only be told by `release`; the lock ends with the descriptor at the latest.
        let _ = self.lock.release_lock(self.on);
    }
}

/// A held byte-range lock that keeps its file open; dropping the guard releases it. Any thread may release it, but only
/// the thread that took it may access the range in the meantime.
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct OwnedRangeGuard {
    on: Arc<LockingHandle>,
    lock: HeldLock,
}

impl OwnedRangeGuard {
    pub(crate) fn new(on: Arc<LockingHandle>, lock: HeldLock) -> OwnedRangeGuard {
        OwnedRangeGuard { on, lock }
    }

    /// Releases the lock and reports failure. Dropping the guard releases it without a report.
    pub fn release(mut self) -> Result<(), Error> {
        let result = self.lock.release_lock(&self.on);
        result.map_err(|errno| Error::system(FileOperation::Lock, &self.on.path, errno.0))
    }
}

impl Drop for OwnedRangeGuard {
    fn drop(&mut self) {
        // A failure here can only be told by `release`; the lock ends with the descriptor at the latest.
        let _ = self.lock.release_lock(&self.on);
    }
}

/// Runs `work` while an exclusive lock on a range of a file keeps other opens of the file out; waits for the lock within the
/// time-out.
pub fn with_exclusive_lock<T>(
    file: &File,
    range: Range<u64>,
    work: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let set = |op| loop {
        match Linux.lock(file.as_raw_fd(), op, false, range.start, range.end - range.start) {
            Err(Errno(libc::EINTR)) => {}
            result => return result,
        }
    };
    let system = |errno: Errno| io::Error::from_raw_os_error(errno.0);
    match set(LockOp::Exclusive) {
        Err(Errno(libc::EAGAIN | libc::EACCES)) => {
            let fd = Arc::new(file.try_clone()?.into());
            let target = LockTarget { sys: Arc::new(Linux), fd, op: LockOp::Exclusive, range: range.clone() };
            // No other thread asks for the range through this table.
            let locked = target.lock(LockTimeout::default(), &Arc::default(), 0);
            locked.map_err(|failure| match failure {
                WaitFailure::System(errno) => system(errno),
                WaitFailure::TimedOut(_) => io::Error::from_raw_os_error(libc::ETIMEDOUT),
            })
        }
        result => result.map_err(system),
    }?;
    let result = work();
    set(LockOp::Release).map_err(system)?;
    result
}

/// Whether this number means that the file system has no such locks, rather than that this one failed.
pub(crate) fn means_unsupported(errno: Errno) -> bool {
    matches!(errno.0, libc::ENOSYS | libc::EOPNOTSUPP | libc::EINVAL | libc::ENOLCK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    fn want(range: Range<u64>, exclusive: bool, kernel: bool) -> LockRequest {
        LockRequest { range, exclusive, kernel }
    }

    fn guard(on: &LockingHandle, want: LockRequest) -> Result<RangeGuard<'_>, LockRefusal> {
        on.acquire(want, true).map(|lock| RangeGuard::new(on, lock))
    }

    #[test]
    fn a_thread_may_lock_its_own_range_again_and_never_waits_for_itself() {
        let handle = handle();
        let outer = guard(&handle, want(10..20, true, true)).unwrap();
        let inner = guard(&handle, want(12..15, false, true)).unwrap();
        drop(inner);
        let stuck = guard(&handle, want(15..25, false, false)).err();
        assert_eq!(stuck, Some(LockRefusal::OwnThread));
        drop(outer);
        assert!(guard(&handle, want(15..25, false, false)).is_ok());
        assert!(handle.table().entries.is_empty());
    }

    #[test]
    fn shared_locks_of_one_process_overlap_unless_both_are_in_the_kernel() {
        let e = LockEntry { id: 0, owner: 0, range: 0..10, exclusive: false, kernel: true };
        assert!(!e.conflicts(&want(5..6, false, false)));
        assert!(e.conflicts(&want(5..6, false, true)));
        assert!(e.conflicts(&want(5..6, true, false)));
        assert!(!e.conflicts(&want(10..12, true, true)));
    }

    #[test]
    fn threads_exclude_each_other() {
        let handle = handle();
        let (inside, most) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for i in 0..200 {
                        let range = i % 7..i % 7 + 5;
                        let guard = guard(&handle, want(range, true, true)).unwrap();
                        // Ranges i%7..i%7+5 of different threads all contain byte 4 or 6; count byte 6's holders.
                        if i % 7 >= 2 {
                            most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                            inside.fetch_sub(1, Ordering::SeqCst);
                        }
                        guard.release().unwrap();
                    }
                });
            }
        });
        assert_eq!(most.into_inner(), 1);
    }

    #[test]
    fn an_owned_range_outlives_its_thread_and_can_be_tried_for() {
        let handle = Arc::new(handle());
        let take = |range, wait| {
            handle
                .acquire(want(range, true, true), wait)
                .map(|lock| OwnedRangeGuard::new(handle.clone(), lock))
        };
        let owned = take(0..10, false).unwrap();
        assert!(take(3..5, false).is_ok(), "its thread may go in");
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                assert_eq!(take(5..15, false).err(), Some(LockRefusal::Busy));
                drop(take(5..15, true).unwrap());
            });
            while handle.table().waiting == 0 {
                std::thread::yield_now();
            }
            scope.spawn(|| owned.release().unwrap());
            other.join().unwrap();
        });
        assert!(handle.table().entries.is_empty());
    }

    #[test]
    fn trying_does_not_wait_for_another_open_of_the_file() {
        let (one, path) = handle_and_path();
        let two = LockingHandle::new(
            one.path.clone(),
            Arc::new(Linux),
            std::fs::File::open(&path.0).unwrap().into(),
        );
        let held = guard(&one, want(0..10, true, true)).unwrap();
        assert_eq!(two.acquire(want(5..6, false, true), false).err(), Some(LockRefusal::Busy));
        assert!(two.table().entries.is_empty());
        drop(held);
        assert!(two.acquire(want(5..6, false, true), false).is_ok());
    }

    /// The environment variable that makes another start of this program hold a lock of the file that it names.
    const HOLDS: &str = "PARIO_TEST_HOLDS_RANGE";

    /// The work of that process, until the test closes its input.
    fn hold_a_range(path: &Path) {
        let file = File::options().read(true).write(true).open(path).unwrap();
        let handle = LockingHandle::new(Arc::from(path), Arc::new(Linux), file.into());
        let _held = guard(&handle, want(0..10, true, true)).unwrap();
        println!("\nholds");
        let _ = io::Read::read(&mut io::stdin(), &mut [0]);
    }

    #[test]
    fn a_lock_that_another_process_does_not_give_up_is_an_error_that_names_the_process() {
        if let Some(path) = std::env::var_os(HOLDS) {
            return hold_a_range(Path::new(&path));
        }
        let (mut waits, path) = handle_and_path();
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "locks::tests::a_lock_that_another_process_does_not_give_up_is_an_error_that_names_the_process",
                "--nocapture",
            ])
            .env(HOLDS, &path.0)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let said = io::BufReader::new(child.stdout.take().unwrap());
        assert!(io::BufRead::lines(said).map_while(Result::ok).any(|line| line == "holds"));
        let long = Duration::from_secs(60);
        waits.timeout = LockTimeout { same_holder: Duration::from_millis(50), unknown_holder: long };
        let refused = guard(&waits, want(5..20, true, true)).err();
        assert_eq!(refused, Some(LockRefusal::TimedOut(Some(child.id()))));
        assert_eq!(waits.table().entries.len(), 1, "the abandoned thread waits");
        drop(child.stdin.take());
        child.wait().unwrap();
        let until = Instant::now() + long;
        while !waits.table().entries.is_empty() {
            assert!(Instant::now() < until, "the abandoned thread did not end");
            std::thread::yield_now();
        }
        drop(guard(&waits, want(5..20, true, true)).unwrap());
        let other = File::open(&path.0).unwrap();
        let other = LockingHandle::new(waits.path.clone(), Arc::new(Linux), other.into());
        assert!(other.acquire(want(0..30, false, true), false).is_ok(), "nothing stays locked");
    }

    #[test]
    fn a_lock_that_is_released_in_time_is_acquired() {
        let (one, path) = handle_and_path();
        let file = File::options().read(true).write(true).open(&path.0).unwrap();
        let two = LockingHandle::new(one.path.clone(), Arc::new(Linux), file.into());
        let held = guard(&one, want(0..10, true, true)).unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| drop(guard(&two, want(5..6, true, true)).unwrap()));
            while two.table().entries.is_empty() {
                std::thread::yield_now();
            }
            drop(held);
            waiter.join().unwrap();
        });
        assert!(two.table().entries.is_empty());
    }

    struct Vanishing(std::path::PathBuf);

    impl Drop for Vanishing {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn handle_and_path() -> (LockingHandle, Vanishing) {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("pario-locks-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        let mut how = std::fs::OpenOptions::new();
        let file = how.read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        (LockingHandle::new(Arc::from(path.as_path()), Arc::new(Linux), file.into()), Vanishing(path))
    }

    fn handle() -> LockingHandle {
        handle_and_path().0
    }
}
