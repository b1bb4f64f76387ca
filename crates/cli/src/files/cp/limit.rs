//! No more than so many bytes per second, by all threads together.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A rate that is not exceeded.
pub struct Limit {
    rate: u64,
    /// When the bytes that were let through so far are due.
    due: Mutex<Instant>,
}

impl Limit {
    /// So many bytes per second, more than none.
    pub fn new(rate: u64) -> Limit {
        Limit { rate: rate.max(1), due: Mutex::new(Instant::now()) }
    }

    /// Waits until so many more bytes may go.
    pub fn wait(&self, bytes: u64) {
        std::thread::sleep(self.reserve(bytes, Instant::now()));
    }

    /// How long to wait.
    fn reserve(&self, bytes: u64, now: Instant) -> Duration {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        *due = (*due).max(now) + Duration::from_secs_f64(bytes as f64 / self.rate as f64);
        due.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_due_one_after_the_other() {
        let limit = Limit::new(1000);
        let now = Instant::now() + Duration::from_secs(1);
        let waits = [500, 500, 1000].map(|bytes| limit.reserve(bytes, now).as_millis());
        assert_eq!(waits, [500, 1000, 2000]);
        // What was not used is not saved up.
        assert_eq!(limit.reserve(100, now + Duration::from_secs(10)).as_millis(), 100);
    }
}
