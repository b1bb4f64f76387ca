//! Byte-range locks that hold between processes and between threads of one process.
//!
//! Between processes: open-file-description locks of the kernel. They belong to the descriptor, so they do
//! not exclude threads that share it, and worse: where two threads' ranges overlap, the first release frees
//! both. So every lock is entered in a table of the process first, and the table lets two ranges overlap
//! only if both are shared and at most one of them is also a lock of the kernel.
//!
//! A thread that holds a guard may enter any range inside it again at no cost; a range that sticks out is
//! refused, since waiting for oneself would never end.

use crate::error::{Action, Error};
use crate::sys::{Errno, LockOp, Syscalls};
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

struct Entry {
    id: u64,
    owner: usize,
    range: Range<u64>,
    exclusive: bool,
    kernel: bool,
}

impl Entry {
    fn overlaps(&self, range: &Range<u64>) -> bool {
        self.range.start < range.end && range.start < self.range.end
    }

    fn conflicts(&self, want: &Want) -> bool {
        self.overlaps(&want.range) && (self.exclusive || want.exclusive || (self.kernel && want.kernel))
    }

    fn covers(&self, want: &Want) -> bool {
        self.range.start <= want.range.start
            && want.range.end <= self.range.end
            && (self.exclusive || !want.exclusive)
            && (self.kernel || !want.kernel)
    }
}

/// A lock somebody asks for. `kernel`: against other processes too.
#[derive(Clone, Debug)]
pub(crate) struct Want {
    pub range: Range<u64>,
    pub exclusive: bool,
    pub kernel: bool,
}

/// Why a lock was not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The calling thread holds a part of the range already.
    OwnThread,
    /// Somebody else holds a part of the range, and waiting was not wanted.
    Busy,
    /// The kernel failed.
    System(Errno),
}

#[derive(Default)]
struct Held {
    entries: Vec<Entry>,
    waiting: usize,
    next: u64,
}

/// An open descriptor and the locks that this process holds through it.
pub(crate) struct Handle {
    pub path: Arc<Path>,
    pub sys: Arc<dyn Syscalls>,
    fd: OwnedFd,
    held: Mutex<Held>,
    changed: Condvar,
}

fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here) as usize)
}

impl Handle {
    pub fn new(path: Arc<Path>, sys: Arc<dyn Syscalls>, fd: OwnedFd) -> Handle {
        Handle { path, sys, fd, held: Mutex::default(), changed: Condvar::new() }
    }

    pub fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // No code panics while holding it, and the entries are valid at every step.
        self.held.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// Enters the range, waiting for other threads if `wait`; no number if this thread's own guard covers it.
    fn enter(&self, want: &Want, wait: bool) -> Result<Option<u64>, Refusal> {
        let owner = this_thread();
        let mut held = self.held();
        loop {
            if held.entries.iter().any(|e| e.owner == owner && e.covers(want)) {
                return Ok(None);
            }
            let mut conflicts = held.entries.iter().filter(|e| e.conflicts(want)).peekable();
            if conflicts.peek().is_none() {
                break;
            }
            if conflicts.any(|e| e.owner == owner) {
                return Err(Refusal::OwnThread);
            }
            if !wait {
                return Err(Refusal::Busy);
            }
            held.waiting += 1;
            held = self.changed.wait(held).unwrap_or_else(|poison| poison.into_inner());
            held.waiting -= 1;
        }
        let id = held.next;
        held.next += 1;
        let Want { range, exclusive, kernel } = want.clone();
        held.entries.push(Entry { id, owner, range, exclusive, kernel });
        Ok(Some(id))
    }

    fn leave(&self, id: u64) {
        let mut held = self.held();
        if let Some(at) = held.entries.iter().position(|e| e.id == id) {
            held.entries.swap_remove(at);
        }
        let waiting = held.waiting > 0;
        drop(held);
        if waiting {
            self.changed.notify_all();
        }
    }

    /// Takes the lock, waiting as long as it needs, or not at all.
    pub fn take(&self, want: Want, wait: bool) -> Result<Claim, Refusal> {
        let entry = self.enter(&want, wait)?;
        let mut claim = Claim { entry, range: want.range, kernel: false };
        if want.kernel && entry.is_some() {
            let op = if want.exclusive { LockOp::Exclusive } else { LockOp::Shared };
            if let Err(errno) = self.fcntl(op, wait, &claim.range) {
                let _ = claim.let_go(self); // only the table's entry: it cannot fail
                return Err(match errno {
                    Errno(libc::EAGAIN | libc::EACCES) if !wait => Refusal::Busy,
                    errno => Refusal::System(errno),
                });
            }
            claim.kernel = true;
        }
        Ok(claim)
    }

    fn fcntl(&self, op: LockOp, wait: bool, range: &Range<u64>) -> Result<(), Errno> {
        let Range { start, end } = *range;
        // Length 0 would mean "without end", and nothing is that long by accident: ranges are not empty.
        let len = if end > i64::MAX as u64 { 0 } else { end - start };
        loop {
            match self.sys.lock(self.raw(), op, wait, start, len) {
                Err(Errno(libc::EINTR)) => {}
                result => return result,
            }
        }
    }
}

/// What a guard holds.
pub(crate) struct Claim {
    entry: Option<u64>,
    range: Range<u64>,
    kernel: bool,
}

impl Claim {
    fn let_go(&mut self, on: &Handle) -> Result<(), Errno> {
        let kernel = std::mem::take(&mut self.kernel);
        let result = if kernel { on.fcntl(LockOp::Release, true, &self.range) } else { Ok(()) };
        if let Some(id) = self.entry.take() {
            on.leave(id);
        }
        result
    }
}

/// A held byte-range lock; dropping it lets go.
#[must_use = "the lock is let go as soon as the guard is dropped"]
pub struct RangeGuard<'a> {
    on: &'a Handle,
    claim: Claim,
}

impl<'a> RangeGuard<'a> {
    pub(crate) fn new(on: &'a Handle, claim: Claim) -> RangeGuard<'a> {
        RangeGuard { on, claim }
    }

    /// Lets go and says whether the kernel agreed. Dropping the guard does the same without a word.
    pub(crate) fn release(mut self) -> Result<(), Errno> {
        self.claim.let_go(self.on)
    }
}

impl Drop for RangeGuard<'_> {
    fn drop(&mut self) {
        // A failure here can only be told by `release`; the lock ends with the descriptor at the latest.
        let _ = self.claim.let_go(self.on);
    }
}

/// A held byte-range lock that keeps its file open; dropping it lets go. It can be let go by any thread, but
/// only the one that took it may access the range meanwhile.
#[must_use = "the lock is let go as soon as this is dropped"]
pub struct OwnedRange {
    on: Arc<Handle>,
    claim: Claim,
}

impl OwnedRange {
    pub(crate) fn new(on: Arc<Handle>, claim: Claim) -> OwnedRange {
        OwnedRange { on, claim }
    }

    /// Lets go and says whether the system agreed. Dropping does the same without a word.
    pub fn release(mut self) -> Result<(), Error> {
        let result = self.claim.let_go(&self.on);
        result.map_err(|errno| Error::system(Action::Lock, &self.on.path, errno.0))
    }
}

impl Drop for OwnedRange {
    fn drop(&mut self) {
        // A failure here can only be told by `release`; the lock ends with the descriptor at the latest.
        let _ = self.claim.let_go(&self.on);
    }
}

/// Whether this number means that the file system has no such locks, rather than that this one failed.
pub(crate) fn means_unsupported(errno: Errno) -> bool {
    matches!(errno.0, libc::ENOSYS | libc::EOPNOTSUPP | libc::EINVAL | libc::ENOLCK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Linux;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn want(range: Range<u64>, exclusive: bool, kernel: bool) -> Want {
        Want { range, exclusive, kernel }
    }

    fn guard(on: &Handle, want: Want) -> Result<RangeGuard<'_>, Refusal> {
        on.take(want, true).map(|claim| RangeGuard::new(on, claim))
    }

    #[test]
    fn a_thread_may_enter_what_it_holds_but_not_wait_for_itself() {
        let handle = handle();
        let outer = guard(&handle, want(10..20, true, true)).unwrap();
        let inner = guard(&handle, want(12..15, false, true)).unwrap();
        drop(inner);
        let stuck = guard(&handle, want(15..25, false, false)).err();
        assert_eq!(stuck, Some(Refusal::OwnThread));
        drop(outer);
        assert!(guard(&handle, want(15..25, false, false)).is_ok());
        assert!(handle.held().entries.is_empty());
    }

    #[test]
    fn shared_locks_of_one_process_meet_unless_both_are_in_the_kernel() {
        let e = Entry { id: 0, owner: 0, range: 0..10, exclusive: false, kernel: true };
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
            handle.take(want(range, true, true), wait).map(|claim| OwnedRange::new(handle.clone(), claim))
        };
        let owned = take(0..10, false).unwrap();
        assert!(take(3..5, false).is_ok(), "its thread may go in");
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                assert_eq!(take(5..15, false).err(), Some(Refusal::Busy));
                drop(take(5..15, true).unwrap());
            });
            while handle.held().waiting == 0 {
                std::thread::yield_now();
            }
            scope.spawn(|| owned.release().unwrap());
            other.join().unwrap();
        });
        assert!(handle.held().entries.is_empty());
    }

    #[test]
    fn trying_does_not_wait_for_another_open_of_the_file() {
        let (one, path) = handle_and_path();
        let two =
            Handle::new(one.path.clone(), Arc::new(Linux), std::fs::File::open(&path.0).unwrap().into());
        let held = guard(&one, want(0..10, true, true)).unwrap();
        assert_eq!(two.take(want(5..6, false, true), false).err(), Some(Refusal::Busy));
        assert!(two.held().entries.is_empty());
        drop(held);
        assert!(two.take(want(5..6, false, true), false).is_ok());
    }

    struct Vanishing(std::path::PathBuf);

    impl Drop for Vanishing {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn handle_and_path() -> (Handle, Vanishing) {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("pario-locks-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        let mut how = std::fs::OpenOptions::new();
        let file = how.read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        (Handle::new(Arc::from(path.as_path()), Arc::new(Linux), file.into()), Vanishing(path))
    }

    fn handle() -> Handle {
        handle_and_path().0
    }
}
