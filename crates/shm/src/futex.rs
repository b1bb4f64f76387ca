//! Sleeping until another process changes a word (futex).

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Why [`sleep`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Somebody woke us, the word had another value already, or a signal came: look again.
    Look,
    /// The time is over.
    TimedOut,
}

/// Sleeps while `word` is `seen`, at most for `limit`. Processes that share the word's memory wake each
/// other with [`wake_all`].
pub fn sleep(word: &AtomicU32, seen: u32, limit: Duration) -> Woken {
    let time = libc::timespec {
        tv_sec: limit.as_secs().min(i64::MAX as u64) as libc::time_t,
        tv_nsec: libc::c_long::from(limit.subsec_nanos() as i32),
    };
    // SAFETY: the word and the time outlive the call.
    let result =
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, seen, &raw const time) };
    // SAFETY: the location is this thread's own and always valid.
    if result != 0 && unsafe { *libc::__errno_location() } == libc::ETIMEDOUT {
        return Woken::TimedOut;
    }
    Woken::Look
}

/// Wakes everybody who sleeps on `word`.
pub fn wake_all(word: &AtomicU32) {
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
        assert_eq!(sleep(&word, 2, Duration::from_secs(60)), Woken::Look);
        assert_eq!(sleep(&word, 3, Duration::from_micros(50)), Woken::TimedOut);
    }

    #[test]
    fn a_sleeper_is_woken() {
        let word = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while word.load(Ordering::Acquire) == 0 {
                    sleep(&word, 0, Duration::from_secs(60));
                }
            });
            word.store(1, Ordering::Release);
            wake_all(&word);
        });
    }
}
