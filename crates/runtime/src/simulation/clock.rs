//! Wall clocks of hosts: they differ, and they jump.
//!
//! Only `CLOCK_REALTIME` is affected. Monotonic clocks of all hosts show the same virtual time.

use std::collections::BTreeMap;

use super::process::HostId;
use super::scheduler;

/// Nanoseconds between 1970 and the virtual boot.
pub(super) const BOOT: u64 = 1_700_000_000 * 1_000_000_000;

/// How much the wall clock of each host is ahead, in nanoseconds.
#[derive(Default)]
pub(crate) struct WallClocks {
    ahead: BTreeMap<HostId, i64>,
}

/// Moves the wall clock of a host by so many nanoseconds.
pub fn shift_wall_clock(host: HostId, nanos: i64) {
    scheduler::with(|scheduler| {
        let ahead = scheduler.wall_clocks.ahead.entry(host).or_insert(0);
        *ahead = ahead.saturating_add(nanos);
    });
}

/// The wall clock of the host on which the running thread is, in nanoseconds since 1970.
pub(crate) fn wall_clock() -> u64 {
    scheduler::with(|scheduler| {
        let ahead = scheduler.running_host().and_then(|host| scheduler.wall_clocks.ahead.get(&host));
        (BOOT + scheduler.time()).saturating_add_signed(ahead.copied().unwrap_or(0))
    })
}
