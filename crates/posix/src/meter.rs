//! Times what an access does and teaches the file's prices, lap by lap, so that a long request learns too.

use crate::cost::{Costs, Work};
use std::time::Instant;

/// A lap ends after this much work.
const LAP_CALLS: u64 = 256;
const LAP_BYTES: u64 = 8 << 20;

pub(crate) struct Meter<'a> {
    costs: &'a Costs,
    start: Option<Instant>,
    pub work: Work,
}

impl<'a> Meter<'a> {
    /// A meter; one that is not `running` only counts, since reading the clock is dear beside a small call.
    pub fn new(costs: &'a Costs, running: bool) -> Meter<'a> {
        Meter { costs, start: running.then(Instant::now), work: Work::default() }
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

    pub fn locked(&mut self) {
        self.work.locks += 1;
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
            let now = Instant::now();
            self.costs.learn(&self.work, now - *start);
            *start = now;
        }
        self.work = Work::default();
    }
}
