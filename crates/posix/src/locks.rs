//! Byte-range locks that hold between processes and between threads of one process.
//!
//! Between processes: open-file-description locks of the kernel. They belong to the descriptor, so they do
//! not exclude threads that share it, and worse: where two threads' ranges overlap, the first release frees
//! both. So every lock is entered in a table of the process first, and the table lets two ranges overlap
//! only if both are shared and at most one of them is also a lock of the kernel.
//!
//! A thread that holds a guard may enter any range inside it again at no cost; a range that sticks out is
//! refused, since waiting for oneself would never end.

use crate::sys::{Errno, LockOp, Syscalls};
use std::ops::Range;
use std::os::fd::RawFd;
use std::sync::{Condvar, Mutex, MutexGuard};

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
    /// The kernel failed.
    System(Errno),
}

#[derive(Default)]
struct Held {
    entries: Vec<Entry>,
    waiting: usize,
    next: u64,
}

/// The locks that this process holds through one descriptor.
#[derive(Default)]
pub(crate) struct Table {
    held: Mutex<Held>,
    changed: Condvar,
}

fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here) as usize)
}

impl Table {
    fn held(&self) -> MutexGuard<'_, Held> {
        // No code panics while holding it, and the entries are valid at every step.
        self.held.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// Enters the range, waiting for other threads; `None` if this thread's own guard covers it.
    fn enter(&self, want: &Want) -> Result<Option<u64>, Refusal> {
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

    /// Takes the lock, waiting as long as it needs.
    pub fn take<'a>(
        &'a self,
        sys: &'a dyn Syscalls,
        fd: RawFd,
        want: Want,
    ) -> Result<RangeGuard<'a>, Refusal> {
        let entry = self.enter(&want)?;
        let mut guard = RangeGuard { table: self, sys, fd, entry, range: want.range, kernel: false };
        if want.kernel && entry.is_some() {
            let op = if want.exclusive { LockOp::Exclusive } else { LockOp::Shared };
            guard.fcntl(op).map_err(Refusal::System)?;
            guard.kernel = true;
        }
        Ok(guard)
    }
}

/// A held byte-range lock; dropping it lets go.
#[must_use = "the lock is let go as soon as the guard is dropped"]
pub struct RangeGuard<'a> {
    table: &'a Table,
    sys: &'a dyn Syscalls,
    fd: RawFd,
    entry: Option<u64>,
    range: Range<u64>,
    kernel: bool,
}

impl RangeGuard<'_> {
    fn fcntl(&self, op: LockOp) -> Result<(), Errno> {
        let Range { start, end } = self.range;
        // Length 0 would mean "without end", and nothing is that long by accident: ranges are not empty.
        let len = if end > i64::MAX as u64 { 0 } else { end - start };
        loop {
            match self.sys.lock(self.fd, op, start, len) {
                Err(Errno(libc::EINTR)) => {}
                result => return result,
            }
        }
    }

    /// Lets go and says whether the kernel agreed. Dropping the guard does the same without a word.
    pub(crate) fn release(mut self) -> Result<(), Errno> {
        self.unlock()
    }

    fn unlock(&mut self) -> Result<(), Errno> {
        let result = if std::mem::take(&mut self.kernel) { self.fcntl(LockOp::Release) } else { Ok(()) };
        if let Some(id) = self.entry.take() {
            self.table.leave(id);
        }
        result
    }
}

impl Drop for RangeGuard<'_> {
    fn drop(&mut self) {
        // A failure here can only be told by `release`; the lock ends with the descriptor at the latest.
        let _ = self.unlock();
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
    use std::os::fd::AsRawFd;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn want(range: Range<u64>, exclusive: bool, kernel: bool) -> Want {
        Want { range, exclusive, kernel }
    }

    #[test]
    fn a_thread_may_enter_what_it_holds_but_not_wait_for_itself() {
        let file = tempfile();
        let table = Table::default();
        let outer = table.take(&Linux, file.as_raw_fd(), want(10..20, true, true)).unwrap();
        let inner = table.take(&Linux, file.as_raw_fd(), want(12..15, false, true)).unwrap();
        drop(inner);
        let stuck = table.take(&Linux, file.as_raw_fd(), want(15..25, false, false)).err();
        assert_eq!(stuck, Some(Refusal::OwnThread));
        drop(outer);
        assert!(table.take(&Linux, file.as_raw_fd(), want(15..25, false, false)).is_ok());
        assert!(table.held().entries.is_empty());
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
        let file = tempfile();
        let (table, inside, most) = (Table::default(), AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for i in 0..200 {
                        let range = i % 7..i % 7 + 5;
                        let guard = table.take(&Linux, file.as_raw_fd(), want(range, true, true)).unwrap();
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

    fn tempfile() -> std::fs::File {
        let path = std::env::temp_dir().join(format!(
            "pario-locks-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        file
    }
}
