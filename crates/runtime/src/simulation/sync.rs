//! Locks and condition variables of simulated threads, with the interface of `parking_lot`.
//!
//! Each operation is a scheduling point. A released lock goes to any of those that want it.

use std::cell::{Cell, RefCell, UnsafeCell};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

pub use super::channel as mpsc;
pub use super::once::OnceLock;
use super::scheduler::{self, Waiter, Wakeup};

/// Threads that wait for something.
#[derive(Default)]
struct Waiters(RefCell<Vec<Waiter>>);

impl Waiters {
    const fn new() -> Waiters {
        Waiters(RefCell::new(Vec::new()))
    }

    fn wait(&self, deadline: Option<u64>) -> Wakeup {
        let waiter = scheduler::waiter();
        self.0.borrow_mut().push(waiter);
        let wakeup = scheduler::block(waiter, deadline);
        self.0.borrow_mut().retain(|one| *one != waiter);
        wakeup
    }

    fn wake_all(&self) {
        let waiters = std::mem::take(&mut *self.0.borrow_mut());
        waiters.into_iter().for_each(scheduler::wake);
    }

    fn wake_one(&self) {
        let mut waiters = self.0.borrow_mut();
        if !waiters.is_empty() {
            let index = scheduler::random_below(waiters.len() as u64) as usize;
            scheduler::wake(waiters.swap_remove(index));
        }
    }
}

/// A lock.
pub struct Mutex<T: ?Sized> {
    is_locked: Cell<bool>,
    waiters: Waiters,
    value: UnsafeCell<T>,
}

// SAFETY: all simulated threads run in one thread of the program, and the lock excludes them from each other.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: likewise.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

/// A held lock.
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
}

impl<T> Mutex<T> {
    /// A lock that nobody holds.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex { is_locked: Cell::new(false), waiters: Waiters::new(), value: UnsafeCell::new(value) }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock.
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        scheduler::point();
        while self.is_locked.get() {
            self.waiters.wait(None);
        }
        self.is_locked.set(true);
        MutexGuard { mutex: self }
    }

    /// Takes the lock if nobody holds it.
    #[track_caller]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        scheduler::point();
        (!self.is_locked.replace(true)).then_some(MutexGuard { mutex: self })
    }

    /// The value of a lock that nobody else can use.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    fn unlock(&self) {
        self.is_locked.set(false);
        self.waiters.wake_all();
    }

    /// Looks at the value unless somebody holds the lock: for checks between two steps. This is no scheduling point, and `look` must not
    /// reach one.
    pub fn inspect<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        // SAFETY: nobody holds the lock, and no other thread runs before `look` returns, because it does not reach a scheduling point.
        (!self.is_locked.get()).then(|| look(unsafe { &*self.value.get() }))
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

impl<T: ?Sized> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").field("is_locked", &self.is_locked.get()).finish_non_exhaustive()
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.mutex.unlock();
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Whether a wait ended because of its time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the time limit was reached.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

/// A condition variable.
#[derive(Default)]
pub struct Condvar {
    waiters: Waiters,
}

// SAFETY: all simulated threads run in one thread of the program.
unsafe impl Send for Condvar {}
// SAFETY: likewise.
unsafe impl Sync for Condvar {}

impl Condvar {
    /// One that nobody waits for.
    pub const fn new() -> Condvar {
        Condvar { waiters: Waiters::new() }
    }

    /// Wakes one thread.
    #[track_caller]
    pub fn notify_one(&self) -> bool {
        scheduler::point();
        let is_waited_for = !self.waiters.0.borrow().is_empty();
        self.waiters.wake_one();
        is_waited_for
    }

    /// Wakes all threads.
    #[track_caller]
    pub fn notify_all(&self) -> usize {
        scheduler::point();
        let count = self.waiters.0.borrow().len();
        self.waiters.wake_all();
        count
    }

    /// Waits for a notification.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_to(guard, None);
    }

    /// Waits for a notification, for some time.
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, limit: Duration) -> WaitTimeoutResult {
        self.wait_to(guard, Some(scheduler::now().saturating_add(scheduler::nanos(limit))))
    }

    /// Waits for a notification, until some time.
    pub fn wait_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        self.wait_for(guard, deadline.saturating_duration_since(Instant::now()))
    }

    /// Waits while a condition holds.
    pub fn wait_while<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        while condition(guard) {
            self.wait(guard);
        }
    }

    /// Waits while a condition holds, for some time.
    pub fn wait_while_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        limit: Duration,
    ) -> WaitTimeoutResult {
        let deadline = scheduler::now().saturating_add(scheduler::nanos(limit));
        while condition(guard) {
            if self.wait_to(guard, Some(deadline)).timed_out() {
                return WaitTimeoutResult(condition(guard));
            }
        }
        WaitTimeoutResult(false)
    }

    fn wait_to<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, deadline: Option<u64>) -> WaitTimeoutResult {
        guard.mutex.unlock();
        let wakeup = self.waiters.wait(deadline);
        while guard.mutex.is_locked.get() {
            guard.mutex.waiters.wait(None);
        }
        guard.mutex.is_locked.set(true);
        WaitTimeoutResult(wakeup == Wakeup::TimedOut)
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Condvar { .. }")
    }
}

/// A lock for many readers or one writer.
pub struct RwLock<T: ?Sized> {
    readers: Cell<u32>,
    is_written: Cell<bool>,
    waiters: Waiters,
    value: UnsafeCell<T>,
}

// SAFETY: all simulated threads run in one thread of the program, and the lock excludes writers from all others.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: likewise.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

/// A lock held for reading.
pub struct RwLockReadGuard<'a, T: ?Sized>(&'a RwLock<T>);

/// A lock held for writing.
pub struct RwLockWriteGuard<'a, T: ?Sized>(&'a RwLock<T>);

impl<T> RwLock<T> {
    /// A lock that nobody holds.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock {
            readers: Cell::new(0),
            is_written: Cell::new(false),
            waiters: Waiters::new(),
            value: UnsafeCell::new(value),
        }
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits to read.
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        scheduler::point();
        while self.is_written.get() {
            self.waiters.wait(None);
        }
        self.readers.set(self.readers.get() + 1);
        RwLockReadGuard(self)
    }

    /// Waits to write.
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        scheduler::point();
        while self.is_written.get() || self.readers.get() > 0 {
            self.waiters.wait(None);
        }
        self.is_written.set(true);
        RwLockWriteGuard(self)
    }

    /// Looks at the value unless somebody writes it, as [`Mutex::inspect`] does.
    pub fn inspect<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        // SAFETY: there is no writer, and no other thread runs before `look` returns, because it does not reach a scheduling point.
        (!self.is_written.get()).then(|| look(unsafe { &*self.value.get() }))
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> RwLock<T> {
        RwLock::new(T::default())
    }
}

impl<T: ?Sized> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock").field("readers", &self.readers.get()).finish_non_exhaustive()
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: there is no writer while the guard exists.
        unsafe { &*self.0.value.get() }
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    fn drop(&mut self) {
        self.0.readers.set(self.0.readers.get() - 1);
        self.0.waiters.wake_all();
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard is the only one.
        unsafe { &*self.0.value.get() }
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard is the only one.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    fn drop(&mut self) {
        self.0.is_written.set(false);
        self.0.waiters.wake_all();
    }
}
