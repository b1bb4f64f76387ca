//! Long pauses of single threads at chosen places in the code.
//!
//! A kernel may take the processor from a thread at any instruction and for any time. Most bugs of concurrent code need such a pause at
//! one of a few places, which a run that chooses among all steps hardly ever hits. So a run pauses threads at some *sites* only: lines of
//! code that reach a scheduling point. A seed chooses the sites. Rare and frequent lines are chosen alike.

use std::collections::BTreeMap;
use std::panic::Location;
use std::time::Duration;

use super::process::{SimulatedPid, TEST_DRIVER};
use super::scheduler::{self, is_active, with};

/// Where and how often threads pause.
#[derive(Clone, Debug)]
pub struct StallOptions {
    /// Chooses the sites and the pauses.
    pub random: fastrand::Rng,
    /// Of so many sites one is chosen.
    pub one_site_in: u64,
    /// At a chosen site a thread pauses once in so many times.
    pub one_in: u32,
    /// Most time of all pauses together.
    pub most: Duration,
    /// The lengths of pauses.
    pub lengths: StallLengths,
    /// The paths of all chosen sites contain this.
    pub within: &'static str,
    /// The names of all processes whose threads pause begin with this.
    pub of: &'static str,
    /// The names of all threads that pause begin with this.
    pub thread: &'static str,
}

/// The lengths of pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallLengths {
    /// From microseconds to seconds.
    Any,
    /// Long enough for faults in the meantime.
    Long,
    /// Seconds, so that deadlines of others pass.
    Longest,
}

impl StallLengths {
    /// The most microseconds of a pause: one of these.
    fn bounds(self) -> &'static [u64] {
        match self {
            StallLengths::Any => &[20, 500, 10_000, 300_000, 4_000_000],
            StallLengths::Long => &[300_000, 4_000_000],
            StallLengths::Longest => &[4_000_000],
        }
    }
}

/// Most pauses at one site, so that frequent sites leave some for the others.
const MOST_AT_A_SITE: u32 = 3;

#[derive(Default)]
pub(crate) struct Stalls {
    options: Option<StallOptions>,
    /// A number on which the choice of sites depends.
    seed: u64,
    /// When the last pause ends, and the process of the thread that pauses.
    until: u64,
    paused: Option<SimulatedPid>,
    /// How many pauses a site has left, by its address, so that its name is hashed once. Nothing depends on the order.
    sites: BTreeMap<usize, u32>,
}

/// Threads pause from now on, or not any more.
pub fn set_stalls(mut options: Option<StallOptions>) {
    let seed = options.as_mut().map_or(0, |options| options.random.u64(..));
    with(|scheduler| scheduler.stalls = Stalls { options, seed, ..Stalls::default() });
}

/// Whether some thread pauses now.
pub fn are_threads_paused() -> bool {
    with(|scheduler| scheduler.time() < scheduler.stalls.until)
}

/// The process of the thread that paused last, if it still pauses.
pub fn paused_process() -> Option<SimulatedPid> {
    with(|scheduler| scheduler.stalls.paused.filter(|_| scheduler.time() < scheduler.stalls.until))
}

/// The running thread may pause at a place in the code.
pub(super) fn pause_at(site: &'static Location<'static>) {
    if !is_active() {
        return;
    }
    let time = with(|scheduler| {
        let owner = scheduler.owner();
        let options = scheduler.stalls.options.as_ref()?;
        let is_meant = scheduler.process_name(owner).starts_with(options.of)
            && scheduler.thread_name().starts_with(options.thread);
        if owner == TEST_DRIVER || !is_meant {
            return None;
        }
        let time = scheduler.stalls.choose(site)?;
        let until = scheduler.time() + scheduler::nanos(time);
        if until >= scheduler.stalls.until {
            (scheduler.stalls.until, scheduler.stalls.paused) = (until, Some(scheduler.owner()));
        }
        scheduler.log(&format!("pauses for {time:?} at {}:{}", site.file(), site.line()));
        Some(time)
    });
    if let Some(time) = time {
        scheduler::sleep(time);
    }
}

impl Stalls {
    /// How long a thread pauses that reaches this site.
    fn choose(&mut self, site: &'static Location<'static>) -> Option<Duration> {
        let options = self.options.as_mut()?;
        let is_chosen = || {
            let is_within = site.file().contains(options.within);
            is_within && hash(site, self.seed).is_multiple_of(options.one_site_in.max(1))
        };
        let address = std::ptr::from_ref(site).addr();
        let left = self.sites.entry(address).or_insert_with(|| if is_chosen() { MOST_AT_A_SITE } else { 0 });
        if *left == 0 || options.random.u32(0..options.one_in.max(1)) != 0 {
            return None;
        }
        let bounds = options.lengths.bounds();
        let longest = bounds[options.random.usize(0..bounds.len())];
        let time = Duration::from_micros(options.random.u64(1..=longest));
        options.most = options.most.checked_sub(time)?;
        *left -= 1;
        Some(time)
    }
}

/// Equal for equal lines of code, in every build of it.
fn hash(site: &Location<'_>, seed: u64) -> u64 {
    let step = |hash: u64, value: u64| (hash ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let hash = site.file().bytes().fold(seed, |hash, byte| step(hash, byte.into()));
    let hash = step(step(hash, site.line().into()), site.column().into());
    hash >> 7
}
