//! Measures the work of an access and updates the cost model at intervals, so that a long request benefits as well.
//!
//! Access to a local file is work of the processor and is measured in processor time of the thread: wall-clock time
//! would include the time in which other processes had the processor. Access to a remote file is mostly waiting and is
//! measured in wall-clock time.

use crate::cost::{CostModel, MeasuredWork};
use std::time::{Duration, Instant};

/// A measured interval ends after this much work.
const INTERVAL_CALLS: u64 = 256;
const INTERVAL_BYTES: u64 = 8 << 20;

/// The clock for time measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeSource {
    Wall,
    Processor,
}

impl TimeSource {
    fn now(self) -> Duration {
        let id = match self {
            TimeSource::Wall => libc::CLOCK_MONOTONIC,
            TimeSource::Processor => libc::CLOCK_THREAD_CPUTIME_ID,
        };
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the structure outlives the call. Both clocks exist on every Linux.
        unsafe { libc::clock_gettime(id, &mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}

pub(crate) struct Meter<'a> {
    costs: &'a CostModel,
    start: Option<Duration>,
    pub work: MeasuredWork,
}

impl<'a> Meter<'a> {
    /// A meter. If it is not `running`, it only counts, because reading a clock costs much beside a small call.
    pub fn new(costs: &'a CostModel, running: bool) -> Meter<'a> {
        Meter { costs, start: running.then(|| costs.time_source().now()), work: MeasuredWork::default() }
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

    /// Takes a lock, which may wait: always measured in wall-clock time.
    pub fn lock<T>(&mut self, take: impl FnOnce() -> T) -> T {
        let before = self.start.is_some().then(Instant::now);
        let taken = take();
        if let Some(before) = before {
            self.work.locks += 1;
            self.work.lock_time += before.elapsed();
        }
        taken
    }

    /// Ends the interval if it is long enough; returns whether the prices were updated.
    pub fn end_interval(&mut self) -> bool {
        let calls = self.work.read_calls + self.work.write_calls;
        let ended = calls >= INTERVAL_CALLS || self.work.read_bytes + self.work.write_bytes >= INTERVAL_BYTES;
        if ended {
            self.finish();
        }
        ended
    }

    /// Ends the last interval.
    pub fn finish(&mut self) {
        if let Some(start) = &mut self.start {
            let now = self.costs.time_source().now();
            self.costs.update(&self.work, now.saturating_sub(*start));
            *start = now;
        }
        self.work = MeasuredWork::default();
    }
}
