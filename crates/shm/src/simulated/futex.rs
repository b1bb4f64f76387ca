//! Waiting until another simulated process changes a word.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pario_runtime::simulation::futex;

/// The reason why [`futex_wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FutexWait {
    /// The caller checks its condition again.
    Retry,
    /// The time limit expired.
    TimedOut,
}

/// Waits while `word` equals `seen`, at most for `limit`.
pub fn futex_wait(word: &AtomicU32, seen: u32, limit: Duration) -> FutexWait {
    pario_runtime::point();
    if word.load(Ordering::SeqCst) != seen || futex::wait(limit) {
        return FutexWait::Retry;
    }
    FutexWait::TimedOut
}

/// Wakes all waiters.
pub fn futex_wake_all(_word: &AtomicU32) {
    pario_runtime::point();
    futex::wake_all();
}
