//! The clock of a recorder: cheap readings, and their conversion to nanoseconds.
//!
//! A [`Moment`] counts ticks of the processor's counter, or nanoseconds of the system's clock where that counter is
//! unreliable. The length of a tick is computed by reading both clocks together, again for every write to a trace, over the
//! last [`BASE`] or more. So times follow the system's clock when its rate is corrected, and those of different processes
//! can be compared.

use std::time::{Duration, Instant};

use crate::sys;

/// The clock of a recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockSource {
    /// The processor's counter if it is steady, else the system's clock.
    Fastest,
    /// The system's monotonic clock.
    System,
}

/// A reading of a recorder's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub(crate) u64);

impl Moment {
    pub(crate) fn since(self, earlier: Moment) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The minimum time over which a tick is measured, once a process has run for so long.
const BASE: u64 = 10_000_000_000;
/// The maximum ticks of a reading of both clocks, unless another process had the processor in between.
const TOGETHER: u64 = 1000;

/// The conversion of ticks to nanoseconds: `base_ns + ticks · rate / 2³²`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    pub base_ns: i64,
    pub rate: u64,
}

impl Scale {
    /// A tick is a nanosecond.
    pub const PLAIN: Scale = Scale { base_ns: 0, rate: 1 << 32 };

    /// The time of a tick, in nanoseconds from the recorder's start.
    pub fn when(self, ticks: u64) -> u64 {
        let when = i128::from(self.base_ns) + i128::from(self.span(ticks));
        u64::try_from(when.max(0)).unwrap_or(u64::MAX)
    }

    /// The length of so many ticks.
    pub fn span(self, ticks: u64) -> u64 {
        u64::try_from((u128::from(ticks) * u128::from(self.rate)) >> 32).unwrap_or(u64::MAX)
    }
}

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug)]
struct ClockPair {
    ticks: u64,
    ns: u64,
}

/// The clock of a recorder.
#[derive(Debug)]
pub(crate) struct Clock {
    /// Whether the processor's counter is read.
    counted: bool,
    origin: Instant,
    /// The counter at `origin`.
    zero: u64,
}

impl Clock {
    pub fn start(source: ClockSource) -> Clock {
        let counted = source == ClockSource::Fastest && sys::is_steady();
        let clock = Clock { counted, origin: Instant::now(), zero: 0 };
        if !counted {
            return clock;
        }
        let ClockPair { ticks, ns } = clock.together();
        Clock { origin: clock.origin + Duration::from_nanos(ns), zero: ticks, ..clock }
    }

    #[inline]
    pub fn now(&self) -> Moment {
        Moment(if self.counted { sys::ticks().wrapping_sub(self.zero) } else { self.now_ns() })
    }

    /// The system's clock, from the start on.
    pub fn now_ns(&self) -> u64 {
        nanoseconds(self.origin.elapsed())
    }

    /// Converts a reading of the system's clock; those before the start become the start.
    pub fn at(&self, instant: Instant) -> Moment {
        let ns = nanoseconds(instant.saturating_duration_since(self.origin));
        if !self.counted {
            return Moment(ns);
        }
        let now = self.together();
        let ticks = u128::from(ns) * u128::from(now.ticks) / u128::from(now.ns.max(1));
        Moment(u64::try_from(ticks).unwrap_or(u64::MAX))
    }

    fn together(&self) -> ClockPair {
        let mut best = (u64::MAX, ClockPair { ticks: 0, ns: 0 });
        for _ in 0..4 {
            let before = self.now().0;
            let ns = self.now_ns();
            let between = self.now().0.wrapping_sub(before);
            if between < best.0 {
                best = (between, ClockPair { ticks: before.wrapping_add(between / 2), ns });
            }
            if between < TOGETHER {
                break;
            }
        }
        best.1
    }
}

/// The measurement of a clock's ticks.
#[derive(Debug)]
pub(crate) struct TickCalibration {
    /// The rate is measured from here on; the start, until `younger` is old enough.
    older: ClockPair,
    younger: ClockPair,
}

impl TickCalibration {
    pub fn new() -> TickCalibration {
        let beginning = ClockPair { ticks: 0, ns: 0 };
        TickCalibration { older: beginning, younger: beginning }
    }

    /// The scale for recent times.
    pub fn scale(&mut self, clock: &Clock) -> Scale {
        if !clock.counted {
            return Scale::PLAIN;
        }
        let now = clock.together();
        let (ns, ticks) = (now.ns.saturating_sub(self.older.ns), now.ticks.saturating_sub(self.older.ticks));
        let rate = (u128::from(ns) << 32) / u128::from(ticks.max(1));
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        let scale = Scale { base_ns: 0, rate };
        let base_ns = (now.ns as i64).wrapping_sub(scale.span(now.ticks) as i64);
        if now.ns.saturating_sub(self.younger.ns) >= BASE {
            (self.older, self.younger) = (self.younger, now);
        }
        Scale { base_ns, rate }
    }
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(time.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The readings of the system's clock around one of the recorder's bound it, except for the error of the scale.
    #[test]
    fn both_clocks_tell_the_same_time() {
        for source in [ClockSource::Fastest, ClockSource::System] {
            let (clock, mut gauge) = (Clock::start(source), TickCalibration::new());
            let mut readings = Vec::new();
            while clock.now_ns() < 200_000_000 {
                let before = clock.now_ns();
                let moment = clock.now();
                readings.push((before, moment, clock.now_ns()));
                std::thread::yield_now();
            }
            let scale = gauge.scale(&clock);
            for (before, moment, after) in readings {
                let when = scale.when(moment.0);
                let slack = 2000;
                assert!(
                    (before.saturating_sub(slack)..=after + slack).contains(&when),
                    "{source:?}: {before} {when} {after}"
                );
            }
        }
    }

    #[test]
    fn an_instant_has_its_moment() {
        for source in [ClockSource::Fastest, ClockSource::System] {
            let (clock, mut gauge) = (Clock::start(source), TickCalibration::new());
            while clock.now_ns() < 5_000_000 {
                std::hint::spin_loop();
            }
            let instant = clock.origin + Duration::from_millis(3);
            let moment = clock.at(instant);
            let when = gauge.scale(&clock).when(moment.0);
            assert!(when.abs_diff(3_000_000) < 3000, "{source:?}: {when}");
            assert_eq!(clock.at(clock.origin - Duration::from_secs(1)), Moment(0));
        }
    }

    #[test]
    fn ticks_become_nanoseconds() {
        assert_eq!((Scale::PLAIN.when(77), Scale::PLAIN.span(u64::MAX)), (77, u64::MAX));
        let scale = Scale { base_ns: -10, rate: 3 << 31 };
        assert_eq!((scale.when(100), scale.span(100), scale.when(2)), (140, 150, 0));
    }
}
