//! A bound on the bytes per second that all threads together copy.

use pario_runtime::sync::Mutex;
use pario_runtime::time::Instant;
use std::time::Duration;

/// A rate that is not exceeded.
#[derive(Debug)]
pub struct RateLimit {
    rate: u64,
    /// When the bytes that were admitted so far have been sent at this rate.
    due: Mutex<Instant>,
}

impl RateLimit {
    /// A limit of `rate` bytes per second, at least 1.
    pub fn new(rate: u64) -> RateLimit {
        RateLimit { rate: rate.max(1), due: Mutex::new(Instant::now()) }
    }

    /// Waits until this many more bytes may be copied.
    pub fn wait(&self, bytes: u64) {
        pario_runtime::thread::sleep(self.reserve(bytes, Instant::now()));
    }

    /// Admits the bytes; returns how long to wait before copying them.
    fn reserve(&self, bytes: u64, now: Instant) -> Duration {
        let mut due = self.due.lock();
        *due = (*due).max(now) + Duration::from_secs_f64(bytes as f64 / self.rate as f64);
        due.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_due_one_after_the_other() {
        let limit = RateLimit::new(1000);
        let now = Instant::now() + Duration::from_secs(1);
        let waits = [500, 500, 1000].map(|bytes| limit.reserve(bytes, now).as_millis());
        assert_eq!(waits, [500, 1000, 2000]);
        // Unused bandwidth is not saved up.
        assert_eq!(limit.reserve(100, now + Duration::from_secs(10)).as_millis(), 100);
    }
}
