//! Times what an access does and teaches the file's prices, lap by lap, so that a long request learns too.
//!
//! Access to a local file is work of the processor, so it is measured in the thread's processor time: the
//! clock on the wall would charge the method in use for every moment that other processes had the processor.
//! Access to a remote file is mostly waiting and is measured on the wall.

use crate::cost::{Costs, Work};
use std::time::{Duration, Instant};

/// A lap ends after this much work.
const LAP_CALLS: u64 = 256;
const LAP_BYTES: u64 = 8 << 20;

/// What time is measured by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    Wall,
    Processor,
}

impl Clock {
    fn now(self) -> Duration {
        let id = match self {
            Clock::Wall => libc::CLOCK_MONOTONIC,
            Clock::Processor => libc::CLOCK_THREAD_CPUTIME_ID,
        };
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the structure outlives the call. Both clocks exist on every Linux.
        unsafe { libc::clock_gettime(id, &mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}

pub(crate) struct Meter<'a> {
    costs: &'a Costs,
    start: Option<Duration>,
    pub work: Work,
}

impl<'a> Meter<'a> {
    /// A meter; one that is not `running` only counts, since reading a clock is dear beside a small call.
    pub fn new(costs: &'a Costs, running: bool) -> Meter<'a> {
        Meter { costs, start: running.then(|| costs.clock().now()), work: Work::default() }
    }

    pub fn read(&mut self, bytes: u64) {
        self.work.read_calls += 1;
        self.work.read_bytes += bytes;
    }

    pub fn wrote(&mut self, bytes: u64) {
        self.work.write_calls += 1;
        self.work.write_bytes += bytes;
    }

    pub fn copied(&mut self, bytes: u64) {
        self.work.copied += bytes;
    }

    /// Takes a lock, which may wait: that is always measured on the wall.
    pub fn lock<T>(&mut self, take: impl FnOnce() -> T) -> T {
        let before = self.start.is_some().then(Instant::now);
        let taken = take();
        if let Some(before) = before {
            self.work.locks += 1;
            self.work.lock_time += before.elapsed();
        }
        taken
    }

    /// Ends the lap if it is long enough; then the prices have moved.
    pub fn lap(&mut self) -> bool {
        let calls = self.work.read_calls + self.work.write_calls;
        let ended = calls >= LAP_CALLS || self.work.read_bytes + self.work.write_bytes >= LAP_BYTES;
        if ended {
            self.finish();
        }
        ended
    }

    /// Ends the last lap.
    pub fn finish(&mut self) {
        if let Some(start) = &mut self.start {
            let now = self.costs.clock().now();
            self.costs.learn(&self.work, now.saturating_sub(*start));
            *start = now;
        }
        self.work = Work::default();
    }
}
