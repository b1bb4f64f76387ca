//! Waiting for words in shared memory.
//!
//! A wake-up reaches every waiter of the simulation, whichever word it waits for: a real kernel may also return early, and waiters check
//! their condition. A forgotten wake-up is still noticed.

use std::time::Duration;

use super::scheduler::{self, Wakeup};

/// Waits for [`wake_all`]; `false` if the time limit expired.
pub fn wait(limit: Duration) -> bool {
    let deadline = scheduler::now().saturating_add(scheduler::nanos(limit));
    let waiter = scheduler::waiter();
    scheduler::with(|scheduler| scheduler.futexes.push(waiter));
    scheduler::block(waiter, Some(deadline)) == Wakeup::Notified
}

/// Wakes all waiters.
pub fn wake_all() {
    let waiters = scheduler::with(|scheduler| std::mem::take(&mut scheduler.futexes));
    waiters.into_iter().for_each(scheduler::wake);
}
