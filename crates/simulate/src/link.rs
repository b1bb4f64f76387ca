//! Something that carries or handles one thing after the other: a link, a core, a service.

use crate::agenda::Time;

/// Nanoseconds that `bytes` take at a rate of bytes per second; at least one if there are bytes.
pub fn span(bytes: u64, rate: u64) -> u64 {
    (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate.max(1))) as u64
}

/// When it is free again, and how long it was used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Link {
    free: Time,
    used_ns: u64,
}

impl Link {
    /// Uses it for `ns` as soon after `ready` as it is free; from when to when.
    pub fn take(&mut self, ready: Time, ns: u64) -> (Time, Time) {
        let begin = ready.max(self.free);
        self.free = begin + ns;
        self.used_ns += ns;
        (begin, self.free)
    }

    /// When it is free.
    pub fn free(&self) -> Time {
        self.free
    }

    /// How long it was used.
    pub fn used_ns(&self) -> u64 {
        self.used_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_later_waits() {
        let mut a = Link::default();
        assert_eq!(a.take(Time(10), 5), (Time(10), Time(15)));
        assert_eq!(a.take(Time(0), 5), (Time(15), Time(20)));
        assert_eq!((a.free(), a.used_ns()), (Time(20), 10));
        assert_eq!((span(1, 1 << 40), span(0, 5), span(500, 1_000_000_000)), (1, 0, 500));
    }
}
