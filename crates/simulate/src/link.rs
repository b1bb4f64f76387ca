//! A resource that serves one user after the other: a link, a core, a service.

use crate::event_queue::SimTime;

/// Nanoseconds that `bytes` take at a rate in bytes per second; at least one if there are bytes.
pub fn transfer_ns(bytes: u64, rate: u64) -> u64 {
    (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate.max(1))) as u64
}

/// A resource: the time at which it is free, and how long it was used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Link {
    free: SimTime,
    used_ns: u64,
}

impl Link {
    /// Uses it for `ns` as soon after `ready` as it is free. Returns begin and end.
    pub fn take(&mut self, ready: SimTime, ns: u64) -> (SimTime, SimTime) {
        let begin = ready.max(self.free);
        self.free = begin + ns;
        self.used_ns += ns;
        (begin, self.free)
    }

    /// The time at which it is free.
    pub fn free(&self) -> SimTime {
        self.free
    }

    /// The time for which it was used.
    pub fn used_ns(&self) -> u64 {
        self.used_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_resource_delays_the_next_use() {
        let mut a = Link::default();
        assert_eq!(a.take(SimTime(10), 5), (SimTime(10), SimTime(15)));
        assert_eq!(a.take(SimTime(0), 5), (SimTime(15), SimTime(20)));
        assert_eq!((a.free(), a.used_ns()), (SimTime(20), 10));
        assert_eq!(
            (transfer_ns(1, 1 << 40), transfer_ns(0, 5), transfer_ns(500, 1_000_000_000)),
            (1, 0, 500)
        );
    }
}
