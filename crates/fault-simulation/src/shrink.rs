//! Reduces a failing history to a smaller one that fails, too.
//!
//! Each number of the plan is made smaller, and calls and faults are left out, as long as the history still fails. Parts of a plan have random
//! numbers of their own, so what remains does the same as before. Only the order of steps changes with every change, so several orders are
//! tried for each smaller plan.

use std::time::{Duration, Instant};

use crate::child::{Job, Pool, Report};
use crate::plan::{KINDS, Plan};
use crate::settings::{self, SETTINGS, SettingKind};

/// Orders of steps that are tried for each smaller plan.
const SCHEDULES: u64 = 8;

/// A history that fails, and how often a smaller one was tried.
pub struct Reduced {
    pub plan: Plan,
    pub report: Report,
    pub tries: u64,
}

/// Reduces a history for some time.
pub fn shrink(failing: &Job, report: Report, jobs: usize, time: Duration) -> Result<Reduced, String> {
    let until = Instant::now() + time;
    let mut smallest = Reduced { plan: failing.plan.clone(), report, tries: 0 };
    loop {
        let mut is_smaller = false;
        for name in names() {
            // The same setting is reduced as long as that helps.
            while let Some(next) = reduce(failing, &mut smallest, name, jobs, until)? {
                smallest = next;
                is_smaller = true;
            }
        }
        if !is_smaller || Instant::now() >= until {
            return Ok(smallest);
        }
    }
}

/// All settings in the order in which they are tried: whole kinds of faults first, because that leaves much out at once.
fn names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|(_, name)| *name).chain(SETTINGS.iter().map(|setting| setting.name))
}

/// The first smaller value of a setting with which the history still fails.
fn reduce(
    failing: &Job,
    smallest: &mut Reduced,
    name: &str,
    jobs: usize,
    until: Instant,
) -> Result<Option<Reduced>, String> {
    for value in smaller_values(&smallest.plan, name) {
        let mut plan = smallest.plan.clone();
        settings::set(&mut plan, name, value)?;
        let first = plan.schedule;
        let schedules = [first].into_iter().chain((0..SCHEDULES).filter(|schedule| *schedule != first));
        let mut schedules = schedules.take_while(|_| Instant::now() < until);
        let mut pool = Pool::default();
        loop {
            while pool.len() < jobs
                && let Some(schedule) = schedules.next()
            {
                let plan = Plan { schedule, ..plan.clone() };
                pool.start(Job { plan, log: false, ..failing.clone() })?;
            }
            if pool.len() == 0 {
                break;
            }
            let (job, report) = pool.wait();
            smallest.tries += 1;
            if report.violation.is_some() {
                return Ok(Some(Reduced { plan: job.plan, report, tries: smallest.tries }));
            }
        }
    }
    Ok(None)
}

/// Values of a setting that make a history smaller, those that leave most out first.
fn smaller_values(plan: &Plan, name: &str) -> Vec<u64> {
    let value = settings::get(plan, name).unwrap_or(0);
    let setting = SETTINGS.iter().find(|setting| setting.name == name);
    let least = setting.map_or(0, |setting| setting.least);
    match setting.map_or(SettingKind::Number, |setting| setting.kind) {
        SettingKind::Number if value > least => {
            // Single steps only from small numbers: one byte less makes no smaller history.
            let step = 1 + value / 64;
            let mut values = vec![least, least + (value - least) / 2, value.saturating_sub(step).max(least)];
            values.dedup();
            values.retain(|one| *one < value);
            values
        }
        SettingKind::Number | SettingKind::Fixed => Vec::new(),
        SettingKind::Skipped(count) => {
            let count = count(plan).min(64);
            let sizes = (0..6).map(|power| 32u64 >> power).filter(|size| *size <= count);
            let chunks = sizes.flat_map(|size| (0..count).step_by(size as usize).map(move |at| (at, size)));
            let masks = chunks.map(|(at, size)| value | (((1u128 << size) - 1) << at) as u64);
            masks.filter(|mask| *mask != value).collect()
        }
    }
}
