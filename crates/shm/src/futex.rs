//! Waiting until another process changes a word (futex).

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// The reason why [`futex_wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FutexWait {
    /// The word changed, another process called [`futex_wake_all`], or a signal arrived. The caller checks
    /// its condition again.
    Retry,
    /// The time limit expired.
    TimedOut,
}

/// Waits while `word` equals `seen`, at most for `limit`. Processes that share the word wake each other
/// with [`futex_wake_all`].
pub fn futex_wait(word: &AtomicU32, seen: u32, limit: Duration) -> FutexWait {
    let time = libc::timespec {
        tv_sec: limit.as_secs().min(i64::MAX as u64) as libc::time_t,
        tv_nsec: libc::c_long::from(limit.subsec_nanos() as i32),
    };
    // SAFETY: the word and the time outlive the call.
    let result =
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, seen, &raw const time) };
    // SAFETY: the location is this thread's own and always valid.
    if result != 0 && unsafe { *libc::__errno_location() } == libc::ETIMEDOUT {
        return FutexWait::TimedOut;
    }
    FutexWait::Retry
}

/// Wakes all waiters on `word`.
pub fn futex_wake_all(word: &AtomicU32) {
    // SAFETY: the word outlives the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_changed_word_does_not_sleep_and_an_unchanged_one_times_out() {
        let word = AtomicU32::new(3);
        assert_eq!(futex_wait(&word, 2, Duration::from_secs(60)), FutexWait::Retry);
        assert_eq!(futex_wait(&word, 3, Duration::from_micros(50)), FutexWait::TimedOut);
    }

    #[test]
    fn a_sleeper_is_woken() {
        let word = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while word.load(Ordering::Acquire) == 0 {
                    futex_wait(&word, 0, Duration::from_secs(60));
                }
            });
            word.store(1, Ordering::Release);
            futex_wake_all(&word);
        });
    }
}
